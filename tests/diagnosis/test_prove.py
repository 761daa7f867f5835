"""Proof: forks touch nothing, compare like with like, and recommend only what helped."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import pellucid
from pellucid import config
from pellucid.diagnosis import Advance, Finding, Proof, Reading, Trial, build_finding, prove
from pellucid.diagnosis.fixes.propose import Fix, apply_assignments
from pellucid.diagnosis.proof.fork import Fork, Origin, run_fork
from pellucid.diagnosis.proof.fork_start import choose_start
from pellucid.diagnosis.proof.proof import correct
from pellucid.errors import ConfigError
from pellucid.runs import RunFolder, branch, read_events
from pellucid.runs.resolve_config import resolve_config
from pellucid.saved_runs.load import read_config, read_plan
from pellucid.training import Evaluated, Logged, StoppedNonFinite, Vitals
from pellucid.vitals import watcher
from support.tiny import TINY, write_text

HOT = ("optimiser.learning_rate=3.0", "optimiser.rest.learning_rate=3.0", "schedule.warm_up=0.0")


def trained_so(folder: Path, *settings: str, steps: int = 12) -> Path:
    """The folder of a tiny run that was watched, with a checkpoint every 8 updates."""
    pellucid.train(
        [write_text(folder.parent / "text")],
        out=folder,
        steps=steps,
        settings=[*TINY, "text.held_out=0.2", "training.checkpoint_every=8", *settings],
        watchers=[watcher()],
        show=False,
    )
    return folder


@pytest.fixture(scope="module")
def hot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a learning rate a hundred times too high."""
    return trained_so(tmp_path_factory.mktemp("hot") / "run", *HOT, steps=24)


def content(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Every file with its bytes and when it was written, and every folder."""
    return {
        str(path.relative_to(folder)): (
            path.read_bytes() if path.is_file() else b"",
            path.stat().st_mtime_ns,
        )
        for path in sorted([folder, *folder.rglob("*")])
    }


def too_high(step: int | None = 0) -> Finding:
    return replace(build_finding("OPT005", "seen"), step=step)


@pytest.fixture(scope="module")
def proven(hot: Path) -> tuple[Proof, list[Advance], bool]:
    """A proof, how it advanced, and whether the run is as it was."""
    before, advances = content(hot), list[Advance]()
    proof = prove(
        hot, [too_high(), build_finding("ATT003", "")], steps=12, seeds=2, advance=advances.append
    )
    return proof, advances, content(hot) == before


def test_the_run_is_not_touched_by_a_single_byte(proven: tuple[Proof, list[Advance], bool]) -> None:
    assert proven[2]


def test_what_helps_is_recommended_and_its_config_is_written(
    hot: Path, proven: tuple[Proof, list[Advance], bool]
) -> None:
    proof = proven[0]
    assert proof.best is not None
    assert proof.best.verdict == "helped"
    assert proof.best.mean is not None
    assert proof.best.mean < 0
    assert all(each < 0 for each in proof.best.differences)
    assert Path(proof.file) == hot.parent / "run-fixed.toml"
    assert proof.command == f"pellucid train --config {proof.file}"
    written = resolve_config(config_file=proof.file)
    assert written == apply_assignments(read_config(RunFolder(hot)), proof.best.fix.assignments)
    assert proof.incurable == ("ATT003",)


def test_pairs_have_the_same_seed_and_an_unfixed_fork_serves_every_fix(
    proven: tuple[Proof, list[Advance], bool],
) -> None:
    proof, advances, _ = proven
    for trial in proof.trials:
        assert [u.seed for u, _ in trial.pairs] == [f.seed for _, f in trial.pairs]
        assert [id(u) for u, _ in trial.pairs] == [id(u) for u, _ in proof.trials[0].pairs]
    ended = [each for each in advances if each.fork is not None]
    assert [each.number for each in ended] == list(range(1, 2 * (len(proof.trials) + 1) + 1))
    assert {each.n_forks for each in advances} == {len(ended)}
    assert ended[-1].seconds_left == 0


def test_a_healthy_change_is_not_called_a_cure(tmp_path: Path) -> None:
    run = trained_so(tmp_path / "run", steps=8)
    proof = prove(run, [build_finding("OPT009", "")], steps=4, seeds=2)
    assert proof.trials == ()  # eps is small already
    proof = prove(run, [build_finding("NUM008", "")], steps=4, seeds=2, candidates=1)
    assert proof.best is None
    assert not (tmp_path / "run-fixed.toml").exists()
    assert proof.file == proof.command == ""


def test_the_unfixed_fork_is_the_run_itself(tmp_path: Path) -> None:
    """From a checkpoint, with the run's own seed: the loss that the run came to, bit for bit."""
    run = trained_so(tmp_path / "run", "training.keep_checkpoints=9", "training.evaluate_every=4")
    folder = RunFolder(run)
    settings, plan = read_config(folder), read_plan(folder)
    origin = Origin(folder=folder, run=settings, plan=plan)
    reached = {e.step: e.loss_nats for e in read_events(folder.metrics) if isinstance(e, Evaluated)}
    from pellucid.checkpoints import load

    fork = run_fork(origin, settings, load(folder.shelf.path(8)), steps=4)
    assert (fork.start, fork.steps) == (8, 4)
    assert fork.loss == reached[12]
    fresh = run_fork(origin, settings, None, steps=4)
    assert fresh.loss == reached[4]


def test_a_fork_leaves_random_numbers_and_no_files_behind(
    hot: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    torch.manual_seed(5)
    before = torch.get_rng_state()

    def stop(advance: Advance) -> None:
        if advance.step == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prove(hot, [too_high()], steps=4, seeds=2, out=tmp_path / "never.toml", advance=stop)
    assert list(tmp_path.iterdir()) == []
    assert torch.equal(torch.get_rng_state(), before)


def test_a_run_that_met_nan_is_replayed_from_the_checkpoint_before_it(tmp_path: Path) -> None:
    run = trained_so(tmp_path / "run", "schedule.warm_up=0.0", steps=16)
    events = [StoppedNonFinite(step=90, what="loss", where="objective", aside="")]
    start = choose_start(events, [], [8, 40, 80], steps=30, total=200)
    assert (start.step, start.steps) == (0, 105)
    proof = prove(run, [too_high(step=60)], steps=4, seeds=2, candidates=1, out=tmp_path / "f.toml")
    (trial,) = proof.trials
    assert {u.start for u, _ in trial.pairs} == {8}
    assert "no checkpoint from shortly before it" in proof.note


def test_forks_begin_before_the_trouble_and_reach_past_it() -> None:
    always = choose_start([], [too_high(step=0)], [100, 180], steps=100, total=1000)
    assert (always.step, always.steps) == (0, 100)
    assert "forks begin at the run's start: the trouble shows from update 0 on" in always.reason
    affordable = choose_start([], [too_high(step=300)], [100, 200], steps=100, total=1000)
    assert (affordable.step, affordable.steps) == (0, 350)
    late = choose_start([], [too_high(step=301)], [100, 200, 290], steps=100, total=1000)
    assert (late.step, late.steps) == (200, 151)
    assert "after update 200, the last checkpoint before it" in late.reason
    assert "end before the trouble" in late.fresh_reason
    early = choose_start([], [too_high(step=5)], [100, 200], steps=100, total=1000)
    assert (early.step, early.steps, early.fresh_steps) == (0, 100, 100)
    gone = choose_start([], [too_high(step=700)], [900], steps=100, total=1000)
    assert (gone.step, gone.steps) == (900, 100)
    assert "may not show it" in gone.reason
    sick = Vitals(step=80, signs=(("loss.rise", 2, 2.0, "sick", 80, ""),), rows=())
    assert choose_start([sick], [], [10, 20], steps=40, total=1000).steps == 100
    short = choose_start([], [], [20], steps=100, total=30)
    assert (short.step, short.steps) == (0, 30)
    assert "nothing says when" in short.reason


def fork(loss: float | None, *sick: str) -> Fork:
    signs = {id: Reading(1, 9.0, "sick") for id in sick}
    return Fork(
        seed=1, start=0, steps=9, loss=loss, unit="tokens", signs=signs, stopped="", seconds=1.0
    )


def trial(*pairs: tuple[Fork, Fork]) -> Trial:
    does = Fix(change="it", assignments=("seed=1",), reason="", source="", start="replay")
    return Trial(fix=does, codes=("OPT005",), pairs=pairs)


def test_fix_of_a_trial_has_its_name_of_0_1_too() -> None:
    one = trial((fork(3.0), fork(2.5)))
    with pytest.warns(FutureWarning, match=r"Trial\.fix"):
        assert one.prescription is one.fix


@pytest.mark.parametrize(
    ("verdict", "pairs"),
    [
        ("helped", [(fork(3.0), fork(2.5)), (fork(3.1), fork(2.6))]),
        ("harmed", [(fork(2.5), fork(3.0)), (fork(2.6), fork(3.1))]),
        # p = 0.02: it counts even if all pairs agree more or less
        ("helped", [(fork(3.0), fork(2.0)), (fork(3.0), fork(1.9)), (fork(3.0), fork(2.2))]),
        # p = 0.09
        ("no difference", [(fork(3.0), fork(2.0)), (fork(3.0), fork(2.7)), (fork(3.0), fork(2.2))]),
        # one pair disagrees
        ("no difference", [(fork(3.0), fork(2.0)), (fork(3.0), fork(3.01))]),
        # the spread is as large as the difference
        ("no difference", [(fork(3.0), fork(2.9)), (fork(3.0), fork(2.2))]),
        # less than a hundredth of the loss
        ("no difference", [(fork(3.0), fork(2.98)), (fork(3.0), fork(2.98))]),
        ("not finite", [(fork(3.0), fork(2.0)), (fork(3.0), fork(None))]),
        ("not finite", [(fork(None), fork(None)), (fork(None), fork(2.0))]),
        ("helped", [(fork(None), fork(3.0)), (fork(None), fork(3.0))]),
        ("helped", [(fork(3.0, "a"), fork(3.0)), (fork(3.0, "a"), fork(3.0))]),
        ("no difference", [(fork(3.0, "a"), fork(3.0)), (fork(3.0), fork(3.0))]),
        ("mixed", [(fork(3.0), fork(2.5, "b")), (fork(3.1), fork(2.6, "b"))]),
        ("harmed", [(fork(3.0), fork(3.0, "b")), (fork(3.0), fork(3.0, "b"))]),
    ],
)
def test_verdict_is_that_of_the_rule(verdict: str, pairs: list[tuple[Fork, Fork]]) -> None:
    assert trial(*pairs).verdict == verdict


def test_a_difference_counts_only_if_it_holds_among_all_fixes_that_were_tried() -> None:
    one = trial((fork(3.0), fork(2.0)), (fork(3.0), fork(1.9)), (fork(3.0), fork(2.5)))
    assert one.p == pytest.approx(0.0429, abs=1e-3)
    assert [each.verdict for each in correct([one])] == ["helped"]
    several = correct([one, one, one])
    assert several[0].p == pytest.approx(3 * 0.0429, abs=2e-3)
    assert [each.verdict for each in several] == ["no difference"] * 3


def test_no_difference_says_how_large_a_one_could_have_been_seen() -> None:
    one = trial((fork(3.0), fork(3.1)), (fork(3.0), fork(2.9)), (fork(3.0), fork(3.0)))
    assert one.detectable == pytest.approx(0.1 * 3.27, abs=0.01)
    text = Proof(run="r", trials=(one,)).text()
    assert "3 pairs with this spread show a difference of 0.33 nats per token in 4 of" in text
    assert "recommends none" in text


def test_of_fixes_that_help_alike_the_one_that_leaves_fewer_sick_is_best() -> None:
    lower = trial((fork(3.0, "a", "b"), fork(2.00, "a")), (fork(3.1, "a", "b"), fork(2.11, "a")))
    calm = trial((fork(3.0, "a", "b"), fork(2.01)), (fork(3.1, "a", "b"), fork(2.11)))
    worse = trial((fork(3.0, "a"), fork(2.5)), (fork(3.1, "a"), fork(2.6)))
    proof = Proof(run="r", trials=(lower, worse, calm))
    assert proof.best is calm


def test_what_changes_the_measure_is_not_tried(tmp_path: Path, hot: Path) -> None:
    findings = [build_finding("ATT004", ""), build_finding("DAT002", "")]
    proof = prove(hot, findings, steps=2, seeds=2)
    assert proof.trials == ()
    assert [each.change for each, _ in proof.untried] == [
        "no token sees into another document",
        "each document once",
    ]


@pytest.mark.parametrize("wrong", [{"seeds": 1}, {"steps": 0}, {"candidates": 0}])
def test_numbers_that_make_no_proof_are_refused(hot: Path, wrong: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match="must be at least"):
        prove(hot, [too_high()], **wrong)  # pyright: ignore[reportArgumentType]


def test_a_branch_goes_on_under_another_config_where_the_run_was(tmp_path: Path) -> None:
    run = trained_so(tmp_path / "run", "training.keep_checkpoints=9")
    before = content(run)
    settings = read_config(RunFolder(run))
    slower = apply_assignments(settings, ["optimiser.learning_rate=0.001"])
    made = branch(run / "checkpoints" / "step-8", slower, tmp_path / "slower")
    assert content(run) == before
    pellucid.resume(made, show=False)
    logged = [e for e in read_events(RunFolder(made).metrics) if isinstance(e, Logged)]
    assert logged[-1].step == 12
    assert logged[-1].learning_rate < 0.001
    assert read_config(RunFolder(made)) == slower
    other = replace(settings, text=replace(settings.text, tokenizer=config.Characters()))
    with pytest.raises(
        ConfigError, match="text: a run that continues under another config keeps its text"
    ):
        branch(run, other, tmp_path / "never")
    assert not os.path.exists(tmp_path / "never")
