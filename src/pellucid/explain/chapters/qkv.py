"""Queries, keys and values: what a token asks for, offers, and hands on."""

from __future__ import annotations

from typing import assert_never, cast

from torch import nn

from pellucid.catalogue import message
from pellucid.errors import PellucidError
from pellucid.explain.attention_record import AttentionRecord
from pellucid.explain.chapter_types import Content
from pellucid.explain.chapters.adapters import view_adapter
from pellucid.explain.chapters.pictures import feature_bars
from pellucid.explain.part_facts import is_identity
from pellucid.explain.receipts.builder import cell
from pellucid.explain.receipts.of_selection import projection_receipt
from pellucid.explain.selection import Selection
from pellucid.explain.trace_types import Trace
from pellucid.model.facts import (
    LatentAttentionFacts,
    LinearAttentionFacts,
    NeuralMemoryFacts,
    SoftmaxAttentionFacts,
)


def build(trace: Trace, selection: Selection) -> Content:
    """The three vectors of a token in one head, and one product of each."""
    key_token = selection.other if selection.cross else selection.token
    addresses = [
        cell(f"{selection.head_name}.{part}", selection.token if part == "q" else key_token)
        for part in ("q", "k", "v")
    ]
    text = message("qkv.the-source-token") if selection.cross else message("qkv.the-same-token")
    features = _features(trace, selection)
    kind = "cross_attention" if selection.cross else "attention"
    adapters = [
        view_adapter(trace, selection, f"{kind}.{name}", feature)
        for name, feature in features.items()
    ]
    return Content(
        sentence=message(
            "qkv.head-of-layer-makes-three",
            head=selection.head,
            layer=selection.layer,
            query=selection.query(trace),
            text=text,
        ),
        pictures=[
            *(feature_bars(address, trace[address]) for address in addresses),
            *(picture for view in adapters for picture in view.pictures),
        ],
        receipts=[
            *(
                projection_receipt(trace, selection, kind, name, feature=feature)
                for name, feature in features.items()
            ),
            *(receipt for view in adapters for receipt in view.receipts),
        ],
        notes=[
            *_notes(selection, selection.attention(trace)),
            *(note for view in adapters for note in view.notes),
        ],
    )


def _features(trace: Trace, selection: Selection) -> dict[str, int]:
    """The row of each matrix that is shown; in cross-attention the query's only."""
    kind = "cross_attention" if selection.cross else "attention"
    attention = selection.attention(trace)
    parts = {"query": attention.q}
    if not selection.cross:
        parts |= {"key": attention.k, "value": attention.v}
    features: dict[str, int] = {}
    for name, tensor in parts.items():
        n_heads = tensor.shape[1]
        rows = cast("nn.Linear", attention.layer.get_submodule(name)).out_features
        width = rows // n_heads
        head = selection.head * n_heads // attention.n_heads
        features[name] = head * width + selection.feature % width
        if f"{selection.layer_name}.{kind}.{name}" not in trace.addresses():
            raise PellucidError(
                message("qkv.layer-has-no-whose-rows", layer=selection.layer, name=name)
            )
    return features


def _notes(selection: Selection, attention: AttentionRecord) -> list[str]:
    notes: list[str] = []
    n_heads, n_kv_heads = attention.n_heads, attention.k.shape[1]
    if n_kv_heads < n_heads:
        notes.append(
            message(
                "qkv.grouped-heads-of-queries-share",
                n_heads=n_heads,
                n_kv_heads=n_kv_heads,
                n_heads2=n_heads // n_kv_heads,
                head=selection.head * n_kv_heads // n_heads,
            )
        )
    match attention.facts:
        case SoftmaxAttentionFacts(query_norm=str(norm)):
            if not is_identity(attention.layer.get_submodule(norm)):
                after = attention.facts.norms_after_rotation
                notes.append(message(f"qkv.normalised-after-{'rotation' if after else 'product'}"))
        case SoftmaxAttentionFacts():
            pass
        case LatentAttentionFacts(d_latent=d_latent, d_rotated=d_rotated):
            notes.append(
                message("qkv.keys-and-values-are-products", d_latent=d_latent, d_rotated=d_rotated)
            )
        case LinearAttentionFacts():
            notes.append(message("qkv.linear-attention-q-and-k"))
        case NeuralMemoryFacts(window=window):
            notes.append(
                message(
                    "qkv.these-look-through-a-window", window=window, head_name=selection.head_name
                )
            )
        case _:
            assert_never(attention.facts)
    if isinstance(attention.facts, SoftmaxAttentionFacts) and attention.facts.clip is not None:
        clip = attention.facts.clip
        notes.append(message("qkv.queries-keys-and-values-are", clip=-clip, clip2=clip))
    return notes
