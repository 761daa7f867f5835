"""Other people's tools get the run's own numbers, only where asked, and change nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import pellucid
from pellucid.cli import main
from pellucid.cli.main import parser
from pellucid.errors import ConfigError, RunError
from pellucid.observers import OBSERVERS, TensorBoard, observer_for
from pellucid.observers.metrics import numbers_of
from pellucid.runs import read_events
from pellucid.training import events
from support.events import PAIRS, STARTED, WHOLE, logged, logged_pairs
from support.tiny import train_tiny

Found = dict[str, dict[int, float]]


def recorded(run: Path) -> Found:
    """What metrics.jsonl says, by name and step."""
    found: Found = {}
    for event in read_events(run / "metrics.jsonl"):
        for step, numbers in numbers_of(event):
            for name, value in numbers.items():
                found.setdefault(name, {})[step] = value
    return found


def in_a_new_process(script: str, *arguments: str, **environment: str) -> str:
    """What a script of ours prints on a machine where nothing answers."""
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        capture_output=True,
        text=True,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(
                [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
            ),
            **environment,
        },
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_update_has_its_own_numbers_and_the_last_one_the_report() -> None:
    steps = list(numbers_of(logged(20)))
    assert [step for step, _ in steps] == list(range(11, 21))
    assert [numbers["train/loss_nats"] for _, numbers in steps] == [4.5] * 5 + [3.5] * 5
    assert "train/learning_rate" not in steps[0][1]
    assert steps[-1][1]["train/tokens_per_second"] == 41_234.0
    assert sum(len(list(numbers_of(event))) for event in WHOLE) == 21


def test_parts_and_measures_go_by_their_own_names_and_counts_by_their_unit() -> None:
    _, last = list(numbers_of(logged_pairs(20)))[-1]
    assert last["train/chosen_reward"] == -0.125
    assert last["train/my_own"] == 3.0
    assert last["train/pairs"] == 8192 * 20
    ((_, held_out),) = numbers_of(PAIRS)
    assert held_out == {
        "held_out/loss_nats": 0.6012,
        "held_out/margin": 0.4321,
        "held_out/preference_accuracy": 0.7333,
        "held_out/kl_k3": 0.0123,
    }


@pytest.mark.parametrize("name", OBSERVERS)
def test_a_package_that_is_missing_is_said_before_anything_is_read(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for module in ("torch.utils.tensorboard", "tensorboard", "wandb"):
        monkeypatch.setitem(sys.modules, module, None)
    assert main(["train", "/no/such/text", "--observe", name]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert f"pip install '.[{name}]'" in said
    assert "/no/such/text" not in said


def test_the_command_offers_the_observers_there_are() -> None:
    for name in OBSERVERS:
        assert parser().parse_args(["train", "--observe", name]).observe == [name]
    with pytest.raises(ConfigError, match="there are: tensorboard, wandb"):
        observer_for("tensorbord")


def test_no_such_package_is_loaded_where_none_is_asked_for() -> None:
    script = """if True:
        import sys, pellucid.cli.main, pellucid.runs, pellucid.observers
        print({"tensorboard", "wandb", "torch.utils.tensorboard"} & set(sys.modules))
    """
    assert in_a_new_process(script).strip() == "set()"


# -- TensorBoard


@pytest.fixture(scope="module")
def tensorboard() -> Any:
    """The reader of event files; its own imports warn, and that is not ours to mend."""
    return pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator",
        reason="the package tensorboard is not installed: pip install -e '.[tensorboard]'",
    )


def told(reader: Any, folder: Path) -> Found:
    """What TensorBoard shows of a folder, by name and step."""
    accumulator = reader.EventAccumulator(str(folder), size_guidance={"scalars": 0})
    accumulator.Reload()
    return {
        name: {scalar.step: scalar.value for scalar in accumulator.Scalars(name)}
        for name in accumulator.Tags()["scalars"]
    }


def test_tensorboard_shows_the_numbers_of_the_run_and_changes_no_bit_of_it(
    tensorboard: Any, trained: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    train_tiny(run, observers=[TensorBoard()])
    shown, expected = told(tensorboard, run / "tensorboard"), recorded(run)
    assert shown.keys() == expected.keys()
    for name, values in expected.items():
        assert shown[name] == pytest.approx(values, rel=1e-6)
    weights = "checkpoints/step-12/model.safetensors"
    assert (run / weights).read_bytes() == (trained / weights).read_bytes()


def test_tensorboard_forgets_what_a_resumed_run_will_do_again(
    tensorboard: Any, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    train_tiny(run, observers=[TensorBoard()])
    first = told(tensorboard, run / "tensorboard")["train/loss_nats"]
    pellucid.resume(run / "checkpoints" / "step-8", observers=[TensorBoard()], show=False)
    again = told(tensorboard, run / "tensorboard")["train/loss_nats"]
    assert again == first
    assert sorted(again) == list(range(1, 13))


def test_an_observer_without_a_folder_is_refused(tensorboard: Any) -> None:
    with pytest.raises(RunError, match="pass a folder to the observer"):
        TensorBoard()(STARTED)


# -- Weights & Biases


def test_wandb_offline_keeps_the_numbers_of_the_run_under_one_id(tmp_path: Path) -> None:
    pytest.importorskip(
        "wandb", reason="the package wandb is not installed: pip install -e '.[wandb]'"
    )
    script = """if True:
        import json, sys
        from pathlib import Path
        import pellucid
        from pellucid.observers import WeightsAndBiases
        from support.tiny import train_tiny
        from wandb.proto import wandb_internal_pb2

        def records(content):  # LevelDB's log: blocks of 32 kB, records cut at their ends
            place, whole = 7, b""
            while place + 7 <= len(content):
                if 32768 - place % 32768 < 7:
                    place += 32768 - place % 32768
                    continue
                length = int.from_bytes(content[place + 4 : place + 6], "little")
                kind = content[place + 6]
                whole += content[place + 7 : place + 7 + length]
                place += 7 + length
                if kind in (1, 4):
                    yield whole
                    whole = b""

        run = Path(sys.argv[1])
        train_tiny(run, observers=[WeightsAndBiases()])
        before = set(run.glob("wandb/offline-run-*/*.wandb"))
        pellucid.resume(run / "checkpoints" / "step-8", observers=[WeightsAndBiases()], show=False)
        (first,), files = before, set(run.glob("wandb/offline-run-*/*.wandb"))
        rows, config = [], {}
        for data in records(first.read_bytes()):
            record = wandb_internal_pb2.Record()
            record.ParseFromString(data)
            if record.history.item:
                rows.append({
                    item.key or "/".join(item.nested_key): json.loads(item.value_json)
                    for item in record.history.item
                })
            for item in record.run.config.update:
                config[item.key] = json.loads(item.value_json)
        print()
        print(json.dumps([rows, config, sorted(file.name for file in files)]))
    """
    run = tmp_path / "run"
    said = in_a_new_process(script, str(run), WANDB_MODE="offline", WANDB_SILENT="true")
    rows, config, files = json.loads(said.splitlines()[-1])
    assert config["model"]["d_model"] == 16
    found: Found = {}
    for row in rows:
        for name, value in row.items():
            if not name.startswith("_") and name not in ("step", "sample"):
                found.setdefault(name, {})[row["step"]] = value
    expected = recorded(run)
    assert found.keys() == expected.keys()
    assert found["train/loss_nats"] == expected["train/loss_nats"]
    assert found["held_out/bits_per_byte"] == expected["held_out/bits_per_byte"]
    (one,) = set(files)  # the resumed run goes on under the same id
    assert one == f"run-{(run / 'wandb' / 'run-id.txt').read_text().strip()}.wandb"


def test_what_was_resumed_says_its_folder(tmp_path: Path) -> None:
    run = tmp_path / "run"
    train_tiny(run, steps=4)
    heard: list[events.Event] = []
    pellucid.resume(run, observers=[heard.append], show=False)
    assert isinstance(heard[0], events.Resumed)
    assert heard[0].folder == str(run)
