"""The textbook on the page: a concept, an equation or an experiment, with links both ways.

All of them have one shape, so that the page draws them alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pellucid import maths
from pellucid.catalogue import message
from pellucid.course.lessons.lesson import Lesson, lessons
from pellucid.explain.chapters import find_chapter
from pellucid.textbook import Concept, Entry, concepts, concepts_of, entry, look_up
from pellucid.textbook.lookup import Misnomer
from pellucid.textbook.pages import formulas, linked_fields, unwrapped
from pellucid.web.json_payload import Plain
from pellucid.web.requests import RequestError

if TYPE_CHECKING:
    from pellucid.course.experiments import Experiment

#: What the fields of a concept link to; fields that are not here are plain text.
_KINDS = {
    "equations": "equation",
    "chapters": "chapter",
    "experiments": "experiment",
    "lessons": "lesson",
    "see": "concept",
    "concepts": "concept",
}
#: The sections of an equation's entry, in order.
_SECTIONS = ("notes", "shapes", "units", "gradient", "fails", "raises", "source", "see_also")


def contents() -> Plain:
    """Every concept, by topic."""
    by_topic: dict[str, list[Plain]] = {}
    for concept in concepts().values():
        by_topic.setdefault(concept.topic, []).append(_item("concept", concept.id))
    return {"topics": [{"title": title, "items": items} for title, items in by_topic.items()]}


def page(kind: str, name: str) -> Plain:
    """The page of a concept, an equation or an experiment.

    Raises:
        RequestError: There is no such page.
    """
    from pellucid.course.experiments import EXPERIMENTS

    known = {"concept": concepts(), "equation": maths.__all__, "experiment": EXPERIMENTS}
    if name not in known[kind]:
        raise RequestError(message("learn.no-such-page", name=repr(name)))
    match kind:
        case "concept":
            return _concept_page(concepts()[name])
        case "equation":
            return _equation_page(entry(name))
        case _:
            return _experiment_page(EXPERIMENTS[name])


def find_page(words: str) -> Plain:
    """The page that a term or a question means.

    Raises:
        PellucidError: Nothing has this name.
    """
    match = look_up(words)
    match match:
        case Concept():
            return _concept_page(match)
        case Entry():
            # an equation's own name means its entry; any other term means the concept
            if match.concept is None or match.name == words.strip():
                return _equation_page(match)
            return _concept_page(match.concept)
        case Misnomer():
            links = _links({"equations": match.suggestions})
            return _page("term", words, match.name, texts=[match.explanation], links=links)
        case tuple():
            return _page("term", words, words, links=_links({"equations": match}))


def lesson_links(lesson: Lesson) -> list[Plain]:
    """The links of a lesson: its concepts, equations, chapter, and experiments on its concepts."""
    members = concepts_of("lessons", lesson.name)
    experiments = dict.fromkeys(name for concept in members for name in concept.experiments)
    return _links(
        {
            "concepts": [concept.id for concept in members],
            "equations": [*lesson.equations, *lesson.gradients],
            "chapters": [lesson.picture] if lesson.picture else [],
            "experiments": experiments,
        }
    )


def chapter_doors(chapter: str) -> list[Plain]:
    """The lessons and the concepts of a chapter."""
    members = [lesson.name for lesson in lessons().values() if lesson.picture == chapter]
    ids = [concept.id for concept in concepts_of("chapters", chapter)]
    return _links({"lessons": members, "concepts": ids})


def _concept_page(concept: Concept) -> Plain:
    return _page(
        "concept",
        concept.id,
        concept.title,
        topic=concept.topic,
        texts=[concept.text],
        formulas=formulas(concept.equations),
        links=_links(linked_fields(concept)),
    )


def _equation_page(equation: Entry) -> Plain:
    from pellucid.course.experiments import EXPERIMENTS

    name = equation.name
    home = [] if equation.concept is None else [equation.concept.id]
    others = [concept.id for concept in concepts_of("equations", name)]
    owners = [x.name for x in lessons().values() if name in (*x.equations, *x.gradients)]
    experiments = [x.name for x in EXPERIMENTS.values() if name in x.concepts]
    links = {"concepts": dict.fromkeys([*home, *others]), "lessons": owners}
    return _page(
        "equation",
        name,
        equation.signature,
        topic=equation.topic,
        texts=[equation.summary],
        formulas={name: equation.formula},
        sections={
            part: "\n".join(unwrapped(text))
            for part in _SECTIONS
            if (text := getattr(equation, part))
        },
        examples=[[example.expression, example.shown_text] for example in equation.examples()],
        links=_links({**links, "experiments": experiments}),
    )


def _experiment_page(experiment: Experiment) -> Plain:
    sections = {
        "claim": experiment.claim,
        "refuted": experiment.refuted_by,
        "source": str(experiment.source),
        "command": f"pellucid experiment {experiment.name} --quick",
    }
    ids = [concept.id for concept in concepts_of("experiments", experiment.name)]
    equations = [name for name in experiment.concepts if name in maths.__all__]
    return _page(
        "experiment",
        experiment.name,
        experiment.title,
        texts=[experiment.description],
        sections=sections,
        links=_links({"concepts": ids, "equations": equations}),
    )


def _page(kind: str, name: str, title: str, **parts: Any) -> Plain:
    empty: Plain = {"topic": "", "texts": [], "formulas": {}, "sections": {}, "examples": []}
    return {**empty, **parts, "kind": kind, "name": name, "title": title}


def _links(fields: Mapping[str, Iterable[str]]) -> list[Plain]:
    """Fields with their items; an item without a kind is plain text."""
    return [
        {"field": field, "items": items}
        for field, names in fields.items()
        if (items := [_item(_KINDS.get(field, ""), name) for name in names])
    ]


def _item(kind: str, name: str) -> Plain:
    return {"kind": kind, "name": name, "title": _title(kind, name)}


def _title(kind: str, name: str) -> str:
    from pellucid.course.experiments import EXPERIMENTS

    match kind:
        case "concept":
            return concepts()[name].title
        case "lesson":
            return lessons()[name].title
        case "chapter":
            return find_chapter(name).title
        case "experiment":
            return EXPERIMENTS[name].title
        case _:
            return name
