"""Batches without a label, and regressions: what their losses are not."""

from __future__ import annotations

import math
from dataclasses import replace

from pellucid.diagnosis import diagnose
from pellucid.diagnosis.causes.data import no_labels
from pellucid.diagnosis.causes.history_view import HistoryView
from pellucid.diagnosis.history.first_targets import of_gradient
from pellucid.diagnosis.history.history import Facts, Reading
from pellucid.vitals import Mark
from support.courses import healthy

N = 200


def codes(share: float, *, is_blank: bool) -> list[str]:
    """What is named in a training with so many losses of NaN."""
    period = round(1 / share)
    losses = tuple((i, math.nan if i % period == 0 else 3.0) for i in range(1, N + 1))
    steps = [i for i in range(1, N + 1) if i % period == 0]
    mark = Mark(len(steps), N, steps[0], [0.0] * len(steps), steps)
    marks = {"blank": mark} if is_blank else {}
    named = diagnose(replace(healthy(), losses=losses, marks=marks))
    return [finding.code for finding in named]


def test_a_mean_over_no_labels_is_named_and_no_wrong_sign() -> None:
    named = codes(0.5, is_blank=True)
    assert named[0] == "LOS011"
    assert "LOS009" not in named
    assert "GRD002" not in named
    assert "LOS009" not in codes(0.5, is_blank=False)


def test_one_number_of_each_row_is_no_policy() -> None:
    signs = {"answers.lowered": (Reading(1, 0.3, ""),), "answers.paired": (Reading(1, 0.0, ""),)}
    losses = tuple((i, 2.0) for i in range(1, N + 1))
    assert of_gradient(Facts(), signs, losses).objective is None
    answers = signs | {"answers.uneven": (Reading(1, 0.4, ""),)}
    assert of_gradient(Facts(), answers, losses).objective == "rewards"


def test_a_loop_that_passes_no_loss_is_judged_without_one() -> None:
    mark = Mark(N, N, 1, [0.0] * N, list(range(1, N + 1)))
    assert no_labels(HistoryView(replace(healthy(), losses=(), marks={"blank": mark}))) is None


def test_a_margin_that_is_kept_leaves_no_gradient_and_no_loss() -> None:
    steps = list(range(40, N + 1))
    mark = Mark(len(steps), N, 40, [0.0] * len(steps), steps)
    for value, named in ((0.0, []), (0.3, ["GRD002"])):
        losses = tuple((i, value if i in steps else 0.3) for i in range(1, N + 1))
        history = replace(healthy(), losses=losses, marks={"blank": mark})
        assert [f.code for f in diagnose(history) if f.code == "GRD002"] == named
