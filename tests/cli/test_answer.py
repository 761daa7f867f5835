"""A decoder tuned from the command line: the summary at the end, and `pellucid answer`."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pellucid.cli import main
from support.kinds import write_bert_tokenizer, write_run
from support.life import SMALL, pretrain, rows, tune, write_rows

SHORT = ("--max-new-tokens", "5")
REWARD = "support.life:short_and_finished"


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pretrain(tmp_path_factory.mktemp("life") / "base", steps=2)


@pytest.fixture(scope="module")
def tuned(base: Path) -> Path:
    file = write_rows(base.parent / "rows")
    return tune(base.parent / "sft", "sft", base, file, steps=1).folder


def test_answers_come_without_the_template(tuned: Path, stdout_of: Any, json_of: Any) -> None:
    prompts = ("say red", "say blue\n\nand green")
    facts = json_of("answer", tuned, *prompts, *SHORT)
    assert [fact["prompt"] for fact in facts] == list(prompts)
    assert all(len(fact["ids"]) <= 5 for fact in facts)
    assert stdout_of("answer", tuned, prompts[1], *SHORT).strip() == facts[1]["text"].strip()
    assert facts == json_of("answer", tuned, *prompts, *SHORT, "--seed", 7)  # greedy unless asked
    answers = [
        json_of("answer", tuned, prompts[0], *SHORT, "--temperature", 1, "--seed", seed)
        for seed in (1, 1, 2)
    ]
    assert answers[0] == answers[1] != answers[2]


def test_a_prompt_of_several_lines_comes_through_a_pipe(
    tuned: Path, stdout_of: Any, json_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompt = "say blue\n\nand green"
    monkeypatch.setattr(sys, "stdin", io.StringIO(prompt + "\n"))
    assert stdout_of("answer", tuned, *SHORT) == stdout_of("answer", tuned, prompt, *SHORT)


def test_on_a_terminal_there_is_a_conversation(
    tuned: Path, stdout_of: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    single_answer = stdout_of("answer", tuned, "say red", *SHORT)

    def terminal(*lines: str) -> Callable[[str], str]:
        typed_lines = iter(lines)
        monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
        return lambda sign: next(typed_lines)

    monkeypatch.setattr("builtins.input", terminal("x" * 500, "say red", ""))
    assert main(["answer", str(tuned), *SHORT]) == 0
    text, errors = capsys.readouterr()
    assert "an empty line ends the session" in text
    assert text.endswith(single_answer)
    assert "no room for an answer" in errors


def test_what_has_no_room_or_no_answers_is_refused(
    tuned: Path, tmp_path: Path, refused: Any
) -> None:
    assert "prompt 2 has" in refused("answer", tuned, "short", "x" * 500)
    encoder = write_run(tmp_path / "run", "encoder", write_bert_tokenizer(tmp_path / "words"))
    assert "answers no prompts" in refused("answer", encoder, "say red")


def test_the_end_of_training_says_commands_that_work(
    base: Path, tmp_path: Path, stdout_of: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = [word for setting in SMALL for word in ("--set", setting)]
    printed = stdout_of(
        "train", "--objective", "policy-gradient", "--from", base, "--reward", REWARD,
        write_rows(tmp_path), "--steps", "2", "--out", tmp_path / "run",
        "--set", "objective.max_new_tokens=6", *settings,
    )  # fmt: skip
    command = next(line for line in printed.splitlines() if f"pellucid answer {tmp_path}" in line)
    assert "#" not in command
    assert any(setting["instruction"] in command for setting in rows())
    assert f"pellucid train --resume {tmp_path / 'run'} --reward {REWARD}\n" in printed
    assert f"pellucid verify-resume {tmp_path / 'run'} --reward {REWARD}\n" in printed


def test_a_reward_that_fails_says_how_to_go_on(
    base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[str] = []

    def fails(row: dict[str, object], answer: str) -> float:
        answers.append(answer)
        if len(answers) > 40:
            raise ValueError("I am tired")
        return float(len(answer))

    monkeypatch.setattr("support.life.short_and_finished", fails)
    settings = [word for setting in SMALL for word in ("--set", setting)]
    words = ["train", "--objective", "policy-gradient", "--from", str(base), "--reward", REWARD]
    words += [str(write_rows(tmp_path)), "--steps", "30", "--out", str(tmp_path / "run")]
    assert main([*words, "--set", "objective.max_new_tokens=6", *settings]) == 2
    errors = " ".join(capsys.readouterr().err.split())
    assert "I am tired" in errors
    assert "row " in errors
    assert f"pellucid train --resume {tmp_path / 'run'} --reward {REWARD}" in errors
    assert "Traceback" not in errors
