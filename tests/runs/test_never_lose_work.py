"""Killed, stopped, damaged, shared: nothing saved is lost, and the rest is bit for bit the same."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import pellucid
from pellucid import config, runs
from pellucid.checkpoints import load
from pellucid.cli.main import main
from pellucid.errors import Interrupted, RunError
from pellucid.runs import RunFolder, read_events, verify_resume
from pellucid.runs.verify import resume_until
from pellucid.training import Logged, Resumed, StepFinished
from support.nightly import sampled
from support.tiny import TINY, train_tiny, write_text

TESTS = Path(__file__).parents[1]


def losses(folder: Path) -> list[float]:
    events = read_events(RunFolder(folder).metrics)
    return [loss for e in events if isinstance(e, Logged) for loss in e.losses]


def assert_same_end(one: Path, two: Path) -> None:
    ends = [load(RunFolder(folder).shelf.latest()) for folder in (one, two)]
    for state_name in ("model", "optimiser", "random"):
        left, right = (getattr(end, state_name) for end in ends)
        assert left.keys() == right.keys()
        assert all(torch.equal(left[k], right[k]) for k in left), state_name
    assert ends[0].state["progress"] == ends[1].state["progress"]
    assert losses(one) == losses(two)


def stop_at(step: int, folder: Path, settings: Sequence[str] = ()) -> None:
    """Start the tiny run and stop it after `step` updates, as Ctrl-C would."""

    def press(event: object) -> None:
        if isinstance(event, StepFinished) and event.step == step:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(Interrupted):
        train_tiny(folder, settings=settings, observers=[press])


@pytest.mark.parametrize("step", [1, 3, 4, 7, 11])
def test_stopped_and_resumed_equals_never_stopped(trained: Path, tmp_path: Path, step: int) -> None:
    stop_at(step, tmp_path / "run")
    assert RunFolder(tmp_path / "run").shelf.latest().name == f"step-{step}"
    runs.resume(tmp_path / "run", show=False)
    assert_same_end(trained, tmp_path / "run")


@pytest.mark.parametrize("step", [4, 5])
def test_an_observer_that_raises_costs_no_update(trained: Path, tmp_path: Path, step: int) -> None:
    def fail(event: object) -> None:
        if isinstance(event, StepFinished) and event.step == step:
            raise ZeroDivisionError("a mistake in an observer")

    with pytest.raises(ZeroDivisionError, match="a mistake"):
        train_tiny(tmp_path / "run", observers=[fail])
    assert RunFolder(tmp_path / "run").shelf.latest().name == f"step-{step}"
    runs.resume(tmp_path / "run", show=False)
    assert_same_end(trained, tmp_path / "run")


@pytest.mark.parametrize(
    "optimiser",
    [
        'optimiser={kind="AdamW", learning_rate=0.01, betas=[0.9, 0.95], eps=1e-8, '
        "weight_decay=0.1}",
        'optimiser={kind="Adam", learning_rate=0.01, betas=[0.9, 0.95], eps=1e-8, l2=0.1}',
        'optimiser={kind="SGD", learning_rate=0.1, momentum=0.9, l2=0.0}',
    ],
    ids=["AdamW", "Adam", "SGD"],
)
def test_every_optimiser_resumes_in_every_precision(tmp_path: Path, optimiser: str) -> None:
    settings = [optimiser, "training.precision=bfloat16"]
    train_tiny(tmp_path / "straight", settings=settings)
    train_tiny(tmp_path / "run", settings=settings)
    # go back to an older checkpoint, and do the rest again
    runs.resume(tmp_path / "run" / "checkpoints" / "step-8", show=False)
    assert_same_end(tmp_path / "straight", tmp_path / "run")


@pytest.mark.parametrize(
    ("growth", "position"),
    [
        ('{kind="GrowingBatch", first=2, until=0.75}', 9 * 2 + 3 * 4),
        ('{kind="GrowingLength", first=2, until=0.75}', 12 * 4),
    ],
)
def test_what_grows_is_taken_up_where_it_was(tmp_path: Path, growth: str, position: int) -> None:
    settings = [f"training.growth={growth}"]
    train_tiny(tmp_path / "straight", settings=settings)
    train_tiny(tmp_path / "run", settings=settings)
    runs.resume(tmp_path / "run" / "checkpoints" / "step-8", show=False)
    assert_same_end(tmp_path / "straight", tmp_path / "run")
    assert load(RunFolder(tmp_path / "run").shelf.latest()).state["position"] == position


#: In the second layer of two; its rate moves each bias at once.
BALANCED = (
    'model.decoder.feed_forward={kind="AlternatingFeedForward", layers=['
    '{kind="MLP", d_ff=32, activation="gelu", bias=false}, '
    '{kind="Experts", n_experts=4, n_active=2, '
    'expert={kind="MLP", d_ff=16, activation="gelu", bias=false}, '
    'router={scores="sigmoid", normalised=true, balancing_rate=0.05}}]}'
)


def test_the_bias_that_balances_experts_is_taken_up_where_it_was(tmp_path: Path) -> None:
    train_tiny(tmp_path / "straight", settings=[BALANCED])
    stop_at(5, tmp_path / "run", settings=[BALANCED])  # between two checkpoints
    shutil.copytree(tmp_path / "run", tmp_path / "forgetful")
    runs.resume(tmp_path / "run", show=False)
    assert_same_end(tmp_path / "straight", tmp_path / "run")
    # without the bias the resumed run ends elsewhere
    shelf = RunFolder(tmp_path / "forgetful").shelf
    stopped = load(shelf.latest())
    bias = "decoder.blocks.1.feed_forward.choice_bias"
    assert stopped.model[bias].count_nonzero() >= 2
    zeros = {**stopped.model, bias: torch.zeros(4)}
    shelf.save(5, replace(stopped, model=zeros), best=False, keep=5)
    runs.resume(tmp_path / "forgetful", show=False)
    with pytest.raises(AssertionError, match="model"):
        assert_same_end(tmp_path / "straight", tmp_path / "forgetful")


@pytest.mark.nightly
def test_a_run_with_balanced_experts_is_killed_and_ends_the_same(tmp_path: Path) -> None:
    train_tiny(tmp_path / "run", settings=[BALANCED])
    assert runs.verify_kills(tmp_path / "run", kills=1).is_equal


def test_a_run_stopped_before_its_first_checkpoint_starts_again(
    trained: Path, tmp_path: Path
) -> None:
    shutil.copytree(trained, tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "checkpoints")
    runs.resume(tmp_path / "run", show=False)
    assert_same_end(trained, tmp_path / "run")


def test_resuming_a_finished_run_changes_nothing(trained: Path, tmp_path: Path) -> None:
    shutil.copytree(trained, tmp_path / "run")
    runs.resume(tmp_path / "run", show=False)
    assert_same_end(trained, tmp_path / "run")


def test_a_metrics_line_cut_short_by_a_crash_is_no_obstacle(trained: Path, tmp_path: Path) -> None:
    shutil.copytree(trained, tmp_path / "run")
    metrics = RunFolder(tmp_path / "run").metrics
    content = metrics.read_bytes()
    metrics.write_bytes(content + b'{"event": "Logged", "step": 1')
    runs.resume(tmp_path / "run" / "checkpoints" / "step-8", show=False)
    assert_same_end(trained, tmp_path / "run")
    resumed = [e for e in read_events(metrics) if isinstance(e, Resumed)]
    assert [e.step for e in resumed] == [8]


@pytest.mark.parametrize("kills", sampled([5, 30], 2))
def test_killed_at_random_moments_the_end_is_the_same(tmp_path: Path, kills: int) -> None:
    environment = os.environ | {"PYTHONPATH": str(TESTS), "OMP_NUM_THREADS": "1"}

    def run(folder: str, kills: int) -> dict[str, int]:
        process = subprocess.run(
            [sys.executable, str(TESTS / "support" / "killer.py"), folder, str(kills), "1337"],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert process.returncode == 0, process.stdout + process.stderr
        return json.loads(process.stdout)

    assert run("killed", kills)["killed"] == kills
    run("straight", 0)
    assert_same_end(tmp_path / "straight", tmp_path / "killed")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_finishes_the_step_saves_and_says_how_to_resume(
    tmp_path: Path, number: signal.Signals
) -> None:
    settings = [word for assignment in TINY for word in ("--set", assignment)]
    process = subprocess.Popen(
        [sys.executable, "-m", "pellucid", "train", str(write_text(tmp_path)), "--out", "run",
         "--steps", "100000", *settings],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # a suite that runs in the background hands on that Ctrl-C is ignored, and so it stays
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),
    )  # fmt: skip
    metrics = tmp_path / "run" / "metrics.jsonl"
    deadline = time.monotonic() + 60
    while not (metrics.is_file() and "Logged" in metrics.read_text()):
        assert time.monotonic() < deadline, process.stderr and process.stderr.read()
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(number)
    printed, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + number, errors
    assert "pellucid train --resume run" in errors.replace("\n", " ")
    assert "Traceback" not in errors
    assert f"interrupted by {number.name}" in printed
    shelf = RunFolder(tmp_path / "run").shelf
    assert shelf.latest() == shelf.path(shelf.steps()[-1])


def test_signals_are_as_before_when_training_is_over(tmp_path: Path) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    train_tiny(tmp_path / "run", steps=1)
    assert [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)] == before


def test_verify_resume_proves_it_and_leaves_the_run_alone(trained: Path, tmp_path: Path) -> None:
    shutil.copytree(trained, tmp_path / "run")
    before = {f: f.read_bytes() for f in (tmp_path / "run").rglob("*") if f.is_file()}
    proof = verify_resume(tmp_path / "run", steps=4)
    assert proof.is_equal
    assert (proof.from_step, proof.stopped_at, proof.to_step) == (8, 10, 12)
    assert {f: f.read_bytes() for f in (tmp_path / "run").rglob("*") if f.is_file()} == before


@pytest.mark.parametrize("kills", [1, pytest.param(12, marks=pytest.mark.nightly)])
def test_kills_at_random_moments_are_told_one_by_one_and_change_nothing(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], kills: int
) -> None:
    shutil.copytree(trained, tmp_path / "run")
    before = {f: f.read_bytes() for f in (tmp_path / "run").rglob("*") if f.is_file()}
    words = ["verify-resume", str(tmp_path / "run"), "--kills", str(kills), "--seed", "3"]
    assert main(words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"from step 8 to 12, killed {kills} times at random moments (seed 3)"
    assert len([line for line in lines if line.startswith("kill ")]) == kills
    assert all(line.endswith("equal, bit for bit") for line in lines[1:-1])
    assert {f: f.read_bytes() for f in (tmp_path / "run").rglob("*") if f.is_file()} == before


def test_a_kill_that_costs_something_is_found_out(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # no child is started: the copy gets a checkpoint that the other one does not have
    from pellucid.runs import kills

    shutil.copytree(trained, tmp_path / "run")

    def run_child(
        path: Path, end: int, reward: str | None, kill: object = None
    ) -> kills._ChildReport:
        if kill is not None:
            shutil.copytree(RunFolder(path).shelf.path(8), RunFolder(path).shelf.path(9))
            RunFolder(path).shelf.rewind(RunFolder(path).shelf.path(9))
        digests = {9: "another", 12: "the end"}
        return kills._ChildReport(9, digests, (0.0, 1.0, 2.0, 3.0), killed=kill is not None)

    monkeypatch.setattr(kills, "_run_child", run_child)
    proof = runs.verify_kills(tmp_path / "run", kills=1)
    assert not proof.is_equal
    assert [kill.equal for kill in proof.kills] == [False]


def test_verify_resume_can_fail(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # a resume that forgets the optimiser's memory is found out
    shutil.copytree(trained, tmp_path / "run")

    def forgetful(path: Path, end: int, reward: str | None) -> None:
        if end == 12 and path.name == "stopped":
            folder = RunFolder(path)
            checkpoint = load(folder.shelf.latest())
            zeros = {k: t * 0 if t.ndim == 2 else t for k, t in checkpoint.optimiser.items()}
            step = checkpoint.state["progress"]["step"]
            folder.shelf.save(step, replace(checkpoint, optimiser=zeros), best=False, keep=5)
        resume_until(str(path), end, reward)

    monkeypatch.setattr("pellucid.runs.verify._in_process", forgetful)
    assert not verify_resume(tmp_path / "run", steps=4).is_equal


def test_a_run_in_use_is_locked_and_a_dead_owner_is_not_in_the_way(
    trained: Path, tmp_path: Path
) -> None:
    folder = RunFolder(tmp_path / "run")
    shutil.copytree(trained, folder.path)
    hold = (
        "import sys, time; from pathlib import Path; from pellucid.runs import RunFolder\n"
        "with RunFolder(Path(sys.argv[1])).locked():\n"
        "    print('held', flush=True); time.sleep(60)"
    )
    owner = subprocess.Popen(
        [sys.executable, "-c", hold, str(folder.path)], stdout=subprocess.PIPE, text=True
    )
    assert owner.stdout is not None
    assert owner.stdout.readline() == "held\n"
    assert folder.is_held()
    with pytest.raises(RunError, match=f"in use by process {owner.pid}"):
        runs.resume(folder.path, show=False)
    owner.kill()
    owner.communicate()
    assert not folder.is_held()
    runs.resume(folder.path, show=False)


def test_default_folders_never_collide(tmp_path: Path) -> None:
    from pellucid.saved_runs.folder import preparing

    with ExitStack() as stack:
        folders = [
            stack.enter_context(preparing(name="nano", parent=tmp_path / "runs")) for _ in range(20)
        ]
        assert len({folder.path for folder, _ in folders}) == 20
        assert len({work.path for _, work in folders}) == 20
    assert len([*(tmp_path / "runs").iterdir()]) == 20


@pytest.mark.parametrize(("name", "value"), [("torch_version", "1.0"), ("device_name", "abacus")])
def test_another_machine_is_refused_by_name_unless_allowed(
    trained: Path, tmp_path: Path, name: str, value: str
) -> None:
    folder = RunFolder(tmp_path / "run")
    shutil.copytree(trained, folder.path)
    plan = json.loads(folder.plan.read_text()) | {name: value}
    folder.plan.write_text(json.dumps(plan))
    with pytest.raises(RunError, match=rf"plan\.{name}.*{value}.*--allow-drift"):
        runs.resume(folder.path, show=False)
    runs.resume(folder.path, show=False, allow_drift=True)


def test_resume_reuses_the_plan(trained: Path, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    shutil.copytree(trained, folder.path)
    before = torch.get_num_threads()
    plan = json.loads(folder.plan.read_text()) | {"threads": 1}
    folder.plan.write_text(json.dumps(plan))
    torch.set_num_threads(2)
    try:
        runs.resume(folder.path, show=False, allow_drift=True)  # the plan was another, perhaps
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)


def test_a_checkpoint_says_all_that_decides_the_run(trained: Path) -> None:
    state = load(RunFolder(trained).shelf.latest()).state
    run = config.decode(config.Run, state["config"])
    assert run.seed == 1337
    assert config.decode(config.Plan, state["plan"]).total_steps == 12
    assert state["pellucid"] == pellucid.__version__
    assert state["position"] == 12 * run.training.batch_size
    assert set(state["generators"]) == {"python", "numpy"}


def test_a_run_that_cannot_be_prepared_leaves_no_folder(tmp_path: Path) -> None:
    with pytest.raises(pellucid.TextError, match="fewer than one context"):
        train_tiny(tmp_path / "run", settings=["model.context_length=5000"])
    assert not (tmp_path / "run").exists()
