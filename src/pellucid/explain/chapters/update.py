"""Update: the optimiser on one weight: gradient, moments, corrected, step, decay, before, after."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor

from pellucid.explain import optimiser_step
from pellucid.explain.chapter_types import Bars, Chapter, Picture, Place, Receipt, Table
from pellucid.explain.chapters.backward import chapter_without_loss
from pellucid.explain.chapters.loss import no_loss
from pellucid.explain.expressions import evaluate
from pellucid.explain.optimiser_step import StepSettings
from pellucid.explain.receipts.gradients import weight_gradient_receipt
from pellucid.explain.receipts.optimiser_step import (
    correction,
    direction,
    moment_receipts,
    momentum_receipt,
    muon_receipt,
    next_receipt,
)
from pellucid.explain.selection import SelectedWeight, select_place, select_weight
from pellucid.explain.trace_types import Trace

#: How far from one a singular value is still called near it.
_SPREAD = 0.3


def build(trace: Trace, place: Place) -> Chapter:
    """What the next step does to one weight, were this sentence the batch."""
    reason = no_loss(trace)
    if reason is not None:
        return chapter_without_loss(reason)
    weight, selection = select_weight(trace, place), select_place(trace, place)
    settings = optimiser_step.choose_settings(trace, weight.name)
    old_weight, new_weight = float(trace[weight.address()]), float(trace[weight.address(".next")])
    trend = "up" if new_weight > old_weight else "down" if new_weight < old_weight else "nowhere"
    ends = _format_apart(old_weight, new_weight), _format_apart(new_weight, old_weight)
    move_text = f"moves {weight.address()} {trend}, from {ends[0]} to {ends[1]}"
    pictures: tuple[Picture, ...]
    receipts: list[Receipt | None] = [weight_gradient_receipt(trace, selection, weight)]
    rate = f"the learning rate {settings.learning_rate:.9g}"
    match settings.kind:
        case "AdamW":
            sentence = (
                f"AdamW {move_text}: not by the gradient itself, but by its running mean over the "
                f"root of its running mean square, times {rate}."
            )
            pictures = (
                _table(trace, weight, settings),
                _bars(settings, old_weight, _measure_direction(trace, weight, settings)),
            )
            receipts += [
                *moment_receipts(trace, weight, settings),
                next_receipt(trace, weight, settings),
            ]
        case "Muon":
            sentence = (
                f"Muon {move_text}: it takes the whole matrix of momentum, pushes its singular "
                f"values towards one, and moves along that by {rate}. "
                f"{_singular_values(trace, weight)} "
                "Embeddings, gains and biases of this run are AdamW's."
            )
            rows, columns = trace[weight.name].shape
            direction_value = (
                float(trace[weight.address(".direction")]) * max(1.0, rows / columns) ** 0.5
            )
            pictures = (
                _muon_table(trace, weight, settings),
                _bars(settings, old_weight, direction_value),
            )
            receipts += [
                momentum_receipt(trace, weight, settings),
                muon_receipt(trace, weight, settings),
            ]
        case "other":
            sentence = f"The optimiser of this run {move_text}, with {rate}."
            pictures = (_plain_table(trace, weight),)
    return Chapter(
        sentence=sentence,
        pictures=pictures,
        receipts=tuple(receipt for receipt in receipts if receipt is not None),
        notes=tuple(_notes(trace, settings)),
    )


def _format_apart(x: float, reference: float) -> str:
    """A number in as many digits as tell it from the other one, and no fewer than six."""
    texts = ((f"{x:.{n}g}", f"{reference:.{n}g}") for n in range(6, 18))
    return next((text for text, reference_text in texts if text != reference_text), f"{x:.6g}")


def _singular_values(trace: Trace, weight: SelectedWeight) -> str:
    """Where the singular values of what Muon moves along really are."""
    matrix = trace[f"{weight.name}.direction"].double()
    values: Tensor = cast("Any", torch.linalg).svdvals(matrix)
    n_near_one = int(((values - 1).abs() <= _SPREAD).sum())
    return (
        f"Here they end up between {float(values.min()):.3f} and {float(values.max()):.3f}, "
        f"{n_near_one} of {len(values)} within {_SPREAD:g} of one."
    )


def _measure_direction(trace: Trace, weight: SelectedWeight, settings: StepSettings) -> float:
    return evaluate(direction(trace, weight, settings))


def _bars(settings: StepSettings, old_weight: float, direction_value: float) -> Bars:
    return Bars(
        title="what the weight is changed by",
        names=("the step", "weight decay"),
        values=(
            -settings.learning_rate * direction_value,
            -settings.learning_rate * settings.weight_decay * old_weight,
        ),
        unit="change",
    )


def _plain_table(trace: Trace, weight: SelectedWeight) -> Table:
    rows = (
        ("w before", weight.address()),
        ("g", weight.address(".grad")),
        ("w after", weight.address(".next")),
    )
    return Table(
        title=f"the step on {weight.address()}",
        columns=("", "number"),
        rows=tuple((name, _exact(float(trace[address]))) for name, address in rows),
    )


def _muon_table(trace: Trace, weight: SelectedWeight, settings: StepSettings) -> Table:
    divided = optimiser_step.divisor(trace, settings)
    gradient = float(trace[weight.address(".grad")])
    m = float(trace[weight.address(".m")])
    rows: list[tuple[str, float, str]] = [
        ("w before", float(trace[weight.address()]), ""),
        ("g", gradient, "the gradient"),
        ("m before", 0.0 if settings.m is None else float(settings.m[weight.index]), ""),
        ("m", m, f"{settings.beta1:g} m + g"),
        ("look-ahead", gradient / divided + settings.beta1 * m, f"g + {settings.beta1:g} m"),
        ("d", float(trace[weight.address(".direction")]), "of the whole matrix, orthogonalised"),
        (
            "decay",
            settings.weight_decay * float(trace[weight.address()]),
            f"{settings.weight_decay:g} × w",
        ),
        (
            "w after",
            float(trace[weight.address(".next")]),
            "w - lr × (decay + √max(1, rows/columns) d)",
        ),
    ]
    if divided != 1.0:
        rows.insert(2, ("g, clipped", gradient / divided, f"divided by {divided:.9g}"))
    return _steps("Muon", weight, settings, rows)


def _table(trace: Trace, weight: SelectedWeight, settings: StepSettings) -> Table:
    m, v = (float(trace[weight.address(f".{part}")]) for part in ("m", "v"))
    gradient, w = float(trace[weight.address(".grad")]), float(trace[weight.address()])
    divisor = optimiser_step.divisor(trace, settings)
    were = [0.0 if x is None else float(x[weight.index]) for x in (settings.m, settings.v)]
    corrected_m = m / evaluate(correction(settings.beta1, settings.step))
    corrected_v = v / evaluate(correction(settings.beta2, settings.step))
    rows: list[tuple[str, float, str]] = [
        ("w before", w, ""),
        ("g", gradient, "the gradient"),
        ("g, clipped", gradient / divisor, f"divided by {divisor:.9g}"),
        ("m before", were[0], ""),
        ("m", m, f"{settings.beta1:g} m + {1 - settings.beta1:.9g} g"),
        ("v before", were[1], ""),
        ("v", v, f"{settings.beta2:g} v + {1 - settings.beta2:.9g} g²"),
        ("m, corrected", corrected_m, f"m / (1 - {settings.beta1:g}^{settings.step})"),
        ("v, corrected", corrected_v, f"v / (1 - {settings.beta2:g}^{settings.step})"),
        ("direction", evaluate(direction(trace, weight, settings)), "corrected m / (√ v + eps)"),
        ("decay", settings.weight_decay * w, f"{settings.weight_decay:g} × w"),
        ("w after", float(trace[weight.address(".next")]), "w - lr × (decay + direction)"),
    ]
    return _steps("AdamW", weight, settings, rows if divisor != 1.0 else rows[:2] + rows[3:])


def _steps(
    name: str,
    weight: SelectedWeight,
    settings: StepSettings,
    rows: Sequence[tuple[str, float, str]],
) -> Table:
    rate = f"learning rate {settings.learning_rate:.9g}"
    return Table(
        title=f"step {settings.step:,} of {name} on {weight.address()}, {rate}",
        columns=("", "number", "how"),
        rows=tuple((row, _exact(number), text) for row, number, text in rows),
    )


def _exact(x: float) -> str:
    """Nine digits, which tell any two float32 apart: a row is computed from those above it."""
    return f"{x:.9g}"


def _notes(trace: Trace, settings: StepSettings) -> list[str]:
    notes = [
        settings.origin,
        "the batch of this step is this one sentence; a training averages many",
    ]
    if settings.kind == "AdamW" and settings.step == 1:
        notes.append(
            "in a first step the corrected m is g and the corrected v is g²: so, but for decay, "
            "the step is the learning rate times the sign of g wherever |g| is far above eps "
            f"({settings.eps:g})"
        )
    notes += optimiser_step.list_left_out(trace)
    if settings.clip_norm is not None:
        length = trace.backward().norm
        clipped = length > settings.clip_norm
        notes.append(
            f"all gradients together have a length of {length:.6g}; the run clips at "
            f"{settings.clip_norm:g}: "
            + (
                f"each is divided by {length / settings.clip_norm:.6g}"
                if clipped
                else "none is changed"
            )
        )
    return notes
