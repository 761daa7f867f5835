"""Temporary memory within a step, in bytes: the loss, the optimiser's update, an evaluation."""

from __future__ import annotations

from collections import Counter
from typing import assert_never

from pellucid.config import (
    DPO,
    MLM,
    MLP,
    SFT,
    SGD,
    Adam,
    AdamW,
    ClampedGatedMLP,
    Classification,
    ClassificationHead,
    Distillation,
    Experts,
    GatedMLP,
    Muon,
    NextToken,
    NoHead,
    OneFeedForward,
    Optimiser,
    PolicyGradient,
    Rounding,
    Run,
    Seq2Seq,
    SpanCorruption,
    Trained,
    Transformer,
)
from pellucid.counting.activations import Pass, Precision, bytes_of
from pellucid.counting.layers import NamedStack, stacks
from pellucid.counting.trained import count_trained, matrix_shapes

#: Bytes of logits at a time, near a processor's caches. Fewer rows than `_LEAST_ROWS` make the
#: matrix product slow; more rows need fewer sums of the matrix's gradient over chunks.
_CHUNK_BYTES = 2**26
#: On a GPU. GPT-2's 65,536 tokens in bfloat16 are 7 chunks in place of 99: each is a dozen launches
#: and a product large enough to fill the card. Not measured on one.
_GPU_CHUNK_BYTES = 2**30
_LEAST_ROWS = 256
#: Float32 copies of a chunk of logits if torch computes the loss step by step.
_COPIES = 4
#: Bytes per number of the largest group of matrices that Muon orthogonalises in one batch: the
#: look-ahead, and of Newton-Schulz in float32 a square matrix before and after an iteration, its
#: product with itself, and the polynomial. In bfloat16 it needs less.
_MUON_BYTES = 20
#: Bytes per number of a matrix in bfloat16 that is updated: its float32 value, and in turn its
#: gradient, or the bits of the new value, its upper half and its remainder.
_WIDENED_BYTES = 16
#: Windows of held-out text in one pass.
EVALUATED_AT_ONCE = 16
#: Texts that an evaluation generates at once.
GENERATED_ROWS = 64

Size = tuple[int, str]


def chunk_rows(tokens: int, vocab_size: int, item_bytes: int, *, on_gpu: bool) -> int:
    """Rows of logits in a chunk; all chunks are nearly equal.

    Args:
        tokens: Rows in all.
        vocab_size: Logits in a row.
        item_bytes: Bytes of a logit.
        on_gpu: Whether a GPU computes them.
    """
    n_bytes = _GPU_CHUNK_BYTES if on_gpu else _CHUNK_BYTES
    max_rows = max(_LEAST_ROWS, n_bytes // (vocab_size * item_bytes))
    n_chunks = max(1, -(-tokens // max_rows))
    return max(1, -(-tokens // n_chunks))


def loss_bytes(run: Run, size: Pass, precision: Precision, *, on_gpu: bool) -> Size:
    """The logits during the loss, and the head's matrix in their precision.

    Args:
        run: The config.
        size: The pass of one device.
        precision: Of matrix products.
        on_gpu: Whether a GPU computes them.
    """
    model, objective = run.model, run.objective
    if isinstance(model.head, ClassificationHead | NoHead):
        return 0, "nothing: no logits over the vocabulary"
    tokens = size.sequences * (size.decoder or size.encoder)
    width = bytes_of(precision)
    matrix = 0 if width == 4 else width * model.rows * model.head_width
    rows = chunk_rows(tokens, model.rows, width, on_gpu=on_gpu)
    # compiled code writes the gradient of a chunk beside its logits; C code writes it over them
    is_in_c = not on_gpu and model.head.soft_cap is None
    chunk_width = 2 * width if run.training.compile == "all" and not is_in_c else width
    fused = chunk_width * rows * model.rows + matrix
    wide = 4 * chunk_rows(tokens, model.rows, 4, on_gpu=on_gpu) * model.rows + matrix
    match objective:
        case NextToken() | SFT() | Seq2Seq():
            copies = _COPIES if objective.entropy_bonus else 0
            return fused + copies * wide, f"{chunk_width} bytes x rows of a chunk x vocab_size"
        case MLM() | SpanCorruption():
            return fused, f"{chunk_width} bytes x rows of a chunk x vocab_size"
        case Distillation():
            return 2 * _COPIES * wide, f"{2 * _COPIES} x 4 bytes x rows of a chunk x vocab_size"
        case DPO() | PolicyGradient():
            return _COPIES * wide, f"{_COPIES} x 4 bytes x rows of a chunk x vocab_size"
        case Classification():
            return 0, "nothing: no logits over the vocabulary"
        case _:
            assert_never(objective)


def whole_logits_bytes(
    model: Transformer, size: Pass, precision: Precision, *, compiled: bool, fused: bool
) -> Size:
    """All logits of a pass at once, as most loops hold them; ours does not.

    The cross-entropy has three float32 copies at its largest: log-probabilities, their gradient,
    and the gradient of the logits. A compiler fuses two of them; then the logits are there too. One
    kernel for all of it needs the logits and their gradient, in the precision of products.

    Args:
        model: The model.
        size: The pass.
        precision: Of matrix products.
        compiled: Whether a compiler fuses the loss.
        fused: Whether one kernel computes the cross-entropy.
    """
    if isinstance(model.head, ClassificationHead | NoHead):
        return 0, "nothing: no logits over the vocabulary"
    tokens = size.sequences * (size.decoder or size.encoder)
    width = bytes_of(precision)
    separate = 8 + width if compiled else 12
    n_bytes = 2 * width if fused else separate
    return n_bytes * tokens * model.rows, f"{n_bytes} bytes x tokens x vocab_size"


def update_bytes(
    optimiser: Optimiser,
    model: Transformer,
    trained: Trained | None,
    rounding: Rounding | None = None,
) -> Size:
    """The temporary memory of an update.

    Args:
        optimiser: Its kind.
        model: The trained model.
        trained: The weights that learn; None for all.
        rounding: Of weights in bfloat16: one matrix at a time is widened.
    """
    match optimiser:
        case AdamW() if rounding is not None:
            shapes = matrix_shapes(model)
            largest = max((rows * columns for rows, columns in shapes), default=0)
            return _WIDENED_BYTES * largest, f"{_WIDENED_BYTES} bytes x the largest matrix"
        case AdamW() | Adam() | SGD():
            return 0, "nothing: in place"
        case Muon():
            largest = max(_numbers(matrix_shapes(model)), default=0)
            n = min(largest, count_trained(model, trained).hidden)
            return _MUON_BYTES * n, f"{_MUON_BYTES} bytes x matrices of the commonest shape"
        case _:
            assert_never(optimiser)


def _numbers(shapes: Counter[tuple[int, int]]) -> list[int]:
    return [times * rows * columns for (rows, columns), times in shapes.items()]


def token_bytes(model: Transformer, precision: Precision) -> int:
    """Bytes per token for reading without learning: of the widest layer."""
    return max(
        _token_bytes(model, named_stack, bytes_of(precision)) for named_stack in stacks(model)
    )


def _token_bytes(model: Transformer, named_stack: NamedStack, width: int) -> int:
    layers = named_stack.stack.layer_counts
    inner = max(_inner_numbers(layer.feed_forward, model.d_model) for layer in layers)
    heads = max(3 * layer.attention.n_heads * layer.attention.d_head for layer in layers)
    return 12 * model.d_model + width * (2 * model.d_model + max(inner, heads))


def _inner_numbers(feed_forward: OneFeedForward, d_model: int) -> int:
    """Numbers of a token that a feed-forward has in memory at once, at most."""
    match feed_forward:
        case MLP(d_ff=d_ff):
            return 2 * d_ff
        case GatedMLP(d_ff=d_ff):
            return 3 * d_ff
        case ClampedGatedMLP(d_ff=d_ff):
            return 5 * d_ff
        case Experts(expert=expert, shared=shared, n_active=n_active):
            # all tokens may choose the same expert; then the outputs, weighted and in order
            common = 0 if shared is None else _inner_numbers(shared, d_model)
            return max(_inner_numbers(expert, d_model) + 5 * n_active * d_model, common)
        case _:
            assert_never(feed_forward)


def reading_bytes(model: Transformer, size: Pass, precision: Precision, *, logits: bool) -> Size:
    """Reading without learning: one layer at a time, and with `logits` a chunk of them."""
    width = bytes_of(precision)
    layer = max(
        size.tokens(named_stack) * _token_bytes(model, named_stack, width)
        for named_stack in stacks(model)
    )
    formula = f"tokens x (12 d_model + {width} (2 d_model + 2 d_ff))"
    if not logits or isinstance(model.head, ClassificationHead | NoHead):
        return layer, formula
    tokens = size.sequences * (size.decoder or size.encoder)
    rows = chunk_rows(tokens, model.rows, width, on_gpu=False)
    return (
        layer + width * rows * model.rows,
        f"{formula} + {width} bytes x rows of a chunk x vocab_size",
    )
