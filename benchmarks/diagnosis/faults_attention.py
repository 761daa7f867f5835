"""Faults of attention: who sees whom, and from where.

Comes in: nothing. Goes out: a list of classes.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from benchmarks.diagnosis import changes
from benchmarks.diagnosis.changes import attentions, change_view, fill, wrap_forward
from benchmarks.diagnosis.fault import Fault
from benchmarks.diagnosis.setups import Arch, attention
from benchmarks.diagnosis.training import Training
from pellucid import config

_SELECTIONS: Any = {"tuning": ("all", "last"), "judging": ("first", "middle")}


def _batch_leak(t: Training, share: float) -> None:
    for module in attentions(t, "all"):
        wrap_forward(
            module, lambda forward, x, *arguments: forward(x - share * x.mean(0, True), *arguments)
        )


def _positions_lost(t: Training, level: str) -> None:
    positions: Any = t.model.stack.positions
    if level == "left out":
        positions.rotate = positions.embed = lambda x, view: x
        return
    for name in ("rotate", "embed"):
        act = getattr(positions, name)

        def elsewhere(x: Tensor, view: Any, act: Any = act) -> Tensor:
            places = torch.zeros(x.shape[0], x.shape[-2], dtype=torch.long)
            return act(x, view._replace(places=places))

        setattr(positions, name, elsewhere)


def _rotary_wrong(t: Training, level: str) -> None:
    positions: Any = t.model.stack.positions
    if level == "pairing":
        positions.pairing = "interleaved"
        return
    rotate, calls = positions.rotate, [0]

    def rotate_wrongly(x: Tensor, view: Any) -> Tensor:
        calls[0] += 1
        query = bool(calls[0] % 2)
        if level == "queries":
            return rotate(x, view) if query else x
        if level == "keys":
            return x if query else rotate(x, view)
        return rotate(rotate(x, view), view) if query else rotate(x, view)

    positions.rotate = rotate_wrongly


def _no_query_nor_key(t: Training, selection: str) -> None:
    for module in attentions(t, selection):
        for projection in (module.query, module.key):
            fill(projection.weight, 0.0)
            if projection.bias is not None:
                fill(projection.bias, 0.0)


def _nan_under_padding(t: Training, selection: str) -> None:
    def poisoned(forward: Any, x: Tensor, positions: Any, view: Any, cache: Any) -> Tensor:
        mixed = forward(x, positions, view, cache)
        hidden = None if view.padding is None else ~view.padding[..., None]
        return mixed if hidden is None else mixed.masked_fill(hidden, math.nan)

    for module in attentions(t, selection):
        wrap_forward(module, poisoned)


def _scale(run: config.Run, arch: Arch, scale: float) -> config.Run:
    return attention(run, scale=scale)


FAULTS = [
    Fault(
        name="no causal mask",
        accepted=("ATT001",),
        kind="invariant",
        inject=lambda t, selection: change_view(t, selection, changes.no_causal_mask),
        **_SELECTIONS,
    ),
    Fault(
        name="mask off by one",
        accepted=("ATT001",),
        kind="invariant",
        inject=lambda t, selection: change_view(t, selection, changes.one_too_many),
        **_SELECTIONS,
    ),
    Fault(
        name="rows of a batch mixed",
        accepted=("ATT002",),
        kind="invariant",
        inject=_batch_leak,
        tuning=(1.0, 0.3),
        judging=(0.5, 0.1),
    ),
    Fault(
        name="padding attended",
        accepted=("ATT003",),
        kind="invariant",
        base="padded",
        inject=lambda t, selection: change_view(t, selection, changes.padding_forgotten),
        **_SELECTIONS,
    ),
    Fault(
        name="documents attended",
        accepted=("ATT004",),
        kind="invariant",
        base="packed",
        inject=lambda t, selection: change_view(t, selection, changes.documents_forgotten),
        **_SELECTIONS,
    ),
    Fault(
        name="heads not transposed",
        accepted=("ATT005", "ATT001"),
        kind="invariant",
        inject=changes.heads_not_transposed,
        **_SELECTIONS,
    ),
    Fault(
        name="positions missing",
        accepted=("POS001",),
        kind="invariant",
        inject=_positions_lost,
        tuning=("left out", "constant"),
        judging=("constant", "left out"),
    ),
    Fault(
        name="rotary wrong",
        accepted=("POS002",),
        kind="invariant",
        archs=("llama",),
        inject=_rotary_wrong,
        tuning=("queries", "pairing"),
        judging=("keys", "twice"),
    ),
    Fault(
        name="scores not scaled",
        accepted=("ARC006", "ATT007"),
        configure=_scale,
        tuning=(1.0, 4.0),
        judging=(2.0, 8.0),
        repairable=True,
    ),
    Fault(
        name="queries and keys are zero",
        accepted=("ARC008", "GRD002"),
        kind="invariant",
        inject=_no_query_nor_key,
        place="attention|query|key",
        **_SELECTIONS,
    ),
    Fault(
        name="NaN under padding",
        accepted=("ATT006", "NUM004", "NUM010"),
        kind="invariant",
        base="padded",
        inject=_nan_under_padding,
        **_SELECTIONS,
    ),
]
