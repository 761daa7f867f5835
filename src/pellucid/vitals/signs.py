"""A sign: one number of a run, the equation it belongs to, and a word for it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

Word = Literal["calm", "watch", "sick"]
Equation = Literal[1, 2, 3, 4, 5]

WORDS: tuple[Word, ...] = ("calm", "watch", "sick")
#: The five equations, each with the sign that its row shows if all are calm.
EQUATIONS: dict[Equation, tuple[str, str]] = {
    1: ("softmax", "attention.max_logit"),
    2: ("cross-entropy", "loss.value"),
    3: ("KL", "update.kl_forward"),
    4: ("gradients", "gradient.norm"),
    5: ("variance", "stream.rms"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sign:
    """One number at one step, and the word for it.

    `rule` is the rule behind the word, as a sentence; `source` names the publication of its
    thresholds. `place` is the part of the model that the number belongs to, or empty.

    Attributes:
        id: the name of the sign.
        equation: the number of its equation, from 1 to 5.
        step: the update.
        value: the number.
        word: calm, watch or sick.
    """

    id: str
    equation: Equation
    step: int
    value: float
    word: Word
    rule: str
    source: str
    place: str = ""

    def record(self) -> dict[str, Any]:
        """The sign as plain values."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One equation's row: its name, the worst word of its signs, and the sign to show.

    If no sign of an equation could be measured, `word` and `sign` are None.

    Attributes:
        equation: the number of the equation, from 1 to 5.
        name: of the equation.
    """

    equation: Equation
    name: str
    word: Word | None
    sign: Sign | None


def worst(words: Iterable[Word]) -> Word:
    """The gravest of the words; calm if the list is empty."""
    return WORDS[max(map(WORDS.index, words), default=0)]


def mildest(words: Iterable[Word]) -> Word:
    """The mildest of the words; sick if the list is empty."""
    return WORDS[min(map(WORDS.index, words), default=-1)]


def rows(signs: Iterable[Sign]) -> tuple[Row, ...]:
    """The five rows. A row shows its gravest sign; of equally grave ones its headline sign."""
    signs = list(signs)
    all_rows: list[Row] = []
    for equation, (name, headline) in EQUATIONS.items():
        row_signs = [sign for sign in signs if sign.equation == equation]
        if not row_signs:
            all_rows.append(Row(equation=equation, name=name, word=None, sign=None))
            continue
        word = worst(sign.word for sign in row_signs)
        gravest = [sign for sign in row_signs if sign.word == word]
        shown_sign = next((sign for sign in gravest if sign.id == headline), gravest[0])
        all_rows.append(Row(equation=equation, name=name, word=word, sign=shown_sign))
    return tuple(all_rows)


def format_row(row: Row) -> str:
    """A row as one line of text."""
    if row.sign is None or row.word is None:
        return f"{row.equation} {row.name:<14} not measured"
    place = f"  in {row.sign.place}" if row.sign.place else ""
    return f"{row.equation} {row.name:<14} {row.word:<6} {row.sign.id} {row.sign.value:.4g}{place}"
