"""The charts of a run: its loss, every metric, every part of the loss, and its training."""

from __future__ import annotations

from pellucid.display.metric_labels import LABELS, Measured, singular
from pellucid.report.chart import Chart, ReferenceLine
from pellucid.report.messages import message
from pellucid.report.story import Series, Story


def charts(story: Story) -> tuple[Chart, ...]:
    """The charts of a run: losses and metrics first, then its training."""

    def chart(
        key: str,
        title: str,
        caption: str,
        *curves: Series,
        lines: tuple[ReferenceLine, ...] = (),
        from_zero: bool = False,
        logarithmic: bool = False,
    ) -> Chart:
        return Chart(
            key=key,
            title=title,
            caption=caption,
            curves=curves,
            lines=lines,
            resumed_at=story.resumed_at,
            last_step=story.step,
            from_zero=from_zero,
            logarithmic=logarithmic,
        )

    unit_name, clip = singular(story.unit), story.clip_norm
    clip_line = () if clip is None else (ReferenceLine(message("clipped-at", norm=clip), clip),)
    parts = {part.name for part, _ in story.parts}
    held_out = {measure.name: curve for measure, curve in story.measures}
    # metrics may have any name, but keys of charts are ids: number them
    measures = [
        chart(
            f"measure-{i}",
            _titled(message("chart-held-out", title=measure.title), measure),
            measure.reads,
            curve,
        )
        for i, (measure, curve) in enumerate(story.measures)
        if measure.name not in parts
    ]
    named_parts = [
        chart(
            f"part-{i}",
            _titled(part.title, part),
            part.reads,
            *([curve, held_out[part.name]] if part.name in held_out else [curve]),
        )
        for i, (part, curve) in enumerate(story.parts)
    ]
    return (
        chart(
            "loss",
            message("chart-loss", unit=unit_name),
            message("learnt-by-heart"),
            story.loss,
            story.held_out,
            lines=_guessing_line(story),
            from_zero=True,
        ),
        *measures,
        chart(
            "gradient",
            message("chart-gradient"),
            message("logarithmic" if clip is None else "clipped-logarithmic"),
            story.grad_norms,
            lines=clip_line,
            logarithmic=True,
        ),
        chart(
            "rate",
            message("chart-rate"),
            message("chart-rate-hint"),
            story.learning_rate,
            from_zero=True,
        ),
        chart(
            "speed",
            message("chart-speed", unit=story.unit),
            message("chart-speed-hint"),
            story.speed,
            from_zero=True,
        ),
        *named_parts,
    )


def _guessing_line(story: Story) -> tuple[ReferenceLine, ...]:
    if story.guessing_nats is None:
        return ()
    name = message("guessing-tokens" if story.unit == "tokens" else "guessing")
    return (ReferenceLine(name, story.guessing_nats),)


def _titled(title: str, measure: Measured) -> str:
    if measure.name in LABELS:
        title = title[:1].upper() + title[1:]
    return f"{title}, {measure.unit}" if measure.unit == "nats" else title
