"""The one command for a lent GPU: what it runs, and what it refuses."""

from __future__ import annotations

import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from benchmarks import gpu
from pellucid.runs.resolve_config import resolve_config


def run(monkeypatch: pytest.MonkeyPatch, *words: str) -> int | str | None:
    monkeypatch.setattr(sys, "argv", ["gpu", *words])
    with pytest.raises(SystemExit) as ended:
        gpu.main()
    return ended.value.code


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_without_a_card_nothing_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "is_done", lambda *_: pytest.fail("a part was run"))
    assert "nothing is measured" in str(run(monkeypatch))


def test_every_part_is_a_command_that_exists_and_all_fit_in_ten_minutes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parts: dict[str, list[str]] = {}
    monkeypatch.setattr(gpu, "is_done", lambda part, words: parts.setdefault(part, words) and True)
    assert run(monkeypatch, "--device", "cpu", "--ranks", "2", "--nanogpt", "nanoGPT") == 0
    assert parts.keys() == gpu.LIMITS.keys()
    assert sum(gpu.LIMITS.values()) < 600
    for words in parts.values():
        assert find_spec(words[0]) is not None
        assert all((gpu.ROOT / word).is_file() for word in words if word.startswith("tests/"))
    assert parts["train"][-2:] == ["--nanogpt", str(Path("nanoGPT").resolve())]


def test_a_part_that_fails_stops_no_other(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    parts: list[str] = []

    def is_done(part: str, words: list[str]) -> bool:
        parts.append(part)
        return part not in ("agree", "train")

    monkeypatch.setattr(gpu, "is_done", is_done)
    assert run(monkeypatch, "--device", "cpu") == 1
    assert parts == ["tests", "agree", "train", "generate", "page"]
    assert "failed: agree, train" in capsys.readouterr().err


def _is_alive(state: Path) -> bool:
    try:
        return state.read_text().split()[2] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_part_that_takes_too_long_is_ended_with_its_processes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    child = tmp_path / "child"
    script = (
        "import os, time; pid = os.fork(); "
        f"pid and open({str(child)!r}, 'w').write(str(pid)); time.sleep(60)"
    )
    (tmp_path / "slow.py").write_text(script)
    monkeypatch.setattr(gpu, "ROOT", tmp_path)
    monkeypatch.setitem(gpu.LIMITS, "train", 0.3)
    assert not gpu.is_done("train", ["slow"])
    pid = int(child.read_text())
    state, deadline = Path(f"/proc/{pid}/stat"), time.monotonic() + 10
    while (is_alive := _is_alive(state)) and time.monotonic() < deadline:
        time.sleep(0.01)  # it was killed, and a busy machine takes a moment to end it
    assert not is_alive


def test_a_difference_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    values = {"cpu": [2.0, 1.0], "cuda": [2.0, 1.003]}
    monkeypatch.setattr(gpu, "losses", lambda choices, device: values[device])
    assert gpu.differences("cpu") == []
    assert gpu.differences("cuda") == list(gpu.AGREE)
    values["cuda"][1] = float("nan")
    assert gpu.differences("cuda") == list(gpu.AGREE)
    values["cuda"][1] = 1.0
    assert gpu.differences("cuda") == []


def test_what_is_compared_has_no_dropout() -> None:
    for choices in gpu.AGREE.values():
        settings = [*choices["settings"], *gpu.SHORT]
        model = resolve_config(preset=choices["preset"], settings=settings).model
        stacks = [stack for stack in (model.encoder, model.decoder) if stack is not None]
        assert all(stack.input_dropout == stack.dropout == 0 for stack in stacks)
