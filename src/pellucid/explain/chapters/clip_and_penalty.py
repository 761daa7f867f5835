"""What a run does around the optimiser's step: it clips the gradient, and applies a penalty."""

from __future__ import annotations

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
        ("‖all g‖", trace.backward().norm, "the length of all gradients together"),
        ("clip norm", settings.clip_norm, "the longest that the run allows"),
        ("factor", 1 / divisor, "clip norm / ‖all g‖"),
        ("g", float(trace[weight.address(".grad")]), "before"),
        ("g, clipped", float(trace[weight.address(".clipped_grad")]), "factor × g"),
    )
    return Table(
        title=f"clipping: the gradient of {weight.address()}, shortened with all others",
        columns=("", "number", "how"),
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
    rows = [("w", old, "after the optimiser's step")]
    if l1:
        shorter = max(abs(old) - rate * l1, 0.0)
        rows += [
            ("threshold", rate * l1, f"lr × l1 = {rate:.9g} × {l1:g}"),
            ("w, shortened", shorter if old > 0 else -shorter, "by the threshold, 0 at most"),
        ]
    if l2:
        rows.append(("divisor", 1 + 2 * rate * l2, f"1 + 2 × lr × l2, l2 = {l2:g}"))
    rows.append(("w after", new, "the weight of the next update"))
    return Table(
        title=f"the penalty on {weight.address()}: its proximal step",
        columns=("", "number", "how"),
        rows=tuple((name, exact(number), text) for name, number, text in rows),
    )


def describe_penalty(trace: Trace, weight: SelectedWeight, settings: StepSettings) -> str:
    """What the penalty does to the weight after the optimiser's step; "" without one."""
    if not settings.is_penalised:
        return ""
    old, new = _ends(trace, weight)
    l1, l2 = settings.penalty_l1, settings.penalty_l2
    name = "elastic net" if l1 and l2 else "L1" if l1 else "L2"
    if new == 0 != old:
        return f" Then the penalty ({name}) sets it to exactly 0."
    return f" Then the penalty ({name}) pulls it from {old:.6g} to {new:.6g}."


def note_on_penalty(trace: Trace, settings: StepSettings) -> str | None:
    """Where the penalty acts: after the step and not in the gradient, or on other weights only."""
    if settings.is_penalised:
        return (
            "the penalty is not part of the gradient: it is a step of its own, at the learning "
            "rate of the weight"
        )
    run = trace.run
    has_penalties = run is not None and bool(run.config.penalties)
    return "the run's penalties are on other weights" if has_penalties else None


def _ends(trace: Trace, weight: SelectedWeight) -> tuple[float, float]:
    """The weight before and after the proximal step."""
    return float(trace[weight.address(".before_penalty")]), float(trace[weight.address(".next")])
