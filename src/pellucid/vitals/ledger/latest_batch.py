"""The latest batch of a training loop: what its last call reads, and what it is paid for."""

from __future__ import annotations

from typing import Any

from jaxtyping import Int
from torch import Tensor

from pellucid.vitals.async_metrics import AsyncMetrics
from pellucid.vitals.call.kinship import kinship_of_masked
from pellucid.vitals.call.row_content import record_rows
from pellucid.vitals.ledger.answer_places import count_answers
from pellucid.vitals.ledger.batch_rows import (
    Rows,
    first_rows,
    masked_places,
    range_of_classes,
    text_checksums,
)
from pellucid.vitals.taps.recorded_call import ids_in, inputs_of, is_plain


class LatestBatch:
    """The ids of the latest call, with its mask and labels.

    Args:
        has_source: Whether the model reads one text and writes another.

    Attributes:
        ids: The ids; None before the first call of an update, and for a call without ids.
        mask: What the call names its mask.
        labels: What it names its labels.
    """

    def __init__(self, *, has_source: bool) -> None:
        self._has_source = has_source
        self.forget()

    def note(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Note a call.

        Args:
            args: Its positional arguments.
            kwargs: Its keyword arguments.
        """
        self.note_ids(inputs_of(args, kwargs))
        self.mask, self.labels = kwargs.get("attention_mask"), kwargs.get("labels")
        self._answers = kwargs.get("start_positions"), kwargs.get("end_positions")

    def note_ids(self, inputs: tuple[Any, ...]) -> None:
        """Note the ids among the inputs of a call; without any, the ones before stay."""
        self.ids = self.ids if (ids := ids_in(inputs)) is None else ids

    def forget(self) -> None:
        """Forget the batch: the next update may show none."""
        self.ids: Tensor | None = None
        self.mask: Any = None
        self.labels: Any = None
        self._answers: tuple[Any, Any] = (None, None)

    @property
    def placed_ids(self) -> Tensor | None:
        """The ids that outputs follow place by place; None of an encoder's text."""
        return None if self._has_source else self.ids

    def rows(self) -> Rows | None:
        """The first rows; None without ids."""
        return None if self.ids is None else first_rows(self.ids, self.mask, self.labels)

    def targets(self) -> Int[Tensor, " rows"] | None:
        """A number of what each of the first rows is to become; None unless that is another text.

        One source may come many times with a new target.
        """
        is_text = self._has_source and isinstance(self.labels, Tensor) and self.labels.ndim == 2
        is_known = is_text and is_plain(self.labels) and not self.labels.is_floating_point()
        return text_checksums(self.labels) if is_known else None

    def masked_places(self) -> Tensor | None:
        """The places of the first rows that are masked and paid for; None without such labels."""
        return None if self.placed_ids is None else masked_places(self.placed_ids, self.labels)

    def kinship(self) -> Tensor | None:
        """What `kinship_of_masked` gives; None without ids."""
        if self.ids is None or self.ids.ndim != 2:
            return None
        return kinship_of_masked(self.ids, self.labels, self.mask)

    def class_range(self) -> Tensor | None:
        """The lowest and the highest label, if rows have one class each."""
        return range_of_classes(self.labels)

    def count_answers(self) -> Tensor | None:
        """How many answers the call marks, and where they stand; None without places of answers."""
        return None if self.ids is None else count_answers(self.ids, self.mask, *self._answers)

    def record(self, metrics: AsyncMetrics) -> None:
        """Record a number that identifies the batch, and the share of repetitive rows."""
        if self.ids is not None:
            record_rows(metrics, self.ids, self.labels)
