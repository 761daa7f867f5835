"""Rows without a lesson: counted and named, or refused with the row and the reason."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from pellucid.cli import main
from support.tiny import TEXT, TINY

#: A window that a short prompt with its answer fits into, and a long one does not.
FLAGS = [f"--set={each}" for each in (*TINY, "model.context_length=64")]
ONE_STEP = ("--steps", "1", "--set", "training.batch_size=4", "--set", "training.device=cpu")
POLICY = ("--set", "objective.max_new_tokens=4", "--set", "objective.n_samples=2")
LONG = "very " * 40

ANSWERS = [{"prompt": f"say {i}", "answer": f"it is {i}"} for i in range(12)]
WORSE = [{"prompt": f"say {i}", "chosen": f"it is {i}", "rejected": "no"} for i in range(12)]
LABELS = [{"text": f"text {i}", "label": ("ham", "spam")[i % 2]} for i in range(12)]
PAIRS = [{"source": f"say {i}", "target": f"dis {i}"} for i in range(12)]

REWARDS = """
import math

def length(row, answer):
    return len(answer)

def not_a_number(row, answer):
    return math.nan

def endless(row, answer):
    return math.inf

def failing(row, answer):
    raise KeyError(row["gold"])

def words(row, answer):
    return "a lot"

constant = 1.0
"""


def write_rows(path: Path, rows: Iterable[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A decoder that has learnt for a step."""
    place = tmp_path_factory.mktemp("base")
    (place / "text.txt").write_text(TEXT, encoding="utf-8")
    run = place / "run"
    words = ["train", place / "text.txt", "--out", run, "--steps", "1", "--json", *FLAGS]
    assert main([str(word) for word in words]) == 0
    return run


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with rewards and templates of every kind."""
    (tmp_path / "bad_row_rewards.py").write_text(REWARDS, encoding="utf-8")
    (tmp_path / "undefined.jinja").write_text("{{ messages[0].content }}\n{{ nothing.at.all }}")
    (tmp_path / "unclosed.jinja").write_text("{% for message in messages %}{{ message.content }}")
    (tmp_path / "silent.jinja").write_text("{{ messages[0].content }}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def message_of(capsys: pytest.CaptureFixture[str], code: int, *words: object) -> str:
    """What a command prints, and on which of the two, in one line; nothing is left of a refusal."""
    assert main([str(word) for word in words]) == code
    printed, errors = capsys.readouterr()
    assert "Traceback" not in errors
    assert (errors == "") == (code == 0)
    assert (code == 0) == Path("new").exists()
    return " ".join((errors if code else printed).split())


def tuning(objective: str, rows: Iterable[dict[str, Any]], base: Path) -> list[object]:
    file = write_rows(Path("rows.jsonl"), rows)
    return ["train", file, "--objective", objective, "--from", base, "--out", "new", *ONE_STEP]


# -- rows that are left out, and counted

LEFT_OUT: dict[str, tuple[str, list[dict[str, Any]], str]] = {
    "a prompt that fills the window": (
        "sft",
        [*ANSWERS, {"prompt": LONG, "answer": "no"}],
        "its prompt fills the window, and leaves no room for the answer",
    ),
    "an empty answer": ("sft", [*ANSWERS, {"prompt": "x", "answer": ""}], "it has no answer"),
    "an empty prompt": ("sft", [*ANSWERS, {"prompt": " ", "answer": "x"}], "it has no prompt"),
    "chosen as rejected": (
        "dpo",
        [*WORSE, {"prompt": "x", "chosen": "it", "rejected": "it"}],
        "chosen and rejected are the same",
    ),
    "a prompt that leaves no room for two answers": (
        "dpo",
        [*WORSE, {"prompt": LONG, "chosen": "it", "rejected": "not"}],
        "its prompt fills the window",
    ),
    "answers that differ beyond the window": (
        "dpo",
        [*WORSE, {"prompt": "x", "chosen": LONG + "a", "rejected": LONG + "b"}],
        "chosen and rejected are the same as far as they fit",
    ),
    "no label": ("classify", [*LABELS, {"text": "x", "label": None}], "it has no label"),
    "no text": ("classify", [*LABELS, {"text": "", "label": "ham"}], "it has no text"),
}


@pytest.mark.parametrize("case", LEFT_OUT)
def test_a_row_without_use_is_counted_with_its_number_and_the_reason(
    case: str, base: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    objective, rows, reason = LEFT_OUT[case]
    printed = message_of(capsys, 0, *tuning(objective, rows, base))
    assert f"dropped 1: {reason}" in printed
    assert "rows.jsonl, row 13)" in printed
    assert "13 rows, 12 examples" in printed


@pytest.mark.parametrize("case", LEFT_OUT)
def test_nothing_but_such_rows_is_refused(
    case: str, base: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    objective, rows, reason = LEFT_OUT[case]
    if objective == "classify":  # so that there are two classes to tell apart
        rows = [{"text": "", "label": "ham"}, {"text": "", "label": "spam"}]
        reason = "it has no text"
    printed = message_of(
        capsys, 2, *tuning(objective, rows[-2:] if len(rows) == 2 else rows[-1:], base)
    )
    assert "no example is left to learn from: dropped" in printed
    assert reason in printed
    assert "rows.jsonl, row 1" in printed


def test_answers_that_are_cut_are_counted(
    base: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [*ANSWERS, {"prompt": "x", "answer": LONG}]
    printed = message_of(capsys, 0, *tuning("sft", rows, base))
    assert "truncated 1: longer than the window" in printed
    assert "1 answers have no end that is learned" in printed


# -- rows that the user has to mend


def test_a_label_outside_the_classes_is_refused_with_its_row(
    base: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [*LABELS, {"text": "x", "label": "eggs"}]
    classes = ("--set", 'model.head.classes=["ham", "spam"]')
    printed = message_of(capsys, 2, *tuning("classify", rows, base), *classes)
    assert "rows.jsonl, row 13: the label 'eggs' is none of the classes ('ham', 'spam')" in printed


def test_a_class_without_a_text_is_said(
    base: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    classes = ("--set", 'model.head.classes=["ham", "spam", "eggs"]')
    printed = message_of(capsys, 0, *tuning("classify", LABELS, base), *classes)
    assert "the class 'eggs' has no example" in printed


def test_one_class_alone_is_refused(
    base: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [row for row in LABELS if row["label"] == "ham"]
    printed = message_of(capsys, 2, *tuning("classify", rows, base))
    assert "the labels in 'label' name 1 class ('ham')" in printed


@pytest.mark.parametrize(
    ("template", "complaint"),
    [
        ("undefined", "rows.jsonl, row 1: the chat template (undefined.jinja), line 2: 'nothing'"),
        ("unclosed", "the chat template (unclosed.jinja), line 1: Unexpected end of template"),
        ("silent", "the chat template (silent.jinja)"),
        ("missing", "missing.jinja does not exist"),
    ],
)
def test_a_template_with_an_error_is_refused_with_its_line(
    template: str, complaint: str, base: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = (*tuning("sft", ANSWERS, base), "--columns", f"template={template}.jinja")
    assert complaint in message_of(capsys, 2, *words)


# -- rewards

BAD_REWARDS = {
    "bad_row_rewards:not_a_number": "gave nan, which is no reward; for the answer",
    "bad_row_rewards:endless": "gave inf, which is no reward",
    "bad_row_rewards:failing": "failed with KeyError: 'gold'; for the answer",
    "bad_row_rewards:words": "failed with ValueError: could not convert string to float: 'a lot'",
    "bad_row_rewards:constant": "is no function; expected MODULE:FUNCTION",
    "bad_row_rewards:absent": "bad_row_rewards has no 'absent'",
    "no_such_module:length": "No module named 'no_such_module'",
    "length": "expected MODULE:FUNCTION",
}


@pytest.mark.parametrize("reward", BAD_REWARDS)
def test_a_reward_that_gives_no_number_is_refused(
    reward: str, base: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = (*tuning("policy-gradient", ({"prompt": "say"}, {"prompt": "go"}), base), *POLICY)
    printed = message_of(capsys, 2, *words, "--reward", reward)
    assert BAD_REWARDS[reward] in printed


def test_a_policy_without_a_reward_is_refused_before_anything_is_read(
    base: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = tuning("policy-gradient", ({"prompt": "say"},), base)
    Path("rows.jsonl").unlink()
    assert "PolicyGradient needs --reward" in message_of(capsys, 2, *words)


def test_a_reward_where_nothing_is_rewarded_is_refused(
    base: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = (*tuning("sft", ANSWERS, base), "--reward", "bad_row_rewards:length")
    assert "SFT has no reward" in message_of(capsys, 2, *words)


# -- what does not go together


@pytest.mark.parametrize(
    ("objective", "rows"), [("dpo", WORSE), ("policy-gradient", [{"prompt": "say"}])]
)
def test_what_compares_with_a_start_needs_one(
    objective: str, rows: list[dict[str, Any]], here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_rows(Path("rows.jsonl"), rows)
    words = ["train", file, "--objective", objective, "--out", "new", *FLAGS]
    printed = (
        message_of(capsys, 2, *words, "--reward", "bad_row_rewards:length")
        if (objective == "policy-gradient")
        else message_of(capsys, 2, *words)
    )
    assert "first weights of this run are random: start from a model" in printed
    assert "--from RUN" in printed


def test_a_teacher_with_another_vocabulary_is_refused(
    base: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("text.txt").write_text(TEXT, encoding="utf-8")
    words = ("distill", base, "text.txt", "--out", "new", *FLAGS, *ONE_STEP)
    printed = message_of(capsys, 2, *words, "--set", "text.tokenizer=Characters")
    assert "token" in printed
    assert "the teacher's tokenizer" in printed


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        (["--preset", "nano-pair"], "--columns source=NAME,target=NAME"),
        (["--preset", "transformer-base"], "another objective with --objective"),
        (["--objective", "classify"], "--columns text=NAME,label=NAME"),
        (["--objective", "sft"], "name a file with prompts and answers, or with messages"),
        (["--preset", "minilm-l6"], "this model is an encoder with no head"),
        (["--preset", "bert-base", "--objective", "sft", "x.jsonl"], "an encoder with a language"),
    ],
)
def test_a_preset_with_other_data_than_it_learns_from_says_what_to_do(
    words: list[str], advice: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = message_of(capsys, 2, "train", "--out", "new", *words)
    assert advice in printed
    assert "pellucid presets list --objectives" in printed


def test_a_text_where_rows_are_learnt_is_refused_with_what_to_do(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("text.txt").write_text(TEXT, encoding="utf-8")
    printed = message_of(capsys, 2, "train", "text.txt", "--preset", "nano-pair", "--out", "new")
    assert "text.txt is not a table that names its columns" in printed
    assert "--objective" in printed


def test_columns_of_a_text_and_a_field_of_rows_are_refused(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_rows(Path("rows.jsonl"), PAIRS)
    words = ("train", file, "--out", "new")
    assert "name the field of the text with --field" in message_of(
        capsys, 2, *words, "--columns", "text=source"
    )
    assert "pass --columns NAME=source" in message_of(
        capsys, 2, *words, "--objective", "seq2seq", "--field", "source"
    )
    assert "expected one of source, target" in message_of(
        capsys, 2, *words, "--objective", "seq2seq", "--columns", "english=source"
    )


def test_a_whole_config_is_not_laid_over_another_start(
    base: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("train", "--config", base / "config.toml", "--from", base, "--out", "new")
    assert "is the whole config of a run" in message_of(capsys, 2, *words)
