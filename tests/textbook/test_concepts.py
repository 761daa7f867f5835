"""The graph of concepts is whole: every link leads somewhere, and everything has a concept."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import importlib.util
import inspect
import pkgutil
import re
from pathlib import Path

import pytest

from pellucid import config, maths
from pellucid.diagnosis.finding import read_codes
from pellucid.explain.chapters.contents import CHAPTERS
from pellucid.textbook import LINKS, concepts, concepts_of, links, record
from pellucid.textbook.documentation import documentation
from pellucid.textbook.pages import neighbours
from pellucid.vitals.rules import rules_of
from support.source import FILES

ROOT = Path(__file__).parents[2]
ALL = concepts().values()
#: A base of two kinds, and a check: no reader sets them.
NO_KINDS = {"LayerPattern", "AtLeast", "Checked", "Interval"}


def kinds() -> dict[str, set[str]]:
    """The kinds of a config, and their keys."""
    modules = [
        importlib.import_module(f"pellucid.config.{module.name}")
        for module in pkgutil.iter_modules(config.__path__)
    ]
    return {
        name: {field.name for field in dataclasses.fields(member)}
        for module in modules
        for name, member in vars(module).items()
        if inspect.isclass(member)
        and dataclasses.is_dataclass(member)
        and member.__module__ == module.__name__
    }


def named(link: str) -> set[str]:
    return {name for concept in ALL for name in getattr(concept, link)}


@pytest.mark.parametrize(
    ("link", "everything"),
    [
        ("equations", {n for n in maths.__all__ if not n.endswith(("_grad", "_grads"))}),
        ("chapters", {chapter.id for chapter in CHAPTERS}),
        ("signs", set(rules_of())),
        ("causes", set(read_codes())),
        (
            "derivations",
            {page.stem for page in (ROOT / "docs/derivations").glob("*.md")} - {"README"},
        ),
    ],
)
def test_everything_there_is_has_a_concept_and_no_link_is_broken(
    link: str, everything: set[str]
) -> None:
    assert named(link) == everything


def test_every_kind_of_a_config_has_a_concept_and_every_key_exists() -> None:
    known_kinds = kinds()
    for name in named("keys"):
        kind, _, key = name.partition(".")
        assert kind in known_kinds, name
        assert not key or key in known_kinds[kind], name
    assert {name.partition(".")[0] for name in named("keys")} == set(known_kinds) - NO_KINDS


def test_every_line_of_code_is_there() -> None:
    for concept in ALL:
        if not concept.code:
            continue
        file, _, symbol = concept.code.partition(":")
        tree = ast.parse(FILES[file].read_text("utf-8"))
        names = {
            node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)
        }
        assert symbol in names, concept.code


def test_concepts_name_each_other_both_ways() -> None:
    for concept in ALL:
        assert set(concept.see) <= set(concepts()), concept.id
        assert concept.id not in concept.see
        for other in neighbours(concept):
            assert concept.id in neighbours(concepts()[other])
    for link in set(LINKS) - {"see"}:
        for concept in ALL:
            for name in getattr(concept, link):
                assert concept in concepts_of(link, name)


def test_every_concept_has_a_text_a_paper_and_a_way_on() -> None:
    for concept in ALL:
        assert 60 < len(concept.text) < 600, concept.id
        assert concept.text.endswith("."), concept.id
        assert concept.papers, concept.id
        for paper in concept.papers:
            assert re.fullmatch(r"\D+ (1[89]|20)\d\d, \".+\"", paper), paper
        assert len(links(concept)) >= 2, concept.id
        assert concept.derivations or concept.equations or concept.see


def test_a_record_holds_the_same_as_the_page() -> None:
    for concept in ALL:
        page = record(concept)
        assert set(page["formulas"]) == set(concept.equations)
        assert all(page["formulas"].values())
        assert {name: tuple(items) for name, items in page["links"].items()} == links(concept)


def test_the_documentation_is_the_one_of_the_tables() -> None:
    written_pages = {
        page.name: page.read_text("utf-8") for page in (ROOT / "docs/concepts").glob("*.md")
    }
    assert written_pages == documentation(), (
        "write it with: python -m pellucid.textbook.documentation docs/concepts"
    )


@pytest.mark.parametrize("link", ["experiments", "lessons"])
def test_the_course_and_its_concepts_name_each_other(link: str) -> None:
    """As soon as the room is there; its names then equal the names of `concepts/course.toml`."""
    if importlib.util.find_spec(f"pellucid.course.{link}") is None:
        assert named(link)
        return
    room = importlib.import_module(f"pellucid.course.{link}")
    names = (
        set(room.EXPERIMENTS)
        if link == "experiments"
        else set(importlib.import_module("pellucid.course.lessons.lesson").lessons())
    )
    assert named(link) == names
