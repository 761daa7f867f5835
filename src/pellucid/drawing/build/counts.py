"""The parts of a model as boxes, with what `counting` counts of them.

It counts nothing itself, and does not know how the parts are joined.
"""

from __future__ import annotations

from collections.abc import Sequence

from pellucid.config import Transformer
from pellucid.counting import parameters
from pellucid.drawing.elements import Arrow, Box


class ModelBoxes:
    """A model, and its parts with what `counting` counts of them."""

    def __init__(self, model: Transformer) -> None:
        self.model = model
        self.shape = Arrow(f"(batch, time, {model.d_model})")
        self._rows = {row.part: row for row in parameters(model)}

    def box(self, row: str, name: str = "", lines: Sequence[str] = (), key: str = "") -> Box:
        """The part that is counted in a row, each time it occurs."""
        counted_row = self._rows[row]
        return Box(
            name=name or row,
            lines=tuple(lines),
            parameters=counted_row.count // counted_row.times,
            times=counted_row.times,
            formula=counted_row.formula,
            key=key,
        )
