"""Fixes of how a loop steps: rates, schedules, clipping, decay, betas, and the update itself."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from pellucid.diagnosis.fixes.loop.change import Group, LoopChange, LoopFix
from pellucid.diagnosis.fixes.training import RATES, SGD_RATE
from pellucid.diagnosis.loop import Loop, plain_update
from pellucid.vitals.update_sizes import unwrap_optimisers

_ADAM_RATE, _USUAL_DECAY, _USUAL_BETA2 = 1e-3, 0.1, 0.95
#: The rise of a warm-up, and of a whole schedule, in shares of the updates; the foot of its fall.
_WARM_UP, _RISE, _FOOT = 0.3, 0.1, 0.1
_CLIP = 1.0


def groups_of(loop: Loop) -> Iterator[Group]:
    """The groups of all optimisers of a loop."""
    for optimiser in unwrap_optimisers(loop.optimizer):
        yield from optimiser.param_groups


def peak_rate(loop: Loop) -> float:
    """The highest learning rate of a group, before a schedule lowers it."""
    return max(float(group.get("initial_lr", group["lr"])) for group in groups_of(loop))


def usual_rate(loop: Loop) -> float | None:
    """The learning rate that is usual for the optimiser; None if pellucid knows none."""
    group = next(groups_of(loop))
    if "betas" in group:
        return _ADAM_RATE
    return SGD_RATE if isinstance(unwrap_optimisers(loop.optimizer)[0], torch.optim.SGD) else None


def _scaled(factor: float) -> LoopFix:
    def fix(loop: Loop, steps: int) -> LoopChange | None:
        peak = peak_rate(loop)
        if peak <= 0:
            return None
        return LoopChange(
            code=f"lr={peak * factor:.3g}  # was {peak:.3g}",
            groups=lambda group, n: [group | {"lr": group["lr"] * factor}],
        )

    return fix


def _rate_usual(loop: Loop, steps: int) -> LoopChange | None:
    usual, peak = usual_rate(loop), peak_rate(loop)
    return _scaled(usual / peak)(loop, steps) if usual is not None and peak > usual else None


def _warm_up(loop: Loop, steps: int) -> LoopChange | None:
    rise = max(2, round(_WARM_UP * steps))
    return LoopChange(
        code=f"torch.optim.lr_scheduler.LinearLR(optimizer, 1 / {rise}, total_iters={rise})",
        groups=lambda group, n: [group | {"lr": group["lr"] * min(1.0, (n + 1) / rise)}],
    )


def _scheduled(
    loop: Loop, rise: float, later: Callable[[int], float], later_code: str, note: str = ""
) -> LoopChange | None:
    """A rise of so many updates in the place of the loop's own schedule; `later` bounds it."""
    full = peak_rate(loop) or usual_rate(loop)
    if full is None:
        return None
    return LoopChange(
        code=(
            f"lr={full:.3g}, "
            f"LambdaLR(optimizer, lambda n: min((n + 1) / {rise:g}, {later_code})){note}"
        ),
        groups=lambda group, n: [group | {"lr": full * min((n + 1) / rise, later(n))}],
    )


def _steady_rate(loop: Loop, steps: int) -> LoopChange | None:
    """A rise and a fall."""
    return _scheduled(
        loop,
        max(1, _RISE * steps),
        lambda n: max(_FOOT, 1 - n / steps),
        f"max({_FOOT}, 1 - n / {steps})",
        f"  # {steps}: your number of updates",
    )


def _held_rate(loop: Loop, steps: int) -> LoopChange | None:
    """A rise, and no fall."""
    return _scheduled(loop, max(1, round(_RISE * steps)), lambda n: 1.0, "1")


def _clip(loop: Loop, steps: int) -> LoopChange | None:
    if loop.clip_norm is not None and loop.clip_norm <= _CLIP:
        return None
    return LoopChange(
        code="torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # before optimizer.step()",
        gradients=lambda parameters: nn.utils.clip_grad_norm_(parameters, _CLIP),
    )


def _norm(tensor: Tensor) -> Tensor:
    return tensor.detach().square().sum().sqrt()


class _Unclipped:
    """Gradients as the backward pass left them, up to a norm of 1, whatever came afterwards."""

    def __init__(self) -> None:
        self._norms: dict[int, Tensor] = {}

    def listen(self, loop: Loop) -> None:
        """Record the norm of each gradient when it arrives."""
        for parameter in loop.model.parameters():
            if parameter.requires_grad:
                cast("Any", parameter).register_post_accumulate_grad_hook(self._record)

    def _record(self, parameter: Tensor) -> None:
        if parameter.grad is not None:
            self._norms[id(parameter)] = _norm(parameter.grad)

    def restore(self, parameters: Sequence[nn.Parameter]) -> None:
        """Give the gradients the length that they had, or 1 if that is less."""
        grads = [p.grad for p in parameters if p.grad is not None and id(p) in self._norms]
        if not grads:
            return
        before = math.sqrt(sum(float(norm) ** 2 for norm in self._norms.values()))
        now = float(_norm(torch.stack([_norm(grad) for grad in grads])))
        if now > 0 and math.isfinite(before):
            for grad in grads:
                grad.mul_(min(before, _CLIP) / now)


def _clip_looser(loop: Loop, steps: int) -> LoopChange | None:
    unclipped = _Unclipped()
    return LoopChange(
        code="torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # instead of your limit",
        prepare=unclipped.listen,
        gradients=unclipped.restore,
    )


def _set(key: str, value: Any, applies: Callable[[Group], bool]) -> LoopFix:
    """One value in the groups to which the fix applies."""

    def fix(loop: Loop, steps: int) -> LoopChange | None:
        if not any(key in group and applies(group) for group in groups_of(loop)):
            return None
        return LoopChange(
            code=f"{key}={value}",
            groups=lambda group, n: [
                group | {key: value} if key in group and applies(group) else group
            ],
        )

    return fix


def _decay_groups(loop: Loop, steps: int) -> LoopChange | None:
    """No decay of gains and biases."""

    def split(group: Group, n: int) -> Sequence[Group]:
        vectors = [p for p in group["params"] if p.ndim < 2]
        if not vectors or not group.get("weight_decay"):
            return [group]
        matrices = [p for p in group["params"] if p.ndim >= 2]
        free = group | {"params": vectors, "weight_decay": 0.0}
        return [group | {"params": matrices}, free] if matrices else [free]

    if all(len(split(group, 0)) == 1 for group in groups_of(loop)):
        return None
    return LoopChange(
        code="a group of parameters with ndim < 2 and weight_decay=0.0, and one of the others",
        groups=split,
    )


def _flipped(loop: Loop, steps: int) -> LoopChange | None:
    """Step the other way."""
    if not all("maximize" in group for group in groups_of(loop)):
        return None
    climbs = any(group["maximize"] for group in groups_of(loop))
    return LoopChange(
        code="maximize=False" if climbs else "loss = -loss  # minimise what you now maximise",
        groups=lambda group, n: [group | {"maximize": not group["maximize"]}],
        moves_targets=not climbs,
    )


def _clear(loop: Loop) -> None:
    for parameter in loop.model.parameters():
        parameter.grad = None


def _clear_gradients(loop: Loop, steps: int) -> LoopChange | None:
    if loop.train is None and loop.update is plain_update:
        return None
    return LoopChange(code="optimizer.zero_grad()  # after optimizer.step()", after=_clear)


def _plain_update(loop: Loop, steps: int) -> LoopChange | None:
    if loop.train is not None or loop.update is plain_update:
        return None

    def update(loop: Loop, batch: Any) -> Tensor:
        loop.clip_norm = loop.clip_norm or _CLIP
        return plain_update(loop, batch)

    return LoopChange(
        code=(
            "for each batch: loss.backward(); clip_grad_norm_(model.parameters(), 1.0); "
            "optimizer.step(); schedule.step(); optimizer.zero_grad(); and nothing else"
        ),
        update=update,
    )


OPTIMISER_FIXES: Mapping[str, LoopFix] = {
    **{name: _scaled(factor) for name, factor in RATES.items()},
    "rate_usual": _rate_usual,
    "warm_up_longer": _warm_up,
    "steady_rate": _steady_rate,
    "held_rate": _held_rate,
    "clip": _clip,
    "clip_looser": _clip_looser,
    "eps": _set("eps", 1e-8, lambda group: group["eps"] > 1e-8),
    "beta2": _set(
        "betas",
        (0.9, _USUAL_BETA2),
        lambda group: group["betas"][0] == 0.9 and group["betas"][1] > _USUAL_BETA2,
    ),
    "betas": _set("betas", (0.9, _USUAL_BETA2), lambda group: group["betas"] != (0.9, 0.95)),
    "momentum": _set("momentum", 0.9, lambda group: group["momentum"] > 0.95),
    "decay": _set("weight_decay", _USUAL_DECAY, lambda group: group["weight_decay"] > _USUAL_DECAY),
    "no_decay": _set("weight_decay", 0.0, lambda group: group["weight_decay"] > 0),
    "decay_groups": _decay_groups,
    "decoupled_decay": _set(
        "decoupled_weight_decay",
        True,
        lambda group: not group["decoupled_weight_decay"] and group["weight_decay"] > 0,
    ),
    "other_direction": _flipped,
    "clear_gradients": _clear_gradients,
    "plain_update": _plain_update,
}
