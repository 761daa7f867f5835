"""Tokens that lie at a URL: fetched shard by shard, ahead of their order, and cached by digest."""

from pellucid.data.shards.remote_tokens import BATCHES_AHEAD, RemoteTokens

__all__ = ["BATCHES_AHEAD", "RemoteTokens"]
