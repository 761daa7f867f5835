"""The kinds of arguments that an equation can take: arrays with named axes, numbers, words, flags.

An axis has the same length in all arguments, `...` means the same leading axes in all of them, and
nothing broadcasts unless its kind allows it. An axis has at least one entry; "samples>=2" demands
more, "time>=0" allows none, and "width|1" allows an axis of length one.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Axis:
    """A named axis: its least length, and whether a length of one is always allowed."""

    name: str
    least: int = 1
    or_one: bool = False


@dataclass(frozen=True, slots=True)
class Axes:
    """The axes of an array; if `leading`, any number of other axes, `...`, may precede them."""

    leading: bool
    trailing: tuple[Axis, ...]

    def __str__(self) -> str:
        names = [*(["..."] if self.leading else []), *(axis.name for axis in self.trailing)]
        return f"({', '.join(names)}{',' if names and names != ['...'] and len(names) < 2 else ''})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """The allowed numbers: greater than `gt`, at least `ge`, at most `le` and less than `lt`."""

    gt: float | None = None
    ge: float | None = None
    le: float | None = None
    lt: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Floats:
    """Floating numbers; infinite or nan only if the kind allows it."""

    axes: Axes
    range: Range = Range()
    lowest: bool = False  # -inf: masked, or impossible
    highest: bool = False  # inf
    nan: bool = False
    probabilities: bool = False
    sums_to_one: bool = False
    broadcasts: bool = False
    whole_too: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Wholes:
    """Whole numbers; with `size`, the name of an axis or an argument, from 0 to size - 1."""

    axes: Axes
    range: Range = Range()
    size: str | None = None
    broadcasts: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Truths:
    """Truth values."""

    axes: Axes
    broadcasts: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """One number, never nan; not an array."""

    range: Range = Range()
    integer: bool = False
    even: bool = False
    infinite: bool = False


@dataclass(frozen=True, slots=True)
class Words:
    """One of a few words."""

    choices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Flag:
    """True or False."""


ArrayKind = Floats | Wholes | Truths


@dataclass(frozen=True, slots=True)
class Either:
    """A number, or an array."""

    number: Number
    array: ArrayKind


Kind = ArrayKind | Number | Words | Flag | Either

_ABOVE_ZERO, _FROM_ZERO = Range(gt=0), Range(ge=0)

ANY_NUMBER = Number()
POSITIVE = Number(range=_ABOVE_ZERO)
NOT_NEGATIVE = Number(range=_FROM_ZERO)
#: A loss, which may be infinite.
COST = Number(infinite=True)
GREATER_THAN_ONE = Number(range=Range(gt=1))
AT_LEAST_ONE = Number(range=Range(ge=1))
FRACTION = Number(range=Range(ge=0, le=1))
#: In [0, 1).
DECAY_RATE = Number(range=Range(ge=0, lt=1))
#: In (0, 1].
SHARE = Number(range=Range(gt=0, le=1))
COUNT = Number(range=Range(ge=1), integer=True)
FROM_ZERO = Number(range=_FROM_ZERO, integer=True)
EVEN = Number(range=Range(ge=2), integer=True, even=True)
FLAG = Flag()


def parse_axes(text: str) -> Axes:
    """Axes from their text, such as "... time>=0 width|1"."""
    words = text.split()
    leading = words[:1] == ["..."]
    return Axes(leading, tuple(_axis(word) for word in words[leading:]))


def _axis(word: str) -> Axis:
    name, _, least = word.partition(">=")
    name, _, alternative = name.partition("|")
    return Axis(name, int(least or 1), alternative == "1")


def floats(axes: str) -> Floats:
    """Finite numbers."""
    return Floats(axes=parse_axes(axes))


def masked(axes: str, *, broadcasts: bool = False) -> Floats:
    """Numbers that may be -inf: masked scores, or the logarithm of 0."""
    return Floats(axes=parse_axes(axes), lowest=True, broadcasts=broadcasts)


def scores(axes: str) -> Floats:
    """Scores of a row: -inf where masked; a nan makes its own row nan."""
    return Floats(axes=parse_axes(axes), lowest=True, nan=True)


def extended(axes: str) -> Floats:
    """Numbers that may be inf or -inf."""
    return Floats(axes=parse_axes(axes), lowest=True, highest=True)


def positive(axes: str) -> Floats:
    """Numbers above 0."""
    return Floats(axes=parse_axes(axes), range=_ABOVE_ZERO)


def not_negative(axes: str) -> Floats:
    """Numbers that are at least 0."""
    return Floats(axes=parse_axes(axes), range=_FROM_ZERO)


def shares(axes: str) -> Floats:
    """Numbers in [0, 1]."""
    return Floats(axes=parse_axes(axes), probabilities=True)


def distribution(axes: str) -> Floats:
    """Numbers in [0, 1] that sum to one along the last axis."""
    return Floats(axes=parse_axes(axes), probabilities=True, sums_to_one=True)


def reals(axes: str) -> Floats:
    """Finite numbers, floating or whole."""
    return Floats(axes=parse_axes(axes), whole_too=True)


def wholes(axes: str, *, least: int | None = None) -> Wholes:
    """Whole numbers."""
    return Wholes(axes=parse_axes(axes), range=Range(ge=least))


def index(axes: str, *, size: str) -> Wholes:
    """Whole numbers from 0 to below the length of an axis, or an argument's value."""
    return Wholes(axes=parse_axes(axes), size=size)


def mask(axes: str) -> Truths:
    """Truth values whose shape broadcasts to the axes."""
    return Truths(axes=parse_axes(axes), broadcasts=True)


def truths(axes: str) -> Truths:
    """Truth values."""
    return Truths(axes=parse_axes(axes))


def in_range(x: float, range: Range) -> bool:
    """Whether a number is in the range; nan never is."""
    return (
        (range.gt is None or x > range.gt)
        and (range.ge is None or x >= range.ge)
        and (range.le is None or x <= range.le)
        and (range.lt is None or x < range.lt)
        and x == x
    )


def describe(range: Range) -> str:
    """A range in words: "greater than 0", "between 0 and 1"."""
    minimum, maximum = range.ge, range.le
    if minimum is not None and maximum is not None:
        return f"between {minimum:g} and {maximum:g}"
    words: list[str] = []
    if range.gt is not None:
        words.append(f"greater than {range.gt:g}")
    if minimum is not None:
        words.append(f"at least {minimum:g}")
    if maximum is not None:
        words.append(f"at most {maximum:g}")
    if range.lt is not None:
        words.append(f"less than {range.lt:g}")
    return " and ".join(words)
