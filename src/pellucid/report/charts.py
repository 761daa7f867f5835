"""The charts of a run: its loss, every metric, every part of the loss, and its training."""

from __future__ import annotations

from functools import partial

from pellucid.display.metric_labels import LABELS, Measured, singular
from pellucid.report.chart import Chart, ReferenceLine
from pellucid.report.messages import message
from pellucid.report.story import Story


def charts(story: Story) -> tuple[Chart, ...]:
    """The charts of a run: losses and metrics first, then its training."""
    chart = partial(Chart, resumed_at=story.resumed_at, last_step=story.step)
    unit_name, clip = singular(story.unit), story.clip_norm
    clip_line = () if clip is None else (ReferenceLine(message("clipped-at", norm=clip), clip),)
    parts = {part.name for part, _ in story.parts}
    held_out = {measure.name: curve for measure, curve in story.measures}
    # metrics may have any name, but keys of charts are ids: number them
    measures = [
        chart(f"measure-{i}", _titled(title, measure), measure.reads, (curve,))
        for i, (measure, curve) in enumerate(story.measures)
        if measure.name not in parts
        for title in (message("chart-held-out", title=measure.title),)
    ]
    named_parts = [
        chart(f"part-{i}", _titled(part.title, part), part.reads, curves)
        for i, (part, curve) in enumerate(story.parts)
        for curves in ((curve, held_out[part.name]) if part.name in held_out else (curve,),)
    ]
    loss = chart(
        "loss",
        message("chart-loss", unit=unit_name),
        message("learnt-by-heart"),
        (story.loss, story.held_out),
        _guessing_line(story),
        from_zero=True,
    )
    gradient = chart(
        "gradient",
        message("chart-gradient"),
        message("logarithmic" if clip is None else "clipped-logarithmic"),
        (story.grad_norms,),
        clip_line,
        logarithmic=True,
    )
    pace = [
        chart(key, title, message(hint), (curve,), from_zero=True)
        for key, title, hint, curve in (
            ("rate", message("chart-rate"), "chart-rate-hint", story.learning_rate),
            ("speed", message("chart-speed", unit=story.unit), "chart-speed-hint", story.speed),
        )
    ]
    return (loss, *measures, gradient, *pace, *named_parts)


def _guessing_line(story: Story) -> tuple[ReferenceLine, ...]:
    if story.guessing_nats is None:
        return ()
    name = message("guessing-tokens" if story.unit == "tokens" else "guessing")
    return (ReferenceLine(name, story.guessing_nats),)


def _titled(title: str, measure: Measured) -> str:
    if measure.name in LABELS:
        title = title[:1].upper() + title[1:]
    return f"{title}, {measure.unit}" if measure.unit == "nats" else title
