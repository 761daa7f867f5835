"""What a run does around the optimiser's step: it clips the gradient, and applies a penalty."""

from __future__ import annotations

from pellucid.catalogue import message
from pellucid.explain import optimiser_step
from pellucid.explain.chapter_types import Table
from pellucid.explain.optimiser_settings import StepSettings
from pellucid.explain.selection import SelectedWeight
from pellucid.explain.trace_types import Trace


def exact(x: float) -> str:
    """Nine digits, which tell any two float32 apart: a row follows from those above it."""
    return f"{x:.9g}"


def clipping_table(trace: Trace, weight: SelectedWeight, settings: StepSettings) -> Table | None:
    """The length of all gradients, the limit, and one gradient before and after; None if unclipped.

    Source:
        Pascanu, Mikolov and Bengio 2013, "On the difficulty of training recurrent neural networks",
        algorithm 1.
    """
    divisor = optimiser_step.divisor(trace, settings)
    if settings.clip_norm is None or divisor == 1.0:
        return None
    rows = (
        ("‖g‖", trace.backward().norm, message("clip_and_penalty.the-length-of-all-gradients")),
        (
            message("word.clip-norm"),
            settings.clip_norm,
            message("clip_and_penalty.the-longest-that-the-run"),
        ),
        (message("word.factor"), 1 / divisor, message("clip_and_penalty.factor-formula")),
        ("g", float(trace[weight.address(".grad")]), message("word.before")),
        (
            message("word.g-clipped"),
            float(trace[weight.address(".clipped_grad")]),
            message("clip_and_penalty.clipped-formula"),
        ),
    )
    return Table(
        title=message(
            "clip_and_penalty.clipping-the-gradient-of-shortened", address=weight.address()
        ),
        columns=("", message("word.number"), message("word.how")),
        rows=tuple((name, exact(number), text) for name, number, text in rows),
    )


def penalty_table(trace: Trace, weight: SelectedWeight, settings: StepSettings) -> Table | None:
    """The proximal step of a penalty on one weight; None if the run has no penalty on it.

    Source:
        Parikh and Boyd 2014, "Proximal Algorithms", section 6.5.3.
    """
    if not settings.is_penalised:
        return None
    rate, l1, l2 = settings.learning_rate, settings.penalty_l1, settings.penalty_l2
    old, new = _ends(trace, weight)
    rows: list[tuple[str, float, str]] = [
        ("w", old, message("clip_and_penalty.after-the-optimiser-step"))
    ]
    if l1:
        shorter = max(abs(old) - rate * l1, 0.0)
        rows += [
            (message("word.threshold"), rate * l1, f"lr × l1 = {rate:.9g} × {l1:g}"),
            (
                message("word.w-shortened"),
                shorter if old > 0 else -shorter,
                message("clip_and_penalty.by-the-threshold-0-at"),
            ),
        ]
    if l2:
        rows.append((message("word.divisor"), 1 + 2 * rate * l2, f"1 + 2 × lr × l2, l2 = {l2:g}"))
    rows.append((message("word.w-after"), new, message("clip_and_penalty.the-weight-of-the-next")))
    return Table(
        title=message("clip_and_penalty.the-penalty-on-its-proximal", address=weight.address()),
        columns=("", message("word.number"), message("word.how")),
        rows=tuple((name, exact(number), text) for name, number, text in rows),
    )


def describe_penalty(trace: Trace, weight: SelectedWeight, settings: StepSettings) -> str:
    """What the penalty does to the weight after the optimiser's step; "" without one."""
    if not settings.is_penalised:
        return ""
    old, new = _ends(trace, weight)
    l1, l2 = settings.penalty_l1, settings.penalty_l2
    name = message("word.elastic-net") if l1 and l2 else "L1" if l1 else "L2"
    if new == 0 != old:
        return message("clip_and_penalty.then-the-penalty-sets-it", name=name)
    return message("clip_and_penalty.then-the-penalty-pulls-it", name=name, old=old, new=new)


def note_on_penalty(trace: Trace, settings: StepSettings) -> str | None:
    """Where the penalty acts: after the step and not in the gradient, or on other weights only."""
    if settings.is_penalised:
        return message("clip_and_penalty.the-penalty-is-not-part")
    run = trace.run
    has_penalties = run is not None and bool(run.config.penalties)
    return message("clip_and_penalty.the-run-penalties-are-on") if has_penalties else None


def note_on_clipping(trace: Trace, settings: StepSettings) -> str | None:
    """The length of all gradients, and what the run's clipping does to them; None without any."""
    if settings.clip_norm is None:
        return None
    length = trace.backward().norm
    effect = message("update.none-is-changed")
    if length > settings.clip_norm:
        effect = message("update.each-is-divided-by", length=length / settings.clip_norm)
    return message(
        "update.all-gradients-together-have-a",
        length=length,
        clip_norm=settings.clip_norm,
        effect=effect,
    )


def _ends(trace: Trace, weight: SelectedWeight) -> tuple[float, float]:
    """The weight before and after the proximal step."""
    return float(trace[weight.address(".before_penalty")]), float(trace[weight.address(".next")])
