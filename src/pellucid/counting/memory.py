"""The memory for training a model, by part, with the formula."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from pellucid.config import SGD, Adam, AdamW, Muon, Optimiser, Trained, Transformer
from pellucid.counting.activations import Kernel, Pass, Precision, activations
from pellucid.counting.parameters import parameter_count
from pellucid.counting.trained import TrainedCounts, count_trained


@dataclass(frozen=True, slots=True)
class MemoryRow:
    """A part of the memory in bytes, the formula, and the settings that make it smaller."""

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
) -> list[MemoryRow]:
    """Weights, gradients and moments, all in float32.

    Args:
        model: The trained model.
        optimiser: Its optimiser.
        trained: The weights that learn; the others have no gradient and no moments.
        frozen_parameters: Parameters of a teacher or a frozen reference.
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
    if frozen_parameters:
        formula = "4 bytes x parameters of the model that is asked"
        lower = "the size of the model that is asked"
        rows.append(MemoryRow("asked", 4 * frozen_parameters, formula, lower))
    return rows


def activation_memory(
    model: Transformer,
    size: Pass,
    *,
    precision: Precision,
    kernel: Kernel = "fused",
    trained: Trained | None = None,
) -> list[MemoryRow]:
    """The activations that the backward pass needs: see `activations`."""
    rows = activations(model, size, precision=precision, kernel=kernel, trained=trained)
    return [
        MemoryRow(f"{row.prefix}activations", row.n_bytes, row.formula, SMALLER_PASS)
        for row in rows
    ]


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
