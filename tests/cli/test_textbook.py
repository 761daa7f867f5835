"""The commands `equations` and `quiz`: what they print, what they refuse, when they wait."""

from __future__ import annotations

import builtins
import json
import sys

import pytest

from pellucid.cli import main
from pellucid.textbook import QUESTIONS


def test_equations_lists_every_topic_and_shows_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["equations"]) == 0
    topics_page = capsys.readouterr().out
    assert "\ndivergences\n" in topics_page
    assert "  kl_divergence " in topics_page
    assert main(["equations", "softmax"]) == 0
    topic_page = capsys.readouterr().out
    for word in ("formula   p_i = exp(x_i / T)", "gradient", "shapes", "fails", "source", "Bridle"):
        assert word in topic_page
    assert "[0.9932 0.0067 0.0001]" in topic_page


def test_an_entry_as_json_has_its_parts_and_computed_numbers(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["equations", "perplexity", "--json"]) == 0
    entry = json.loads(capsys.readouterr().out)
    assert entry["name"] == "perplexity"
    assert entry["formula"] == "PPL = exp(nats) = 2^bits"
    assert entry["examples"][0]["value"] == pytest.approx(3.0)


def test_a_name_of_no_thing_is_answered_and_is_no_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["equations", "batch", "layer", "normalisation"]) == 0
    assert "There is no such thing" in capsys.readouterr().out
    assert main(["equations", "batch layer normalisation", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["exists"] is False


@pytest.mark.parametrize("words", [["equations", "sofmax"], ["quiz", "0"], ["quiz", "999"]])
def test_what_there_is_not_is_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert "there is no" in capsys.readouterr().err


def test_quiz_on_a_pipe_prints_questions_answers_and_proofs_without_waiting(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["quiz"]) == 0
    printed = capsys.readouterr().out
    for number, question in enumerate(QUESTIONS, 1):
        assert f"{number}. {question.text}"[:60] in printed
    assert printed.count("true\n") >= len(QUESTIONS)


def test_quiz_on_a_terminal_hides_the_answer_until_a_key(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before: list[str] = []

    def pressed(prompt: str) -> str:
        before.append(capsys.readouterr().out)
        return "q" if len(before) == 2 else ""

    monkeypatch.setattr(builtins, "input", pressed)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert main(["quiz"]) == 0
    question_screen, answer_screen = before
    assert QUESTIONS[0].text in question_screen
    assert "true" not in question_screen
    assert "true" in answer_screen
    assert QUESTIONS[1].text not in answer_screen


def test_the_quiz_as_json_says_whether_each_statement_holds(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["quiz", "4", "--json"]) == 0
    (statement,) = json.loads(capsys.readouterr().out)
    assert statement["number"] == 4
    assert statement["holds"]["value"] is True
    assert statement["proof"][1]["value"] == "inf"


@pytest.mark.parametrize("width", [60, 80])
def test_an_entry_fits_the_terminal_but_for_its_code(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    for name in ("softmax", "yarn_frequencies", "attention", "distance_buckets"):
        assert main(["equations", name]) == 0
        text = capsys.readouterr().out.split("computed  ")[0]
        assert max(map(len, text.splitlines())) <= width


def test_formulas_keep_their_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["equations", "llama3_frequencies"]) == 0
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert any(line.startswith("kept_i = (r_i - low)") for line in lines)
