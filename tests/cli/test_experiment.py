"""`pellucid experiment`: the list, a prediction, the result as text, JSON and a file."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pellucid.cli import main
from pellucid.course.experiments import EXPERIMENTS

NAME = "minus-log"


def test_the_list_names_every_experiment(stdout_of: Any, json_of: Any) -> None:
    assert [line.split()[0] for line in stdout_of("experiment", "list").splitlines()[:-2]] == list(
        EXPERIMENTS
    )
    experiments = json_of("experiment", "list")
    assert [row["name"] for row in experiments] == list(EXPERIMENTS)
    assert {"claim", "source", "description", "concepts", "refuted_by"} <= experiments[0].keys()


def test_json_has_what_programs_need(json_of: Any) -> None:
    facts = json_of("experiment", "root-of-d", "--quick", "--seeds", 3)
    assert {"name", "description", "claim", "measured", "verdict", "source"} <= facts.keys()
    assert facts["verdict"] in {
        "confirmed",
        "contradicted",
        "in part",
        "not decided at this size",
    }
    for number in facts["measured"].values():
        assert number["seeds"] == [1, 2, 3]
        assert len(number["values"]) == 3
        assert number["interval"][0] <= number["value"] <= number["interval"][1]


def test_the_text_has_every_part_and_asks_nothing_on_a_pipe(stdout_of: Any) -> None:
    text = stdout_of("experiment", NAME)
    labels = [line.split("  ")[0] for line in text.splitlines() if line[:1].isalpha()]
    for label in ("claim", "measured", "rule", "verdict", "refuted by", "source"):
        assert label in labels
    assert "Your prediction" not in text


@pytest.mark.parametrize(
    ("replies", "expected"),
    [
        (["2"], "predicted: about 90 times"),
        (["seven", "9", "1"], "predicted: about 44 times"),
        ([""], None),
        ([], None),
    ],
)
def test_a_terminal_is_asked_for_a_prediction(
    replies: list[str],
    expected: str | None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pending: Iterator[str] = iter(replies)

    def answer(prompt: str) -> str:
        assert "Enter: skip" in prompt
        try:
            return next(pending)
        except StopIteration:
            raise EOFError from None

    monkeypatch.setattr(builtins, "input", answer)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert main(["experiment", NAME]) == 0
    text = capsys.readouterr().out
    assert EXPERIMENTS[NAME].question.text in text
    assert "the verdict" not in text
    if expected is None:
        assert "predicted:" not in text
    else:
        assert expected in text
        assert "the claim predicts: about 44 times" in text
    assert list(pending) == []


@pytest.mark.parametrize("suffix", [".svg", ".html"])
def test_the_result_is_written_as_a_file(suffix: str, tmp_path: Path, json_of: Any) -> None:
    file = tmp_path / f"picture{suffix}"
    assert json_of("experiment", NAME, "--out", file)["file"] == str(file)
    text = file.read_text("utf-8")
    assert "<svg" in text
    assert "-log p in nats" in text
    assert ("verdict" in text) == (suffix == ".html")


def test_what_cannot_be_done_is_refused(refused: Any, tmp_path: Path) -> None:
    assert "did you mean 'root-of-d'" in refused("experiment", "rot-of-d")
    assert "ends in .svg or .html" in refused("experiment", NAME, "--out", tmp_path / "a.png")
    assert "name an experiment" in refused("experiment", "list", "--quick")
    (tmp_path / "mine.svg").write_text("<svg/>")
    assert "does not overwrite" in refused("experiment", NAME, "--out", tmp_path / "mine.svg")


@pytest.mark.parametrize("seeds", ["1", "0", "x"])
def test_seeds_that_decide_nothing_are_refused(
    seeds: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["experiment", NAME, "--seeds", seeds])
    assert stop.value.code == 2
    assert "Traceback" not in capsys.readouterr().err
