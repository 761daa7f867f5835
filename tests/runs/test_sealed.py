"""A run is sealed: what departs from it is refused or recorded, what a crash left is mended."""

from __future__ import annotations

import hashlib
import json
import random
import re
import shutil
import tomllib
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tomli_w
import torch

import pellucid
from pellucid import runs
from pellucid.batches import TokenBatch
from pellucid.checkpoints import load, save
from pellucid.cli.main import main
from pellucid.errors import CheckpointError, ConfigError, RunError
from pellucid.json_text import json_text
from pellucid.old_names import OldNameWarning
from pellucid.runs import RunFolder, read_events
from pellucid.runs.resume_point import find_place
from pellucid.saved_runs.records import cut_after
from pellucid.training import (
    CheckpointSaved,
    Drifted,
    Evaluated,
    Event,
    Finished,
    Job,
    Noticed,
    Resumed,
    Sampled,
    Vitals,
)
from support.tiny import TINY, train_tiny, write_text


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> RunFolder:
    """A copy of a finished run, gone back to step 8 of 12."""
    shutil.copytree(trained, tmp_path / "run")
    folder = RunFolder(tmp_path / "run")
    shutil.rmtree(folder.shelf.path(12))
    folder.shelf.rewind(folder.shelf.path(8))
    return folder


def resume(folder: RunFolder, **choices: object) -> list[Event]:
    """What the resumed run records, from `Resumed` on."""
    runs.resume(folder.path, show=False, **choices)  # pyright: ignore[reportArgumentType]
    events = read_events(folder.metrics)
    last = max(i for i, event in enumerate(events) if isinstance(event, Resumed))
    return events[last:]


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def texts(events: list[Event]) -> list[str]:
    return [event.text for event in events if isinstance(event, Noticed)]


def test_every_key_that_departs_is_named_with_both_values(run: RunFolder) -> None:
    edit(run.config, "batch_size = 4", "batch_size = 2")
    edit(run.config, "seed = 1337", "seed = 7")
    edit(run.plan, '"precision": "float32"', '"precision": "bfloat16"')
    before = run.metrics.read_bytes()
    with pytest.raises(RunError) as refusal:
        runs.resume(run.path, show=False)
    message = str(refusal.value)
    assert "training.batch_size: the run has 4, here is 2" in message
    assert "seed: the run has 1337, here is 7" in message
    assert "plan.precision: the run has 'float32', here is 'bfloat16'" in message
    assert "--allow-drift" in message
    assert run.metrics.read_bytes() == before


def test_a_change_of_kind_names_what_came_and_what_went(run: RunFolder) -> None:
    new = {"kind": "SGD", "learning_rate": 0.1, "momentum": 0.9, "l2": 0.0}
    table = tomllib.loads(run.config.read_text()) | {"optimiser": new}
    run.config.write_text(tomli_w.dumps(table))
    with pytest.raises(RunError, match=r"optimiser\.kind: .*'SGD'.*optimiser\.l2: .*nothing"):
        runs.resume(run.path, show=False)


def test_a_file_that_was_only_written_anew_is_no_change(run: RunFolder) -> None:
    run.config.write_text("# mine\n" + run.config.read_text().replace(" = ", "   =  "))
    run.plan.write_text(json.dumps(dict(reversed(json.loads(run.plan.read_text()).items()))))
    assert not any(isinstance(event, Drifted) for event in resume(run))


def test_an_allowed_change_is_recorded_shown_and_not_asked_for_again(
    run: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    edit(run.config, "final = 0.0", "final = 0.5")
    assert main(["train", "--resume", str(run.path), "--no-vitals"]) == 2
    capsys.readouterr()
    assert main(["train", "--resume", str(run.path), "--no-vitals", "--allow-drift"]) == 0
    printed = capsys.readouterr().out
    assert "from step 8 on, changed: schedule.final is 0.5, was 0.0" in printed
    drift = Drifted(step=8, changes=(("schedule.final", "0.0", "0.5"),))
    assert [e for e in read_events(run.metrics) if isinstance(e, Drifted)] == [drift]
    for path in (run.path, run.shelf.path(8)):  # after the change, and where it was allowed
        runs.resume(path, show=False)
    assert [e for e in read_events(run.metrics) if isinstance(e, Drifted)] == [drift]
    edit(run.config, "final = 0.5", "final = 0.25")
    with pytest.raises(RunError, match=r"since step-12.*schedule\.final: the run has 0\.5"):
        runs.resume(run.path, show=False)


@pytest.mark.parametrize(
    "optimiser",
    [
        {"kind": "SGD", "learning_rate": 0.1, "momentum": 0.9, "l2": 0.0},
        {"kind": "AdamW", "learning_rate": 0.1, "betas": [0.9, 0.9], "eps": 1e-8,
         "weight_decay": 0.1},
    ],
    ids=lambda table: table["kind"],
)  # fmt: skip
def test_another_optimiser_begins_without_a_memory_and_that_is_said(
    run: RunFolder, optimiser: dict[str, object]
) -> None:
    table = tomllib.loads(run.config.read_text()) | {"optimiser": optimiser}
    run.config.write_text(tomli_w.dumps(table))
    (line,) = texts(resume(run, allow_drift=True))
    assert "starts without a memory of earlier updates" in line
    names = {name.partition("::")[2] for name in load(run.shelf.latest()).optimiser}
    assert names <= {"momentum_buffer", "step", "exp_avg", "exp_avg_sq"}
    assert texts(resume(run, steps=14)) == []  # which it has by now


def test_a_run_without_a_checkpoint_is_sealed_too(run: RunFolder) -> None:
    shutil.rmtree(run.shelf.folder)
    edit(run.config, "batch_size = 4", "batch_size = 2")
    with pytest.raises(RunError, match=r"since the start: training\.batch_size"):
        runs.resume(run.path, show=False)


def test_steps_make_a_run_longer_and_shorter_without_more_words(run: RunFolder) -> None:
    events = resume(run, steps=14)
    assert events[-1].step == 14
    assert Drifted(step=8, changes=(("plan.total_steps", "12", "14"),)) in events
    assert main(["train", "--resume", str(run.path), "--steps", "16", "--no-vitals"]) == 0
    assert run.shelf.latest().name == "step-16"
    with pytest.raises(ConfigError, match=r"--steps 5: the run has done 16 updates"):
        runs.resume(run.path, steps=5, show=False)


@pytest.mark.parametrize(
    "kind", ["GrowingBatch", pytest.param("GrowingLength", marks=pytest.mark.nightly)]
)
def test_a_longer_run_goes_on_growing_as_it_was_planned(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places: list[tuple[int, int, object]] = []
    batch_of = Job.batch_of

    def note(job: Job, step: int) -> object:
        batch = batch_of(job, step)
        assert isinstance(batch, TokenBatch)
        places.append((step, job.rows_before(step), tuple(batch.ids.shape)))
        return batch

    monkeypatch.setattr(Job, "batch_of", note)
    first = {"GrowingBatch": 2, "GrowingLength": 4}[kind]
    growth = f'training.growth={{kind="{kind}", first={first}, until=0.75}}'
    train_tiny(tmp_path / "run", settings=[growth])
    planned = places.copy()
    folder = RunFolder(tmp_path / "run")
    runs.resume(folder.shelf.path(8), steps=14, show=False)
    assert places[12:16] == planned[8:12]
    assert [shape for _, _, shape in places[16:]] == [planned[-1][2]] * 2
    (line,) = texts(read_events(folder.metrics))
    assert line == "batch or rows grow as planned, for 12 updates"
    runs.resume(folder.path, steps=15, show=False)
    assert places[-1][0] == 14
    edit(folder.plan, '"growth_steps": 12', '"growth_steps": 9')
    with pytest.raises(RunError, match=r"plan\.growth_steps: the run has 12, here is 9"):
        runs.resume(folder.path, show=False)


def test_a_length_edited_by_hand_is_refused_with_the_flag_for_it(run: RunFolder) -> None:
    edit(run.plan, '"total_steps": 12', '"total_steps": 14')
    with pytest.raises(RunError, match=r"plan\.total_steps.*pass --steps N to train longer"):
        runs.resume(run.path, show=False)


def test_runs_of_the_first_version_resume_with_one_line(run: RunFolder) -> None:
    path = run.shelf.path(8)
    checkpoint = load(path)
    state = {
        key: value for key, value in checkpoint.state.items() if key not in ("seal", "generators")
    }
    shutil.rmtree(path)
    save(path, type(checkpoint)(checkpoint.model, checkpoint.optimiser, checkpoint.random, state))
    edit(run.config, "keep_checkpoints = 2", "keep_checkpoints = 5")
    (line,) = texts(resume(run))
    assert "without digests" in line


@pytest.mark.parametrize(
    ("tail", "words"),
    [
        (b'{"event": "Logged", "step": 1', "cut short by a crash: its 29 bytes"),
        (b"\0" * 4096, "ended in 4,096 zero bytes"),
        (b'{"event": "Log\xc3' + b"\0" * 7, "its 22 bytes, 7 of them zero"),
        (b'{"event": "Lo' + b"\0" * 7 + b"\n", "its 20 bytes, 7 of them zero"),
    ],
    ids=["torn", "zeros", "both", "zeros and a line"],
)
def test_what_a_crash_left_of_a_line_is_cut_off_and_said(
    run: RunFolder, tail: bytes, words: str
) -> None:
    events = read_events(run.metrics)
    run.metrics.write_bytes(run.metrics.read_bytes() + tail)
    assert read_events(run.metrics) == events  # whoever reads it meanwhile
    (line,) = cut_after(run.metrics, 12)
    assert words in line
    assert read_events(run.metrics) == events
    assert run.metrics.read_bytes().endswith(b"}\n")
    assert cut_after(run.metrics, 12) == []


def test_what_was_cut_off_is_shown_when_the_run_goes_on(run: RunFolder) -> None:
    run.metrics.write_bytes(run.metrics.read_bytes() + b'{"event": "Log\xc3' + b"\0" * 7)
    (line,) = texts(resume(run))
    assert "its 22 bytes, 7 of them zero" in line
    assert b"\0" not in run.metrics.read_bytes()


def test_a_last_line_that_lacks_only_its_end_is_kept(run: RunFolder) -> None:
    run.metrics.write_bytes(run.metrics.read_bytes().removesuffix(b"\n"))
    assert texts(resume(run)) == []


def test_a_gap_in_the_steps_is_said_once(run: RunFolder) -> None:
    lines = run.metrics.read_text().splitlines(keepends=True)
    first = [line for line in lines if '"Logged"' in line][1]
    run.metrics.write_text("".join(line for line in lines if line != first))
    assert texts(resume(run)) == ["metrics.jsonl holds nothing of update 4"]
    runs.resume(run.shelf.path(8), show=False)
    assert len(texts(read_events(run.metrics))) == 1


def recorded(folder: RunFolder) -> list[tuple[str, int]]:
    """The events that a run has however often it is stopped, sorted.

    A thread writes a checkpoint, so its line may come before or after the next update's.
    """
    replayed = [e for e in read_events(folder.metrics) if not isinstance(e, Resumed | Vitals)]
    return sorted((type(event).__name__, event.step) for event in replayed)


def test_no_event_is_recorded_twice(trained: Path, run: RunFolder) -> None:
    all_events = recorded(RunFolder(trained))
    resume(run)
    assert recorded(run) == all_events
    shutil.rmtree(run.shelf.folder)
    resume(run)  # from the start, where step 0 is judged again
    assert recorded(run) == all_events
    starts = [e for e in read_events(run.metrics) if e.step == 0]
    assert len([e for e in starts if isinstance(e, Evaluated | Sampled)]) == 2


def test_a_finished_run_that_is_resumed_records_nothing(trained: Path, tmp_path: Path) -> None:
    shutil.copytree(trained, tmp_path / "run")
    metrics = RunFolder(tmp_path / "run").metrics
    events: list[Event] = []
    runs.resume(tmp_path / "run", show=False, observers=[events.append])
    assert metrics.read_bytes() == RunFolder(trained).metrics.read_bytes()
    assert [type(event) for event in events] == [Resumed, Finished]


def test_a_checkpoint_whose_line_was_lost_is_recorded(run: RunFolder) -> None:
    lines = run.metrics.read_text().splitlines(keepends=True)
    kept_lines = [li for li in lines if not ('"CheckpointSaved"' in li and '"step": 8,' in li)]
    run.metrics.write_text("".join(kept_lines))
    resume(run)
    steps = [e.step for e in read_events(run.metrics) if isinstance(e, CheckpointSaved)]
    assert steps == [4, 8, 12]


def test_the_record_is_on_disk_before_the_checkpoint_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os

    synced: list[tuple[int, int]] = []
    fsync = os.fsync

    def note(descriptor: int) -> None:
        synced.append((os.fstat(descriptor).st_ino, os.fstat(descriptor).st_size))
        fsync(descriptor)

    monkeypatch.setattr("os.fsync", note)
    train_tiny(tmp_path / "run", steps=4)
    folder = RunFolder(tmp_path / "run")
    lines = folder.metrics.read_bytes().splitlines(keepends=True)
    saved = next(i for i, line in enumerate(lines) if b"CheckpointSaved" in line)
    before, after = (sum(map(len, lines[:n])) for n in (saved, saved + 1))
    inode = folder.metrics.stat().st_ino
    weights = (folder.shelf.path(4) / "model.safetensors").stat()
    assert synced.index((inode, before)) < synced.index((weights.st_ino, weights.st_size))
    assert (inode, after) in synced


def test_a_damaged_newest_checkpoint_costs_its_steps_and_no_more(
    trained: Path, tmp_path: Path
) -> None:
    shutil.copytree(trained, tmp_path / "run")
    folder = RunFolder(tmp_path / "run")
    file = folder.shelf.path(12) / "optimiser.safetensors"
    file.write_bytes(file.read_bytes()[:-1])
    events = resume(folder)
    (line,) = texts(events)
    assert line.startswith("step-12 is left out (")
    assert "optimiser.safetensors is damaged" in line
    assert line.endswith("continues from step-8, and repeats 4 steps")
    ends = [load(RunFolder(place).shelf.latest()) for place in (trained, folder.path)]
    assert all(torch.equal(ends[0].model[k], ends[1].model[k]) for k in ends[0].model)
    for step in folder.shelf.steps():
        (folder.shelf.path(step) / "state.json").write_text("{}")
    with pytest.raises(CheckpointError, match="no other checkpoint is intact"):
        runs.resume(folder.path, show=False)


def write_anew(path: Path, **parts: object) -> None:
    """Save a checkpoint again with other parts, under checksums that fit."""
    checkpoint = load(path)
    checkpoint = replace(checkpoint, **{name: deepcopy(part) for name, part in parts.items()})
    shutil.rmtree(path)
    save(path, checkpoint)


#: Possible faults in a state whose checksum is right: key, value, and the message.
WRONG_STATES = {
    "a step that is another's": (("progress", "step"), 7, "progress.step is 7"),
    "a step that is none": (("progress", "step"), -1, "step must be at least 0"),
    "no progress": (("progress",), {}, "progress"),
    "generators that are none": (("generators", "python"), [3, [1], None], "generators"),
    "a config of another run": (("config", "seed"), 5, "its config or its plan"),
}


@pytest.mark.parametrize("case", WRONG_STATES)
def test_a_state_that_says_what_cannot_be_is_left_out_though_its_checksum_fits(
    case: str, trained: Path, tmp_path: Path
) -> None:
    shutil.copytree(trained, tmp_path / "run")
    folder = RunFolder(tmp_path / "run")
    keys, value, words = WRONG_STATES[case]
    state = table = deepcopy(dict(load(folder.shelf.path(12)).state))
    for key in keys[:-1]:
        table = table[key]
    table[keys[-1]] = value
    write_anew(folder.shelf.path(12), state=state)
    place = find_place(folder, None)
    assert place.name == "step-8"
    (line,) = place.notices
    assert line.startswith("step-12 is left out (")
    assert words in line
    assert line.endswith("continues from step-8, and repeats 4 steps")
    with pytest.raises(CheckpointError, match=words):
        find_place(folder, folder.shelf.path(12))


@pytest.mark.parametrize(
    ("tensor", "words"),
    [
        (torch.zeros(3, 5), r"is \(3, 5\) of torch.float32, expected \(16, 16\)"),
        (
            torch.zeros(16, 16).int(),
            r"is \(16, 16\) of torch.int32, expected \(16, 16\) of",
        ),
    ],
)
def test_a_memory_of_another_shape_or_type_is_refused_by_name_and_both(
    run: RunFolder, tensor: torch.Tensor, words: str
) -> None:
    path = run.shelf.path(8)
    memory = dict(load(path).optimiser)
    name = next(name for name in memory if memory[name].shape == (16, 16))
    write_anew(path, optimiser=memory | {name: tensor})
    with pytest.raises(CheckpointError, match=f"{re.escape(name)} {words}"):
        runs.resume(path, show=False)
    write_anew(path, optimiser=memory | {name.replace("::", "::other_"): tensor})
    with pytest.raises(CheckpointError, match=r"has .*other_.*, expected .*of another optimiser"):
        runs.resume(path, show=False)


def test_weights_of_another_type_are_refused_by_name(run: RunFolder) -> None:
    path = run.shelf.path(8)
    weights = dict(load(path).model)
    name = next(iter(weights))
    write_anew(path, model=weights | {name: weights[name].int()})
    with pytest.raises(CheckpointError, match=rf"{re.escape(name)} is of torch\.int32, expected"):
        runs.load(path)


@pytest.mark.parametrize("name", ["../../other", "/etc", "step-8/..", ".", "step-08", "outside"])
@pytest.mark.parametrize("mark", ["latest", "best"])
def test_latest_and_best_name_a_folder_of_this_run_alone(
    run: RunFolder, tmp_path: Path, mark: str, name: str
) -> None:
    shutil.copytree(run.shelf.path(8), tmp_path / "elsewhere")
    if name == "outside":
        name = "step-99"
        (run.shelf.folder / name).symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    (run.shelf.folder / mark).write_text(name)
    with pytest.raises(CheckpointError, match="is not a checkpoint of this run"):
        run.shelf.latest() if mark == "latest" else run.shelf.best()
    if mark == "latest":
        with pytest.raises(CheckpointError, match="is not a checkpoint of this run"):
            runs.resume(run.path, show=False)
    assert 99 not in run.shelf.steps()


@pytest.mark.parametrize("gone", ["step-*", "step-*/checkpoint.json"])
def test_a_run_whose_checkpoints_are_gone_does_not_silently_begin_again(
    run: RunFolder, gone: str
) -> None:
    for path in run.shelf.folder.glob(gone):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    record = run.metrics.read_bytes()
    with pytest.raises(CheckpointError, match=r"step-8 .*no other checkpoint is intact"):
        runs.resume(run.path, show=False)
    assert run.metrics.read_bytes() == record


@pytest.mark.parametrize("name", ["step-99", "mine"])
def test_a_link_to_itself_among_checkpoints_is_none(run: RunFolder, name: str) -> None:
    (run.shelf.folder / name).symlink_to(name)
    assert run.shelf.steps()[-1] == 8
    assert runs.resume(run.path, steps=9, show=False).checkpoint.name == "step-9"


@pytest.mark.parametrize("content", [b"", b"\0\0\0\0", b"\n"])
def test_a_mark_that_a_crash_emptied_stands_for_the_newest(run: RunFolder, content: bytes) -> None:
    (run.shelf.folder / "latest").write_bytes(content)
    assert run.shelf.latest() == run.shelf.path(8)


@pytest.mark.parametrize(
    "content",
    [
        b'{"8": {"upd',
        *(pytest.param(x, marks=pytest.mark.nightly) for x in (b"[]", b'{"8": 3}', b"\xff\0")),
    ],
)
def test_damaged_windows_of_vital_signs_never_stop_a_resume(
    run: RunFolder, content: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    (run.path / "vitals.json").write_bytes(content)
    assert main(["train", "--resume", str(run.path)]) == 0
    assert capsys.readouterr().out.count("note: vitals.json cannot be read") == 1


def draw_while_judging(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Code of the user's that draws from Python's and NumPy's generators in every update."""
    draws: list[float] = []
    batch_of = Job.batch_of

    def judged(job: Job, step: int) -> object:
        draws.append(random.random() + float(np.random.rand()))
        return batch_of(job, step)

    monkeypatch.setattr(Job, "batch_of", judged)
    return draws


def test_what_code_of_the_users_draws_is_the_same_after_a_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draws = draw_while_judging(monkeypatch)
    train_tiny(tmp_path / "run", steps=6)
    straight = draws.copy()
    assert len(set(straight)) == 6
    runs.resume(tmp_path / "run" / "checkpoints" / "step-4", show=False)
    assert draws[6:] == straight[4:]
    draws.clear()
    random.seed(3)
    np.random.seed(3)
    train_tiny(tmp_path / "again", steps=2)  # whatever was drawn before
    assert draws == straight[:2]


def test_training_leaves_the_callers_generators_as_they_were(tmp_path: Path) -> None:
    def draw() -> tuple[float, float, float]:
        return random.random(), float(np.random.rand()), float(torch.rand(()))

    def begin() -> None:
        random.seed(1)
        np.random.seed(1)
        torch.default_generator.manual_seed(1)

    begin()
    expected = draw()
    begin()
    train_tiny(tmp_path / "run", steps=1)
    assert draw() == expected
    begin()
    runs.resume(tmp_path / "run", steps=2, show=False)
    assert draw() == expected


@pytest.mark.parametrize("sealed", [True, False], ids=["early 0.2", "0.1"])
def test_a_run_with_the_names_of_0_1_resumes_bit_for_bit_and_unedited(
    tmp_path: Path, sealed: bool
) -> None:
    settings = [text.replace(".decoder.", ".encoder.") for text in TINY]
    file = write_text(tmp_path / "text")
    run_path = tmp_path / "run"
    pellucid.train(
        [file], objective="mlm", out=run_path, steps=8, settings=[*settings, "text.held_out=0.2"],
        show=False,
    )  # fmt: skip
    folder = RunFolder(run_path)
    straight = (folder.shelf.path(8) / "model.safetensors").read_bytes()
    shutil.rmtree(folder.shelf.path(8))
    folder.shelf.rewind(folder.shelf.path(4))
    _as_format_1(folder, sealed=sealed)
    with pytest.warns(OldNameWarning, match="kind MaskedTokens is MLM now"):
        events = resume(folder)
    assert not any(isinstance(event, Drifted) for event in events)
    assert (folder.shelf.path(8) / "model.safetensors").read_bytes() == straight
    assert json.loads((folder.shelf.path(8) / "checkpoint.json").read_text())["format"] == 2
    with pytest.warns(OldNameWarning):
        assert resume(folder, steps=10)


def _as_format_1(folder: RunFolder, *, sealed: bool) -> None:
    """The run as it was before objectives had their names of today."""
    edit(folder.config, "format = 2", "format = 1")
    edit(folder.config, '"MLM"', '"MaskedTokens"')
    edit(folder.text / "text.json", '"format": 2', '"format": 1')
    place = folder.shelf.path(4)
    state = json.loads((place / "state.json").read_text())
    if sealed:
        state["config"]["objective"]["kind"] = "MaskedTokens"
        text = json_text(state["config"], sort_keys=True)
        state["seal"]["config"] = hashlib.sha256(text.encode()).hexdigest()
    else:
        del state["seal"]
    (place / "state.json").write_text(json_text(state, indent=1))
    manifest = json.loads((place / "checkpoint.json").read_text()) | {"format": 1}
    manifest["sha256"]["state.json"] = hashlib.sha256(
        (place / "state.json").read_bytes()
    ).hexdigest()
    (place / "checkpoint.json").write_text(json_text(manifest))
    edit(folder.metrics, '\\"MLM\\"', '\\"MaskedTokens\\"')
