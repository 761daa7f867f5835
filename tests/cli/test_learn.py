"""`pellucid learn`: where you are, lessons from your own run, answers, progress, the track."""

from __future__ import annotations

import builtins
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from pellucid import maths
from pellucid.cli import main
from pellucid.course.lessons import open_lesson
from pellucid.course.lessons.lesson import lessons
from support.tiny import TINY, train_tiny


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("learn") / "run"
    train_tiny(folder)
    return folder


@pytest.fixture(autouse=True)
def working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(answers: Any) -> Path:
    file = Path("answers.json")
    file.write_text(json.dumps(answers), encoding="utf-8")
    return file


def solve(exercise: dict[str, Any]) -> Any:
    """The value of an exercise's equation, from nothing but the JSON."""
    value = getattr(maths, exercise["equation"])(**exercise["operands"])
    return [part.tolist() for part in value] if isinstance(value, tuple) else value.tolist()


def test_the_list_has_every_lesson_with_its_exercises(json_of: Any, stdout_of: Any) -> None:
    lesson_list = json_of("learn", "list")
    assert [lesson["name"] for lesson in lesson_list["lessons"]] == list(lessons())
    assert lesson_list["next"] == "text"
    assert all(len(lesson["exercises"]) >= 3 for lesson in lesson_list["lessons"])
    assert "softmax" in stdout_of("learn", "list")
    assert "next: 1. A model of text: pellucid learn text" in stdout_of("learn")


def test_equations_of_the_json_give_accepted_answers_and_progress(json_of: Any, run: Path) -> None:
    lesson = json_of("learn", "attention", "--run", run)
    exercises = [exercise for exercise in lesson["exercises"] if exercise["equation"] is not None]
    answers: dict[str, Any] = {exercise["id"]: solve(exercise) for exercise in exercises}
    answers["quiz-11"] = "c"
    graded = json_of("learn", "attention", "--run", run, "--answers", write(answers))["answers"]
    assert [name for name, verdict in graded.items() if not verdict["accepted"]] == ["quiz-11"]
    assert "saturation" in graded["quiz-11"]["explanation"]
    rows = {row["name"]: row for row in json_of("learn", "list")["lessons"]}
    assert rows["attention"]["solved"] == len(exercises)
    assert not rows["attention"]["done"]
    right = "products of d_k numbers have variance d_k, and large scores saturate the softmax"
    json_of("learn", "attention", "--run", run, "--answers", write({"quiz-11": right}))
    rows = {row["name"]: row for row in json_of("learn", "list")["lessons"]}
    assert rows["attention"]["done"]


def test_exercises_depend_on_the_sentence_and_the_reader(json_of: Any, run: Path) -> None:
    first = json_of("learn", "softmax", "--run", run)["exercises"]
    second = json_of("learn", "softmax", "--run", run, "--sentence", "a fox and")["exercises"]
    assert [exercise["operands"] for exercise in first] != [
        exercise["operands"] for exercise in second
    ]
    new = json_of("learn", "softmax", "--run", run, "--reader", "new")["exercises"]
    assert 3 <= len(new) <= 6 < len(first)
    assert json_of("learn", "list")["reader"] == "new"


def test_a_lesson_shows_idea_picture_command_and_questions(stdout_of: Any, run: Path) -> None:
    text = stdout_of("learn", "attention", "--run", run, "--reader", "pytorch")
    for words in (
        "8 · Tokens look",
        "F.scaled_dot_product",
        "scores of L0.H0",
        "try: pellucid exp",
    ):
        assert words in text
    assert "[write-soft_cap]" in text


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ({"nothing": 1}, "no exercise 'nothing' in this lesson"),
        ({"softmax": "0.3"}, "expected nested lists of numbers, or Python code"),
        ({"quiz-3": 7}, "expected one of a, b, c"),
        ({"softmax": [float("nan")] * 3}, "was nan"),
        ([1], "must be an object with names"),
    ],
)
def test_bad_answers_are_refused(answers: Any, words: str, refused: Any, run: Path) -> None:
    assert words in refused("learn", "softmax", "--run", run, "--answers", write(answers))
    assert not Path("runs/learn/progress.json").exists()


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("learn atention", "did you mean attention"),
        ("learn list --run x", "--run is for a lesson"),
        ("learn softmax there", "takes no folder"),
        ("learn build", "needs a folder"),
        ("learn check nowhere", "is no folder"),
        ("learn softmax --run nowhere", "nowhere"),
    ],
)
def test_bad_commands_are_refused(command: str, words: str, refused: Any) -> None:
    assert words in refused(*command.split())


def test_a_damaged_progress_file_stays_as_it_is(refused: Any) -> None:
    file = Path("runs/learn/progress.json")
    file.parent.mkdir(parents=True)
    for content in ("{", "{}", '{"reader": "x", "solved": {}}'):
        file.write_text(content)
        assert "progress.json" in refused("learn")
        assert file.read_text() == content


def test_without_a_run_the_courses_own_model_is_trained_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_lesson, "_SETTINGS", (*TINY, "text.held_out=0.05"))
    monkeypatch.setattr(open_lesson, "_STEPS", 2)
    assert main(["learn", "text", "--json"]) == 0
    printed, notes = capsys.readouterr()
    assert "training the course's own model into runs/learn/model" in notes
    assert json.loads(printed)["try"] == "pellucid score runs/learn/model 'the cat sat' --next"
    assert main(["learn", "text", "--json"]) == 0
    assert capsys.readouterr().err == ""


def test_a_terminal_asks_until_the_answer_is_right(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = iter(["z", "a", "b", "12", "", "q"])
    monkeypatch.setattr(builtins, "input", lambda _: next(words))
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("NO_COLOR", "1")
    assert main(["learn", "text", "--run", str(run)]) == 0
    text = capsys.readouterr().out
    assert "expected one of a, b, c" in text
    assert "≠ not accepted" in text
    solved = json.loads(Path("runs/learn/progress.json").read_text())["solved"]
    assert solved == {"text": ["what-it-predicts"]}


def test_the_track_is_written_and_checked(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["learn", "build", "mine"]) == 0
    assert len(list(Path("mine").iterdir())) == 16
    assert main(["learn", "build", "mine"]) == 2
    Path("mine/train.py").unlink()
    capsys.readouterr()
    assert main(["learn", "check", "mine", "--json"]) == 4
    results = json.loads(capsys.readouterr().out)
    assert [check_result["passed"] for check_result in results] == [False] * 16
    messages = [check_result["message"] for check_result in results]
    assert messages[4] == "to do: mean and variance over the last axis, with keepdim=True"
    assert "is missing" in messages[14]
    assert messages[15].startswith("to do: a gap in ")
