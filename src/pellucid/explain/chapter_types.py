"""Chapters: a plain sentence, pictures and receipts; the same for every display."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from pellucid.explain.expressions import Expression, evaluate
from pellucid.printable import printable


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The place that all chapters are about.

    It names a token (the query), another token (the key), a layer, a head, a feature, and a stack
    if the model has two. Negative numbers count from the end. `cross` means the decoder's attention
    to an encoder: the key is then a token of the source.

    `weight` is a parameter by its name, in the layer ("attention.query.weight") or in the model
    ("token_embedding.weight"); the layer's first matrix if it is empty. `row` and `column` are one
    number of it.
    """

    token: int = -1
    other: int = 0
    layer: int = 0
    head: int = 0
    feature: int = 0
    stack: Literal["decoder", "encoder"] = "decoder"
    cross: bool = False
    weight: str = ""
    row: int = 0
    column: int = 0


class Operand(NamedTuple):
    """A number that another one is made of: its address in the trace, and its value."""

    address: str
    value: float


def _no_operands() -> tuple[Operand, ...]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """One number of the model, its formula with the operands, and whether both agree.

    `formula` is text with the names of the operands, `model` the number that the model had.
    `source` is the file and line in pellucid that computes it, `address` its address in the trace.
    `list_operands` lists all operands; the receipt of a chapter that is of no address has none.
    """

    title: str
    formula: str
    expression: Expression
    model: float
    tolerance: float
    address: str
    source: str
    dtype: str = "float32"
    list_operands: Callable[[], tuple[Operand, ...]] = field(
        default=_no_operands, repr=False, compare=False
    )

    def __str__(self) -> str:
        comparison = "agrees" if self.agrees else "differs"
        return printable(
            f"{self.title}\n{self.formula} = {self.recomputed:.6g}\n"
            f"the model has {self.model:.6g}: it {comparison}   {self.address}   {self.source}"
        )

    @property
    def value(self) -> float:
        """The model's number."""
        return self.model

    @property
    def operands(self) -> tuple[Operand, ...]:
        """The numbers that the formula reads, each with an address that the trace accepts."""
        return self.list_operands()

    @property
    def recomputed(self) -> float:
        """The result of the formula, in float64."""
        return evaluate(self.expression)

    @property
    def allowed(self) -> float:
        """How far apart both may be: the tolerance, relative to numbers above 1."""
        return self.tolerance * max(1.0, abs(self.model))

    @property
    def agrees(self) -> bool:
        """Whether both are equal within `allowed`."""
        return abs(self.recomputed - self.model) <= self.allowed


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The number of an address that is furthest from what its formula gives."""

    address: str
    model: float
    recomputed: float
    allowed: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """All numbers of one address against their formula: how many there are, and how many agree.

    `worst` is one that differs, if any does. `reason` is why an address has no receipt.
    """

    address: str
    pattern: str
    numbers: int
    agreeing: int
    worst: Difference | None = None
    reason: str | None = None

    @property
    def agrees(self) -> bool:
        """Whether all numbers agree."""
        return self.agreeing == self.numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """The sentence's tokens in a row, each with a number: shown as shade and digits."""

    title: str
    pieces: tuple[str, ...]
    ids: tuple[int, ...]
    values: tuple[float, ...] = ()
    unit: str = ""
    kind: Literal["tokens"] = "tokens"


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """Numbers in rows and columns with their labels; masked cells are None.

    `scale` is the scale of its colours: from 0 to the largest, or both ways from 0. `pooled` says
    in words how it was pooled or cut; it is empty if each cell is one number. `address` is the
    address of the numbers in the trace; the first cell is [first_row, first_column] there. A cell
    of a pooled map is the largest of `patch` x `patch` numbers.
    """

    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: tuple[tuple[float | None, ...], ...]
    scale: Literal["sequential", "diverging"]
    address: str
    pooled: str = ""
    first_row: int = 0
    first_column: int = 0
    patch: int = 1
    kind: Literal["matrix"] = "matrix"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bars:
    """Named numbers as bars, the most important first; `rest` is the sum of all others."""

    title: str
    names: tuple[str, ...]
    values: tuple[float, ...]
    unit: str = ""
    rest: float | None = None
    kind: Literal["bars"] = "bars"


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of text and numbers under headings."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str | float | int, ...], ...]
    kind: Literal["table"] = "table"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """One or several curves over the same places."""

    title: str
    names: tuple[str, ...]
    x: tuple[float, ...]
    series: tuple[tuple[float, ...], ...]
    x_unit: str
    unit: str = ""
    kind: Literal["lines"] = "lines"


@dataclass(frozen=True, slots=True, kw_only=True)
class Film:
    """Curves of all tokens and the predictions of all layers, over the snapshots of a training.

    `steps` are the updates after which a snapshot was taken. A curve is the probability of one
    token of the sentence, by snapshot; `chosen` is the index of the selected token, None if there
    are no curves. `losses` are the losses of the sentence, empty if it has none.
    `rungs[snapshot][layer]` is the prediction of a layer at the selected token: the likeliest
    word, its p, p of the next token (both None without a head), and the length of the stream.
    """

    title: str
    steps: tuple[int, ...]
    names: tuple[str, ...]
    curves: tuple[tuple[float, ...], ...]
    chosen: int | None
    losses: tuple[float, ...]
    layers: tuple[str, ...]
    rungs: tuple[tuple[tuple[str, float | None, float | None, float], ...], ...]
    kind: Literal["film"] = "film"


@dataclass(frozen=True, slots=True, kw_only=True)
class Frames:
    """One head's map at each snapshot: weights in 256 shades, 255 for all of the attention."""

    title: str
    steps: tuple[int, ...]
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    frames: tuple[tuple[tuple[int, ...], ...], ...]
    pooled: str = ""
    patch: int = 1
    kind: Literal["frames"] = "frames"


Part = Literal["forward", "backward", "update", "over time", "compare"]
StaticPicture = Tokens | Matrix | Bars | Table | Lines
AnimatedPicture = Film | Frames
Picture = StaticPicture | AnimatedPicture


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """The content of a chapter at one place: `None` among its members is left out.

    `notes` tell you of numbers that are pooled, cut, or do not add up.
    """

    sentence: str
    pictures: Sequence[Picture | None] = ()
    receipts: Sequence[Receipt | None] = ()
    notes: Sequence[str | None] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Chapter:
    """One chapter at one place: its heading and its content.

    `part` is its part of the story, `number` its place in the list of chapters.
    """

    id: str
    number: int
    part: Part
    title: str
    sentence: str
    pictures: tuple[Picture, ...] = ()
    receipts: tuple[Receipt, ...] = ()
    notes: tuple[str, ...] = ()
