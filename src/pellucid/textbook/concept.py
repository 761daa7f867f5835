"""Concepts: every term of the subject, with its page's text and its links.

The tables lie in `concepts/`, one file a topic. A concept names what belongs to it: equations,
derivations, chapters of `explain`, vital signs, causes, config keys, a line of code, papers. Which
concepts belong to one of these is the same table, read the other way round: `concepts_of`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Literal, get_args

from pellucid.reader import parse_toml

#: The fields of a concept that link it to other things.
Link = Literal[
    "equations",
    "derivations",
    "chapters",
    "experiments",
    "lessons",
    "signs",
    "causes",
    "keys",
    "papers",
    "see",
]
#: Every kind of link by name.
LINKS: tuple[Link, ...] = get_args(Link)

#: Files of `concepts/` in reading order, and the titles of their topics.
TOPICS: dict[str, str] = {
    "text": "Text and tokens",
    "vectors": "Vectors and the output head",
    "positions": "Positions",
    "attention": "Attention",
    "efficient": "Cost of attention, memory and fast generation",
    "norms": "Norms",
    "blocks": "Blocks and activations",
    "models": "Models, counts and machines",
    "experts": "Experts",
    "softmax": "Softmax",
    "loss": "Loss and likelihood",
    "divergences": "Entropy and divergences",
    "gradients": "Gradients",
    "initialisation": "First weights",
    "optimisers": "Optimisers",
    "schedules": "Schedules and the run",
    "regularisation": "Regularisation",
    "objectives": "Objectives",
    "sampling": "Sampling and use",
    "tuning": "Tuning",
    "preferences": "Preferences and reward",
    "inside": "Looking inside",
    "scaling": "Scale and comparison",
    "evaluation": "Evaluation",
    "numbers": "Numbers in a computer",
    "diagnosis": "What goes wrong",
    "algebra": "Algebra and probability",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Concept:
    """One term of the subject and everything that belongs to it.

    Attributes:
        id: Its address, in lower case with hyphens.
        topic: The title of its topic.
        title: Its usual name.
        aliases: Other names, spellings and everyday questions.
        text: The explanation, one paragraph.
        equation: The name in `pellucid.maths` of its own formula, or empty.
        related: Other equations that concern it.
        derivations: Pages of `docs/derivations`.
        chapters: Chapters of `pellucid explain`.
        experiments: Names for `pellucid experiment`.
        lessons: Names for `pellucid learn`.
        signs: Vital signs.
        causes: Codes of `pellucid check` and `pellucid diagnose`.
        keys: Kinds of a config, or keys of them, such as `AdamW.betas`.
        code: File and name of the code that does it, such as `model/norms.py:RMSNorm`.
        see: Other concepts.
        papers: Authors, year and title.
    """

    id: str
    topic: str
    title: str
    aliases: tuple[str, ...]
    text: str
    equation: str = ""
    related: tuple[str, ...] = ()
    derivations: tuple[str, ...] = ()
    chapters: tuple[str, ...] = ()
    experiments: tuple[str, ...] = ()
    lessons: tuple[str, ...] = ()
    signs: tuple[str, ...] = ()
    causes: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    code: str = ""
    see: tuple[str, ...] = ()
    papers: tuple[str, ...] = ()

    @property
    def equations(self) -> tuple[str, ...]:
        """Its own equation, then the related ones."""
        return (self.equation, *self.related) if self.equation else self.related

    @property
    def names(self) -> tuple[str, ...]:
        """All that it may be called."""
        return (self.id, self.title, *self.aliases)


@cache
def concepts() -> dict[str, Concept]:
    """Every concept by its id, in reading order."""
    course = {kind: _by_concept(table) for kind, table in _read("course").items()}
    return {
        key: Concept(
            id=key,
            topic=title,
            experiments=course["experiments"].get(key, ()),
            lessons=course["lessons"].get(key, ()),
            **{name: _field(value) for name, value in record.items()},
        )
        for file, title in TOPICS.items()
        for key, record in _read(file).items()
    }


def concepts_of(link: Link, name: str) -> tuple[Concept, ...]:
    """The concepts that name an equation, a chapter, a sign and so on."""
    return tuple(concept for concept in concepts().values() if name in getattr(concept, link))


def home_of(equation: str) -> Concept | None:
    """The concept that an equation, or its gradient, belongs to most."""
    name = equation.removesuffix("_grads").removesuffix("_grad")
    first = [concept for concept in concepts().values() if concept.equation == name]
    return next(iter((*first, *concepts_of("equations", name))), None)


def read_words(kind: str) -> list[str]:
    """The words of a kind that the look-up treats apart."""
    return str(_read("words")[kind]).split()


def read_pairs(kind: str) -> dict[str, str]:
    """The words of a kind that stand for other words."""
    return dict(_read("words")[kind])


def _by_concept(table: dict[str, list[str]]) -> dict[str, tuple[str, ...]]:
    """The names of experiments or lessons by concept."""
    keys = dict.fromkeys(key for of_name in table.values() for key in of_name)
    return {key: tuple(name for name, of_name in table.items() if key in of_name) for key in keys}


def _field(value: Any) -> Any:
    """A list as a tuple, a text as one line."""
    return tuple(value) if isinstance(value, list) else " ".join(value.split())  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


def _read(file: str) -> dict[str, Any]:
    path = resources.files("pellucid.textbook") / "concepts" / f"{file}.toml"
    return parse_toml(path.read_text("utf-8"), f"{file}.toml")
