"""Update: the optimiser on one weight: gradient, moments, corrected, step, decay, before, after.

Comes in: a trace, a weight. Goes out: a chapter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor

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

#: How far from one a singular value is still called near it.
_NEAR = 0.3


def build(trace: Trace, place: Place) -> Chapter:
    """What the next step does to one weight, were this sentence the batch."""
    why = no_loss(trace)
    if why is not None:
        return nothing("update", why)
    weight, chosen = weight_at(trace, place), settled(trace, place)
    how = updating.settings(trace, weight.name)
    before, after = float(trace[weight.at()]), float(trace[weight.at(".next")])
    way = "up" if after > before else "down" if after < before else "nowhere"
    told = f"moves {weight.at()} {way}, from {_apart(before, after)} to {_apart(after, before)}"
    pictures: tuple[Picture, ...]
    receipts: list[Receipt | None] = [weight_gradient_receipt(trace, chosen, weight)]
    rate = f"the learning rate {how.learning_rate:.9g}"
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
                f"Muon {told}: it takes the whole matrix of momentum, pushes its singular values "
                f"towards one, and moves along that by {rate}. {_singular_values(trace, weight)} "
                "Embeddings, gains and biases of this run are AdamW's."
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


def _apart(x: float, other: float) -> str:
    """A number in as many digits as tell it from the other one, and no fewer than six."""
    texts = ((f"{x:.{n}g}", f"{other:.{n}g}") for n in range(6, 18))
    return next((own for own, theirs in texts if own != theirs), f"{x:.6g}")


def _singular_values(trace: Trace, weight: ChosenWeight) -> str:
    """Where the singular values of what Muon moves along really are."""
    matrix = trace[f"{weight.name}.direction"].double()
    values: Tensor = cast("Any", torch.linalg).svdvals(matrix)
    near = int(((values - 1).abs() <= _NEAR).sum())
    return (
        f"Here they end up between {float(values.min()):.3f} and {float(values.max()):.3f}, "
        f"{near} of {len(values)} within {_NEAR:g} of one."
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
        rows=tuple((name, _exact(float(trace[address]))) for name, address in rows),
    )


def _muon_table(trace: Trace, weight: ChosenWeight, how: Settings) -> Table:
    divided = updating.divisor(trace, how)
    gradient = float(trace[weight.at(".grad")])
    m = float(trace[weight.at(".m")])
    rows: list[tuple[str, float, str]] = [
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
        rows.insert(2, ("g, clipped", gradient / divided, f"divided by {divided:.9g}"))
    return _steps("Muon", weight, how, rows)


def _table(trace: Trace, weight: ChosenWeight, how: Settings) -> Table:
    m, v = (float(trace[weight.at(f".{part}")]) for part in ("m", "v"))
    gradient, w = float(trace[weight.at(".grad")]), float(trace[weight.at()])
    divisor = updating.divisor(trace, how)
    were = [0.0 if x is None else float(x[weight.index]) for x in (how.m, how.v)]
    corrected_m = m / value(correction(how.beta1, how.step))
    corrected_v = v / value(correction(how.beta2, how.step))
    rows: list[tuple[str, float, str]] = [
        ("w before", w, ""),
        ("g", gradient, "the gradient"),
        ("g, clipped", gradient / divisor, f"divided by {divisor:.9g}"),
        ("m before", were[0], ""),
        ("m", m, f"{how.beta1:g} m + {1 - how.beta1:.9g} g"),
        ("v before", were[1], ""),
        ("v", v, f"{how.beta2:g} v + {1 - how.beta2:.9g} g²"),
        ("m, corrected", corrected_m, f"m / (1 - {how.beta1:g}^{how.step})"),
        ("v, corrected", corrected_v, f"v / (1 - {how.beta2:g}^{how.step})"),
        ("direction", value(direction(trace, weight, how)), "corrected m / (√ v + eps)"),
        ("decay", how.weight_decay * w, f"{how.weight_decay:g} × w"),
        ("w after", float(trace[weight.at(".next")]), "w - lr × (decay + direction)"),
    ]
    return _steps("AdamW", weight, how, rows if divisor != 1.0 else rows[:2] + rows[3:])


def _steps(
    name: str, weight: ChosenWeight, how: Settings, rows: Sequence[tuple[str, float, str]]
) -> Table:
    rate = f"learning rate {how.learning_rate:.9g}"
    return Table(
        title=f"step {how.step:,} of {name} on {weight.at()}, {rate}",
        columns=("", "number", "how"),
        rows=tuple((row, _exact(number), text) for row, number, text in rows),
    )


def _exact(x: float) -> str:
    """Nine digits, which tell any two float32 apart: a row is computed from those above it."""
    return f"{x:.9g}"


def _notes(trace: Trace, how: Settings) -> list[str]:
    notes = [how.told, "the batch of this step is this one sentence; a training averages many"]
    if how.kind == "AdamW" and how.step == 1:
        notes.append(
            "in a first step the corrected m is g and the corrected v is g²: so, but for decay, "
            "the step is the learning rate times the sign of g wherever |g| is far above eps "
            f"({how.eps:g})"
        )
    notes += updating.left_out(trace)
    if how.clip_norm is not None:
        length = trace.backward().norm
        clipped = length > how.clip_norm
        notes.append(
            f"all gradients together have a length of {length:.6g}; the run clips at "
            f"{how.clip_norm:g}: "
            + (f"each is divided by {length / how.clip_norm:.6g}" if clipped else "none is changed")
        )
    return notes
