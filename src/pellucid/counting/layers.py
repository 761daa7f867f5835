"""Groups of equal layers, with the names that every table uses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar, assert_never

from pellucid.config import (
    MLP,
    Alternating,
    AlternatingFeedForward,
    AlternatingPositions,
    ClampedGatedMLP,
    Experts,
    GatedMLP,
    LatentAttention,
    Layer,
    LinearAttention,
    MultiHead,
    NeuralMemory,
    OneAttention,
    OneFeedForward,
    Stack,
    Transformer,
)

Part = TypeVar("Part")


@dataclass(frozen=True, slots=True)
class NamedStack:
    """A stack, whether it is causal, and the prefix of its parts' names."""

    stack: Stack
    causal: bool
    #: "encoder " or "decoder " if a model has both
    prefix: str


@dataclass(frozen=True, slots=True)
class LayerGroup(Generic[Part]):
    """A kind of attention or feed-forward, its name, and how many layers of a stack have it."""

    name: str
    kind: Part
    layers: int
    #: how many of them have weights of their own; fewer if layers share weights
    copies: int
    #: the symbol for the number of layers; empty if only some layers of the stack have the kind
    number: str

    @property
    def owned(self) -> str:
        """The symbol for `copies`; empty if it is not the number of the stack's layers."""
        return self.number if self.copies == self.layers else ""


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


def group_layers(named_stack: NamedStack) -> list[LayerGroup[OneAttention]]:
    """The kinds of attention of a stack, in the order in which a token meets them."""
    return _group(named_stack, lambda layer: layer.attention, _attention_word, "attention")


def group_feed_forwards(named_stack: NamedStack) -> list[LayerGroup[OneFeedForward]]:
    """The kinds of feed-forward of a stack, in the order in which a token meets them."""
    return _group(named_stack, lambda layer: layer.feed_forward, _feed_forward_word, "feed-forward")


def layer_copies(stack: Stack) -> Mapping[Layer, int]:
    """How many layers with the same parts have weights of their own; fewer if they share them."""
    if stack.shared_layers is None:
        return stack.layer_counts
    return Counter(stack.layers[owner] for owner in sorted(set(stack.owners)))


def n_owners(stack: Stack) -> int:
    """How many layers have weights of their own; fewer than the depth if layers share weights."""
    return sum(layer_copies(stack).values())


def last_layers(stack: Stack, count: int) -> Stack:
    """The last `count` layers of a stack, as a stack of their own; at least one."""
    layers = stack.layers[-count:]
    attention, feed_forward, positions = zip(*layers, strict=True)
    return replace(
        stack,
        n_layers=len(layers),
        attention=_in_turns(attention, Alternating),
        feed_forward=_in_turns(feed_forward, AlternatingFeedForward),
        positions=_in_turns(positions, AlternatingPositions),
        shared_layers=None,
        first_attention_norm=stack.first_attention_norm or count < stack.n_layers,
    )


def _in_turns(parts: tuple[Any, ...], pattern: Callable[..., Any]) -> Any:
    """The part of all layers, or the pattern of their parts."""
    return parts[0] if len(set(parts)) == 1 else pattern(layers=parts)


def _group(
    named_stack: NamedStack,
    part_of: Callable[[Layer], Part],
    word_of: Callable[[Part], str],
    name: str,
) -> list[LayerGroup[Part]]:
    """A group for each kind of a part; kinds with the same word are numbered."""
    stack, prefix = named_stack.stack, named_stack.prefix
    counts = Counter[Part]()
    for layer, n in stack.layer_counts.items():
        counts[part_of(layer)] += n
    copies = Counter[Part]()
    for layer, n in layer_copies(stack).items():
        copies[part_of(layer)] += n
    if len(counts) == 1:
        ((kind, n),) = counts.items()
        return [LayerGroup(f"{prefix}{name}", kind, n, copies[kind], "n_layers")]
    words = [word_of(kind) for kind in counts]
    numbered = [
        word if words.count(word) == 1 else f"{word} {words[: index + 1].count(word)}"
        for index, word in enumerate(words)
    ]
    return [
        LayerGroup(f"{prefix}{word} {name}", kind, counts[kind], copies[kind], "")
        for word, kind in zip(numbered, counts, strict=True)
    ]


def feed_forward_symbols(feed_forward: OneFeedForward) -> dict[str, int]:
    """d_ff, and the number of experts, of a token's experts, and d_shared if it has them."""
    match feed_forward:
        case MLP(d_ff=d_ff) | GatedMLP(d_ff=d_ff) | ClampedGatedMLP(d_ff=d_ff):
            return {"d_ff": d_ff}
        case Experts(shared=shared):
            counts = {"n_experts": feed_forward.n_experts, "n_active": feed_forward.n_active}
            width = {} if shared is None else {"d_shared": shared.d_ff}
            return {"d_ff": feed_forward.expert.d_ff} | counts | width
        case _:
            assert_never(feed_forward)


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


def _attention_word(attention: OneAttention) -> str:
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


def _feed_forward_word(feed_forward: OneFeedForward) -> str:
    match feed_forward:
        case MLP():
            return "plain"
        case GatedMLP():
            return "gated"
        case ClampedGatedMLP():
            return "clamped"
        case Experts():
            return "expert"
        case _:
            assert_never(feed_forward)
