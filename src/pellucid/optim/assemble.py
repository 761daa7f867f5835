"""The one door from a config to an optimiser and a schedule.

No other file of this room reads a config.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import assert_never, cast

import torch
from torch import nn

from pellucid import config
from pellucid.maths.schedules import constant, cosine, linear, warm_up_stable_decay
from pellucid.optim.eager import SGD, Adam, AdamW
from pellucid.optim.grouping import Group, group
from pellucid.optim.muon import Muon, Orthogonaliser, Owners
from pellucid.optim.optimiser import Optimiser
from pellucid.optim.proximal import penalties_of
from pellucid.optim.rounded_adamw import RoundedAdamW
from pellucid.rounded_weights import is_rounded
from pellucid.typed import multiplies_bfloat16


def assemble_optimiser(
    optimiser: config.Optimiser,
    parameters: Iterable[tuple[str, nn.Parameter]],
    penalties: Iterable[config.ElasticNet] = (),
    orthogonal: config.Orthogonal | None = None,
    owners: Owners | None = None,
) -> Optimiser:
    """The optimiser that a config describes, over the trainable ones of `parameters`.

    Args:
        optimiser: its kind and its numbers.
        parameters: by name.
        penalties: applied after each step.
        orthogonal: how Muon orthogonalises; by default fused, in bfloat16 if the device has
            instructions for it, else in float32.
        owners: the processes that share Muon's work; by default this one alone.

    Raises:
        ConfigError: one of the `penalties` names no parameter that is trained.
    """
    names = dict(parameters)
    parts: list[torch.optim.Optimizer]
    groups = group(names.items())
    match optimiser:
        case config.AdamW():
            parts = _adamw(optimiser, groups.every)
        case config.Adam():
            parts = [
                Adam(
                    _decaying(groups.every, optimiser.l2),
                    lr=optimiser.learning_rate,
                    betas=optimiser.betas,
                    eps=optimiser.eps,
                    fused=True,
                )
            ]
        case config.SGD():
            parts = [
                SGD(
                    _decaying(groups.every, optimiser.l2),
                    lr=optimiser.learning_rate,
                    momentum=optimiser.momentum,
                    fused=True,
                )
            ]
        case config.Muon():
            adamw_groups = [groups.embeddings, groups.vectors]
            # torch refuses an optimiser without parameters, as if only adapters are trained
            parts = (
                [_muon(optimiser, groups.hidden, orthogonal, owners)]
                if groups.hidden.parameters
                else []
            )
            if any(adamw_group.parameters for adamw_group in adamw_groups):
                parts += _adamw(optimiser.rest, adamw_groups)
        case _:
            assert_never(optimiser)
    strengths = ((penalty.l1, penalty.l2, penalty.parameters) for penalty in penalties)
    return Optimiser(parts, names, groups.every, penalties_of(strengths, names))


def _muon(
    muon: config.Muon,
    hidden: Group,
    orthogonal: config.Orthogonal | None,
    owners: Owners | None,
) -> torch.optim.Optimizer:
    how = orthogonaliser(muon, orthogonal, next(iter(hidden.parameters.values())).device)
    return Muon(
        hidden.parameters.values(),
        lr=muon.learning_rate,
        momentum=muon.momentum,
        weight_decay=muon.weight_decay,
        newton_schulz_steps=muon.newton_schulz_steps,
        dtype=how.dtype,
        fused=how.fused,
        polynomials=how.polynomials,
        owners=owners,
    )


def orthogonaliser(
    muon: config.Muon, orthogonal: config.Orthogonal | None, device: torch.device
) -> Orthogonaliser:
    """How Muon orthogonalises.

    Args:
        muon: whose polynomials it takes.
        orthogonal: the plan's type; by default the best one for `device`.
        device: holds the matrices.
    """
    make = partial(Orthogonaliser, polynomials=muon.polynomials)
    match orthogonal:
        case None:
            dtype = torch.bfloat16 if multiplies_bfloat16(device) else torch.float32
            return make(dtype)
        case "float32" | "bfloat16":
            return make(getattr(torch, orthogonal), fused=False)
        case "fused float32":
            return make(torch.float32)
        case "fused bfloat16":
            return make(torch.bfloat16)
        case _:
            assert_never(orthogonal)


def _adamw(adamw: config.AdamW, groups: Iterable[Group]) -> list[torch.optim.Optimizer]:
    """AdamW, and before it the one of rounded weights if there are any."""
    by_kind: dict[type[AdamW], list[dict[str, object]]] = {}
    for options in _decaying(groups, adamw.weight_decay):
        parameters = cast("list[nn.Parameter]", options["params"])
        for kind, members in (
            (RoundedAdamW, [p for p in parameters if is_rounded(p)]),
            (AdamW, [p for p in parameters if not is_rounded(p)]),
        ):
            if members:
                by_kind.setdefault(kind, []).append({**options, "params": members})
    return [
        kind(options, lr=adamw.learning_rate, betas=adamw.betas, eps=adamw.eps, fused=True)
        for kind, options in by_kind.items()
    ]


def _decaying(groups: Iterable[Group], decay: float) -> list[dict[str, object]]:
    return [
        {"params": parameters, "weight_decay": decay if group.decays else 0.0}
        for group in groups
        for parameters in _by_place(group.parameters.values())
    ]


def _by_place(parameters: Iterable[nn.Parameter]) -> Iterable[list[nn.Parameter]]:
    """The parameters that one kernel can update: those that lie over the same ranks."""
    places: dict[str, list[nn.Parameter]] = {}
    for parameter in parameters:
        places.setdefault(str(getattr(parameter, "device_mesh", "")), []).append(parameter)
    return places.values()


def assemble_schedule(schedule: config.Schedule, *, total: int) -> Callable[[float], float]:
    """The learning-rate factor of the step (from 0) among `total` steps; it may be between two.

    The config gives shares of the run, which are rounded to steps here. No update has a rate of
    zero: the first step is one step into the warm-up, and the last step is one step before `final`.
    """
    warm_up, end = round(schedule.warm_up * total), total + 1
    match schedule:
        case config.Constant():
            factor = partial(constant, warm_up=warm_up)
        case config.Linear(final=final):
            factor = partial(linear, warm_up=warm_up, total=end, final=final)
        case config.Cosine(final=final):
            factor = partial(cosine, warm_up=warm_up, total=end, final=final)
        case config.WarmUpStableDecay(final=final):
            factor = partial(
                warm_up_stable_decay,
                warm_up=warm_up,
                decay=max(1, round(schedule.decay * total)),
                total=end,
                final=final,
            )
        case _:
            assert_never(schedule)
    return lambda step: factor(step + 1)
