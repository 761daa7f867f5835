"""Update: the optimiser on one weight: gradient, moments, corrected, step, decay, before, after."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, assert_never, cast

import torch
from torch import Tensor

from pellucid.catalogue import message, messages
from pellucid.explain import optimiser_step
from pellucid.explain.addresses.recompute import receipt_or_none
from pellucid.explain.chapter_types import Bars, Content, Table
from pellucid.explain.chapters.adapters import view_adapter_of_weight
from pellucid.explain.chapters.clip_and_penalty import (
    clipping_table,
    describe_penalty,
    exact,
    note_on_clipping,
    note_on_penalty,
    penalty_table,
)
from pellucid.explain.expressions import evaluate
from pellucid.explain.optimiser_settings import StepSettings, choose_settings, parts_of
from pellucid.explain.receipts.optimiser_step import (
    correction,
    direction,
)
from pellucid.explain.selection import SelectedWeight, Selection, select_weight
from pellucid.explain.trace_types import Trace

#: How far a singular value may be from one to count as near one.
_SPREAD = 0.3


def build(trace: Trace, selection: Selection) -> Content:
    """What the next step would do to one weight if this sentence were the batch."""
    weight = select_weight(trace, selection)
    settings = choose_settings(trace, weight.name)
    old, new = float(trace[weight.address()]), _stepped(trace, weight, settings)
    trend = "up" if new > old else "down" if new < old else "nowhere"
    move = message(
        f"update.moves-{trend}",
        weight=weight.address(),
        old=_format_apart(old, new),
        new=_format_apart(new, old),
    )
    rate = f"{settings.learning_rate:.9g}"
    adapter = view_adapter_of_weight(trace, selection, weight)
    clipping = clipping_table(trace, weight, settings)
    around = clipping, penalty_table(trace, weight, settings), *adapter.pictures
    is_clipped = clipping is not None
    parts = [part for part in parts_of(settings) if is_clipped or part != "clipped_grad"]
    penalty_text = describe_penalty(trace, weight, settings)
    receipts = [receipt_or_none(trace, weight.address(f".{part}")) for part in ("grad", *parts)]
    receipts += adapter.receipts
    match settings.kind:
        case "AdamW" | "Adam":
            return Content(
                sentence=message(
                    "update.not-by-the-gradient-itself",
                    kind=settings.kind,
                    move=move,
                    rate=rate,
                    penalty_text=penalty_text,
                ),
                pictures=(
                    _adamw_table(trace, weight, settings),
                    _bars(trace, weight, settings, evaluate(direction(trace, weight, settings))),
                    *around,
                ),
                receipts=receipts,
                notes=(*_notes(trace, settings), *adapter.notes),
            )
        case "Muon":
            rows, columns = trace[weight.name].shape
            step = float(trace[weight.address(".direction")]) * max(1.0, rows / columns) ** 0.5
            return Content(
                sentence=message(
                    "update.muon-it-takes-the-whole",
                    move=move,
                    rate=rate,
                    singular_values=_describe_singular_values(trace, weight),
                    penalty_text=penalty_text,
                ),
                pictures=(
                    _muon_table(trace, weight, settings),
                    _tabulate_iterations(trace, weight),
                    _bars(trace, weight, settings, step),
                    *around,
                ),
                receipts=receipts,
                notes=(*_notes(trace, settings), *adapter.notes),
            )
        case "SGD":
            direction_name = message(
                "update.its-running-sum" if settings.beta1 else "update.itself"
            )
            return Content(
                sentence=message(
                    "update.sgd-along-the-gradient-times",
                    move=move,
                    direction_name=direction_name,
                    rate=rate,
                    penalty_text=penalty_text,
                ),
                pictures=(_plain_table(trace, weight, settings), *around),
                receipts=receipts,
                notes=(*_notes(trace, settings), *adapter.notes),
            )
        case "other":
            return Content(
                sentence=message(
                    "update.the-optimiser-of-this-run",
                    move=move,
                    rate=rate,
                    penalty_text=penalty_text,
                ),
                pictures=(_plain_table(trace, weight, settings), *around),
                receipts=receipts,
                notes=(*_notes(trace, settings), *adapter.notes),
            )
        case _:
            assert_never(settings.kind)


def _format_apart(x: float, reference: float) -> str:
    """A number in as many digits as tell it from the other one, and no fewer than six."""
    texts = ((f"{x:.{n}g}", f"{reference:.{n}g}") for n in range(6, 18))
    return next((text for text, reference_text in texts if text != reference_text), f"{x:.6g}")


def _describe_singular_values(trace: Trace, weight: SelectedWeight) -> str:
    """The range of the singular values of the matrix that Muon moves along."""
    matrix = trace[f"{weight.name}.direction"].double()
    values: Tensor = cast("Any", torch.linalg).svdvals(matrix)
    n_near_one = int(((values - 1).abs() <= _SPREAD).sum())
    return message(
        "update.here-they-end-up-between",
        min=float(values.min()),
        max=float(values.max()),
        n_near_one=n_near_one,
        n_values=len(values),
        spread=_SPREAD,
    )


def _bars(
    trace: Trace, weight: SelectedWeight, settings: StepSettings, direction_value: float
) -> Bars:
    rate, old_weight = settings.learning_rate, float(trace[weight.address()])
    names: tuple[str, ...] = messages("word.the-step", "word.weight-decay")
    values = (-rate * direction_value, -rate * settings.weight_decay * old_weight)
    if settings.is_penalised:
        names = (*names, "penalty")
        pulled = float(trace[weight.address(".next")]) - _stepped(trace, weight, settings)
        values = (*values, pulled)
    return Bars(
        title=message("update.the-changes-of-the-weight"),
        names=names,
        values=values,
        unit=message("word.change"),
    )


def _stepped(trace: Trace, weight: SelectedWeight, settings: StepSettings) -> float:
    """The weight after the optimiser's own step, before a penalty."""
    part = ".before_penalty" if settings.is_penalised else ".next"
    return float(trace[weight.address(part)])


def _plain_table(trace: Trace, weight: SelectedWeight, settings: StepSettings) -> Table:
    rows = (
        (message("word.w-before"), float(trace[weight.address()])),
        ("g", float(trace[weight.address(".grad")])),
        (message("word.w-after"), _stepped(trace, weight, settings)),
    )
    return Table(
        title=message("update.the-step-on", address=weight.address()),
        columns=("", message("word.number")),
        rows=tuple((name, exact(number)) for name, number in rows),
    )


def _tabulate_iterations(trace: Trace, weight: SelectedWeight) -> Table:
    """What each iteration of Newton-Schulz does to the weight and to the singular values."""
    values = optimiser_step.singular_values(trace, weight.name)
    return Table(
        title=message("update.newton-schulz-this-number-and"),
        columns=messages(
            "word.iteration", "word.number", "word.largest", "word.middle", "word.smallest"
        ),
        rows=tuple(
            (
                step,
                float(trace[weight.address(f".iterate{step}")]),
                float(of_step[0]),
                float(of_step[len(of_step) // 2]),
                float(of_step[-1]),
            )
            for step, of_step in enumerate(values)
        ),
    )


def _muon_table(trace: Trace, weight: SelectedWeight, settings: StepSettings) -> Table:
    w, g, m, d = (float(trace[weight.address(part)]) for part in ("", ".grad", ".m", ".direction"))
    new = _stepped(trace, weight, settings)
    divisor, mu = optimiser_step.divisor(trace, settings), settings.beta1
    m_before = 0.0 if settings.m is None else float(settings.m[weight.index])
    decay = settings.weight_decay
    rows: list[tuple[str, float, str]] = [
        (message("word.w-before"), w, ""),
        ("g", g, message("word.the-gradient")),
        (message("word.g-clipped"), g / divisor, message("update.divided-by", divisor=divisor)),
        (message("word.m-before"), m_before, ""),
        ("m", m, f"{mu:g} m + g"),
        (message("word.look-ahead"), g / divisor + mu * m, f"g + {mu:g} m"),
        ("d", d, message("update.of-the-whole-matrix-orthogonalised")),
        (message("word.decay"), decay * w, f"{decay:g} × w"),
        (message("word.w-after"), new, "w - lr × (decay + √max(1, rows/columns) d)"),
    ]
    return _step_table("Muon", weight, settings, rows, is_clipped=divisor != 1.0)


def _adamw_table(trace: Trace, weight: SelectedWeight, settings: StepSettings) -> Table:
    w, g, m, v = (float(trace[weight.address(part)]) for part in ("", ".grad", ".m", ".v"))
    new = _stepped(trace, weight, settings)
    divisor = optimiser_step.divisor(trace, settings)
    m_before, v_before = (
        0.0 if x is None else float(x[weight.index]) for x in (settings.m, settings.v)
    )
    beta1, beta2, step, decay = (
        settings.beta1,
        settings.beta2,
        settings.step,
        settings.weight_decay,
    )
    corrected_m, corrected_v = (
        x / evaluate(correction(beta, step)) for x, beta in ((m, beta1), (v, beta2))
    )
    rows: list[tuple[str, float, str]] = [
        (message("word.w-before"), w, ""),
        ("g", g, message("word.the-gradient")),
        (message("word.g-clipped"), g / divisor, message("update.divided-by", divisor=divisor)),
        ("g + l2 w", g / divisor + settings.l2 * w, f"g + {settings.l2:g} w"),
        (message("word.m-before"), m_before, ""),
        ("m", m, f"{beta1:g} m + {1 - beta1:.9g} g"),
        (message("word.v-before"), v_before, ""),
        ("v", v, f"{beta2:g} v + {1 - beta2:.9g} g²"),
        (message("word.m-corrected"), corrected_m, f"m / (1 - {beta1:g}^{step})"),
        (message("word.v-corrected"), corrected_v, f"v / (1 - {beta2:g}^{step})"),
        (
            message("word.direction"),
            evaluate(direction(trace, weight, settings)),
            message("update.direction-formula"),
        ),
        (message("word.decay"), decay * w, f"{decay:g} × w"),
        (message("word.w-after"), new, message("update.after-formula")),
    ]
    rows = [row for row in rows if settings.l2 or row[0] != "g + l2 w"]
    return _step_table(settings.kind, weight, settings, rows, is_clipped=divisor != 1.0)


def _step_table(
    name: str,
    weight: SelectedWeight,
    settings: StepSettings,
    rows: Sequence[tuple[str, float, str]],
    *,
    is_clipped: bool,
) -> Table:
    rate = message("update.learning-rate", learning_rate=settings.learning_rate)
    return Table(
        title=message(
            "update.step-of-on", step=settings.step, name=name, address=weight.address(), rate=rate
        ),
        columns=("", message("word.number"), message("word.how")),
        rows=tuple(
            (row, exact(number), text)
            for row, number, text in rows
            if is_clipped or row != "g, clipped"
        ),
    )


def _notes(trace: Trace, settings: StepSettings) -> list[str]:
    notes = [
        settings.origin,
        message("update.the-batch-of-this-step"),
    ]
    if settings.kind == "AdamW" and settings.step == 1:
        notes.append(message("update.in-a-first-step-the", eps=settings.eps))
    penalty_note = note_on_penalty(trace, settings)
    notes += [penalty_note] if penalty_note else []
    notes += optimiser_step.list_left_out(trace)
    clipping_note = note_on_clipping(trace, settings)
    return notes + ([clipping_note] if clipping_note else [])
