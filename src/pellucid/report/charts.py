"""The charts of a run: its loss, every metric, every part of the loss, and its training."""

from __future__ import annotations

from pellucid.display.metric_labels import LABELS, Measured, singular
from pellucid.report.chart import Chart, ReferenceLine
from pellucid.report.story import Series, Story

_LEARNT_BY_HEART = (
    "Lower is better. Where held-out text gets worse while training text gets better, the text is "
    "being learnt by heart."
)


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
    clip_line = () if clip is None else (ReferenceLine(f"clipped at {clip:g}", clip),)
    parts = {part.name for part, _ in story.parts}
    held_out = {measure.name: curve for measure, curve in story.measures}
    # metrics may have any name, but keys of charts are ids: number them
    measures = [
        chart(f"measure-{i}", _titled(f"Held-out {measure.title}", measure), measure.reads, curve)
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
            f"Loss, nats per {unit_name}",
            _LEARNT_BY_HEART,
            story.loss,
            story.held_out,
            lines=_guessing_line(story),
            from_zero=True,
        ),
        *measures,
        chart(
            "gradient",
            "Gradient norm, before clipping",
            ("" if clip is None else "Gradients above the dashed line are scaled down to it. ")
            + "A logarithmic axis.",
            story.grad_norms,
            lines=clip_line,
            logarithmic=True,
        ),
        chart(
            "rate",
            "Learning rate",
            "How far one update goes.",
            story.learning_rate,
            from_zero=True,
        ),
        chart(
            "speed",
            f"Speed, {story.unit} per second",
            "Of training alone.",
            story.speed,
            from_zero=True,
        ),
        *named_parts,
    )


def _guessing_line(story: Story) -> tuple[ReferenceLine, ...]:
    if story.guessing_nats is None:
        return ()
    name = "ln V: guessing evenly" if story.unit == "tokens" else "guessing evenly"
    return (ReferenceLine(name, story.guessing_nats),)


def _titled(title: str, measure: Measured) -> str:
    if measure.name in LABELS:
        title = title[:1].upper() + title[1:]
    return f"{title}, {measure.unit}" if measure.unit == "nats" else title
