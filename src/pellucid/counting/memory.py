"""The memory for training a model, by part, with the formula."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import assert_never

from pellucid.config import SGD, Adam, AdamW, Muon, Optimiser, Rounding, Trained, Transformer
from pellucid.counting.activations import Kernel, Pass, Precision, activations
from pellucid.counting.layout import BLOCK_MATRICES, ONE_DEVICE, Layout, weight_groups
from pellucid.counting.parameters import parameter_count
from pellucid.counting.trained import TrainedCounts, count_trained


@dataclass(frozen=True, slots=True)
class MemoryRow:
    """A part of the memory in bytes, the formula, and the settings that make it smaller.

    Attributes:
        part: the name of the part.
        n_bytes: its size.
        formula: how it follows.
        lower: settings that make it smaller.
    """

    part: str
    n_bytes: int
    formula: str
    lower: str = ""


#: The config keys that make a term smaller.
SMALLER_MODEL = "model.d_model, the number of layers or model.vocab_size"
SMALLER_PASS = "training.batch_size or model.context_length, or raise training.accumulation"


def memory(
    model: Transformer,
    optimiser: Optimiser,
    *,
    sequences: int,
    precision: Precision,
    trained: Trained | None = None,
    frozen_parameters: int = 0,
    kernel: Kernel = "fused",
) -> list[MemoryRow]:
    """Bytes for one micro-batch: the rows of `state_memory` and of `activation_memory`.

    Args:
        model: The trained model.
        optimiser: Its optimiser.
        sequences: Full contexts in a micro-batch; an encoder and a decoder each read that many.
        precision: Of matrix products.
        trained: The weights that learn; None for all.
        frozen_parameters: Parameters of a teacher or a frozen reference.
        kernel: How attention is computed.
    """
    size = Pass(sequences, model.context_length, model.context_length)
    return [
        *state_memory(model, optimiser, trained=trained, frozen_parameters=frozen_parameters),
        *activation_memory(model, size, precision=precision, kernel=kernel, trained=trained),
    ]


def state_memory(
    model: Transformer,
    optimiser: Optimiser,
    *,
    trained: Trained | None = None,
    frozen_parameters: int = 0,
    layout: Layout = ONE_DEVICE,
    rounding: Rounding | None = None,
) -> list[MemoryRow]:
    """Weights, gradients and moments, in float32 unless `rounding`: a device's share of them.

    Args:
        model: The trained model.
        optimiser: Its optimiser.
        trained: The weights that learn; the others have no gradient and no moments.
        frozen_parameters: Parameters of a teacher or a frozen reference.
        layout: Over how many devices they are cut.
        rounding: Of weights in bfloat16; their moments are in float32 too.
    """
    n, counts = parameter_count(model), count_trained(model, trained)
    moments, moments_formula = _moments(optimiser, counts)
    weights_formula = "(parameters + adapters)" if counts.added else "parameters"
    trained_formula = "parameters" if trained is None else f"({counts.formula})"
    rows = [
        MemoryRow("weights", 4 * (n + counts.added), f"4 bytes x {weights_formula}", SMALLER_MODEL),
        MemoryRow("gradients", 4 * counts.trained, f"4 bytes x {trained_formula}", SMALLER_MODEL),
        MemoryRow("optimiser", moments, moments_formula, SMALLER_MODEL),
    ]
    if rounding is not None:
        rows = _rounded(rows, weight_groups(model).blocks, rounding)
    if frozen_parameters:
        formula = "4 bytes x parameters of the model that is asked"
        lower = "the size of the model that is asked"
        rows.append(MemoryRow("asked", 4 * frozen_parameters, formula, lower))
    return [_share(row, layout) for row in rows]


def _rounded(rows: list[MemoryRow], matrices: int, rounding: Rounding) -> list[MemoryRow]:
    """Weights, gradients and moments if the matrices of blocks are in bfloat16."""
    weights, gradients, moments = rows
    less = f" - 2 bytes x {BLOCK_MATRICES}"
    gradients = replace(
        gradients, n_bytes=gradients.n_bytes - 2 * matrices, formula=gradients.formula + less
    )
    if rounding == "stochastic":
        weights = replace(
            weights, n_bytes=weights.n_bytes - 2 * matrices, formula=weights.formula + less
        )
    else:
        weights = replace(weights, formula=f"{weights.formula}, of some 2 as a remainder")
    return [weights, gradients, moments]


def snapshot_memory(
    model: Transformer, optimiser: Optimiser, *, trained: Trained | None, averaged: bool
) -> MemoryRow:
    """The copy that a checkpoint is written from; the weights read back at the end need less.

    Args:
        model: The trained model.
        optimiser: Its optimiser.
        trained: The weights that learn; None for all.
        averaged: Whether the run keeps a moving average of its weights.
    """
    rows = {row.part: row.n_bytes for row in state_memory(model, optimiser, trained=trained)}
    n_bytes = rows["weights"] + rows["optimiser"] + averaged * rows["gradients"]
    formula = "weights + optimiser, while a checkpoint is written"
    return MemoryRow("snapshot", n_bytes, formula, SMALLER_MODEL)


def _share(row: MemoryRow, layout: Layout) -> MemoryRow:
    """What a device holds of weights, gradients or moments."""
    if layout.offload:
        return replace(row, n_bytes=0, formula=f"{row.formula}, on the processor")
    if layout.parts == 1:
        return row
    formula = f"{row.formula} / {layout.parts}"
    return replace(row, n_bytes=-(-row.n_bytes // layout.parts), formula=formula)


def activation_memory(
    model: Transformer,
    size: Pass,
    *,
    precision: Precision,
    kernel: Kernel = "fused",
    trained: Trained | None = None,
    layout: Layout = ONE_DEVICE,
    residual: int = 4,
) -> list[MemoryRow]:
    """The activations that the backward pass needs: see `activations`.

    With recomputation, the activations of one block are added: they are computed again at once.

    Args:
        model: The trained model.
        size: The pass of one device.
        precision: Of matrix products.
        kernel: How attention is computed.
        trained: The weights that learn; None for all.
        layout: The recomputation, and how many devices share products.
        residual: Bytes of a number of the residual stream.
    """
    rows = activations(
        model,
        size,
        precision=precision,
        kernel=kernel,
        trained=trained,
        recompute=layout.recompute,
        tensor=layout.tensor,
        residual=residual,
    )
    memory_rows = [
        MemoryRow(f"{row.prefix}activations", row.n_bytes, row.formula, SMALLER_PASS)
        for row in rows
    ]
    if layout.recompute == "none":
        return memory_rows
    without_recomputation = activation_memory(
        model,
        size,
        precision=precision,
        kernel=kernel,
        trained=trained,
        layout=replace(layout, recompute="none"),
        residual=residual,
    )
    n_layers = sum(stack.n_layers for stack in model.stacks)
    block = sum(row.n_bytes for row in without_recomputation) // n_layers
    return [*memory_rows, MemoryRow("recomputed", block, "activations of a block", SMALLER_PASS)]


def _moments(optimiser: Optimiser, counts: TrainedCounts) -> tuple[int, str]:
    n = counts.trained
    match optimiser:
        case AdamW() | Adam():
            return 8 * n, "2 moments x 4 bytes"
        case SGD(momentum=0.0):
            return 0, "none without momentum"
        case SGD():
            return 4 * n, "momentum x 4 bytes"
        case Muon():
            return (
                8 * n - 4 * counts.hidden,
                "momentum x 4 bytes (hidden matrices), 2 moments (the rest)",
            )
        case _:
            assert_never(optimiser)
