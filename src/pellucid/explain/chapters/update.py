"""Update: AdamW on one weight: gradient, moments, corrected, step, decay, before and after.

Comes in: a trace, a weight. Goes out: a chapter.
"""

from __future__ import annotations

from pellucid.explain import updating
from pellucid.explain.chapter import Bars, Chapter, Place, Receipt, Table
from pellucid.explain.chapters.backward import nothing
from pellucid.explain.chapters.loss import no_loss
from pellucid.explain.expressions import value
from pellucid.explain.places import ChosenWeight, settled, weight_at
from pellucid.explain.receipts.gradients import weight_gradient_receipt
from pellucid.explain.receipts.updates import (
    correction,
    direction,
    moment_receipts,
    next_receipt,
)
from pellucid.explain.tracing import Trace
from pellucid.explain.updating import Settings


def build(trace: Trace, place: Place) -> Chapter:
    """What the next step does to one weight, were this sentence the batch."""
    why = no_loss(trace)
    if why is not None:
        return nothing("update", why)
    weight, chosen = weight_at(trace, place), settled(trace, place)
    how = updating.settings(trace, weight.name)
    receipts: list[Receipt | None] = [
        weight_gradient_receipt(trace, chosen, weight),
        *moment_receipts(trace, weight, how),
        next_receipt(trace, weight, how),
    ]
    before, after = float(trace[weight.at()]), float(trace[weight.at(".next")])
    way = "up" if after > before else "down" if after < before else "nowhere"
    return Chapter(
        id="update",
        number=19,
        part="update",
        title="Update",
        sentence=f"AdamW moves {weight.at()} {way}, from {before:.6g} to {after:.6g}: not by the "
        f"gradient itself, but by its running mean over the root of its running mean square, "
        f"times the learning rate {how.learning_rate:.3g}.",
        pictures=(
            _table(trace, weight, how),
            Bars(
                title="what the weight is changed by",
                names=("the step against the gradient", "weight decay"),
                values=(
                    -how.learning_rate * value(direction(trace, weight, how)),
                    -how.learning_rate * how.weight_decay * before,
                ),
                unit="change",
            ),
        ),
        receipts=tuple(each for each in receipts if each is not None),
        notes=tuple(_notes(trace, how)),
    )


def _table(trace: Trace, weight: ChosenWeight, how: Settings) -> Table:
    m, v = (float(trace[weight.at(f".{part}")]) for part in ("m", "v"))
    gradient, w = float(trace[weight.at(".grad")]), float(trace[weight.at()])
    divisor = updating.divisor(trace, how)
    were = [0.0 if x is None else float(x[weight.index]) for x in (how.m, how.v)]
    corrected_m = m / value(correction(how.beta1, how.step))
    corrected_v = v / value(correction(how.beta2, how.step))
    rows: tuple[tuple[str | float | int, ...], ...] = (
        ("w before", w, ""),
        ("g", gradient, "the gradient"),
        ("g, clipped", gradient / divisor, f"divided by {divisor:.4g}"),
        ("m before", were[0], ""),
        ("m", m, f"{how.beta1:g} m + {1 - how.beta1:.4g} g"),
        ("v before", were[1], ""),
        ("v", v, f"{how.beta2:g} v + {1 - how.beta2:.4g} g²"),
        ("m, corrected", corrected_m, f"m / (1 - {how.beta1:g}^{how.step})"),
        ("v, corrected", corrected_v, f"v / (1 - {how.beta2:g}^{how.step})"),
        ("direction", value(direction(trace, weight, how)), "corrected m / (√ v + eps)"),
        ("decay", how.weight_decay * w, f"{how.weight_decay:g} × w"),
        ("w after", float(trace[weight.at(".next")]), "w - lr × (decay + direction)"),
    )
    return Table(
        title=f"step {how.step:,} of AdamW on {weight.at()}, learning rate {how.learning_rate:.4g}",
        columns=("", "number", "how"),
        rows=rows if divisor != 1.0 else rows[:2] + rows[3:],
    )


def _notes(trace: Trace, how: Settings) -> list[str]:
    notes = [how.told, "the batch of this step is this one sentence; a training averages many"]
    if how.step == 1:
        notes.append(
            "in a first step the corrected m is g and the corrected v is g²: so the step is the "
            "learning rate times the sign of g, however large g is"
        )
    if how.clip_norm is not None:
        length = trace.backward().norm
        clipped = length > how.clip_norm
        notes.append(
            f"all gradients together have a length of {length:.4g}; the run clips at "
            f"{how.clip_norm:g}: "
            + (f"each is divided by {length / how.clip_norm:.4g}" if clipped else "none is changed")
        )
    return notes
