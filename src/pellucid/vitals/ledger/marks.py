"""Marks: how often something was seen in the updates, and how often it could have been seen."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from pellucid.vitals.ledger.bounds import BOUND
from pellucid.vitals.ledger.row_counts import RowCounts, texts_of

#: What an update can show.
MarkName = Literal[
    "left",
    "written",
    "restored",
    "undone",
    "overwritten",
    "bare",
    "blank",
    "swapped",
    "repeated",
    "unmoved",
    "uphill",
    "lost",
    "reset",
    "rates",
    "resting",
    "pull",
    "drift",
    "cut",
    "outputs",
    "parts",
    "discarded",
    "same_rows",
    "length",
    "known_rows",
    "epoch",
    "one_class",
    "copies",
    "one_row",
    "follows",
    "lowered",
    "shifted",
    "rounded",
    "reverted",
    "stale",
    "same_masks",
    "weight_bound",
    "gradient_bound",
    "noise",
    "pulled",
    "unlike",
    "stride",
    "unshared",
    "apart",
    "twins",
    "alike",
    "unweighted",
    "halved",
    "summed",
    "rates_apart",
]
#: Values of a mark that are kept, and checksums of weights.
_VALUES, _CHECKSUMS = 256, 2**17
#: Shorter rows may come again because there are no others.
_LONG = 16
#: Answers are copies of each other if so many of a batch's rows equal another one.
COPIES = 0.5
#: Masks are those of the batch before from this overlap on: of half of all tokens it is a third.
SAME_MASKS = 0.5
#: A batch is like no other if none is half as much like it as its own halves are.
KIN = 0.5
#: A gradient that is left counts from this share of the new one on, as `gradient.left`.
LEFT = 1e-3
#: A step goes along the gradient from this cosine on: twice what 384 random numbers have by chance.
UPHILL = 0.1
#: An update is undone if so much of nearly every number that it moved is taken back.
UNDONE = 0.8
#: Weights are written over if such a share of the numbers that moved do not go back. Of new weights
#: it is a half.
ASIDE = 0.25
#: Most targets of an update are the next ids, or pushed down, from this share on.
MAJORITY = 0.9
#: A step is lost if such a share of the numbers that it moved is rounded back.
ROUNDED = 0.2
#: A step is put back if such a share of the numbers that it moved are what they were.
HALF = 0.5
#: A step uses other gradients than those that arrived if their cosine is below.
SWAPPED = 0.5
#: A gradient has noise if the addition is so many times as long as the gradient.
NOISE = 0.5


class Row(NamedTuple):
    """What the host knows of an update.

    Attributes:
        step: The update.
        rate: The learning rate; None if the optimiser has none.
        age: The steps that the optimiser remembers of a weight with a gradient; None if unknown.
        arrivals: How often gradients arrived since the update before, if any before its first step
            only before that: others are of another optimiser.
        n_rates: How many different rates these gradients met.
        is_resting: Whether the model was called only in evaluation mode; None without a call.
        has_gradient: Whether any witness had a gradient at its step.
        is_next: Whether the row before it is the update before it.
    """

    step: int
    rate: float | None
    age: int | None
    arrivals: int
    n_rates: int
    is_resting: bool | None
    has_gradient: bool
    is_next: bool


@dataclass(slots=True)
class Mark:
    """How often an update showed something, of the updates that could show it.

    Attributes:
        n_seen: The updates that showed it.
        n_seeable: The updates that could have shown it.
        first: The first update that showed it.
        values: The measured values of the last ones.
        steps: The updates of these values.
    """

    n_seen: int = 0
    n_seeable: int = 0
    first: int = 0
    values: list[float] = field(default_factory=list[float])
    steps: list[int] = field(default_factory=list[int])

    def add(self, step: int, value: float, *, shows: bool) -> None:
        """Add an update that could show it.

        Args:
            step: The update.
            value: The measured value.
            shows: Whether it showed.
        """
        self.n_seeable += 1
        if not shows:
            return
        self.first = self.first or step
        self.n_seen += 1
        self.values.append(value)
        self.steps.append(step)
        del self.values[:-_VALUES], self.steps[:-_VALUES]

    @property
    def share(self) -> float:
        """The share of the updates that showed it, of those that could."""
        return self.n_seen / self.n_seeable if self.n_seeable else 0.0

    @property
    def value(self) -> float:
        """The median of the values; 0 if it was never seen."""
        return statistics.median(self.values) if self.values else 0.0


class Marks:
    """The marks of all rows so far."""

    def __init__(self) -> None:
        self.by_name: dict[MarkName, Mark] = {}
        #: by the checksum of the witnesses: the update after which they had it
        self._steps_by_checksum: dict[float, int] = {}
        self._row_counts = RowCounts()
        self._last: tuple[Row, Mapping[str, float]] | None = None

    def add(self, row: Row, numbers: Mapping[str, float]) -> None:
        """Add an update.

        Args:
            row: What the host knows.
            numbers: The statistics of its page's row (see `COLUMNS`).
        """
        last = self._last if row.is_next else None
        has_gradient = math.isfinite(numbers["slope"]) and numbers["slope"] > 0
        if numbers["left"] >= 0:
            self._mark("left", row, numbers["left"], shows=numbers["left"] >= LEFT)
        self._mark_weights(row, numbers, last)
        self._mark("bare", row, 0.0, shows=not row.has_gradient)
        for name in ("weight_bound", "gradient_bound"):
            if has_gradient:
                self._mark(name, row, numbers[name], shows=numbers[name] >= BOUND)
        if row.has_gradient and math.isfinite(numbers["slope"]):
            self._mark("blank", row, 0.0, shows=numbers["slope"] == 0)
        if has_gradient and last is not None:
            is_same = numbers["gradient"] == last[1]["gradient"]
            self._mark("repeated", row, 1.0, shows=is_same and row.arrivals == 0)
        if has_gradient and row.rate:
            self._mark("unmoved", row, 0.0, shows=numbers["moved"] == 0)
            self._mark("uphill", row, numbers["uphill"], shows=numbers["uphill"] > UPHILL)
            if numbers["lost"] >= 0:
                self._mark("lost", row, numbers["lost"], shows=numbers["lost"] > 0)
        if row.is_resting is not None and row.arrivals:
            self._mark("resting", row, 1.0, shows=row.is_resting)
        age = None if self._last is None else self._last[0].age
        if row.age is not None and age is not None:
            # one that is made anew in each update never remembers a second one
            self._mark("reset", row, float(age), shows=row.age < age or row.age == age == 1)
        if row.arrivals > 1:
            self._mark("rates", row, float(row.n_rates), shows=row.n_rates > 1)
        if has_gradient:
            self._mark("pull", row, numbers["pull"], shows=numbers["pull"] > 0)
            if row.rate and numbers["size"] > 0:
                self._mark("drift", row, row.rate / numbers["size"], shows=True)
                self._mark("stride", row, numbers["step"] / numbers["size"], shows=True)
            if numbers["cut"] >= 0 and row.arrivals:
                self._mark("cut", row, numbers["cut"], shows=numbers["cut"] < 0.99)
            if numbers["agrees"] and row.arrivals:
                self._mark("swapped", row, numbers["agrees"], shows=numbers["agrees"] < SWAPPED)
            if numbers["stale"] >= 0 and row.arrivals:
                self._mark("stale", row, numbers["stale"], shows=numbers["stale"] > 0)
                is_own = numbers["stale"] == 0 and numbers["fresh"] <= 1
                if is_own and numbers["noise"] >= 0:
                    self._mark("noise", row, numbers["noise"], shows=numbers["noise"] > NOISE)
        if numbers["outputs"] > 0:
            self._mark("outputs", row, numbers["outputs"], shows=True)
            self._mark("parts", row, float(row.arrivals), shows=row.arrivals > 0)
        for name in ("follows", "lowered"):
            if numbers[name] >= 0 and row.arrivals:
                self._mark(name, row, numbers[name], shows=numbers[name] > MAJORITY)
        if numbers["shifted"] >= 0 and row.arrivals:
            self._mark("shifted", row, numbers["shifted"], shows=numbers["shifted"] > 0)
        if row.arrivals:
            self._mark("discarded", row, numbers["fresh"] - 1, shows=numbers["fresh"] > 1)
        if numbers["overlap"] >= 0:
            self._mark("same_masks", row, numbers["overlap"], shows=numbers["overlap"] > SAME_MASKS)
        if numbers["kinship"] >= 0:
            self._mark("unlike", row, numbers["kinship"], shows=numbers["kinship"] < KIN)
        self._mark_rows(row, numbers, last)
        self._last = (row, numbers)

    def _mark_rows(
        self, row: Row, numbers: Mapping[str, float], last: tuple[Row, Mapping[str, float]] | None
    ) -> None:
        """Compare the rows of text with those of earlier updates."""
        low, high = numbers["class_low"], numbers["class_high"]
        if low >= 0:
            self._mark("one_class", row, low, shows=low == high)
        texts = texts_of(numbers)
        if not texts:
            return
        copied = sum(n for n in Counter(texts).values() if n > 1) / len(texts)
        if len(texts) > 1:
            self._mark("copies", row, copied, shows=copied >= COPIES)
        counts = self._row_counts
        share = counts.share_of_one(texts)
        self._mark("one_row", row, share, shows=share > COPIES)
        length = numbers["tokens"]
        self._mark("length", row, length, shows=True)
        if last is not None and (old := texts_of(last[1])):  # the first may have none
            self._mark("same_rows", row, float(texts == old), shows=sorted(texts) == sorted(old))
        times = counts.add(numbers) if length >= _LONG else counts.add_batch(texts)
        self._mark("known_rows", row, times, shows=times > 0)
        epoch = counts.updates_an_epoch()
        self._mark("epoch", row, epoch, shows=epoch > 0)

    def _mark_weights(
        self, row: Row, numbers: Mapping[str, float], last: tuple[Row, Mapping[str, float]] | None
    ) -> None:
        """Compare the weights with those after earlier updates."""
        before = numbers["before"]
        if last is None:
            earlier = self._steps_by_checksum.get(before, -1)
            is_written = bool(self._steps_by_checksum) and earlier < row.step - 1
        else:
            is_written = before != last[1]["after"]
            if numbers["pulled"] >= 0:
                self._mark("pulled", row, numbers["pulled"], shows=numbers["pulled"] > 0)
            step = last[1]["step"]
            self._mark("written", row, numbers["written"] / (step or 1.0), shows=is_written)
            if step:
                self._mark("undone", row, numbers["undone"], shows=numbers["undone"] >= UNDONE)
                is_over = is_written and numbers["aside"] >= ASIDE
                self._mark("overwritten", row, numbers["written"] / step, shows=is_over)
                self._mark("rounded", row, numbers["rounded"], shows=numbers["rounded"] > ROUNDED)
                self._mark("reverted", row, numbers["reverted"], shows=numbers["reverted"] >= HALF)
        if self._steps_by_checksum:
            earlier = self._steps_by_checksum.get(before) if is_written else None
            steps_lost = 0.0 if earlier is None else float(row.step - 1 - earlier)
            self._mark("restored", row, steps_lost, shows=steps_lost > 0)
        else:
            self._steps_by_checksum[before] = row.step - 1
        self._steps_by_checksum[numbers["after"]] = row.step
        while len(self._steps_by_checksum) > _CHECKSUMS:
            del self._steps_by_checksum[next(iter(self._steps_by_checksum))]

    def _mark(self, name: MarkName, row: Row, value: float, *, shows: bool) -> None:
        self.by_name.setdefault(name, Mark()).add(row.step, value, shows=shows)
