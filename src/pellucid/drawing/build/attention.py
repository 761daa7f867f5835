"""The inside of attention and feed-forward layers, as parts of a drawing."""

from __future__ import annotations

import math
from typing import assert_never

from pellucid.config import (
    MLP,
    ALiBi,
    BucketedBias,
    Disentangled,
    GatedMLP,
    Learned,
    LinearAttention,
    MultiHead,
    NeuralMemory,
    NoPositions,
    OneAttention,
    OneFeedForward,
    OnePositions,
    Rotary,
    ShawRelative,
    Sinusoidal,
)
from pellucid.drawing.elements import Arrow, Box, Column, Fork

#: The key of the parts where positions act on scores or values.
SCORES = "scores"
#: The key of the part where a decoder reads an encoder's states.
KEYS = "keys"


def attention_inside(
    attention: OneAttention, positions: OnePositions, *, d_model: int, causal: bool, scores: str
) -> Column:
    """From the state that attention reads to its output.

    Args:
        attention: Its config.
        positions: The scheme of positions.
        d_model: Width of the state.
        causal: Whether a mask hides later tokens.
        scores: The key of the parts where positions act on scores or values.
    """
    match attention:
        case MultiHead():
            return _multi_head(
                attention, positions, d_model, _mask(causal, attention.window), scores
            )
        case LinearAttention():
            return _linear(attention, positions, d_model, causal)
        case NeuralMemory():
            return _memory(attention, positions, d_model, scores)
        case _:
            assert_never(attention)


def cross_attention_inside(attention: MultiHead, d_model: int) -> Column:
    """From the states of a decoder and an encoder to the output of cross-attention."""
    heads, kv = attention.n_heads, attention.n_kv_heads
    d_head, d_value = attention.d_head, attention.value_width
    widths = f"{kv} x {d_head}" + ("" if d_value == d_head else f" and {kv} x {d_value}")
    encoded = Box(name="key, value", lines=(f"{d_model} -> {widths} each",), key=KEYS)
    query = _projection("query", d_model, heads, d_head)
    score = Box(
        name="scores",
        lines=(*_scoring(attention), "mask: every token of the other text"),
        wide=True,
    )
    weighted_sum = Box(name="weighted sum", lines=("of the encoder's values",))
    return (
        Fork(
            ((encoded, Arrow(widths)), (Arrow(), query, Arrow(f"{heads} x {d_head}"))), n_outside=1
        ),
        score,
        Arrow(f"{heads} x time x source"),
        _softmax(attention),
        Arrow(),
        weighted_sum,
        Arrow(f"(batch, time, {heads} x {d_value})"),
        _output(heads, d_value, d_model),
        Arrow(),
    )


def feed_forward_inside(feed_forward: OneFeedForward, d_model: int) -> Column:
    """A wider layer, the activation, and a narrower layer."""
    d_ff, activation = feed_forward.d_ff, feed_forward.activation
    up = Box(name="up", lines=(f"{d_model} -> {d_ff}",))
    down = Box(name="down", lines=(f"{d_ff} -> {d_model}",))
    wide, bent = Arrow(f"(batch, time, {d_ff})"), Box(name=activation)
    match feed_forward:
        case MLP():
            return (Arrow(), up, wide, bent, Arrow(), down, Arrow())
        case GatedMLP():
            gate = Box(name="gate", lines=(f"{d_model} -> {d_ff}",))
            fork = Fork(((Arrow(), gate, Arrow(), bent, Arrow()), (Arrow(), up, Arrow())))
            product = Box(name="gate x up", wide=True)
            return (fork, product, wide, down, Arrow())
        case _:
            assert_never(feed_forward)


def _multi_head(
    attention: MultiHead, positions: OnePositions, d_model: int, mask: str, key: str
) -> Column:
    heads, kv = attention.n_heads, attention.n_kv_heads
    d_head, d_value = attention.d_head, attention.value_width
    rotation = (*_query_key_norm(attention), *_rotation(positions))
    q = (_projection("query", d_model, heads, d_head), *rotation, Arrow(f"{heads} x {d_head}"))
    k = (_projection("key", d_model, kv, d_head), *rotation, Arrow(f"{kv} x {d_head}"))
    v = (_projection("value", d_model, kv, d_value), Arrow(f"{kv} x {d_value}"))
    lines = (*_scoring(attention), *_bias(positions), mask)
    matched = (
        Fork(((Arrow(), *q), (Arrow(), *k))),
        Box(name="scores", lines=lines, wide=True, key=key),
        Arrow(f"{heads} x time x time"),
        _softmax(attention),
        Arrow(),
    )
    adds = isinstance(positions, ShawRelative) and positions.values
    weighted_sum = Box(
        name="weighted sum of values",
        lines=("+ of ShawRelative's vectors",) if adds else (),
        wide=True,
        key=key if adds else "",
    )
    return (
        Fork((matched, (Arrow(), *v))),
        weighted_sum,
        Arrow(f"(batch, time, {heads} x {d_value})"),
        _output(heads, d_value, d_model),
        Arrow(),
    )


def _linear(
    attention: LinearAttention, positions: OnePositions, d_model: int, causal: bool
) -> Column:
    heads, d_head = attention.n_heads, attention.d_head
    rotation = _rotation(positions)
    features = (
        Arrow(),
        Box(name="phi", lines=("elu + 1",)),
        *rotation,
        Arrow(f"{heads} x {d_head}"),
    )
    lines = ["phi(q) (sum of phi(k) v^T) / phi(q) (sum of phi(k))"]
    lines += ["Rotary above the stroke alone"] if rotation else []
    lines.append(f"{_mask(causal, None)}; in chunks of {attention.chunk}")
    q, k, v = (_projection(name, d_model, heads, d_head) for name in ("query", "key", "value"))
    value = (Arrow(), v, Arrow(f"{heads} x {d_head}"))
    return (
        Fork(((Arrow(), q, *features), (Arrow(), k, *features), value)),
        Box(name="LinearAttention", lines=tuple(lines), wide=True),
        Arrow(f"(batch, time, {heads} x {d_head})"),
        _output(heads, d_head, d_model),
        Arrow(),
    )


def _memory(attention: NeuralMemory, positions: OnePositions, d_model: int, key: str) -> Column:
    heads, d_head = attention.n_heads, attention.d_head
    three, shape = f"{d_model} -> {heads} x {d_head} each", Arrow(f"{heads} x {d_head}")
    scores = (f"q k^T / sqrt({d_head})", *_bias(positions), _mask(True, attention.window))
    window = (
        Arrow(),
        Box(name="query, key, value", lines=(three,)),
        *_rotation(positions),
        Arrow(),
        Box(name="window", lines=(*scores, "softmax, sum of values"), key=key),
        shape,
    )
    learns = "stays as it started" if attention.frozen else "learns while it reads"
    lines = (f"a matrix per head, {learns}, in chunks of {attention.chunk}",)
    memory = (
        Arrow(),
        Box(name="query, key, value", lines=(three, "q and k of length 1")),
        Arrow(),
        Box(name="memory", lines=lines),
        Arrow(),
        Box(name="RMSNorm", lines=("over each head",)),
        shape,
    )
    return (
        Fork((window, memory)),
        Box(name="gate", lines=("(1 - g) window + g memory, g per token and head",), wide=True),
        Arrow(f"(batch, time, {heads} x {d_head})"),
        _output(heads, d_head, d_model),
        Arrow(),
    )


def _projection(name: str, d_model: int, heads: int, width: int) -> Box:
    return Box(name=name, lines=(f"{d_model} -> {heads} x {width}",))


def _output(heads: int, d_value: int, d_model: int) -> Box:
    return Box(name="output", lines=(f"heads joined, {heads * d_value} -> {d_model}",))


def _query_key_norm(attention: MultiHead) -> Column:
    if attention.qk_norm is None:
        return ()
    qk_norm_over = attention.qk_norm_over.replace("_", " ")
    return (Arrow(), Box(name=type(attention.qk_norm).__name__, lines=(f"over {qk_norm_over}",)))


def _rotation(positions: OnePositions) -> Column:
    if not isinstance(positions, Rotary):
        return ()
    lines = [f"base {positions.base:g}"]
    if positions.n_features is not None:
        lines.append(f"{positions.n_features} features")
    if positions.scaling is not None:
        lines.append(f"{type(positions.scaling).__name__} x {positions.scaling.factor:g}")
    return (Arrow(), Box(name="Rotary", lines=tuple(lines)))


def _scoring(attention: MultiHead) -> tuple[str, ...]:
    scale = f"/ sqrt({attention.d_head})"
    if attention.scale is not None:
        root = attention.scale**-2
        is_simple_root = math.isclose(root, round(root)) and root > 1.5
        scale = f"/ sqrt({round(root)})" if is_simple_root else f"x {attention.scale:g}"
    lines = (f"q k^T {scale}" if scale != "x 1" else "q k^T",)
    cap = attention.soft_cap
    return lines if cap is None else (*lines, f"soft cap: {cap:g} tanh(s / {cap:g})")


def _bias(positions: OnePositions) -> tuple[str, ...]:
    match positions:
        case BucketedBias():
            return ("+ BucketedBias",)
        case ShawRelative():
            return ("+ q a^T, a of ShawRelative",)
        case Disentangled():
            own = "matrices of their own" if positions.own_projections else "the same matrices"
            terms = ("q P_k^T",) * positions.content_to_position
            terms += ("k P_q^T",) * positions.position_to_content
            return (f"+ {' + '.join(terms)}, scaled too", f"P of distances, by {own}")
        case ALiBi():
            return ("+ ALiBi: -slope of the head x distance",)
        case NoPositions() | Learned() | Sinusoidal() | Rotary():
            return ()
        case _:
            assert_never(positions)


def _mask(causal: bool, window: int | None) -> str:
    if window is not None:
        return f"mask: {'causal' if causal else 'both ways'}, a window of {window}"
    return "mask: causal" if causal else "mask: all tokens see all"


def _softmax(attention: MultiHead) -> Box:
    return Box(
        name="softmax",
        lines=("a trained sink per head takes its share",) if attention.sinks else (),
    )
