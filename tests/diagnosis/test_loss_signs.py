"""A loss below zero: turned round, or of a kind that may fall there."""

from __future__ import annotations

import pytest

from pellucid.diagnosis.causes.history_view import HistoryView
from pellucid.diagnosis.causes.objective import negative_loss
from support.courses import but, curve


@pytest.mark.parametrize(("start", "end", "is_turned"), [(0.6, -4.0, False), (-0.6, -4.0, True)])
def test_only_a_loss_that_begins_below_zero_is_turned_round(
    start: float, end: float, is_turned: bool
) -> None:
    candidate = negative_loss(HistoryView(but(signs={}, losses=curve(start, end))()))
    assert (candidate is not None) == is_turned
