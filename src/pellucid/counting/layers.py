"""Groups of equal layers, with the names that every table uses."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import assert_never

from pellucid.config import (
    LatentAttention,
    LinearAttention,
    MultiHead,
    NeuralMemory,
    OneAttention,
    Stack,
    Transformer,
)


@dataclass(frozen=True, slots=True)
class NamedStack:
    """A stack, whether it is causal, and the prefix of its parts' names."""

    stack: Stack
    causal: bool
    #: "encoder " or "decoder " if a model has both
    prefix: str


@dataclass(frozen=True, slots=True)
class LayerGroup:
    """A kind of attention, its name, and how many layers of a stack have it."""

    name: str
    attention: OneAttention
    layers: int
    #: the symbol for their number; empty if only some layers of the stack have it
    number: str


def stacks(model: Transformer) -> list[NamedStack]:
    """The stacks of `model`, the encoder first."""
    is_encoder_decoder = model.encoder is not None and model.decoder is not None
    return [
        NamedStack(stack, causal, f"{name} " if is_encoder_decoder else "")
        for name, causal, stack in (
            ("encoder", False, model.encoder),
            ("decoder", True, model.decoder),
        )
        if stack is not None
    ]


def group_layers(named_stack: NamedStack) -> list[LayerGroup]:
    """The kinds of attention of a stack, in the order in which a token meets them."""
    pattern, n_layers = named_stack.stack.pattern, named_stack.stack.n_layers
    counts = Counter[OneAttention]()
    for place, kind in enumerate(pattern[:n_layers]):  # never layer by layer: there may be many
        counts[kind] += (n_layers - place - 1) // len(pattern) + 1
    kinds = list(counts)
    if len(kinds) == 1:
        return [LayerGroup(f"{named_stack.prefix}attention", kinds[0], n_layers, "n_layers")]
    words = [_word(kind) for kind in kinds]
    names = [
        word if words.count(word) == 1 else f"{word} {words[: index + 1].count(word)}"
        for index, word in enumerate(words)
    ]
    return [
        LayerGroup(f"{named_stack.prefix}{name} attention", kind, counts[kind], "")
        for name, kind in zip(names, kinds, strict=True)
    ]


def attention_symbols(attention: OneAttention) -> dict[str, int]:
    """h, h_kv, d_k, d_v, and the window w or chunk c if it has one."""
    match attention:
        case MultiHead():
            heads = {"h": attention.n_heads, "h_kv": attention.n_kv_heads}
            widths = {"d_k": attention.d_head, "d_v": attention.value_width}
            window = {} if attention.window is None else {"w": attention.window}
            return heads | widths | window
        case LatentAttention(n_heads=h, d_rotated=rotated, d_query_latent=d_query):
            widths = {"d_k": attention.d_head + rotated, "d_v": attention.d_value}
            latents = {"d_c": attention.d_latent, "d_r": rotated, "d_q": d_query or 0}
            return {"h": h, "h_kv": h} | widths | latents
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
        case LatentAttention():
            return "latent"
        case LinearAttention():
            return "linear"
        case NeuralMemory():
            return "memory"
        case _:
            assert_never(attention)
