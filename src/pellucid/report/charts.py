"""The charts of a run: its loss, every metric, every part of the loss, and its training."""

from __future__ import annotations

from pellucid.display.metric_labels import KNOWN, Measured, one_of
from pellucid.report.chart import Across, Chart
from pellucid.report.story import Series, Story

_LEARNT_BY_HEART = (
    "Lower is better. Where held-out text gets worse while training text gets better, the text is "
    "being learnt by heart."
)


def charts(story: Story) -> tuple[Chart, ...]:
    """The charts of a run: what is learnt first, then how."""

    def chart(
        key: str,
        title: str,
        says: str,
        *curves: Series,
        across: tuple[Across, ...] = (),
        from_zero: bool = False,
        logarithmic: bool = False,
    ) -> Chart:
        return Chart(
            key=key,
            title=title,
            says=says,
            curves=curves,
            across=across,
            resumed_at=story.resumed_at,
            last_step=story.step,
            from_zero=from_zero,
            logarithmic=logarithmic,
        )

    unit_name, clip = one_of(story.unit), story.clip_norm
    clipped = () if clip is None else (Across(f"clipped at {clip:g}", clip),)
    parts = {part.name for part, _ in story.parts}
    held_out = {measure.name: curve for measure, curve in story.measures}
    # names may be anything, and the keys of charts are ids: they are numbered
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
            across=_guessing(story),
            from_zero=True,
        ),
        *measures,
        chart(
            "gradient",
            "Gradient norm, before clipping",
            ("" if clip is None else "What is above the dashed line is scaled down to it. ")
            + "A logarithmic axis.",
            story.grad_norms,
            across=clipped,
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


def _guessing(story: Story) -> tuple[Across, ...]:
    if story.guessing_nats is None:
        return ()
    name = "ln V: guessing evenly" if story.unit == "tokens" else "guessing evenly"
    return (Across(name, story.guessing_nats),)


def _titled(title: str, measure: Measured) -> str:
    if measure.name in KNOWN:
        title = title[:1].upper() + title[1:]
    return f"{title}, {measure.unit}" if measure.unit == "nats" else title
