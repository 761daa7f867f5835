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
    numbers_found: Found = {}
    for event in read_events(run / "metrics.jsonl"):
        for step, numbers in numbers_of(event):
            for name, value in numbers.items():
                numbers_found.setdefault(name, {})[step] = value
    return numbers_found


def in_a_new_process(script: str, *arguments: str, **environment: str) -> str:
    """What a script of ours prints on a machine where nothing answers."""
    process = subprocess.run(
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
    assert process.returncode == 0, process.stderr
    return process.stdout


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
    for module in ("torch.utils.tensorboard", "tensorboard", "wandb", "trackio", "mlflow"):
        monkeypatch.setitem(sys.modules, module, None)
    assert main(["train", "/no/such/text", "--observe", name]) == 2
    message = " ".join(capsys.readouterr().err.split())
    assert f'pip install -U ".[{name}]"' in message
    assert "/no/such/text" not in message


def test_the_command_offers_the_observers_there_are() -> None:
    for name in OBSERVERS:
        assert parser().parse_args(["train", "--observe", name]).observe == [name]
    with pytest.raises(ConfigError, match="there are: tensorboard, wandb, trackio, mlflow"):
        observer_for("tensorbord")


def test_no_such_package_is_loaded_where_none_is_asked_for() -> None:
    script = """if True:
        import sys, pellucid.cli.main, pellucid.runs, pellucid.observers
        tools = {"tensorboard", "wandb", "torch.utils.tensorboard", "mlflow", "trackio"}
        print(tools & set(sys.modules))
    """
    assert in_a_new_process(script).strip() == "set()"


# -- each tool, read with its own reader


TOOLS = [
    "tensorboard",
    "wandb",
    pytest.param("trackio", marks=pytest.mark.nightly),
    pytest.param("mlflow", marks=pytest.mark.nightly),
]


@pytest.fixture(scope="module", params=TOOLS)
def shown(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A run in a tool, resumed from an earlier checkpoint, and what the tool's reader shows."""
    tool = request.param
    pytest.importorskip(tool, reason=f"{tool} is not installed: pip install -e '.[{tool}]'")
    folder = tmp_path_factory.mktemp(tool)
    in_a_new_process(
        "from support.trackers import main; main()",
        str(folder),
        tool,
        WANDB_MODE="offline",
        WANDB_SILENT="true",
        TRACKIO_DIR=str(folder / "trackio"),
        MLFLOW_TRACKING_URI="",
    )
    return {"run": folder / "run", **json.loads((folder / "shown.json").read_text())}


def test_a_tool_shows_every_number_of_the_run_once_resumed_too(shown: dict[str, Any]) -> None:
    expected, numbers = recorded(shown["run"]), shown["numbers"]
    assert numbers.keys() >= expected.keys()
    # a resumed run takes vital signs at other updates, and may take fewer
    assert all(name.startswith("vitals/") for name in numbers.keys() - expected.keys())
    assert any(name.startswith("vitals/") for name in numbers)
    for name, values in expected.items():
        if name not in ("train/tokens_per_second", "train/memory_bytes"):  # of each process
            tool_values = {int(step): value for step, value in numbers[name].items()}
            if name.startswith("vital"):  # a resumed run takes them at other updates
                tool_values = {step: tool_values[step] for step in values}
            assert tool_values == pytest.approx(values, rel=1e-6, nan_ok=True), name


def test_a_tool_has_config_tags_samples_findings_and_pictures(shown: dict[str, Any]) -> None:
    assert shown["d_model"] == 16
    assert "NextToken" in shown["tags"]
    assert "finished" in shown["tags"]
    assert any("the" in text for text in shown["samples"])
    assert any(shown["finding"] in text for text in shown["findings"])
    assert {"attention/L0", "attention/L1"} <= set(shown["pictures"])


def test_a_resumed_run_is_the_same_run_of_the_tool(shown: dict[str, Any]) -> None:
    assert len(shown["runs"]) == 1


def test_a_tracker_changes_no_bit_of_the_run(shown: dict[str, Any], trained: Path) -> None:
    weights = "checkpoints/step-12/model.safetensors"
    assert (shown["run"] / weights).read_bytes() == (trained / weights).read_bytes()


def test_an_observer_without_a_folder_is_refused() -> None:
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    with pytest.raises(RunError, match="pass a folder to the observer"):
        TensorBoard()(STARTED)


def test_what_was_resumed_says_its_folder(tmp_path: Path) -> None:
    run = tmp_path / "run"
    train_tiny(run, steps=4)
    heard_events: list[events.Event] = []
    pellucid.resume(run, observers=[heard_events.append], show=False)
    assert isinstance(heard_events[0], events.Resumed)
    assert heard_events[0].folder == str(run)
