"""What became of a run, by its events alone: its state, its measures, its pace, its vital signs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Literal

from pellucid.saved_runs.folder import RunFolder
from pellucid.saved_runs.records import read_events
from pellucid.training import Event, Resumed, Started, events

State = Literal["finished", "not finite", "unfinished", "in use"]

#: The words for a vital sign, the most severe last; "" if nothing was measured.
WORDS = ("", "calm", "watch", "sick")
#: The measure that every objective has.
LOSS = "loss_nats"
#: The measure of text that does not depend on the tokenizer.
PER_BYTE = "bits_per_byte"
#: The measure of answers that are judged.
REWARD = "reward"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A run as its events tell it.

    `measures` come from the last evaluation, and `best` is the lowest held-out loss. `words` has
    the worst word of each of the five equations, and `troubles` the first update of each sick sign.

    Attributes:
        folder: the run's folder.
        state: "finished", "unfinished", "in use" or "not finite".
        step: updates that are done.
        total_steps: updates of the whole run.
        unit: what the loss is a mean of.
        terms: of that unit, that the run has learnt from.
        terms_per_second: the median over the run.
        seconds: of training.
        stopped: where a value was not finite; empty if none was.
        curves: for each measure the update and the value.
    """

    folder: Path
    state: State
    step: int = 0
    total_steps: int | None = None
    unit: str = "tokens"
    measures: dict[str, float] = field(default_factory=dict[str, float])
    best: float | None = None
    terms: int = 0
    terms_per_second: float | None = None
    seconds: float | None = None
    words: dict[str, str] = field(default_factory=dict[str, str])
    troubles: dict[str, int] = field(default_factory=dict[str, int])
    stopped: str = ""
    curves: dict[str, tuple[tuple[int, float], ...]] = field(
        default_factory=dict[str, tuple[tuple[int, float], ...]]
    )

    @property
    def is_over(self) -> bool:
        """Whether training it again would repeat it."""
        return self.state in ("finished", "not finite")

    @property
    def word(self) -> str:
        """The worst word of the five vital signs."""
        return max(self.words.values(), key=WORDS.index, default="")

    def value(self, measure: str) -> float | None:
        """A measure at the end of the run; None if the run has not reached its end."""
        return self.measures.get(measure) if self.state == "finished" else None


def finite_or_none(value: float | None) -> float | None:
    """A value that can be compared; None if it is absent or not finite."""
    return value if value is not None and math.isfinite(value) else None


def outcome_of(path: Path) -> Outcome:
    """What became of the run in a folder; one without events is unfinished.

    Args:
        path: the run's folder.
    """
    folder = RunFolder(path)
    happened = read_events(folder.metrics)
    evaluated = [event for event in happened if isinstance(event, events.Evaluated)]
    logged = [event for event in happened if isinstance(event, events.Logged)]
    last = evaluated[-1] if evaluated else None
    # the length of a run by minutes changes
    lengths = [e.total_steps for e in happened if isinstance(e, Started | Resumed | events.Logged)]
    ends = [event for event in happened if isinstance(event, events.Finished)]
    words, troubles = _vital_words(happened)
    stop = next((e for e in happened if isinstance(e, events.StoppedNonFinite)), None)
    return Outcome(
        folder=path,
        state=_state(folder, happened),
        step=max((event.step for event in happened), default=0),
        total_steps=lengths[-1] if lengths else None,
        unit=last.unit if last else "tokens",
        measures={} if last is None else {LOSS: last.loss_nats, **dict(last.measures)},
        best=min((event.loss_nats for event in evaluated), default=None),
        terms=sum(event.tokens for event in logged[-1:]),
        terms_per_second=median(e.tokens_per_second for e in logged) if logged else None,
        seconds=sum(event.seconds for event in ends) if ends else None,
        words=words,
        troubles=troubles,
        stopped="" if stop is None else f"{stop.what} of {stop.where} at update {stop.step + 1}",
        curves=_curves(evaluated, logged),
    )


def _state(folder: RunFolder, happened: Sequence[Event]) -> State:
    """The state of a run: its end tells it, and else the lock whether it trains now."""
    for event in reversed(happened):
        match event:
            case events.Finished():
                return "finished"
            case events.StoppedNonFinite():
                return "not finite"
            case events.Logged() | events.Interrupted() | events.Resumed() | events.Started():
                break
            case _:  # a watcher may have the last word
                continue
    return "in use" if folder.path.is_dir() and folder.is_held() else "unfinished"


def _vital_words(happened: Sequence[Event]) -> tuple[dict[str, str], dict[str, int]]:
    """The worst word of each equation, and the first sick update of each sign."""
    words: dict[str, str] = {}
    troubles: dict[str, int] = {}
    for event in happened:
        if isinstance(event, events.Vitals):
            for name, word in event.rows:
                words[name] = max(words.get(name, ""), word, key=WORDS.index)
            for id, _, _, word, step, _ in event.signs:
                if word == "sick":
                    troubles.setdefault(id, step)
    return words, troubles


def _curves(
    evaluated: Sequence[events.Evaluated], logged: Sequence[events.Logged]
) -> dict[str, tuple[tuple[int, float], ...]]:
    """Each measure and the training loss by update."""
    points: dict[str, list[tuple[int, float]]] = {}
    for event in evaluated:
        for name, value in ((LOSS, event.loss_nats), *event.measures):
            points.setdefault(name, []).append((event.step, value))
    points["training"] = [(event.step, event.loss) for event in logged]
    return {name: tuple(values) for name, values in points.items()}
