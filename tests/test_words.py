"""The words and the shape of the house do not get worse.

`support/word_limits.json` holds today's count of each topic per room; `benchmarks` and the scripts
of `docs` count as rooms. Raise no limit; when you have lowered a count, run `PYTHONPATH=tests
python -m support.words --lower`. Here are the goals.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from support import words

#: Shares of the bindings, and counts per 1,000 words, that a room may always have.
VAGUE_NAMES = 0.005
MANNERED_PER_1000 = 3.0

TOPICS = sorted(words.limits())
#: How far below its limit a count may be before the limit has to follow.
SLACK = 0.75


def allowed(topic: str, room: str) -> float:
    """What a room may have of a topic at its goal."""
    read = words.survey()
    if topic == "vague names":
        return VAGUE_NAMES * read.n_bindings[room]
    if topic == "mannered constructions":
        n_words = sum(count for (_, read_room), count in read.n_words.items() if read_room == room)
        return MANNERED_PER_1000 / 1000 * n_words
    return 0


@pytest.mark.parametrize("topic", TOPICS)
def test_no_room_is_above_its_limit(topic: str) -> None:
    limits = words.limits()[topic]
    rooms_above = {
        room: f"{count}, limit {limits.get(room, 0)}"
        for room, count in words.counts()[topic].items()
        if count > max(limits.get(room, 0), allowed(topic, room))
    }
    assert rooms_above == {}, (
        f"list them with: PYTHONPATH=tests python -m support.words {next(iter(rooms_above))}"
    )


@pytest.mark.parametrize("topic", TOPICS)
def test_limits_follow_the_counts(topic: str) -> None:
    counts = words.counts()[topic]
    loose = {
        room: f"{counts.get(room, 0)}, limit {limit}"
        for room, limit in words.limits()[topic].items()
        if counts.get(room, 0) < SLACK * limit - 5
    }
    assert loose == {}, "lower them with: PYTHONPATH=tests python -m support.words --lower"


def test_no_folder_holds_more_files_than_a_reader_can_survey() -> None:
    counts = words.files_by_folder()
    assert {name: n for name, n in counts.items() if n > words.LARGEST_FOLDER} == {}


def test_generic_file_names_are_rare() -> None:
    assert {name: n for name, n in words.generic_files().items() if n > 2} == {}


def test_no_exported_function_has_more_than_twelve_parameters() -> None:
    widest = words.survey().widest
    assert {name: n for name, n in widest.items() if n > words.MOST_PARAMETERS} == {}


# the counters themselves


@pytest.mark.parametrize("name", ["found", "_told", "goes_on", "LeftOut", "what"])
def test_a_name_without_a_noun_is_vague(name: str) -> None:
    assert words.is_vague(name, "explain")


@pytest.mark.parametrize("name", ["finding", "token_id", "found_layers", "held_out", "x", "_", "n"])
def test_a_name_with_a_noun_is_not(name: str) -> None:
    assert not words.is_vague(name, "explain")


def test_a_word_of_the_field_is_allowed_in_its_rooms_alone() -> None:
    assert not words.is_vague("chosen", "data")
    assert words.is_vague("chosen", "explain")


def test_every_kind_of_binding_is_counted() -> None:
    tree = ast.parse(
        "import a as b\n"
        "def c(d, *e, f=1, **g):\n"
        "    h: int = 1\n"
        "    for i in d: self.j = i\n"
        "    with d as k: pass\n"
        "    try: (l := 1)\n"
        "    except E as m: pass\n"
        "    match d:\n"
        "        case [n, *o] as p: pass\n"
        "class q: r: int\n"
    )
    assert sorted(name for name, _ in words.bindings(tree)) == list("bcdefghijklmnopqr")


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("The loss goes on beside those of which nobody is told.", 5),
        ("What is a token?", 0),
        ("A reader is told what is learnt.", 2),
        ("`what is beside` is code.", 0),
        ("pellucid writes the loss to a standard file.", 0),
    ],
)
def test_mannered_constructions_are_counted(text: str, count: int) -> None:
    assert len(words.mannered(text)) == count


def test_sentences_end_at_a_full_stop() -> None:
    assert len(words.sentences("One. Two, e.g. three? `four` is. 5 is.")) == 4


def test_code_and_formulas_are_no_sentences(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Title\n\n```sh\nwhat is\n```\n\n- one\n  two\n- three\n\n| a | b |\n")
    texts = [text.strip() for _, text in words._markdown(page)]
    assert texts == ["# Title", "- one two", "- three", "a", "b"]
    docstring = (
        "First.\n\n    p = q  # what is\n\nArgs:\n    x: A name\n        goes on.\n    y: Two.\n"
    )
    assert [text for _, text in words._docstring(docstring, 1)] == [
        "First.",
        "x: A name goes on.",
        "y: Two.",
    ]


def test_a_function_that_raises_is_seen_but_not_for_the_functions_inside_it() -> None:
    outer, inner = (
        function
        for function in ast.walk(ast.parse("def f():\n    def g():\n        raise E('x')\n"))
        if isinstance(function, ast.FunctionDef)
    )
    assert words.raises(inner)
    assert not words.raises(outer)
