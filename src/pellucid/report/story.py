"""A run's events, sorted into curves, samples and a list of incidents."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pellucid.display.metric_labels import Measured, in_order, measured, nats_per
from pellucid.display.plain import drift_line
from pellucid.report.messages import message
from pellucid.training import events

#: Most points of a curve; more are averaged over equal stretches of updates.
MOST_POINTS = 400


@dataclass(frozen=True, slots=True)
class Series:
    """One curve: (step, value) in order; every value is finite.

    Args:
        name: The name of the number.
        unit: The unit of its values.
        points: Steps and values.
        updates: How many updates are averaged in one point; 1 if none are.
        n_hidden: How many values were not finite, so that they are not drawn.
        band: The lowest and the highest value at a step, if the points are means of several runs.
    """

    name: str
    unit: str
    points: tuple[tuple[int, float], ...]
    updates: int = 1
    n_hidden: int = 0
    band: tuple[tuple[int, float, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Story:
    """A run according to its events.

    Attributes:
        name: of the run.
        facts: lines from the start of the run.
        step: updates that are done.
        total_steps: updates of the whole run.
        ended: how the run ended; empty while it has not.
        guessing_nats: the loss of an even guess.
        clip_norm: the largest norm that is let through.
        best: the evaluation with the lowest loss.
        last: the last numbers of the training.
        loss: of the training, by update.
        held_out: the held-out loss, by update.
        measures: other measures of held-out data.
        grad_norms: the norm of all gradients, by update.
        learning_rate: by update.
        speed: terms per second, by update.
        parts: other numbers of the objective.
        unit: what the loss is a mean of.
        examples: as they were trained.
        samples: of the fixed sentence.
        happenings: what else happened, and when.
        resumed_at: the updates from which the run continued.
    """

    name: str
    facts: tuple[tuple[str, str], ...]
    step: int
    total_steps: int | None
    ended: str
    guessing_nats: float | None
    clip_norm: float | None
    best: events.Evaluated | None
    last: events.Logged | None
    loss: Series
    held_out: Series
    measures: tuple[tuple[Measured, Series], ...]
    grad_norms: Series
    learning_rate: Series
    speed: Series
    parts: tuple[tuple[Measured, Series], ...]
    unit: str
    examples: tuple[events.Example, ...]
    samples: tuple[events.Sampled, ...]
    happenings: tuple[tuple[int, str], ...]
    resumed_at: tuple[int, ...]


def build_story(happened: Sequence[events.Event], name: str) -> Story:
    """Sort a run's events; `name` is used if no event names the run."""
    started = next((e for e in happened if isinstance(e, events.Started)), None)
    logged = [e for e in happened if isinstance(e, events.Logged)]
    evaluated = [e for e in happened if isinstance(e, events.Evaluated)]
    resumed = [e for e in happened if isinstance(e, events.Resumed)]
    bests = [e for e in evaluated if e.best]
    units = [e.unit for e in (*logged, *evaluated)] or ([started.unit] if started else ["tokens"])
    nats = nats_per(units[-1])
    # the length of a run by minutes changes
    totals = [
        e.total_steps
        for e in happened
        if isinstance(e, events.Started | events.Resumed | events.Logged)
    ]
    return Story(
        name=name if started is None else started.name,
        facts=() if started is None else started.facts,
        step=max((e.step for e in happened), default=0),
        total_steps=totals[-1] if totals else None,
        ended=_ended(happened),
        guessing_nats=None if started is None else started.guessing_nats,
        clip_norm=logged[-1].clip_norm if logged else None,
        best=bests[-1] if bests else None,
        last=logged[-1] if logged else None,
        loss=_joined(message("training-loss"), nats, [(e.step, e.losses) for e in logged]),
        held_out=_plain(message("held-out-loss"), nats, [(e.step, e.loss_nats) for e in evaluated]),
        measures=_measures(evaluated),
        grad_norms=_joined(
            message("norm-before-clipping"), "", [(e.step, e.grad_norms) for e in logged]
        ),
        learning_rate=_plain(
            message("learning-rate"), "", [(e.step, e.learning_rate) for e in logged]
        ),
        speed=_plain(
            message("speed"), f"{units[-1]}/s", [(e.step, e.tokens_per_second) for e in logged]
        ),
        parts=_parts(logged),
        unit=units[-1],
        examples=tuple(e for e in happened if isinstance(e, events.Example)),
        samples=tuple(e for e in happened if isinstance(e, events.Sampled)),
        happenings=tuple((e.step, text) for e in happened if (text := _happening(e))),
        resumed_at=tuple(e.step for e in resumed),
    )


def _measures(evaluated: Sequence[events.Evaluated]) -> tuple[tuple[Measured, Series], ...]:
    """A curve for every measure, the most informative first."""
    values_by_name = {name: value for event in evaluated for name, value in event.measures}
    return tuple(
        (
            measure,
            _plain(
                message("held-out", title=measure.title),
                measure.unit,
                [
                    (event.step, value)
                    for event in evaluated
                    if (value := event.measure(measure.name)) is not None
                ],
            ),
        )
        for measure, _ in in_order(values_by_name.items())
    )


def _parts(logged: Sequence[events.Logged]) -> tuple[tuple[Measured, Series], ...]:
    """A curve for every part of the loss."""
    names = dict.fromkeys(name for event in logged for name, _ in event.parts)
    return tuple(
        (
            part,
            _joined(
                part.title, part.unit, [(event.step, event.part(part.name)) for event in logged]
            ),
        )
        for part in map(measured, names)
    )


def _happening(event: events.Event) -> str:
    match event:
        case events.Started():
            return message("started", total=event.total_steps)
        case events.Resumed():
            return message("resumed-from", checkpoint=_short(event.checkpoint))
        case events.Drifted():
            return drift_line(event)
        case events.Noticed():
            return event.text
        case events.CheckpointSaved():
            key = "saved-best" if event.best else "saved"
            return message(key, checkpoint=_short(event.path))
        case events.Interrupted():
            key = "interrupted-saved" if event.step else "interrupted-unsaved"
            return message(key, signal=event.signal or message("user"))
        case events.StoppedNonFinite():
            return message(
                "not-finite",
                update=event.step + 1,
                culprit=message("culprit", what=event.what, where=event.where),
                folder=_short(event.aside),
            )
        case events.Finished():
            return message("finished-after", seconds=event.seconds)
        case _:
            return ""


def _short(path: str) -> str:
    """checkpoints/step-100: the path within the run's folder, from any system."""
    return "/".join(path.replace("\\", "/").split("/")[-2:])


def _ended(happened: Sequence[events.Event]) -> str:
    match happened[-1] if happened else None:
        case events.Finished():
            return message("finished")
        case events.Interrupted():
            return message("interrupted")
        case events.StoppedNonFinite():
            return message("stopped")
        case _:
            return message("not-over")


def _plain(name: str, unit: str, points: Sequence[tuple[int, float]]) -> Series:
    stretch = math.ceil(len(points) / MOST_POINTS) or 1
    finite = [(step, value) for step, value in points if math.isfinite(value)]
    averages = _average(finite, stretch)
    updates = 1 if stretch == 1 else _typical_gap(averages)
    return Series(name, unit, tuple(averages), updates, len(points) - len(finite))


def _joined(name: str, unit: str, reports: Iterable[tuple[int, tuple[float, ...]]]) -> Series:
    """A curve with a value for every update; each report names its last update."""
    points: list[tuple[int, float]] = []
    for last, values in reports:
        first = last - len(values) + 1
        points += [(first + i, value) for i, value in enumerate(values)]
    finite = [(step, value) for step, value in points if math.isfinite(value)]
    stretch = math.ceil(len(finite) / MOST_POINTS) or 1
    return Series(name, unit, tuple(_average(finite, stretch)), stretch, len(points) - len(finite))


def _average(points: Sequence[tuple[int, float]], stretch: int) -> list[tuple[int, float]]:
    """The averages of equal stretches, each at its last step."""
    parts = [points[i : i + stretch] for i in range(0, len(points), stretch)]
    return [(part[-1][0], sum(value for _, value in part) / len(part)) for part in parts]


def _typical_gap(points: Sequence[tuple[int, float]]) -> int:
    return max((b[0] - a[0] for a, b in pairwise(points)), default=1)
