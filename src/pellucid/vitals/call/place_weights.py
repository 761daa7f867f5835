"""What a loss asks of each place, and how it weighs them, read from its gradient by the logits.

The gradient of a mean of cross-entropies is w (p - y), with one w for all places. If g - w p is the
same at each place of a row, the loss asks all of them for the same target. If w grows with p(y),
the loss is a probability, not its logarithm.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pellucid.vitals.call.pair_weights import ratio_tie

#: So few places (of a row, or of all) say nothing, and so many are enough.
_MIN_PLACES, _MAX_PLACES = 8, 64
#: A mean over fewer places says nothing.
_FEW_PLACES = 4
#: The logarithm of a probability of 0 counts as this number, times 0.
_LEAST = -1e4
#: Outputs that are all alike leave a w of 0.
_TINY = 1e-30
#: The logarithms of p differ by so much, and a line explains so much of the weights' logarithms.
_SPREAD, _LINE = 0.05, 0.98
#: Weights that differ by less than so much of what p does are all the same.
_LEVEL = 0.02
#: Of one side of a gradient, at least so much is the target's: all but rounding.
_NAMED = 0.99
#: The weight of a target that is as good as certain does not show in its gradient.
UNCERTAIN = 1e-3
#: Probabilities in half precision add up to 1 within this.
_ERROR = 0.01


def as_logits(
    gradient: Float[Tensor, "*places vocab"], outputs: Float[Tensor, "*places vocab"]
) -> tuple[Float[Tensor, "*places vocab"], Float[Tensor, "*places vocab"]]:
    """The gradient by the logits, and the logits, of outputs that may be normalised already.

    A model may end with a softmax or a log-softmax, for a loss that takes its outputs as they are.
    Of log p = log_softmax(z) it is g - p sum(g), and of p = softmax(z) it is p (g - sum(p g)). The
    gradient of a softmax of log p adds up to 0, and stays as it is. Other outputs are logits.

    Args:
        gradient: Of the loss by the outputs.
        outputs: Logits, or probabilities or their logarithms at all places.
    """
    g, z = gradient.float(), outputs.float()
    is_log = (z.logsumexp(-1).abs() < _ERROR).all()
    is_share = (z >= 0).all() & ((z.sum(-1) - 1).abs() < _ERROR).all()
    by_log = g - z.exp() * g.sum(-1, keepdim=True)
    by_share = z * (g - (z * g).sum(-1, keepdim=True))
    log_shares = z.clamp_min(torch.finfo(torch.float32).tiny).log()
    return (
        torch.where(is_share, by_share, torch.where(is_log, by_log, g)),
        torch.where(is_share, log_shares, z),
    )


def names_targets(gradient: Tensor) -> tuple[Tensor, Tensor]:
    """Whether each place's gradient names a token that becomes likelier, and one less likely.

    The gradient of a cross-entropy is w (softmax(z) - y). Its one negative number names the target,
    and so does the one positive number of a loss that is turned round. With one likely alternative,
    both signs name a token.

    Args:
        gradient: (..., vocab) of the loss by the logits.
    """
    positive, negative = gradient.clamp(min=0).sum(-1), (-gradient).clamp(min=0).sum(-1)
    return -gradient.amin(-1) > _NAMED * negative, gradient.amax(-1) > _NAMED * positive


def target_weights(gradient: Tensor, p: Tensor, targets: Tensor) -> Tensor:
    """w = -g_y / (1 - p_y): what targets weigh in a loss, negative where they are pushed down.

    Args:
        gradient: (..., vocab) of the loss by the logits.
        p: (..., vocab), the probabilities.
        targets: (...), the target y of each place.
    """
    y = targets[..., None]
    doubt = (1 - p.gather(-1, y)).clamp_min(UNCERTAIN)
    return (-gradient.gather(-1, y) / doubt)[..., 0]


def read_rows(
    gradient: Float[Tensor, "rows places vocab"], logits: Float[Tensor, "rows places vocab"]
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The weight of each row's targets in the loss, and how likely the model finds them.

    The weight is negative where targets are made less likely: g = w (p - y), so
    w = -g_y / (1 - p_y), where y is the one token of its sign. The other number is the mean of
    log p_y + H, in nats: about 0 for tokens that the model itself would draw, since E[log p] = -H.
    Both are NaN for a row that names no target. The next two, also (rows), are log p_y of all
    targets and how many there are. The last one is what `ratio_tie` gives.

    Args:
        gradient: The gradient of the loss by the logits.
        logits: The logits.
    """
    log_p = logits.float().log_softmax(-1)
    g, p = gradient.float(), log_p.exp()
    names_raised, names_lowered = names_targets(g)
    targets = torch.where(names_raised, g.argmin(-1), g.argmax(-1))
    weights = target_weights(g, p, targets)
    entropy = -(p * log_p.clamp_min(_LEAST)).sum(-1)
    target_log_p = log_p.gather(-1, targets[..., None])[..., 0]
    surplus = target_log_p + entropy
    doubt = 1 - p.gather(-1, targets[..., None])[..., 0]
    is_read = (names_raised ^ names_lowered) & (doubt > UNCERTAIN) & (g.amax(-1) > 0)
    return (
        weights.masked_fill(~is_read, torch.nan).nanmedian(-1).values,
        surplus.masked_fill(~is_read, torch.nan).nanmean(-1),
        (target_log_p * (g.amax(-1) > 0)).sum(-1),
        (g.amax(-1) > 0).sum(-1),
        ratio_tie(weights.masked_fill(~is_read, torch.nan), target_log_p),
    )


def paid_entropy(
    gradient: Float[Tensor, "places vocab"], logits: Float[Tensor, "places vocab"]
) -> Float[Tensor, ""]:
    """The mean entropy of the predictions at places that a loss pays for; -1 of few places.

    Args:
        gradient: Of the loss by the logits.
        logits: The logits.
    """
    log_p = logits.float().log_softmax(-1)
    entropy = -(log_p.exp() * log_p.clamp_min(_LEAST)).sum(-1)
    is_paid = (gradient != 0).any(-1)
    n = is_paid.sum()
    return torch.where(n >= _FEW_PLACES, (entropy * is_paid).sum() / n.clamp_min(1), -1.0)


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

    w = -g_y / (1 - p_y) is c p_y^power. None if the weights follow no power of it; 0 if they are
    equal, whatever the loss is divided by.

    Args:
        gradient: Of the loss by the logits.
        logits: The logits.
        is_plain: Whether the gradient of a place pulls one token alone.
    """
    places = is_plain.nonzero()[:_MAX_PLACES]
    g, z = (x[*places.T].double() for x in (gradient, logits))
    p, y = z.softmax(-1), g.argmin(-1)
    of_target = p.gather(-1, y[:, None])[:, 0]
    is_open = (1 - of_target > UNCERTAIN) & (of_target > 0)
    if int(is_open.sum()) < _MIN_PLACES:
        return None
    log_w = target_weights(g, p, y)[is_open].log()
    log_p = of_target[is_open].log()
    from_w, from_p = log_w - log_w.mean(), log_p - log_p.mean()
    spread = from_p.square().sum()
    if float(spread) < _SPREAD**2 * len(log_p):
        return None
    if float(from_w.square().sum()) < _LEVEL**2 * float(spread):
        return 0.0
    slope = (from_w * from_p).sum() / spread
    unexplained = float((from_w - slope * from_p).square().sum())
    return float(slope) if unexplained <= (1 - _LINE) * float(from_w.square().sum()) else None


def evenness(
    gradient: Float[Tensor, "rows places vocab"],
    logits: Float[Tensor, "rows places vocab"],
    is_single: Bool[Tensor, "rows places"],
) -> float | None:
    """How many of the places that are paid for carry the loss, of all: 1 if all weigh alike.

    (sum w)^2 / (n sum w^2): 1 / n if one place has all the weight. None of few places.

    Args:
        gradient: Of the loss by the logits.
        logits: The logits.
        is_single: Whether a place has one target.

    Source:
        Kish 1965, "Survey Sampling", the effective sample size.
    """
    places = is_single.nonzero()[: 4 * _MAX_PLACES]
    if len(places) < _MAX_PLACES:
        return None
    g, z = (x[*places.T].float() for x in (gradient, logits))
    w = target_weights(g, z.softmax(-1), g.argmin(-1)).clamp_min(0)
    return float(w.sum().square() / (len(w) * w.square().sum()).clamp_min(_TINY))


def easiness(
    gradient: Float[Tensor, "rows places vocab"],
    logits: Float[Tensor, "rows places vocab"],
    ids: Int[Tensor, "rows time"],
) -> float | None:
    """How often a place that is paid for knows its next token better than one that is not.

    A half by chance, and 1 if a loss picks its places by how well they know it. None if few are
    paid for, or few are not; a method may leave out its worst places, which are less than half.

    Args:
        gradient: Of the loss by the logits.
        logits: The logits.
        ids: The ids that the logits belong to.
    """
    places = min(ids.shape[1], gradient.shape[1] + 1)
    next_ids = ids[: len(gradient), 1:places, None].long()
    g, z = (x[:, : places - 1].float() for x in (gradient, logits))
    is_paid = (g != 0).any(-1)
    n_paid, unpaid_ids = int(is_paid.sum()), next_ids[~is_paid]
    # padding is no text: what is not paid for has to differ
    if (
        n_paid < _MIN_PLACES
        or 2 * n_paid > is_paid.numel()
        or bool((next_ids >= z.shape[-1]).any())
    ):
        return None
    if int((torch.bincount(unpaid_ids[:, 0]) > 0).sum()) < _MIN_PLACES:
        return None
    log_p = z.log_softmax(-1).gather(-1, next_ids)[..., 0]
    is_next = g.argmin(-1)[is_paid] == next_ids[is_paid][:, 0]
    if float(is_next.float().mean()) < _NAMED:
        return None
    return float((log_p[is_paid][:, None] > log_p[~is_paid]).float().mean())


def raised(
    gradient: Float[Tensor, "rows places vocab"], ids: Int[Tensor, "rows time"]
) -> float | None:
    """Of a loss's pull on the tokens that follow, the share that makes them likelier.

    The gradient by the logit of y is w (p_y - t_y), so what a teacher knows better than its student
    is raised. None of few places.

    Args:
        gradient: Of the loss by the logits.
        ids: The ids that the logits belong to.
    """
    places = min(ids.shape[1], gradient.shape[1] + 1)
    next_ids = ids[: len(gradient), 1:places, None].long()
    if bool((next_ids >= gradient.shape[-1]).any()):
        return None
    pull = -gradient[:, : places - 1].float().gather(-1, next_ids)
    if int((pull != 0).sum()) < _MAX_PLACES:
        return None
    return float(pull.clamp(min=0).sum() / pull.abs().sum())


def _from_row(x: Tensor, is_paid: Tensor) -> Tensor:
    """Paid places without the mean of their row; the other places are 0."""
    x = x * is_paid[..., None]
    mean = x.sum(1, keepdim=True) / is_paid.sum(1).clamp_min(1)[:, None, None]
    return (x - mean) * is_paid[..., None]
