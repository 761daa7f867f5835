"""Learning-rate schedules: the share of the peak learning rate at a step."""

from __future__ import annotations

import math

from pellucid.maths.door.equation import equation
from pellucid.maths.door.kinds import FRACTION, NOT_NEGATIVE


def _warm_up(step: float, warm_up: int) -> float | None:
    return step / warm_up if step < warm_up else None


def _progress(step: float, start: int, end: int) -> float:
    """The share of the way from `start` to `end` at `step`, in [0, 1]."""
    return min(1.0, (step - start) / max(1, end - start))


@equation(step=NOT_NEGATIVE, warm_up=NOT_NEGATIVE)
def constant(step: float, *, warm_up: int) -> float:
    """A straight line from 0 to 1 over `warm_up` steps, then 1.

    factor = min(1, step / warm_up)

    Args:
        step: counted from 0. warm_up: steps of the warm-up.
    Source:
        Goyal et al. 2017, "Accurate, Large Minibatch SGD: Training ImageNet in 1 Hour",
        section 2.2.
    Example:
        constant(3, warm_up=4)
    """
    rising = _warm_up(step, warm_up)
    return 1.0 if rising is None else rising


@equation(constant, total=NOT_NEGATIVE, final=FRACTION)
def linear(step: float, *, warm_up: int, total: int, final: float) -> float:
    """Warm-up, then a straight line from 1 down to `final` at `total`, and `final` after it.

    factor = 1 + (final - 1) t,  t from 0 to 1 after the warm-up

    Args:
        step: counted from 0. warm_up, total: in steps. final: the factor at the end.
    Source:
        Devlin et al. 2019, "BERT: Pre-training of Deep Bidirectional Transformers for Language
        Understanding", appendix A.2.
    Example:
        linear(550, warm_up=100, total=1000, final=0.1)
    """
    rising = _warm_up(step, warm_up)
    if rising is not None:
        return rising
    return 1 + (final - 1) * _progress(step, warm_up, total)


@equation(linear)
def cosine(step: float, *, warm_up: int, total: int, final: float) -> float:
    """Warm-up, then half a cosine from 1 down to `final` at `total`, and `final` after it.

    factor = final + (1 - final) (1 + cos(pi t)) / 2,  t from 0 to 1 after the warm-up

    Args:
        step: counted from 0. warm_up, total: in steps. final: the factor at the end.
    Fails:
        You have to know the end in advance: if you stop earlier, the rate is still high.
    Source:
        Loshchilov and Hutter 2017, "SGDR: Stochastic Gradient Descent with Warm Restarts", eq. 5.
    Example:
        cosine(550, warm_up=100, total=1000, final=0.1)
    """
    rising = _warm_up(step, warm_up)
    if rising is not None:
        return rising
    return final + (1 - final) * (1 + math.cos(math.pi * _progress(step, warm_up, total))) / 2


@equation(linear, decay=NOT_NEGATIVE)
def warm_up_stable_decay(
    step: float, *, warm_up: int, decay: int, total: int, final: float
) -> float:
    """Warm-up, a plateau at 1, then a straight line to `final` over the last `decay` steps.

    factor = 1 + (final - 1) t,  t = 0 on the plateau, from 0 to 1 over the last steps

    Args:
        step: counted from 0. warm_up, decay, total: in steps. final: the factor at the end.
    Source:
        Hu et al. 2024, "MiniCPM", section 4.2.
    Example:
        warm_up_stable_decay(950, warm_up=100, decay=100, total=1000, final=0.0)
    """
    rising = _warm_up(step, warm_up)
    if rising is not None:
        return rising
    return 1 + (final - 1) * max(0.0, _progress(step, total - decay, total))
