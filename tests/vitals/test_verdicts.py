"""Which updates count as clipped, and when that is hard."""

from __future__ import annotations

import pytest

from pellucid.vitals import VerdictTracker, rules_of


def test_norms_at_the_threshold_count_as_clipped() -> None:
    # whoever measures after clipping sees the threshold itself, but for rounding
    tracker = VerdictTracker(rules_of())
    tracker.clip_norm = 2.0
    shares = []
    for step, norm in enumerate([1.0, 2.0, 1.999, 1.997, 9.0], start=1):
        tracker.norm(step, norm)
        shares.append(tracker.signs["gradient.clipped"].value)
    assert shares == pytest.approx([0, 1 / 2, 2 / 3, 2 / 4, 3 / 5])


def test_without_a_threshold_nothing_is_clipped() -> None:
    tracker = VerdictTracker(rules_of())
    tracker.norm(1, 100.0)
    assert "gradient.clipped" not in tracker.signs


@pytest.mark.parametrize(("norm", "word"), [(41.0, "watch"), (40.0, "calm"), (39.0, "calm")])
def test_norms_far_above_the_threshold_for_long_are_told(norm: float, word: str) -> None:
    tracker = VerdictTracker(rules_of())
    tracker.clip_norm = 2.0
    for step in range(1, 400):
        tracker.norm(step, norm)
    assert tracker.signs["gradient.clipped"].word == word
