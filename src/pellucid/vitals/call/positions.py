"""Whether parts that know positions are given different ones, and outputs are at their tokens."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pellucid.vitals.call.alignment import alignment
from pellucid.vitals.call.paid_targets import PaidTargets

#: Names of modules that take the positions of tokens, or their distances.
_NAMES = re.compile(r"(?<![a-z])pos(?!t)|position|rotary|rope|wpe|relative")
#: The highest position that a text begins with: some models have two positions in reserve.
_START = 2
#: Rows with fewer places say nothing.
_FEWEST = 4
#: A smaller change of an output, of its size, may be rounding.
_LEAST_MOVE = 1e-2


class PositionNotes:
    """Notes the positions that each module reads in one forward pass.

    Args:
        inputs: (rows, time, ...) of the call.
        source: The encoder's ids, if a decoder reads the inputs.
    """

    def __init__(self, inputs: Tensor, source: Tensor | None = None) -> None:
        #: some tables of positions are given the ids, and count them
        self._texts = [inputs] if source is None else [inputs, source]
        self._time = inputs.shape[1] if inputs.ndim > 1 else 0
        self._lengths = {1, len(inputs)} - {self._time}
        self._constant: dict[str, float] = {}
        self._falling: dict[str, float] = {}
        self._starts: dict[str, float] = {}

    def note(self, name: str, module: nn.Module, arguments: Any) -> None:
        """Note the arguments of a module, if its name says that it takes positions."""
        words = f"{name.rpartition('.')[2]} {type(module).__name__}".lower()
        if self._time < _FEWEST or not _NAMES.search(words):
            return
        for tensor in arguments:
            if _is_positions(tensor, self._time) and not self._is_text(tensor):
                rows = tensor.reshape(-1, self._time)
                equal = (rows == rows[:, :1]).all(1).double().mean()
                self._constant[name] = min(float(equal), self._constant.get(name, 1.0))
                if len(rows) in self._lengths:  # not a table of distances
                    self._falling[name] = falling(rows)
                    if isinstance(module, nn.Embedding) and rows_count_on(rows):
                        self._starts[name] = float(rows[0, 0])

    def _is_text(self, tensor: Tensor) -> bool:
        return any(torch.equal(tensor, text) for text in self._texts)

    def signs(self) -> dict[str, float]:
        """The share of rows with one position for all, of steps back, and where rows begin.

        Of each, the least of the modules.
        """
        notes = {
            "call.one_position": self._constant,
            "call.falling_positions": self._falling,
            "call.first_position": self._starts,
        }
        return {id: min(values.values()) for id, values in notes.items() if values}


def falling(positions: Int[Tensor, "rows time"]) -> float:
    """The share of steps from token to token at which the position falls, but not to a new start.

    Args:
        positions: Of the tokens of each row; a document of a packed row begins at 0, 1 or 2.
    """
    step, after = positions[:, 1:] - positions[:, :-1], positions[:, 1:]
    return float(((step < 0) & (after > _START)).double().mean())


def rows_count_on(positions: Int[Tensor, "rows time"]) -> bool:
    """Whether all rows begin at one position, and go on by 1 from token to token.

    Args:
        positions: Of the tokens of each row.
    """
    is_next = (positions[:, 1:] - positions[:, :-1] == 1).all()
    return bool(is_next & (positions[:, 0] == positions[0, 0]).all())


def _is_positions(tensor: Any, time: int) -> bool:
    if not isinstance(tensor, Tensor) or tensor.ndim == 0 or tensor.dtype == torch.bool:
        return False
    return not tensor.is_floating_point() and tensor.shape[-1] == time


def early_targets(
    tokens: Int[Tensor, "rows time"] | None,
    paid: PaidTargets | None,
    starts: Sequence[int],
    changes: Float[Tensor, "rows longer"],
) -> dict[str, float]:
    """How many places targets are before the outputs that are to predict them.

    Vectors in front of a text, as of a soft prompt, move its outputs as many places on. Nothing if
    outputs are at the places of their tokens, or if the targets do not follow the tokens.

    Args:
        tokens: The ids that the model reads; None if unknown.
        paid: The targets of the outputs; None if unknown.
        starts: For each row that was changed, the first place of it.
        changes: How far outputs moved by that.
    """
    if tokens is None or paid is None or paid.rows.shape != changes.shape:
        return {}
    time, targets = tokens.shape[1], paid.rows
    n_before = targets.shape[1] - time
    moves = changes[: len(starts)] > _LEAST_MOVE
    # a row that ends before its start does not move
    first_moves = [
        int(row.long().argmax()) - start if bool(row.any()) else None
        for row, start in zip(moves, starts, strict=True)
    ]
    if {*first_moves} - {None} != {n_before}:
        return {}
    if alignment(tokens, targets[:, n_before:]).follows:
        return {"targets.early": 0.0}
    is_early = alignment(tokens, targets[:, :time]).follows
    return {"targets.early": float(n_before)} if is_early else {}
