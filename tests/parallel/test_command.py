"""`torchrun -m pellucid train`, as a user starts it: one voice, one folder, nothing lost."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pellucid.cli import main
from pellucid.runs import RunFolder, read_events
from pellucid.saved_runs.load import read_plan
from pellucid.training import Logged
from support.life import SMALL, pretrain, write_rows
from support.ranks import finish, free_port, start_rank, start_ranks
from support.tiny import ADAMW, TINY, flags_of, write_text

SETTINGS = (*TINY, "text.held_out=0.2", "training.batch_size=6", "training.accumulation=6")


#: The commands of a rank that fails alone: its store of data goes away after three updates, or its
#: disk before the evaluation after three updates.
_FAILING = {
    "the store is gone": """
import sys
from pellucid.cli import main
from pellucid.data.batches import WindowBatches
from pellucid.errors import TextError

own_rows = WindowBatches.own_rows

def rows_or_failure(self, position, n_rows, rows):
    if position >= 3 * 6:
        raise TextError("the store is gone")
    return own_rows(self, position, n_rows, rows)

WindowBatches.own_rows = rows_or_failure
sys.exit(main(sys.argv[1:]))
""",
    "the disk is gone": """
import sys
from pellucid.cli import main
from pellucid.errors import TextError
from pellucid.tasks import next_token

evaluate = next_token.evaluate_text
calls = []

def evaluate_or_failure(*args):
    calls.append(args)
    if len(calls) == 2:
        raise TextError("the disk is gone")
    return evaluate(*args)

next_token.evaluate_text = evaluate_or_failure
sys.exit(main(sys.argv[1:]))
""",
}

#: A reward that counts the answers it judges, and fails after the last of them.
_JUDGE = """
from pathlib import Path

def length(row, answer):
    with open("calls", "a", encoding="utf-8") as file:
        file.write(".")
    if Path("calls").stat().st_size > LAST:
        raise ValueError("the judge is gone")
    return float(len(answer) % 7)
"""


def words_of(folder: Path, *more: str, steps: int = 8) -> list[str]:
    """The words of a tiny training."""
    file = write_text(folder / "text")
    flags = flags_of(SETTINGS)
    return ["train", str(file), "--no-vitals", "--steps", str(steps), *flags, *more]


def losses(folder: Path) -> list[float]:
    events = read_events(RunFolder(folder).metrics)
    return [loss for event in events if isinstance(event, Logged) for loss in event.losses]


def train(folder: Path, size: int, *more: str) -> list[tuple[int, str, str]]:
    return finish(start_ranks(size, ["-m", "pellucid", *words_of(folder, *more)], folder))


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[tuple[int, str, str]]]:
    """A run of two ranks, and what they said."""
    folder = tmp_path_factory.mktemp("two")
    return folder / "run", train(folder, 2, "--out", str(folder / "run"))


@pytest.mark.nightly
def test_rank_0_speaks_and_the_curve_is_that_of_one_process(
    two: tuple[Path, list[tuple[int, str, str]]], tmp_path: Path
) -> None:
    run, ((code, printed, _), (other_code, other_out, other_err)) = two
    assert (code, other_code) == (0, 0)
    assert "what next" in printed
    assert "torchrun --nproc-per-node 2 -m pellucid train --resume" in printed
    assert (other_out, other_err) == ("", "")
    assert read_plan(RunFolder(run)).ranks == 2
    assert main(words_of(tmp_path, "--out", str(tmp_path / "one"))) == 0
    # Muon rounds to bfloat16 on its way, which makes more of the last digits
    assert losses(run) == pytest.approx(losses(tmp_path / "one"), abs=1e-3)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--set", "training.accumulation=1", "--set", "training.batch_size=7"), "are 6 and 8"),
        (("--set", "training.rows=1"), "unknown key 'rows'"),
    ],
)
def test_a_refusal_is_one_message_and_writes_nothing(
    tmp_path: Path, more: tuple[str, ...], message: str
) -> None:
    ends = train(tmp_path, 2, "--out", "run", *more)
    assert [code for code, _, _ in ends] == [2, 2]
    assert message in " ".join(ends[0][2].split())
    assert ends[1][1:] == ("", "")
    assert not (tmp_path / "run").exists()


@pytest.mark.nightly
def test_other_sizes_go_on_from_a_run_of_two(
    two: tuple[Path, list[tuple[int, str, str]]], capsys: pytest.CaptureFixture[str]
) -> None:
    run, _ = two
    assert main(["train", "--resume", str(run), "--steps", "12", "--no-vitals"]) == 2
    assert "plan.ranks: the run has 2, here is 1" in " ".join(capsys.readouterr().err.split())
    words = ["-m", "pellucid", "train", "--resume", str(run), "--steps", "12", "--allow-drift"]
    ends = finish(start_ranks(3, [*words, "--no-vitals"], run.parent))
    assert [code for code, _, _ in ends] == [0, 0, 0], ends
    assert len(losses(run)) == 12


def until(holds: Callable[[], bool], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("number", "code", "message"),
    [
        (signal.SIGKILL, 5, "rank 1 of 2 is gone (at update"),
        (signal.SIGTERM, 143, "the state is saved"),
    ],
)
def test_a_rank_that_ends_ends_all_and_nothing_is_lost(
    tmp_path: Path, number: signal.Signals, code: int, message: str
) -> None:
    words = words_of(tmp_path, "--out", "run", steps=4000)
    ranks = start_ranks(2, ["-m", "pellucid", *words], tmp_path)
    folder = RunFolder(tmp_path / "run")
    until(lambda: bool(folder.shelf.steps()))
    os.kill(ranks[1].pid, number)
    started = time.monotonic()
    ends = finish(ranks)
    assert time.monotonic() - started < 60
    assert ends[0][0] == code
    assert message in " ".join(ends[0][2].split())
    assert main(["train", "--resume", str(folder.path), "--allow-drift", "--steps", "8"]) in (0, 2)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("shard", "failure"),
    [("full", "the store is gone"), ("full", "the disk is gone"), ("none", "the disk is gone")],
)
def test_a_rank_that_fails_alone_stops_all_and_its_updates_are_saved(
    shard: str, failure: str, two: tuple[Path, list[tuple[int, str, str]]], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    settings = (f"parallel.shard={shard}", "training.evaluate_every=3")
    flags = flags_of(settings)
    words = words_of(tmp_path, "--out", str(run), *flags)
    variables = {"WORLD_SIZE": "2", "MASTER_PORT": str(free_port())}
    ranks = [
        start_rank(0, ["-m", "pellucid", *words], tmp_path, **variables),
        start_rank(1, ["-c", _FAILING[failure], *words], tmp_path, **variables),
    ]
    (code, _, error), (other_code, *other_output) = finish(ranks)
    assert (code, other_code) == (2, 2)
    assert f"rank 1 of 2: {failure}" in error
    assert other_output == ["", ""]
    assert (run / "checkpoints" / "step-3").is_dir()
    assert main(["train", "--resume", str(run), "--allow-drift", "--no-vitals"]) == 0
    # another test has made more updates of the first run
    assert losses(run) == pytest.approx(losses(two[0])[:8], abs=1e-3)


def learn_from_reward(
    size: int, run: Path, base: Path, *settings: str, steps: int
) -> list[tuple[int, str, str]]:
    """Train by the reward `judge.length` of the folder."""
    rows = write_rows(run.parent / "rows")
    all_settings = (*SMALL, *ADAMW, "objective.max_new_tokens=6", "objective.n_samples=2")
    all_settings += ("training.precision=float32", "training.accumulation=2", *settings)
    flags = flags_of(all_settings)
    words = ["train", str(rows), "--objective", "policy-gradient", "--from", str(base), *flags]
    words += ["--reward", "judge:length", "--steps", str(steps), "--out", str(run)]
    return finish(start_ranks(size, ["-m", "pellucid", *words], run.parent))


@pytest.mark.nightly
@pytest.mark.parametrize("shard", ["none", "full"])
def test_ranks_learn_from_one_reward_that_judges_each_answer_once(
    shard: str, tmp_path: Path
) -> None:
    (tmp_path / "judge.py").write_text(_JUDGE.replace("LAST", "1000"), encoding="utf-8")
    base, calls = pretrain(tmp_path / "base"), tmp_path / "calls"
    n_calls = []
    for size, settings in ((1, ()), (2, (f"parallel.shard={shard}",))):
        run = tmp_path / f"by-{size}"
        ends = learn_from_reward(size, run, base, *settings, steps=3)
        assert [code for code, _, _ in ends] == [0] * size, ends
        n_calls.append(len(calls.read_text(encoding="utf-8")))
        calls.unlink()
    assert losses(tmp_path / "by-2") == pytest.approx(losses(tmp_path / "by-1"), abs=1e-4)
    # whoever has whole weights times an update of 4 answers before the run
    assert n_calls[1] == n_calls[0] - (4 if shard == "full" else 0)


@pytest.mark.nightly
@pytest.mark.parametrize("shard", ["none", "full"])
def test_a_reward_that_fails_ends_all_ranks_with_one_message_and_their_updates_are_saved(
    shard: str, tmp_path: Path
) -> None:
    # an evaluation of 3 answers, three updates of 4, and one to time if a rank has all weights
    n_answers = 3 + 3 * 4 + (4 if shard == "none" else 0)
    (tmp_path / "judge.py").write_text(_JUDGE.replace("LAST", str(n_answers)), encoding="utf-8")
    base = pretrain(tmp_path / "base")
    ends = learn_from_reward(2, tmp_path / "run", base, f"parallel.shard={shard}", steps=6)
    assert [code for code, _, _ in ends] == [2, 2], ends
    assert "failed with ValueError: the judge is gone" in " ".join(ends[0][2].split())
    assert ends[1][1:] == ("", "")
    assert (tmp_path / "run" / "checkpoints" / "step-3").is_dir()
