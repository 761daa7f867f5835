"""A ladder of runs is trained once, and its law is checked on a size that it has not seen."""

from __future__ import annotations

import csv
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pellucid.cli import main
from pellucid.counting import parameter_count
from pellucid.errors import ConfigError, Interrupted
from pellucid.lab import Scaling, design, scaling
from pellucid.lab.flops import training_flops
from pellucid.lab.ladder import SHARES, ladder, lengths
from pellucid.lab.outcome import PER_BYTE
from pellucid.lab.scaling_files import scaling_facts, write_scaling_table
from pellucid.lab.scaling_page import scaling_page
from pellucid.saved_runs.folder import RunFolder
from pellucid.saved_runs.load import read_config
from support.tiny import TINY

SETTINGS = [*TINY, "text.held_out=0.2", "model.decoder.n_layers=1", "training.checkpoint_every=99"]
SIZES = (6000, 9000, 14_000)


class Trained(NamedTuple):
    """A ladder that was stopped after four runs and continued, and the lines of both calls."""

    result: Scaling
    stopped: list[str]
    lines: list[str]


def climb(place: Path, out: Path, notify: Any) -> Scaling:
    return scaling(
        place / "fast.toml",
        place / "text.txt",
        sizes=SIZES,
        steps=8,
        budget=[1.0],
        settings=SETTINGS,
        out=out,
        notify=notify,
    )


@pytest.fixture(scope="module")
def trained(place: Path) -> Trained:
    stopped: list[str] = []

    def stop(line: str) -> None:
        stopped.append(line)
        if len(stopped) == 4:
            raise Interrupted("stopped", 15)

    folder = place / "ladder"
    with pytest.raises(Interrupted, match="the same command continues in"):
        climb(place, folder, stop)
    lines: list[str] = []
    return Trained(climb(place, folder, lines.append), stopped, lines)


def test_a_stopped_ladder_continues_with_what_is_missing(trained: Trained) -> None:
    runs = [line for line in trained.lines if line.startswith("run ")]
    assert [line.endswith("(found)") for line in runs] == [True] * 4 + [False] * 8
    assert [line.removesuffix(" (found)") for line in runs[:4]] == trained.stopped
    assert "the law of 9 runs is fixed" in trained.lines[9]  # before the next size is trained


def test_sizes_tokens_and_losses_are_those_of_the_runs(trained: Trained) -> None:
    rows = [*trained.result.ladder, *(check.rungs for check in trained.result.checks)]
    assert len(rows) == 12
    for number, rungs in enumerate(rows):
        (outcome,) = rungs.outcomes
        assert rungs.n_weights == parameter_count(read_config(RunFolder(outcome.folder)).model)
        assert outcome.step == 8 * SHARES[number % 3]
        assert rungs.n_tokens == outcome.terms
        assert outcome.terms == pytest.approx(outcome.step * 4 * 16, rel=0.05)
        assert rungs.losses == (outcome.measures[PER_BYTE],)
    sizes = sorted({rungs.n_weights for rungs in rows})
    assert sizes == pytest.approx([*SIZES, SIZES[-1] ** 2 / SIZES[-2]], rel=0.15)


def test_the_next_size_is_predicted_without_its_runs_and_the_error_is_stated(
    trained: Trained,
) -> None:
    result = trained.result
    assert result.law is not None
    assert result.law.n_runs == 9
    for check in result.checks:
        mean = check.rungs.mean
        assert mean is not None
        assert check.predicted == result.law.losses([check.rungs.n_weights], [check.rungs.n_tokens])
        assert check.error == pytest.approx(check.predicted / mean - 1)
        assert check.interval[0] <= check.interval[1]
    errors = [abs(check.error) for check in result.checks]
    assert result.error == pytest.approx(sum(errors) / 3)


def test_facts_table_and_page_hold_every_size(trained: Trained) -> None:
    result = trained.result
    facts = scaling_facts(result)
    assert set(facts["law"]["constants"]) == {"E", "A", "B", "a", "b"}
    assert len(facts["runs"]) == 9
    assert [row["minutes"] for row in facts["best_sizes"]] == [1.0]
    rows = list(csv.DictReader(write_scaling_table(result).read_text().splitlines()))
    assert [row["used_for"] for row in rows] == ["fit"] * 9 + ["check"] * 3
    page = scaling_page(result)
    assert page.count("<polyline") == 4
    assert "off by" in page
    for note in result.notes:
        assert note.split(":")[0] in page


def test_every_width_changes_and_nothing_else_does(place: Path) -> None:
    (variant,) = design([place / "fast.toml", place / "text.txt"]).variants
    rungs = ladder(variant.run, 4)
    counts = [rung.n_weights for rung in rungs]
    for smaller, larger in pairwise(counts):
        assert larger / smaller == pytest.approx(2, rel=0.1)
    own_model = rungs[3].run.model
    assert (own_model.d_model, own_model.decoder) == (
        variant.run.model.d_model,
        variant.run.model.decoder,
    )
    first = rungs[0].run.model
    assert first.d_model < own_model.d_model
    assert first.decoder is not None
    assert own_model.decoder is not None
    attention: Any = first.decoder.attention
    assert attention.n_heads == 2
    assert attention.d_head / 64 == pytest.approx(first.d_model / 128, rel=0.2)
    assert first.decoder.n_layers == own_model.decoder.n_layers


def test_flops_are_an_equal_budget_for_all_sizes(place: Path) -> None:
    (variant,) = design([place / "fast.toml", place / "text.txt"]).variants
    for rung in ladder(variant.run, 3):
        for share, step in zip(SHARES, lengths(rung, "x", 1e12), strict=True):
            budget: Any = step.run.training.budget
            assert budget.count * training_flops(rung.run) == pytest.approx(share * 1e12, rel=1e-3)


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (["--sizes", "2"], "expected at least 3"),
        (["--sizes", "100k,200k"], "expected a number of sizes from 3 to 16"),
        (["--sizes", "100k,x,1M"], "expected a number of sizes from 3 to 16"),
        (["--sizes", "100,101,102"], "not all different"),
        (["--budget", "0"], "minutes above 0"),
        (["--steps", "2"], "cannot be cut into quarters"),
        (["slow.toml"], "is about one config"),
        (["--steps", "9", "--flops", "9"], "not allowed with"),
    ],
)
def test_what_is_no_ladder_is_refused(
    place: Path, capsys: pytest.CaptureFixture[str], flags: list[str], reason: str
) -> None:
    flags = [str(place / flag) if flag.endswith(".toml") else flag for flag in flags]
    words = ["scaling", str(place / "fast.toml"), str(place / "text.txt"), *flags]
    try:
        code = main(words)
    except SystemExit as end:
        code = end.code
    error = " ".join(capsys.readouterr().err.split())
    assert (code, reason in error) == (2, True), error


def test_a_budget_of_no_minutes_is_refused_from_python() -> None:
    with pytest.raises(ConfigError, match="minutes above 0"):
        scaling("nano", budget=[])
