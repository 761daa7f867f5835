"""Linear recurrences: a state that decays by a factor and gets an addition at every time step."""

from __future__ import annotations

from pellucid.maths.arrays import Array, namespace
from pellucid.maths.door.equation import equation


def _shift_later(x: Array, shift: int, first: float) -> Array:
    """x delayed by `shift` steps; the first steps become `first`."""
    xp = namespace(x)
    return xp.concat((xp.full_like(x[..., :shift, :], first), x[..., :-shift, :]), axis=-2)


@equation(decay="... time width|1", x="... time width", start="... width")
def linear_scan(decay: Array, x: Array, start: Array) -> Array:
    """h_t = a_t h_(t-1) + x_t for every t, in log2(time) rounds instead of time steps.

    Two steps in a row make one step of the same form: (a, x) then (b, y) is (a b, b x + y). In the
    rounds, every step absorbs the one that is 1, 2, 4, ... places earlier. Nothing is divided, so
    factors of zero are safe.

    Args:
        decay: a, (..., time, width), or (..., time, 1). x: (..., time, width).
        start: h before the first step, (..., width). Returns h: (..., time, width).
    Gradient:
        `linear_scan_grad`.
    Source:
        Hillis and Steele 1986, "Data Parallel Algorithms" (the rounds); Blelloch 1990, "Prefix Sums
        and Their Applications", section 1.4 (the pairs).
    Example:
        linear_scan(0.5 * ones((3, 1)), ones((3, 1)), zeros(1))
    """
    factor, h, shift = decay, x, 1
    while shift < x.shape[-2]:
        h = h + factor * _shift_later(h, shift, 0.0)
        factor = factor * _shift_later(factor, shift, 1.0)
        shift = 2 * shift
    return h + factor * start[..., None, :]


@equation(linear_scan, grad="... time width")
def linear_scan_grad(
    decay: Array, x: Array, start: Array, grad: Array
) -> tuple[Array, Array, Array]:
    """The gradients that reach factors, inputs and start when `grad` reaches every h_t.

    Let l_t be the whole gradient of h_t, directly and through all later steps:
    l_t = g_t + a_(t+1) l_(t+1)      the same recurrence, backwards
    dx_t = l_t,  da_t = l_t h_(t-1),  dstart = a_1 l_1

    Args:
        As `linear_scan`, with time >= 1. grad: like x. Returns d decay, d x, d start.
    """
    xp = namespace(decay, x, start, grad)
    h = linear_scan(decay, x, start)
    next_decay = _shift_later(xp.flip(decay, axis=-2), 1, 0.0)
    dx = xp.flip(linear_scan(next_decay, xp.flip(grad, axis=-2), xp.zeros_like(start)), axis=-2)
    previous = xp.concat((start[..., None, :], h[..., :-1, :]), axis=-2)
    d_decay = dx * previous
    if decay.shape[-1] == 1:
        d_decay = xp.sum(d_decay, axis=-1, keepdims=True)
    return d_decay, dx, (decay * dx)[..., 0, :]
