"""A sign: one number of a run, the equation it belongs to, and a word for it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

Word = Literal["calm", "watch", "sick"]
Equation = Literal[1, 2, 3, 4, 5]

WORDS: tuple[Word, ...] = ("calm", "watch", "sick")
#: The five equations, each with the sign that stands for it in its row.
EQUATIONS: dict[Equation, tuple[str, str]] = {
    1: ("softmax", "attention.max_logit"),
    2: ("cross-entropy", "loss.value"),
    3: ("KL", "update.kl_forward"),
    4: ("gradients", "gradient.norm"),
    5: ("variance", "stream.rms"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sign:
    """One number at one step, and what is to be thought of it.

    `rule` is the rule behind the word, in words; `source` says who found its numbers. `where` names
    the place in the model that the number belongs to, where it belongs to one.
    """

    id: str
    equation: Equation
    step: int
    value: float
    word: Word
    rule: str
    source: str
    where: str = ""

    def record(self) -> dict[str, Any]:
        """The sign as plain values."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One equation's row: its name, the worst word of its signs, and the sign to be shown.

    Where nothing of an equation could be measured, `word` and `sign` are None.
    """

    equation: Equation
    name: str
    word: Word | None
    sign: Sign | None


def worst(words: Iterable[Word]) -> Word:
    """The gravest of the words; calm where there are none."""
    gravest: Word = "calm"
    for word in words:
        gravest = word if WORDS.index(word) > WORDS.index(gravest) else gravest
    return gravest


def mildest(words: Iterable[Word]) -> Word:
    """The mildest of the words; sick where there are none."""
    mildest_word: Word = "sick"
    for word in words:
        mildest_word = word if WORDS.index(word) < WORDS.index(mildest_word) else mildest_word
    return mildest_word


def rows(signs: Iterable[Sign]) -> tuple[Row, ...]:
    """The five rows. A sign that is not calm is shown before the one that stands for the row."""
    signs = list(signs)
    all_rows: list[Row] = []
    for equation, (name, headline) in EQUATIONS.items():
        mine = [sign for sign in signs if sign.equation == equation]
        if not mine:
            all_rows.append(Row(equation=equation, name=name, word=None, sign=None))
            continue
        word = worst(sign.word for sign in mine)
        gravest = [sign for sign in mine if sign.word == word]
        chosen = next((sign for sign in gravest if sign.id == headline), gravest[0])
        all_rows.append(Row(equation=equation, name=name, word=word, sign=chosen))
    return tuple(all_rows)


def format_row(row: Row) -> str:
    """A row as one line of text."""
    if row.sign is None or row.word is None:
        return f"{row.equation} {row.name:<14} not measured"
    where = f"  in {row.sign.where}" if row.sign.where else ""
    return f"{row.equation} {row.name:<14} {row.word:<6} {row.sign.id} {row.sign.value:.4g}{where}"
