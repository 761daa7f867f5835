"""Mixtures of experts in a record: which token used which expert, and the tensors of each expert.

An expert computes the tokens that chose it, and no others. Its tensors are recorded like that, with
a row for each of these tokens; `spread` puts them back in the order of the sentence.
"""

from __future__ import annotations

import re
from typing import assert_never

import torch
from torch import Tensor, nn

from pellucid.model.experts.routing import Routing
from pellucid.model.facts import (
    ClampedFeedForwardFacts,
    DenseFeedForwardPart,
    ExpertsFacts,
    FeedForwardFacts,
    UnknownFacts,
    feed_forward_facts,
)

_EXPERT = re.compile(r"\.experts\.(\d+)")
_MATRICES = ("", ".up", ".gate", ".down")


def expert_number(part: str) -> int | None:
    """The expert in a name such as feed_forward.experts.3.up; None if it names none."""
    match = _EXPERT.search(part)
    return None if match is None else int(match[1])


def any_expert(part: str) -> str:
    """The name with {expert} in place of the number, as the table of addresses has it."""
    return _EXPERT.sub(".experts.{expert}", part)


def experts_facts(block: nn.Module) -> ExpertsFacts | None:
    """The facts of a block's mixture of experts; None if its feed-forward is another one."""
    facts = _facts_at(block, "feed_forward")
    return facts if isinstance(facts, ExpertsFacts) else None


def dense_facts(block: nn.Module, holder: str) -> DenseFeedForwardPart | None:
    """The facts of a feed-forward with units, at a path in the block; None if they are unknown."""
    facts = _facts_at(block, holder)
    match facts:
        case FeedForwardFacts() | ClampedFeedForwardFacts():
            return facts
        case ExpertsFacts() | UnknownFacts() | None:
            return None
        case _:
            assert_never(facts)


def _facts_at(
    block: nn.Module, path: str
) -> DenseFeedForwardPart | ExpertsFacts | UnknownFacts | None:
    try:
        return feed_forward_facts(block.get_submodule(path))
    except AttributeError:
        return None


def expert_parts(block: nn.Module) -> tuple[str, ...]:
    """The parts of a mixture that are recorded; empty for a block without one."""
    facts = experts_facts(block)
    if facts is None:
        return ()
    holders = [f"feed_forward.{facts.experts}.{number}" for number in range(facts.n_experts)]
    if facts.shared is not None:
        holders.append(f"feed_forward.{facts.shared}")
    matrices = tuple(f"{holder}{part}" for holder in holders for part in _MATRICES)
    gate = () if facts.shared_gate is None else (f"feed_forward.{facts.shared_gate}",)
    return (f"feed_forward.{facts.router}", *gate, *matrices)


def tokens_of(routing: Routing, expert: int) -> Tensor:
    """The tokens that use an expert, in their order."""
    return (routing.experts == expert).any(-1).nonzero().flatten()


def spread(rows: Tensor, routing: Routing, expert: int) -> Tensor:
    """(time, features): the rows of the tokens that use an expert, and 0 for the others."""
    spread_rows = rows.new_zeros(len(routing.experts), rows.shape[-1])
    return spread_rows.index_copy(0, tokens_of(routing, expert), rows)


def spread_weights(weights: Tensor, routing: Routing) -> Tensor:
    """(time, experts): the numbers of the chosen experts, and 0 for the others."""
    zeros = torch.zeros_like(routing.logits, dtype=weights.dtype)
    return zeros.scatter(1, routing.experts, weights)
