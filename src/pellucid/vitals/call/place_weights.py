"""What a loss asks of each place, and how it weighs them, read from its gradient by the logits.

The gradient of a mean of cross-entropies is w (p - y), with one w for all places. If g - w p is the
same at each place of a row, the loss asks all of them for the same target. If w grows with p(y),
the loss is a probability, not its logarithm.
"""

from __future__ import annotations

from jaxtyping import Bool, Float
from torch import Tensor

#: So few places (of a row, or of all) say nothing, and so many are enough.
_MIN_PLACES, _MAX_PLACES = 8, 64
#: Outputs that are all alike leave a w of 0.
_TINY = 1e-30
#: The logarithms of p differ by so much, and a line explains so much of the weights' logarithms.
_SPREAD, _LINE = 0.05, 0.98
#: The weight of a target that is nearly certain is rounding.
_NEARLY_SURE = 0.999


def own_share(
    gradient: Float[Tensor, "rows places vocab"], logits: Float[Tensor, "rows places vocab"]
) -> float | None:
    """The share of the places' gradients that is of their own targets; None if it does not show.

    g - w p = -w y, with one w for all places. Without the mean of its row, it is the part of g that
    differs from place to place: nearly all of g if targets differ, and nothing of it if all places
    have one target, or one output.

    Args:
        gradient: Of the loss by the logits.
        logits: The logits.
    """
    g, z = gradient[:, :_MAX_PLACES].float(), logits[:, :_MAX_PLACES].float()
    is_paid = g.amin(-1) < 0
    is_paid &= is_paid.sum(-1, keepdim=True) >= _MIN_PLACES
    if not bool(is_paid.any()):
        return None
    p = z.softmax(-1)
    from_g, from_p = _from_row(g, is_paid), _from_row(p, is_paid)
    spread = from_p.square().sum()
    w = (from_g * from_p).sum() / spread.clamp_min(_TINY)
    return float((from_g - w * from_p).square().sum() / g[is_paid].square().sum())


def power_of_p(
    gradient: Float[Tensor, "rows places vocab"],
    logits: Float[Tensor, "rows places vocab"],
    is_plain: Bool[Tensor, "rows places"],
) -> float | None:
    """The power of p(y) by which a loss weighs its places: 0 for -log p, 1 for -p.

    w = -g_y / (1 - p_y) is c p_y^power. None if the weights follow no power of it.

    Args:
        gradient: Of the loss by the logits.
        logits: The logits.
        is_plain: Whether the gradient of a place pulls one token alone.
    """
    places = is_plain.nonzero()[:_MAX_PLACES]
    g, z = (x[*places.T].double() for x in (gradient, logits))
    p = z.softmax(-1)
    y = g.argmin(-1, keepdim=True)
    of_target = p.gather(-1, y)[:, 0]
    is_open = (of_target < _NEARLY_SURE) & (of_target > 0)
    if int(is_open.sum()) < _MIN_PLACES:
        return None
    of_target = of_target[is_open]
    log_w = (-g.gather(-1, y)[:, 0][is_open] / (1 - of_target)).log()
    log_p = of_target.log()
    from_w, from_p = log_w - log_w.mean(), log_p - log_p.mean()
    spread = from_p.square().sum()
    if float(spread) < _SPREAD**2 * len(log_p):
        return None
    slope = (from_w * from_p).sum() / spread
    left = (from_w - slope * from_p).square().sum()
    return float(slope) if float(left) <= (1 - _LINE) * float(from_w.square().sum()) else None


def _from_row(x: Tensor, is_paid: Tensor) -> Tensor:
    """Paid places without the mean of their row; the other places are 0."""
    x = x * is_paid[..., None]
    mean = x.sum(1, keepdim=True) / is_paid.sum(1).clamp_min(1)[:, None, None]
    return (x - mean) * is_paid[..., None]
