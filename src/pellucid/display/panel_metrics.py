"""What a panel says in numbers: a column beside the curve, and cells below it.

The column has always the same lines, and a cell its place: nothing jumps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pellucid.display.metric_labels import guessing, measured, nats_per, news
from pellucid.display.numbers import duration, short, size
from pellucid.display.plain import mean_of
from pellucid.display.terminal_text import fitted, visible
from pellucid.training import events

_LABEL, _VALUE, _BETWEEN = 14, 9, 2


@dataclass(slots=True)
class Known:
    """What is known of a run by now."""

    started: events.Started | None = None
    logged: events.Logged | None = None
    before: float | None = None
    evaluated: events.Evaluated | None = None
    best: events.Evaluated | None = None

    @property
    def unit(self) -> str:
        """What the loss is a mean over, in the plural."""
        event = self.logged or self.evaluated or self.started
        return event.unit if event else "tokens"


def column(known: Known) -> Sequence[str]:
    """Always the same lines; a dash where a number is not known yet."""
    logged, evaluated, best = known.logged, known.evaluated, known.best
    lines = [
        f"train     {_loss(logged, known.before)}",
        "held-out  "
        + ("–" if evaluated is None else f"{evaluated.loss_nats:.4f} {nats_per(evaluated.unit)}"),
        f"          {_telling(evaluated)}",
        f"best      {_telling(best)}" + ("" if best is None else f" @{best.step}"),
    ]
    if known.started is not None and known.started.guessing_nats is not None:
        lines.append(f"guessing  {guessing(known.started.guessing_nats, known.started.unit)}")
    if logged is not None:
        lines += [
            f"grad      {_norm(logged)}",
            f"rate      {logged.learning_rate:.2e}",
            f"speed     {short(logged.tokens_per_second)} {logged.unit}/s",
            f"memory    {size(logged.memory_bytes):<7}   left {duration(logged.seconds_left)}",
        ]
    return lines


def cells(known: Known, columns: int) -> list[str]:
    """The parts of the loss that are news, and the measures besides the most telling one."""
    parts = () if known.logged is None else known.logged.parts
    trained = [
        (part.label, part.number(mean_of(values)))
        for part, values in ((measured(name), values) for name, values in parts)
        if part.in_panel and values
    ]
    further = [] if known.evaluated is None else news(known.evaluated.measures)[1:]
    held_out = [(measure.label, measure.number(value)) for measure, value in further]
    return _rows("train", trained, columns) + _rows("held-out", held_out, columns)


def _rows(name: str, labelled_values: Sequence[tuple[str, str]], columns: int) -> list[str]:
    """Cells of one width, so many in a line as fit; the first line says of what they are."""
    margin = len("held-out  ")
    width = _LABEL + 1 + _VALUE
    beside = max(1, (columns - margin + _BETWEEN) // (width + _BETWEEN))
    cell_texts = [
        f"{fitted(visible(label), _LABEL)} {value:>{_VALUE}}" for label, value in labelled_values
    ]
    return [
        f"{name if i == 0 else '':<{margin}}" + (" " * _BETWEEN).join(cell_texts[i : i + beside])
        for i in range(0, len(cell_texts), beside)
    ]


def _telling(evaluated: events.Evaluated | None) -> str:
    """The measure that says most; the loss, where nothing else was measured."""
    if evaluated is None:
        return "–"
    measures = news(evaluated.measures)
    if not measures:
        return f"{evaluated.loss_nats:.4f} {nats_per(evaluated.unit)}"
    measure, value = measures[0]
    return visible(measure.with_unit(value))


def _loss(logged: events.Logged | None, previous_loss: float | None) -> str:
    if logged is None:
        return "–"
    change = "" if previous_loss is None else f" {_arrow(logged.loss - previous_loss)}"
    return f"{logged.loss:.4f} {nats_per(logged.unit)}{change}"


def _norm(logged: events.Logged) -> str:
    norm, clip = logged.grad_norms[-1], logged.clip_norm
    if clip is None:
        return f"{norm:.3g}"
    return f"{norm:.3g}{' clipped' if norm > clip else ''} (clip {clip:g})"


def _arrow(change: float) -> str:
    return f"{'▼' if change <= 0 else '▲'}{abs(change):.3f}"
