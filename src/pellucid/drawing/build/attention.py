"""The inside of attention, as parts of a drawing."""

from __future__ import annotations

import math
from typing import assert_never

from pellucid.config import (
    LatentAttention,
    LinearAttention,
    MultiHead,
    NeuralMemory,
    OneAttention,
    OnePositions,
    ShawRelative,
)
from pellucid.drawing.build.attention_parts import bias, mask, output, projection, rotation
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
                attention, positions, d_model, mask(causal, attention.window), scores
            )
        case LatentAttention():
            return _latent(attention, positions, d_model, causal, scores)
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
    query = projection("query", d_model, heads, d_head)
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
        output(heads, d_value, d_model),
        Arrow(),
    )


def _multi_head(
    attention: MultiHead, positions: OnePositions, d_model: int, mask_line: str, key: str
) -> Column:
    heads, kv = attention.n_heads, attention.n_kv_heads
    d_head, d_value = attention.d_head, attention.value_width
    norm, turn = _query_key_norm(attention), rotation(positions)
    before = attention.qk_norm_place == "before_rotation"
    clip, gate = _clip(attention), attention.output_gate
    prepare = (*norm, *clip, *turn) if before else (*clip, *turn, *norm)
    q = (projection("query", d_model, heads, d_head), *prepare, Arrow(f"{heads} x {d_head}"))
    k = (projection("key", d_model, kv, d_head), *prepare, Arrow(f"{kv} x {d_head}"))
    v = (projection("value", d_model, kv, d_value), *clip, Arrow(f"{kv} x {d_value}"))
    lines = (*_scoring(attention), *bias(positions), mask_line)
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
    mixed = (Fork((matched, (Arrow(), *v))), weighted_sum)
    if gate is not None:
        width = 1 if gate == "heads" else d_value
        mixed = _gated(mixed, projection("output gate", d_model, heads, width))
    joined = Arrow(f"(batch, time, {heads} x {d_value})")
    return (*mixed, joined, output(heads, d_value, d_model), Arrow())


def _gated(mixed: Column, projection: Box) -> Column:
    """The heads' outputs, times a gate that the input of attention makes."""
    gate = (Arrow(), projection, Arrow(), Box(name="sigmoid"), Arrow())
    return (Fork(((*mixed, Arrow()), gate)), Box(name="heads x gate", wide=True))


def _clip(attention: MultiHead) -> Column:
    if attention.clip is None:
        return ()
    return (Arrow(), Box(name="clip", lines=(f"to {-attention.clip:g} ... {attention.clip:g}",)))


def _latent(
    attention: LatentAttention, positions: OnePositions, d_model: int, causal: bool, key: str
) -> Column:
    heads, d_plain, d_rotated = attention.n_heads, attention.d_head, attention.d_rotated
    width, d_value, norm = d_plain + d_rotated, attention.d_value, type(attention.latent_norm)
    turn = (*rotation(positions), Arrow())

    def latent(name: str, size: int) -> Column:
        box = Box(name=name, lines=(f"{d_model} -> {size}",))
        return (Arrow(), box, Arrow(), Box(name=norm.__name__), Arrow(f"{size}"))

    d_query = attention.d_query_latent
    compressed = (Arrow(),) if d_query is None else latent("query latent", d_query)
    queries = (*compressed, projection("query", d_query or d_model, heads, width), *turn)
    key_value = Box(
        name="key, value",
        lines=(
            f"{attention.d_latent} -> {heads} x {d_plain}, {heads} x {d_value}",
            "a cache keeps the latent, not these",
        ),
    )
    shared = Box(name="rotated key", lines=(f"{d_model} -> {d_rotated}, the same for all heads",))
    fork = Fork(
        (
            queries,
            (*latent("latent", attention.d_latent), key_value, Arrow()),
            (Arrow(), shared, *turn),
        )
    )
    default = MultiHead(
        n_heads=heads, n_kv_heads=heads, d_head=width, qkv_bias=False, out_bias=False,
        qk_norm=None, dropout=0.0, scale=attention.scale,
    )  # fmt: skip
    lines = (*_scoring(default), *bias(positions), mask(causal, None))
    mixed = Box(name="softmax, weighted sum of values", wide=True)
    joined = Arrow(f"(batch, time, {heads} x {d_value})")
    scores = Box(name="scores", lines=lines, wide=True, key=key)
    weights = Arrow(f"{heads} x time x time")
    return (fork, scores, weights, mixed, joined, output(heads, d_value, d_model), Arrow())


def _linear(
    attention: LinearAttention, positions: OnePositions, d_model: int, causal: bool
) -> Column:
    heads, d_head = attention.n_heads, attention.d_head
    turn = rotation(positions)
    features = (
        Arrow(),
        Box(name="phi", lines=("elu + 1",)),
        *turn,
        Arrow(f"{heads} x {d_head}"),
    )
    lines = ["phi(q) (sum of phi(k) v^T) / phi(q) (sum of phi(k))"]
    lines += ["Rotary above the stroke alone"] if turn else []
    lines.append(f"{mask(causal, None)}; in chunks of {attention.chunk}")
    q, k, v = (projection(name, d_model, heads, d_head) for name in ("query", "key", "value"))
    value = (Arrow(), v, Arrow(f"{heads} x {d_head}"))
    return (
        Fork(((Arrow(), q, *features), (Arrow(), k, *features), value)),
        Box(name="LinearAttention", lines=tuple(lines), wide=True),
        Arrow(f"(batch, time, {heads} x {d_head})"),
        output(heads, d_head, d_model),
        Arrow(),
    )


def _memory(attention: NeuralMemory, positions: OnePositions, d_model: int, key: str) -> Column:
    heads, d_head = attention.n_heads, attention.d_head
    three, shape = f"{d_model} -> {heads} x {d_head} each", Arrow(f"{heads} x {d_head}")
    scores = (f"q k^T / sqrt({d_head})", *bias(positions), mask(True, attention.window))
    window = (
        Arrow(),
        Box(name="query, key, value", lines=(three,)),
        *rotation(positions),
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
        output(heads, d_head, d_model),
        Arrow(),
    )


def _query_key_norm(attention: MultiHead) -> Column:
    if attention.qk_norm is None:
        return ()
    qk_norm_over = {
        "each_head": "each head",
        "each_head_own_gain": "each head, a gain of its own",
        "all_heads": "all heads",
    }[attention.qk_norm_over]
    return (Arrow(), Box(name=type(attention.qk_norm).__name__, lines=(f"over {qk_norm_over}",)))


def _scoring(attention: MultiHead) -> tuple[str, ...]:
    scale = f"/ sqrt({attention.d_head})"
    if attention.scale is not None:
        root = attention.scale**-2
        is_simple_root = math.isclose(root, round(root)) and root > 1.5
        scale = f"/ sqrt({round(root)})" if is_simple_root else f"x {attention.scale:g}"
    lines = (f"q k^T {scale}" if scale != "x 1" else "q k^T",)
    if attention.scale_by_layer:
        lines = (*lines, "/ the layer's number")
    cap = attention.soft_cap
    return lines if cap is None else (*lines, f"soft cap: {cap:g} tanh(s / {cap:g})")


def _softmax(attention: MultiHead) -> Box:
    return Box(
        name="softmax",
        lines=("a trained sink per head takes its share",) if attention.sinks else (),
    )
