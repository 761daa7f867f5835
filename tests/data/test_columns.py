from __future__ import annotations

import pytest

from pellucid import config
from pellucid.config.corpora import Rows
from pellucid.data import assemble_columns
from pellucid.data.columns import are_numbered, parse_column
from pellucid.errors import ConfigError, TextError
from support.rows import row

PATHS = ("data.jsonl",)


def test_a_column_is_a_name_a_path_or_a_text_with_columns() -> None:
    example_row = row(english="Go.\r\nNow", meta={"id": "x"}, **{"a.b": "dotted"})
    assert parse_column("english").text(example_row) == "Go.\nNow"
    assert parse_column("meta.id").text(example_row) == "x"
    assert parse_column("a.b").text(example_row) == "dotted"
    assert (
        parse_column("{{To}} French: {english} ({meta.id})").text(example_row)
        == "{To} French: Go.\nNow (x)"
    )


@pytest.mark.parametrize("said", ["{english", "a {} b", "{english!r}", "{english:>9}", "{{all}}"])
def test_a_pattern_that_cannot_be_read_is_refused(said: str) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        parse_column(said)


def test_columns_are_called_by_number_or_by_name_but_not_both() -> None:
    assert are_numbered(["2", "Say: {1}", None])
    assert not are_numbered(["english", None])
    with pytest.raises(ConfigError, match="not both: 2, english"):
        are_numbered(["2", "english"])


def test_null_is_an_empty_text_and_a_number_is_refused() -> None:
    assert parse_column("a").text(row(a=None)) == ""
    assert parse_column("Translate: {a}").text(row(a=None)) == ""
    with pytest.raises(TextError, match=r"row 7: the field 'a' is not a text but 3"):
        parse_column("a").text(row(7, a=3))


def test_a_missing_column_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(TextError, match=r"row 1: has no field 'french'; it has: 'english', 'de'"):
        parse_column("french").text(row(english="a", de="b"))


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        (
            config.Conversations(paths=PATHS),
            {"instruction": "i", "input": "x", "output": "o"},
            ["prompt: instruction, then input", "answer: output"],
        ),
        (
            config.Conversations(paths=PATHS),
            {"question": "q", "answer": "a"},
            ["prompt: question", "answer: answer"],
        ),
        (
            config.Conversations(paths=PATHS),
            {"id": 1, "prompt": "p", "messages": []},
            ["messages: messages"],
        ),
        (config.Pairs(paths=PATHS), {"English": "a", "French": "b"}, ["English", "French"]),
        (
            config.Pairs(paths=PATHS),
            {"id": 1, "translation": {"en": "a", "fr": "b"}},
            ["translation.en", "translation.fr"],
        ),
        (
            config.Pairs(paths=PATHS, source="Translate: {en}", target="fr"),
            {"en": "a", "fr": "b"},
            ["Translate: {en}", "fr"],
        ),
        (
            config.Labelled(paths=PATHS),
            {"sms": "s", "category": "ham"},
            ["text: sms", "label: category"],
        ),
        (
            config.Preferences(paths=PATHS),
            {"instruction": "i", "input": "", "output": "o", "chosen": "c", "rejected": "r"},
            ["prompt: instruction, then input", "chosen: chosen", "rejected: rejected"],
        ),
        (config.Prompts(paths=PATHS), {"prompt": "p", "answer": "4"}, ["prompt: prompt"]),
    ],
)
def test_columns_are_found_by_their_usual_names(
    kind: Rows, values: dict[str, object], expected: list[str]
) -> None:
    choices = assemble_columns(kind, row(**values)).choices
    assert len(choices) == len(expected)
    assert all(line.endswith(part) for line, part in zip(choices, expected, strict=True))


def test_ambiguous_and_missing_columns_are_refused_with_the_flag() -> None:
    with pytest.raises(TextError, match=r"'label', 'class' may each be the label.*--columns label"):
        assemble_columns(config.Labelled(paths=PATHS), row(text="t", label="a", **{"class": "b"}))
    with pytest.raises(TextError, match="source=english,target=french") as refused:
        assemble_columns(config.Pairs(paths=PATHS), row(a="x", b="y"))
    assert "it has: 'a', 'b'" in str(refused.value)
    with pytest.raises(TextError, match="messages and also a prompt with an answer"):
        assemble_columns(config.Conversations(paths=PATHS), row(messages=[], prompt="", answer=""))


def test_instruction_and_input_are_parted_by_a_blank_line() -> None:
    columns = assemble_columns(config.Prompts(paths=PATHS), row(instruction="i", input="x"))
    assert columns.texts(row(instruction="Add.", input="1 + 1")) == ["Add.\n\n1 + 1"]
    assert columns.texts(row(instruction="Add.", input="")) == ["Add."]
    assert columns.texts(row(instruction="Add.")) == ["Add."]
