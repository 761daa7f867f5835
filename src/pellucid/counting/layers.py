"""The layers of a model that are alike, under the names that every table calls them by.

It counts nothing.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import assert_never

from pellucid.config import (
    LinearAttention,
    MultiHead,
    NeuralMemory,
    OneAttention,
    Stack,
    Transformer,
)


@dataclass(frozen=True, slots=True)
class NamedStack:
    """A stack, whether it is causal, and what stands before the names of its parts."""

    stack: Stack
    causal: bool
    #: "encoder " or "decoder " where a model has both
    prefix: str


@dataclass(frozen=True, slots=True)
class AlikeLayers:
    """A kind of attention, how many layers of its stack have it, and what it is called."""

    name: str
    attention: OneAttention
    layers: int
    #: what a formula calls their number; empty where it is only a part of the stack's
    number: str


def stacks(model: Transformer) -> list[NamedStack]:
    """The stacks of `model`, the encoder first."""
    is_encoder_decoder = model.encoder is not None and model.decoder is not None
    named_stacks: list[NamedStack] = []
    if model.encoder is not None:
        named_stacks.append(
            NamedStack(model.encoder, False, "encoder " if is_encoder_decoder else "")
        )
    if model.decoder is not None:
        named_stacks.append(
            NamedStack(model.decoder, True, "decoder " if is_encoder_decoder else "")
        )
    return named_stacks


def group_layers(named_stack: NamedStack) -> list[AlikeLayers]:
    """The kinds of attention of a stack, in the order in which a token meets them."""
    pattern, n_layers = named_stack.stack.pattern, named_stack.stack.n_layers
    counts = Counter[OneAttention]()
    for place, kind in enumerate(pattern[:n_layers]):  # never layer by layer: there may be many
        counts[kind] += (n_layers - place - 1) // len(pattern) + 1
    kinds = list(counts)
    if len(kinds) == 1:
        return [AlikeLayers(f"{named_stack.prefix}attention", kinds[0], n_layers, "n_layers")]
    words = [_word(kind) for kind in kinds]
    names = [
        word if words.count(word) == 1 else f"{word} {words[: index + 1].count(word)}"
        for index, word in enumerate(words)
    ]
    return [
        AlikeLayers(f"{named_stack.prefix}{name} attention", kind, counts[kind], "")
        for name, kind in zip(names, kinds, strict=True)
    ]


def attention_symbols(attention: OneAttention) -> dict[str, int]:
    """h, h_kv, d_k, d_v, and the window w or chunk c where there is one."""
    match attention:
        case MultiHead():
            heads = {"h": attention.n_heads, "h_kv": attention.n_kv_heads}
            widths = {"d_k": attention.d_head, "d_v": attention.value_width}
            window = {} if attention.window is None else {"w": attention.window}
            return heads | widths | window
        case LinearAttention(n_heads=h, d_head=width, chunk=chunk):
            return {"h": h, "h_kv": h, "d_k": width, "d_v": width, "c": chunk}
        case NeuralMemory(n_heads=h, d_head=width, chunk=chunk, window=window):
            return {"h": h, "h_kv": h, "d_k": width, "d_v": width, "c": chunk, "w": window}
        case _:
            assert_never(attention)


def _word(attention: OneAttention) -> str:
    match attention:
        case MultiHead(window=None):
            return "global"
        case MultiHead():
            return "window"
        case LinearAttention():
            return "linear"
        case NeuralMemory():
            return "memory"
        case _:
            assert_never(attention)
