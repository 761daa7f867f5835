"""The numbers of a panel: a column to the right of the curve, and cells below it.

The column always has the same lines and each cell keeps its place, so that nothing jumps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pellucid.display.metric_labels import guessing, measured, nats_per, news
from pellucid.display.numbers import duration, short, size
from pellucid.display.plain import mean_of
from pellucid.display.terminal_text import fitted, visible
from pellucid.training import events

_LABEL, _VALUE, _GAP = 14, 9, 2


@dataclass(slots=True)
class LatestEvents:
    """The latest events of a run."""

    started: events.Started | None = None
    logged: events.Logged | None = None
    previous_loss: float | None = None
    evaluated: events.Evaluated | None = None
    best: events.Evaluated | None = None

    @property
    def unit(self) -> str:
        """The plural of the unit that the loss is a mean over."""
        event = self.logged or self.evaluated or self.started
        return event.unit if event else "tokens"


def column(latest: LatestEvents) -> Sequence[str]:
    """The column; a dash replaces a number that is not known yet."""
    logged, evaluated, best = latest.logged, latest.evaluated, latest.best
    lines = [
        f"train     {_loss(logged, latest.previous_loss)}",
        "held-out  "
        + ("–" if evaluated is None else f"{evaluated.loss_nats:.4f} {nats_per(evaluated.unit)}"),
        f"          {_best_measure(evaluated)}",
        f"best      {_best_measure(best)}" + ("" if best is None else f" @{best.step}"),
    ]
    if latest.started is not None and latest.started.guessing_nats is not None:
        lines.append(f"guessing  {guessing(latest.started.guessing_nats, latest.started.unit)}")
    if logged is not None:
        lines += [
            f"grad      {_norm(logged)}",
            f"rate      {logged.learning_rate:.2e}",
            f"speed     {short(logged.tokens_per_second)} {logged.unit}/s",
            f"memory    {size(logged.memory_bytes):<7}   left {duration(logged.seconds_left)}",
        ]
        lines += _ranks(logged)
    return lines


def _ranks(logged: events.Logged) -> list[str]:
    """How fast each rank works, how long it waits, and its memory; nothing for one process."""
    if not logged.ranks:
        return []
    speeds = [speed for speed, _, _ in logged.ranks]
    slowest, fastest = speeds.index(min(speeds)), speeds.index(max(speeds))
    lines = [
        f"slowest   rank {slowest}, {short(speeds[slowest])} {logged.unit}/s",
        f"fastest   rank {fastest}, {short(speeds[fastest])} {logged.unit}/s",
    ]
    waits = [wait for _, wait, _ in logged.ranks if wait is not None]
    if len(waits) == len(speeds):
        lines.append(f"waiting   {_by_rank([f'{wait:.1f}s' for wait in waits])}")
    memory = [n_bytes for *_, n_bytes in logged.ranks if n_bytes is not None]
    if len(memory) == len(speeds):
        lines.append(f"by rank   {_by_rank([size(n_bytes) for n_bytes in memory])}")
    return lines


def _by_rank(texts: Sequence[str]) -> str:
    """The first ranks; of many, how many more there are."""
    remainder = f" and {len(texts) - 4} more" if len(texts) > 4 else ""
    return f"{', '.join(texts[:4])}{remainder}"


def cells(latest: LatestEvents, columns: int) -> list[str]:
    """The parts of the loss for the panel, and all measures but the most informative one."""
    parts = () if latest.logged is None else latest.logged.parts
    trained = [
        (part.label, part.number(mean_of(values)))
        for part, values in ((measured(name), values) for name, values in parts)
        if part.in_panel and values
    ]
    further = [] if latest.evaluated is None else news(latest.evaluated.measures)[1:]
    held_out = [(measure.label, measure.number(value)) for measure, value in further]
    return _rows("train", trained, columns) + _rows("held-out", held_out, columns)


def _rows(name: str, labelled_values: Sequence[tuple[str, str]], columns: int) -> list[str]:
    """Cells of one width, as many in a line as fit; the first line has the name."""
    margin = len("held-out  ")
    width = _LABEL + 1 + _VALUE
    per_line = max(1, (columns - margin + _GAP) // (width + _GAP))
    cell_texts = [
        f"{fitted(visible(label), _LABEL)} {value:>{_VALUE}}" for label, value in labelled_values
    ]
    return [
        f"{name if i == 0 else '':<{margin}}" + (" " * _GAP).join(cell_texts[i : i + per_line])
        for i in range(0, len(cell_texts), per_line)
    ]


def _best_measure(evaluated: events.Evaluated | None) -> str:
    """The most informative measure; the loss if there is no other."""
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
