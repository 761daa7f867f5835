"""All that a person reads on the page is a message, which the page shows in any language."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from pellucid.catalogue import LANGUAGES, Message, message, texts
from pellucid.errors import PellucidError
from pellucid.explain.chapter_types import Place
from pellucid.explain.chapters import CHAPTERS, build_chapter
from pellucid.web.assets import files
from pellucid.web.json_payload import chapter_payload, with_messages
from support.models import build
from support.nightly import sampled
from support.traced import MODELS, traced

#: The fields of a payload that people read. The others are addresses, tokens, formulas and numbers.
READ = {
    "title",
    "sentence",
    "notes",
    "unit",
    "x_unit",
    "columns",
    "names",
    "rows",
    "pooled",
    "layers",
}
NOT_READ = {"expression", "spelled", "formula", "address", "source"}
#: What stays as it is in every language: an address or the name of a parameter, and units.
NAME = re.compile(r"[A-Z]\d+(\.\w+)*|[a-z_]+(\.\w+)+(\[[\d, ]*\])?|[A-Z]\d+(\.\w+)+(\[[\d, ]*\])?")
UNITS = {"nats", "‖dL/dh‖", "dL/ds", "gate", "up", "units", "embedding", "positions", "head_bias"}
UNITS |= {"segment_embedding", "up (down x)", "‖all g‖"}


#: Models with different parts; every third of them is always walked.
WALKED = ("preset gpt2", "preset t5-small", "memory", "preset bert-base", "linear", "deep norm")
WALKED += ("sinks", "grouped", "alibi", "group norm", "shaw with values", "latent", "pair bart")
WALKED += ("grouped experts and a shared one", "encoder deberta", "partial rotary")


def untranslated(tree: Any, field: str = "") -> Iterator[str]:
    """The texts for people in a payload that are no messages."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            if key not in NOT_READ:
                yield from untranslated(value, key)
    elif isinstance(tree, list | tuple):
        for value in tree:
            yield from untranslated(value, field)
    elif isinstance(tree, str) and not isinstance(tree, Message) and field in READ:
        is_name = tree in UNITS or NAME.fullmatch(tree)
        if re.search(r"[A-Za-z]{3,}", tree) and not is_name:
            yield tree


@pytest.mark.parametrize("name", sampled(WALKED))
def test_every_text_of_every_chapter_is_a_message(name: str) -> None:
    trace = traced(build(MODELS[name]))
    plain: list[str] = []
    for entry in CHAPTERS:
        try:
            chapter = build_chapter(trace, entry.id, Place())
        except PellucidError as error:
            plain += [] if isinstance(error.args[0], Message) else [str(error)]
        else:
            plain += untranslated(chapter_payload(chapter))
            plain += [] if isinstance(entry.title, Message) else [entry.title]
    assert plain == []


def test_a_text_that_is_no_message_would_be_found() -> None:
    assert list(untranslated({"title": "a title", "id": "an id", "rows": [["x", "L0.H1"]]})) == [
        "a title"
    ]


def test_an_answer_lists_its_messages_by_their_paths() -> None:
    inner = message("word.scores")
    title = message("pictures.map", part=inner, head="L0.H1")
    answer = with_messages({"pictures": [{"title": title, "rows": ["a"]}], "x": float("inf")})
    assert answer["messages"] == [
        [["pictures", 0, "title"], "pictures.map", {"part": ["word.scores", {}], "head": "L0.H1"}]
    ]
    assert answer["pictures"][0]["title"] == "scores of L0.H1: queries down, keys across"
    assert "messages" not in with_messages({"title": "plain"})


def test_the_server_sends_messages_and_refusals_with_their_keys(
    client: TestClient, reading: dict[str, Any]
) -> None:
    question = {"kind": "chapter", "chapter": "scores", "reading": reading, "place": {}}
    answer = client.post("/ask", json=question).json()
    keys = {tuple(path): key for path, key, _ in answer["messages"]}
    assert keys["sentence",] == "scores.how-well-does-the-query"
    assert keys["title",] == "contents.scores"
    refused = client.post("/ask", json={**question, "place": {"token": 99}}).json()
    assert refused["messages"][0][:2] == [["error"], "selection.outside"]
    assert refused["error"].startswith("there is no token 99: there are ")


def test_the_page_has_a_file_for_each_language_and_names_them_all() -> None:
    for language in LANGUAGES:
        text_file = files()[f"texts.{language}.json"]
        assert text_file.kind == "application/json"
    script = files()["messages.js"].content.decode()
    language_list = re.search(r"LANGUAGES = \[([^\]]*)\]", script)
    assert language_list is not None
    assert re.findall(r'"([^"]+)"', language_list[1]) == list(LANGUAGES)


def test_scripts_ask_for_texts_that_are_there() -> None:
    keys = set[str]()
    for name, file in files().items():
        if name.endswith(".js"):
            keys |= set(re.findall(r'\bt\("([^"]+)"', file.content.decode()))
    assert len(keys) > 80
    assert keys - texts("en").keys() == set()
