"""What a chapter is: a plain sentence, pictures, receipts; the same for every face."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pellucid.explain.expressions import Expression, evaluate


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What is chosen, once for everything: a token (the query), another one (the key), a layer, a
    head, a feature, and a stack where there are two.

    Negative numbers count from the end. `cross` means the decoder's attention to an encoder: the
    key is then a token of the source.

    `weight` is a parameter by its name, in the chosen layer ("attention.query.weight") or in the
    model ("token_embedding.weight"); where it is empty, the layer's first matrix. `row` and
    `column` are one number of it.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """One number of the model, its formula with the operands put in, and whether both agree.

    `formula` is text with the operands' names, `model` the number that the model had. `source` is
    the file and line in pellucid that computes it; `address` where it stands in the trace.
    """

    title: str
    formula: str
    expression: Expression
    model: float
    tolerance: float
    address: str
    source: str
    dtype: str = "float32"

    @property
    def recomputed(self) -> float:
        """What the formula comes to, in float64."""
        return evaluate(self.expression)

    @property
    def allowed(self) -> float:
        """How far apart both may be: the tolerance, which is relative where the number is above
        1."""
        return self.tolerance * max(1.0, abs(self.model))

    @property
    def agrees(self) -> bool:
        """Whether both are equal within what is allowed."""
        return abs(self.recomputed - self.model) <= self.allowed


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
    """Numbers in rows and columns with their labels; what is hidden by a mask is None.

    `scale` says how it is coloured: from 0 to the largest, or both ways from 0. `pooled` says in
    words what was pooled or cut, and is empty where each cell is one number. `address` is where
    [row, column] stands in the trace; of a part that was cut out, the first cell is
    [first_row, first_column] there.
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
    kind: Literal["matrix"] = "matrix"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bars:
    """Named numbers as bars, the most important first; `rest` sums up those that are not shown."""

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
    """Curves and one token's ladder over the snapshots of a training.

    `steps` are the updates after which a snapshot was taken. A curve is the probability of a token
    that came, by snapshot; `chosen` is the one that was asked for, None where there are none.
    `losses` are the sentence's, empty where it has none. `rungs[snapshot][layer]` is what the layer
    would say at the chosen token: the likeliest, its p, that of what came, both None where the
    model says nothing, and the length of the residual stream.
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
class Chapter:
    """One chapter at one place: a sentence, pictures, receipts, and what has to be added.

    The list of chapters gives its `id`, `title`, `part` of the story, and `number` in the list.
    `notes` say what is pooled, cut, or does not add up.
    """

    id: str = ""
    part: Part = "forward"
    title: str = ""
    sentence: str
    number: int = 0
    pictures: tuple[Picture, ...] = ()
    receipts: tuple[Receipt, ...] = ()
    notes: tuple[str, ...] = ()
