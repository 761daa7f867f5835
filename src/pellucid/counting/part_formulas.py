"""Formulas for the parameters of one part of each kind."""

from __future__ import annotations

from typing import NamedTuple, assert_never

from pellucid.config import (
    MLP,
    BatchNorm,
    ClampedGatedMLP,
    DenseFeedForward,
    Disentangled,
    EmbeddingProjection,
    Experts,
    GatedMLP,
    GroupNorm,
    HeadTransform,
    InstanceNorm,
    LatentAttention,
    LayerNorm,
    LinearAttention,
    MultiHead,
    NeuralMemory,
    Norm,
    OneAttention,
    OneFeedForward,
    Parallel,
    Positions,
    RMSNorm,
    SandwichNorm,
    Stack,
    WeightNorm,
)
from pellucid.counting.formulas import times, total


class Part(NamedTuple):
    """The formulas of a part's matrices and of its vectors; "0" if it has none."""

    matrices: str
    vectors: str

    @property
    def formula(self) -> str:
        """All of its parameters."""
        return total(*self)


def norm_part(norm: Norm, width: str = "d_model") -> Part:
    """Gains, and biases if the norm has them."""
    match norm:
        case LayerNorm(gain=False) | RMSNorm(gain=False):
            return Part("0", "0")
        case LayerNorm(bias=True) | BatchNorm() | GroupNorm() | InstanceNorm():
            return Part("0", f"2 {width}")
        case LayerNorm() | RMSNorm():
            return Part("0", width)
        case _:
            assert_never(norm)


def block_norms(stack: Stack) -> int:
    """How many norms one block has; the first has one less without `first_attention_norm`."""
    layers = 2 if stack.cross_attention is None else 3
    if isinstance(stack.residual, Parallel) and stack.residual.shared_norm:
        return 1
    return 2 * layers if isinstance(stack.residual, SandwichNorm) else layers


def attention_part(attention: OneAttention, stack: Stack, *, crosses: bool = False) -> Part:
    """Projections of queries, keys, values and output; also biases, norms and sinks.

    Args:
        attention: the layer.
        stack: where it is.
        crosses: whether it looks at an encoder's states; positions have no projections there.
    """
    match attention:
        case MultiHead():
            part = _multi_head(attention)
            own = [] if crosses else distance_projections(stack.positions)
            rows = [{"position_query": "h d_k", "position_key": "h_kv d_k"}[name] for name in own]
            query_bias, key_bias, _ = attention.biases
            has_bias: dict[str, bool] = {"position_query": query_bias, "position_key": key_bias}
            biases = (row for row, name in zip(rows, own, strict=True) if has_bias[name])
            matrices = total(part.matrices, *(f"{row} d_model" for row in rows))
            part = Part(matrices, total(part.vectors, *biases))
            return _reparametrised(part, stack, total(f"{_rows(attention)} + d_model", *rows))
        case LatentAttention():
            part = _latent(attention)
        case LinearAttention(qkv_bias=qkv_bias, out_bias=out_bias):
            biases = total(_ROWS if qkv_bias else "0", "d_model" if out_bias else "0")
            part = Part(_PROJECTIONS, biases)
        case NeuralMemory():
            # six projections to queries, keys and values, four gates, the initial memory
            matrices = "7 h d_k d_model + 4 h d_model + h d_k^2"
            part = Part(matrices, "4 h + d_k")
            return _reparametrised(part, stack, "7 h d_k + 4 h + d_model")
        case _:
            assert_never(attention)
    return _reparametrised(part, stack, f"{_rows(attention)} + d_model")


def distance_projections(positions: Positions) -> list[str]:
    """The projections of vectors of distances that a layer has beside those of content."""
    if not isinstance(positions, Disentangled) or not positions.own_projections:
        return []
    return ["position_query"] * positions.position_to_content + [
        "position_key"
    ] * positions.content_to_position


#: With as many key/value heads as query heads.
_PROJECTIONS = "h d_model (2 d_k + d_v) + h d_v d_model"
_ROWS = "h (2 d_k + d_v)"


def _rows(attention: OneAttention) -> str:
    """How many queries, keys, values, gates and latents a token has, in numbers."""
    if isinstance(attention, LatentAttention):
        return f"h (2 d_k - d_r + d_v) + {_latent_rows(attention)}"
    if not isinstance(attention, MultiHead):
        return _ROWS
    grouped = attention.n_heads != attention.n_kv_heads
    return total("h d_k + h_kv (d_k + d_v)" if grouped else _ROWS, gate_rows(attention))


def _latent_rows(attention: LatentAttention) -> str:
    return "d_c + d_r" if attention.d_query_latent is None else "d_q + d_c + d_r"


def _latent(attention: LatentAttention) -> Part:
    norms = norm_part(attention.latent_norm, "d_c").vectors
    queries = "h d_k d_model"
    if attention.d_query_latent is not None:
        norms = total(norm_part(attention.latent_norm, "d_q").vectors, norms)
        queries = "h d_k d_q"
    latents = f"({_latent_rows(attention)}) d_model"
    matrices = f"{queries} + {latents} + h (d_k - d_r + d_v) d_c + h d_v d_model"
    biases = total(
        _latent_rows(attention) if attention.latent_bias else "0",
        "d_model" if attention.out_bias else "0",
    )
    return Part(matrices, total(biases, norms))


def gate_rows(attention: MultiHead) -> str:
    """How many gates a token's heads have."""
    return {None: "0", "heads": "h", "features": "h d_v"}[attention.output_gate]


def _multi_head(attention: MultiHead) -> Part:
    grouped = attention.n_heads != attention.n_kv_heads
    gates = gate_rows(attention)
    plain = not grouped and gates == "0"
    matrices = _PROJECTIONS if plain else f"d_model ({_rows(attention)}) + h d_v d_model"
    norms = "0"
    if attention.qk_norm is not None:
        shared = attention.qk_norm_over == "each_head"
        widths = ("d_k", "d_k") if shared else ("h d_k", "h_kv d_k")
        norms = total(*(norm_part(attention.qk_norm, width).vectors for width in widths))
    vectors = total(
        _biases(attention),
        "d_model" if attention.out_bias else "0",
        norms,
        "h" if attention.sinks else "0",
    )
    return Part(matrices, vectors)


def _biases(attention: MultiHead) -> str:
    if all(attention.biases):
        return _rows(attention)
    rows = (("h d_k", gate_rows(attention)), ("h_kv d_k",), ("h_kv d_v",))
    return total(*(total(*own) for own, has in zip(rows, attention.biases, strict=True) if has))


def feed_forward_part(feed_forward: OneFeedForward, stack: Stack) -> Part:
    """Two matrices, or three if it is gated; of a mixture all experts, and the router."""
    match feed_forward:
        case MLP() | GatedMLP() | ClampedGatedMLP():
            return _dense_part(feed_forward, stack)
        case Experts():
            return _experts_part(feed_forward, stack)
        case _:
            assert_never(feed_forward)


def idle_formula(feed_forward: OneFeedForward, stack: Stack) -> str:
    """The parameters of the experts that a token does not use; "0" without experts."""
    match feed_forward:
        case MLP() | GatedMLP() | ClampedGatedMLP():
            return "0"
        case Experts():
            expert = _dense_part(feed_forward.expert, stack).formula
            return f"(n_experts - n_active) ({expert})"
        case _:
            assert_never(feed_forward)


def _dense_part(feed_forward: DenseFeedForward, stack: Stack, width: str = "d_ff") -> Part:
    match feed_forward:
        case MLP():
            matrices, rows = f"2 d_model {width}", f"{width} + d_model"
        case GatedMLP() | ClampedGatedMLP():
            matrices, rows = f"3 d_model {width}", f"2 {width} + d_model"
        case _:
            assert_never(feed_forward)
    part = Part(matrices, rows if feed_forward.bias else "0")
    return _reparametrised(part, stack, rows)


def _experts_part(experts: Experts, stack: Stack) -> Part:
    """A router has a vector for each expert, as a head has one for each token."""
    expert = _dense_part(experts.expert, stack)
    router = Part("0", total("n_experts d_model", "n_experts" if experts.router.bias else "0"))
    parts = [
        Part(times(1, "n_experts", expert.matrices), times(1, "n_experts", expert.vectors)),
        _reparametrised(router, stack, "n_experts"),
    ]
    if experts.shared is not None:
        parts.append(_dense_part(experts.shared, stack, "d_shared"))
    if experts.shared_gate:
        parts.append(_reparametrised(Part("0", "d_model"), stack, "1"))
    return Part(total(*(p.matrices for p in parts)), total(*(p.vectors for p in parts)))


def transform_part(transform: HeadTransform, width: str) -> Part:
    """A dense layer to `width` features with its biases, and a norm."""
    matrix = "d_model^2" if width == "d_model" else f"d_model {width}"
    norm = "0" if transform.norm is None else norm_part(transform.norm, width).vectors
    return Part(matrix, total(width if transform.bias else "0", norm))


def projection_part(projection: EmbeddingProjection, stack: Stack) -> Part:
    """The map of the embedding to d_model."""
    part = Part("d_e d_model", "d_model" if projection.bias else "0")
    return _reparametrised(part, stack, "d_model")


def _reparametrised(part: Part, stack: Stack, rows: str) -> Part:
    """WeightNorm adds one length for each row of each matrix; SpectralNorm adds no parameters."""
    if isinstance(stack.reparametrisation, WeightNorm):
        return Part(part.matrices, total(part.vectors, rows))
    return part
