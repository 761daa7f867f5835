"""What the batches of some updates say together: classes of tokens, masked tokens, answers."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from pellucid.vitals.call.kinship import measure_masked
from pellucid.vitals.ledger.answer_places import share_misplaced
from pellucid.vitals.ledger.latest_batch import LatestBatch
from pellucid.vitals.ledger.stuck_rows import StuckRows
from pellucid.vitals.ledger.tagged_places import TaggedPlaces
from pellucid.vitals.ledger.target_partners import TargetPartners


class BatchSigns:
    """Collects from each batch of an open page what one batch alone may have too little of."""

    def __init__(self) -> None:
        self._tags = TaggedPlaces()
        self._partners = TargetPartners()
        #: the kinship of masked tokens and others in each batch
        self._kin: list[Tensor] = []
        #: what `count_answers` gives, added up
        self._answers: Tensor | None = None
        self._stuck_rows = StuckRows()

    def add(self, batch: LatestBatch) -> None:
        """Take the latest batch."""
        rows = batch.rows()
        self._tags.add(batch.placed_ids, batch.labels)
        self._stuck_rows.add(rows)
        self._partners.add(rows, batch.labels)
        kin, answers = batch.kinship(), batch.count_answers()
        if kin is not None:
            self._kin.append(kin)
        if answers is not None:
            self._answers = answers if self._answers is None else self._answers + answers

    def take_signs(self) -> Iterator[tuple[str, Tensor]]:
        """The signs of the batches so far, which are forgotten."""
        yield from self._tags.take_signs().items()
        yield from self._stuck_rows.take_signs().items()
        yield from self._partners.take_signs().items()
        if self._kin:
            yield from measure_masked(self._kin).items()
        if self._answers is not None:
            yield "targets.misplaced", share_misplaced(self._answers)
        self._kin, self._answers = [], None
