"""Update: the optimiser on one weight: gradient, moments, corrected, step, decay, before, after.

Comes in: a trace, a weight. Goes out: a chapter.
"""

from __future__ import annotations

from pellucid.explain import updating
from pellucid.explain.chapter import Bars, Chapter, Picture, Place, Receipt, Table
from pellucid.explain.chapters.backward import nothing
from pellucid.explain.chapters.loss import no_loss
from pellucid.explain.expressions import value
from pellucid.explain.places import ChosenWeight, settled, weight_at
from pellucid.explain.receipts.gradients import weight_gradient_receipt
from pellucid.explain.receipts.updates import (
    correction,
    direction,
    moment_receipts,
    momentum_receipt,
    muon_receipt,
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
    before, after = float(trace[weight.at()]), float(trace[weight.at(".next")])
    way = "up" if after > before else "down" if after < before else "nowhere"
    told = f"moves {weight.at()} {way}, from {before:.6g} to {after:.6g}"
    pictures: tuple[Picture, ...]
    receipts: list[Receipt | None] = [weight_gradient_receipt(trace, chosen, weight)]
    rate = f"the learning rate {how.learning_rate:.3g}"
    match how.kind:
        case "AdamW":
            sentence = (
                f"AdamW {told}: not by the gradient itself, but by its running mean over the root "
                f"of its running mean square, times {rate}."
            )
            pictures = (_table(trace, weight, how), _bars(how, before, _along(trace, weight, how)))
            receipts += [*moment_receipts(trace, weight, how), next_receipt(trace, weight, how)]
        case "Muon":
            sentence = (
                f"Muon {told}: it takes the whole matrix of momentum, brings all its singular "
                f"values near one, and moves along that by {rate}. Embeddings, gains and biases "
                "of this run are AdamW's."
            )
            rows, columns = trace[weight.name].shape
            along = float(trace[weight.at(".direction")]) * max(1.0, rows / columns) ** 0.5
            pictures = (_muon_table(trace, weight, how), _bars(how, before, along))
            receipts += [momentum_receipt(trace, weight, how), muon_receipt(trace, weight, how)]
        case "other":
            sentence = f"The optimiser of this run {told}, with {rate}."
            pictures = (_plain_table(trace, weight),)
    return Chapter(
        id="update",
        number=19,
        part="update",
        title="Update",
        sentence=sentence,
        pictures=pictures,
        receipts=tuple(each for each in receipts if each is not None),
        notes=tuple(_notes(trace, how)),
    )


def _along(trace: Trace, weight: ChosenWeight, how: Settings) -> float:
    return value(direction(trace, weight, how))


def _bars(how: Settings, before: float, along: float) -> Bars:
    return Bars(
        title="what the weight is changed by",
        names=("the step", "weight decay"),
        values=(-how.learning_rate * along, -how.learning_rate * how.weight_decay * before),
        unit="change",
    )


def _plain_table(trace: Trace, weight: ChosenWeight) -> Table:
    rows = (("w before", weight.at()), ("g", weight.at(".grad")), ("w after", weight.at(".next")))
    return Table(
        title=f"the step on {weight.at()}",
        columns=("", "number"),
        rows=tuple((name, float(trace[address])) for name, address in rows),
    )


def _muon_table(trace: Trace, weight: ChosenWeight, how: Settings) -> Table:
    divided = updating.divisor(trace, how)
    gradient = float(trace[weight.at(".grad")])
    m = float(trace[weight.at(".m")])
    rows: list[tuple[str | float | int, ...]] = [
        ("w before", float(trace[weight.at()]), ""),
        ("g", gradient, "the gradient"),
        ("m before", 0.0 if how.m is None else float(how.m[weight.index]), ""),
        ("m", m, f"{how.beta1:g} m + g"),
        ("look-ahead", gradient / divided + how.beta1 * m, f"g + {how.beta1:g} m"),
        ("d", float(trace[weight.at(".direction")]), "of the whole matrix, orthogonalised"),
        ("decay", how.weight_decay * float(trace[weight.at()]), f"{how.weight_decay:g} × w"),
        ("w after", float(trace[weight.at(".next")]), "w - lr × (decay + √max(1, rows/columns) d)"),
    ]
    if divided != 1.0:
        rows.insert(2, ("g, clipped", gradient / divided, f"divided by {divided:.4g}"))
    return Table(
        title=f"step {how.step:,} of Muon on {weight.at()}, learning rate {how.learning_rate:.4g}",
        columns=("", "number", "how"),
        rows=tuple(rows),
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
    if how.kind == "AdamW" and how.step == 1:
        notes.append(
            "in a first step the corrected m is g and the corrected v is g²: so the step is the "
            "learning rate times the sign of g, however large g is"
        )
    if trace.run is not None and trace.run.config.penalties:
        notes.append("the run's penalties are left out of this step")
    if how.clip_norm is not None:
        length = trace.backward().norm
        clipped = length > how.clip_norm
        notes.append(
            f"all gradients together have a length of {length:.4g}; the run clips at "
            f"{how.clip_norm:g}: "
            + (f"each is divided by {length / how.clip_norm:.4g}" if clipped else "none is changed")
        )
    return notes
