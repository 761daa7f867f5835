"""The targets that a loop's loss pays for, read from its gradient by the logits.

Every loss that is a cross-entropy has the gradient c (softmax(z / T) - y), wherever it is computed.
So the one negative number of a place names its target, a place of zeros has none, and the others
give T, the number by which the loss divides the logits. It adds up to 0, because a softmax does not
change if all logits rise by the same, and no part of it is exactly 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pellucid.batches import IGNORED
from pellucid.vitals.call.logit_noise import logit_noise
from pellucid.vitals.call.place_weights import (
    as_logits,
    easiness,
    evenness,
    own_share,
    power_of_p,
    raised,
)
from pellucid.vitals.ledger.row_losses import squashed_twice

#: Places per row whose whole gradient is read, vocabulary entries for a temperature, and classes.
_PLACES, _FEWEST, _MOST_CLASSES = 512, 8, 32
#: Of the gradient's negative part, at least so much is the target's if it is one token. From this
#: share of such places on, a place without a gradient is not paid for.
_ONE_TARGET, NAMED = 0.5, 0.9
#: A straight line has to explain so much of the gradient by p for a smoothing to be read off it.
_LINE = 0.99
#: Of the gradient's negative part, at least so much is the target's if nothing is smoothed; and a
#: target is pulled so many times as hard as any other token.
_PLAIN, _PEAK = 0.999, 1.5
#: So many places are enough to see whether the gradient adds up to 0.
_BALANCED = 64
#: The gradient of a token that is nearly sure is rounding errors, of one nearly impossible it is 0.
_NEARLY_SURE, _TINY = 0.999, 1e-20
#: Of the size of a gradient, what rounding leaves of a sum of 0, and what is surely no rounding.
_ROUNDING, _IMBALANCE = 1e-4, 1e-2


@dataclass(frozen=True, slots=True)
class PaidTargets:
    """The targets of a batch.

    Attributes:
        all: (batch, time) the target of each place, `IGNORED` where nothing is paid for.
        rows: The first of these rows, with only the places that have one target.
        single: The share of paid places, among those that are read in full, with one target.
        weight: What all places together weigh in the gradient, 1 for a mean; None if no place has
            one target.
        temperature: The number by which the loss divides the logits; None if it shows nowhere.
        smoothing: The share of a target that the loss spreads over all tokens; None if the gradient
            is not that of a smoothed target.
        unbalanced: What a place's gradient adds up to, of its largest part; None if no place pulls
            one token, or if the outputs are not known to be of tokens.
        untouched: The share of the tokens whose logit has a gradient of exactly 0, at such places.
        noise: How far the loss's logits are from the model's, in nats (see `logit_noise`).
        own_share: The share of the gradients that is of each place's own target (see `own_share`).
        power: The power of p(y) by which places weigh (see `power_of_p`).
        easiness: How well the paid places know their next token, of all pairs (see `easiness`).
        evenness: How many of the paid places carry the loss, of all (see `evenness`).
        nats: The mean of -log p at the places with one target.
        reshaped: Whether the gradient adds up to 0 over other numbers than those of a place.
        squashed: Whether probabilities of classes are taken for logits (see `squashed_twice`).
        raised: Of the pull on the next tokens, what raises them (see `raised`).
        is_of_softmax: Whether the gradients of places add up to 0, as those of a softmax do.
    """

    all: Int[Tensor, "batch time"]
    rows: Int[Tensor, "rows time"]
    single: float | None = None
    weight: float | None = None
    temperature: float | None = None
    smoothing: float | None = None
    unbalanced: float | None = None
    untouched: float | None = None
    noise: float | None = None
    own_share: float | None = None
    power: float | None = None
    easiness: float | None = None
    evenness: float | None = None
    nats: float | None = None
    reshaped: float | None = None
    squashed: float | None = None
    raised: float | None = None
    is_of_softmax: bool = False

    @property
    def names_targets(self) -> bool:
        """Whether the gradient pulls to one target at nearly all places that are paid for."""
        return (self.single or 0.0) > NAMED

    def signs(self) -> dict[str, float]:
        """The numbers that are known, by the ids of their signs."""
        numbers = {
            "targets.single": self.single,
            "targets.weight": self.weight,
            "targets.counted": float((self.all != IGNORED).double().mean()),
            "logits.temperature": self.temperature,
            "targets.smoothing": self.smoothing,
            "targets.unbalanced": self.unbalanced,
            "targets.untouched": self.untouched,
            "logits.noise": self.noise,
            "targets.own": self.own_share,
            "targets.power": self.power,
            "targets.easiness": self.easiness,
            "targets.evenness": self.evenness,
            "targets.nats": self.nats,
            "targets.reshaped": self.reshaped,
            "targets.squashed": self.squashed,
            "targets.raised": None if self.names_targets else self.raised,
        }
        return {id: value for id, value in numbers.items() if value is not None}


def first_places(tensor: Tensor, rows: int) -> Tensor:
    """The places that are read in full: the first ones of the first rows."""
    return tensor[:rows, :_PLACES]


def paid_targets(
    gradient: Float[Tensor, "batch time vocab"],
    logits: Float[Tensor, "rows places vocab"],
    model: nn.Module | None = None,
    ids: Int[Tensor, "batch time"] | None = None,
) -> PaidTargets:
    """The targets that a gradient of the logits shows.

    Args:
        gradient: (batch, time, vocab) of the loss by the logits.
        logits: The `first_places` of the logits.
        model: Says whether these are logits of tokens.
        ids: The ids that the model read; None if it did not read ids place by place.
    """
    rows, places = logits.shape[:2]
    lowest, targets = gradient.min(-1)
    targets.masked_fill_(~(lowest < 0), IGNORED)
    part, logits = as_logits(gradient[:rows, :places], logits)
    negative = part.clamp(max=0).sum(-1)
    share = part.amin(-1) / negative.where(negative < 0, torch.ones_like(negative))
    is_paid, is_single = negative < 0, share > _ONE_TARGET
    row_targets = targets[:rows].clone()
    row_targets[:, places:] = IGNORED
    row_targets[:, :places].masked_fill_(~is_single, IGNORED)
    single = float(is_single.sum() / is_paid.sum().clamp_min(1)) if bool(is_paid.any()) else None
    weight = _weight(part, logits, is_single) * int((targets != IGNORED).sum()) if single else None
    is_plain = share > _PLAIN
    is_rounded = gradient.dtype == torch.float16  # its smallest numbers become 0
    of_tokens = model is not None and _embeds(model, gradient.shape[-1])
    balance = _balance(part, logits) if of_tokens and not is_rounded else (None, None)
    return PaidTargets(
        targets,
        row_targets,
        single,
        weight,
        _temperature(part, logits, is_plain),
        _smoothing(part, logits, is_paid),
        *balance,
        noise=logit_noise(part, logits, is_plain) if of_tokens else None,
        own_share=own_share(part, logits) if of_tokens else None,
        power=power_of_p(part, logits, is_plain) if of_tokens and not is_rounded else None,
        easiness=easiness(part, logits, ids) if of_tokens and ids is not None else None,
        evenness=evenness(part, logits, is_single & is_paid) if of_tokens else None,
        nats=_nats(logits, is_single, row_targets[:, :places]) if of_tokens else None,
        reshaped=None if is_rounded else _reshaped(gradient, rows),
        squashed=None if of_tokens else _squashed(part, logits, targets[:rows, :places]),
        raised=raised(part, ids) if of_tokens and ids is not None else None,
        is_of_softmax=of_tokens and bool(part.sum(-1).abs().sum() < _IMBALANCE * part.abs().sum()),
    )


def _squashed(gradient: Tensor, logits: Tensor, targets: Tensor) -> float | None:
    """`squashed_twice` of all places together; None of more outputs than classes have."""
    if not 1 < gradient.shape[-1] <= _MOST_CLASSES:
        return None
    of_places = (x.flatten(0, 1) for x in (gradient, logits, targets))
    return float(squashed_twice(*of_places))


def _reshaped(gradient: Tensor, rows: int) -> float:
    """1 if a softmax went over numbers of several places, else 0.

    Its gradient adds up to 0 in groups: those of one token over all places, or of (rows, vocab,
    time) in the memory of (rows, time, vocab), where places have to be transposed.
    """
    part, size = gradient[:rows].float(), gradient.abs().sum(dtype=torch.float32)
    _, time, vocab = part.shape
    if min(time, vocab) < 2 or not size:
        return 0.0
    part_size = part.abs().sum()
    of_places = part.sum(-1).abs().sum()
    of_groups = part.reshape(rows, vocab, time).sum(1).abs().sum()
    of_tokens = gradient.sum((0, 1), dtype=torch.float32).abs().sum()
    is_in_groups = of_groups < _ROUNDING * part_size or of_tokens < _ROUNDING * size
    return float(is_in_groups and of_places > _IMBALANCE * part_size)


def _embeds(model: nn.Module, size: int) -> bool:
    """Whether a model embeds so many tokens: then outputs of this width are their logits."""
    return any(isinstance(m, nn.Embedding) and m.num_embeddings == size for m in model.modules())


def _balance(gradient: Tensor, logits: Tensor) -> tuple[float | None, float | None]:
    """What places that pull one token, or push all tokens one way, add up to; untouched tokens."""
    g, z = gradient.flatten(0, -2), logits.flatten(0, -2)
    sizes = g.abs().amax(-1)
    # a distance from the model of the start begins with rounding errors alone
    places = (sizes > _ROUNDING * sizes.amax()).nonzero()[:, 0]
    places = places[:: max(1, len(places) // _BALANCED)]
    if not len(places) or g.shape[-1] < _FEWEST:
        return None, None
    g, z = g[places].double(), z[places].double()
    p = z.softmax(-1)
    lowest, second = g.topk(2, largest=False).values.unbind(-1)
    is_single = lowest < _ONE_TARGET * g.clamp(max=0).sum(-1)
    is_open = p.gather(-1, g.argmin(-1, keepdim=True))[:, 0] < _NEARLY_SURE
    is_peak = (is_single | (lowest < _PEAK * second)) & is_open | (lowest >= 0) | _is_distance(g, z)
    if float(is_peak.double().mean()) <= _ONE_TARGET:
        return None, None
    g, p = g[is_peak], p[is_peak]
    ratio = g.sum(-1).abs() / g.abs().amax(-1)
    zeros = ((g == 0) & (p > _TINY)).sum(-1) / (p > _TINY).sum(-1)
    return float(ratio.median()), float(zeros.median())


def _is_distance(gradient: Tensor, logits: Tensor) -> Tensor:
    """Whether each place's gradient is c (z - y), of a squared distance from ones and zeros."""
    scale = (gradient / logits.where(logits != 0, torch.ones_like(logits))).median(-1).values
    y = logits - gradient / scale.where(scale > 0, torch.ones_like(scale))[:, None]
    highest = y.amax(-1)
    return (scale > 0) & (y.abs().sum(-1) - highest < _ONE_TARGET * highest)


def _weight(gradient: Tensor, logits: Tensor, is_single: Tensor) -> float:
    """The median of -gradient / (1 - p) at the targets, which is c."""
    g, z = gradient[is_single].double(), logits[is_single].double()
    p = z.softmax(-1).gather(-1, g.argmin(-1, keepdim=True))[:, 0]
    return float((-g.amin(-1) / (1 - p).clamp_min(1e-12)).median())


def _nats(logits: Tensor, is_single: Tensor, targets: Tensor) -> float | None:
    """The mean of -log p at the targets, in nats; None without any."""
    is_named = is_single & (targets != IGNORED)
    if not bool(is_named.any()):
        return None
    z, y = logits[is_named].float(), targets[is_named]
    return float((z.logsumexp(-1) - z.gather(-1, y[:, None])[:, 0]).mean())


def _temperature(gradient: Tensor, logits: Tensor, is_plain: Tensor) -> float | None:
    """The median slope of z over log(gradient) among the tokens that are no target.

    log(c p_i) = z_i / T + a constant of the place
    """
    if not bool(is_plain.any()) or gradient.shape[-1] < _FEWEST:
        return None
    g, z = gradient[is_plain].double(), logits[is_plain].double()
    # of tiny probabilities rounding would be all that is left
    counts = g > 1e-4 * g.amax(-1, keepdim=True)
    counts &= g > 0
    n = counts.sum(-1, keepdim=True).clamp_min(1)
    log_g = torch.where(counts, g, torch.ones_like(g)).log()
    log_g = (log_g - log_g.mul(counts).sum(-1, keepdim=True) / n) * counts
    z = (z - z.mul(counts).sum(-1, keepdim=True) / n) * counts
    spread = z.square().sum(-1)
    slope = (log_g * z).sum(-1) / spread.clamp_min(1e-30)
    fits = (log_g - slope[:, None] * z).mul(counts).square().sum(-1) < 1e-3 * log_g.square().sum(-1)
    usable = fits & (spread > 1e-8) & (slope > 0) & (counts.sum(-1) >= _FEWEST)
    if not bool(usable.any()) or float(usable.double().mean()) < 0.5:
        return None
    return 1 / float(slope[usable].median())


def _smoothing(gradient: Tensor, logits: Tensor, is_paid: Tensor) -> float | None:
    """The median s of the places; their gradient by tokens that are no target is a line in p.

    c (p_i - (1 - s) y_i - s / V), so the line's slope is c, and it meets p = 0 at -c s / V
    """
    vocab = gradient.shape[-1]
    if not bool(is_paid.any()) or vocab < _FEWEST:
        return None
    g, p = gradient[is_paid].double(), logits[is_paid].double().softmax(-1)
    is_other = torch.ones_like(g).scatter_(-1, g.argmin(-1, keepdim=True), 0.0)
    mean_g, mean_p = ((x * is_other).sum(-1, keepdim=True) / (vocab - 1) for x in (g, p))
    from_g, from_p = (g - mean_g) * is_other, (p - mean_p) * is_other
    spread_g, spread_p = from_g.square().sum(-1), from_p.square().sum(-1)
    covered = (from_g * from_p).sum(-1)
    slope = covered / spread_p.clamp_min(1e-30)
    fits = covered.square() > _LINE * spread_g * spread_p.clamp_min(1e-30)
    usable = fits & (slope > 0)
    if float(usable.double().mean()) < 0.5:
        return None
    share = vocab * (mean_p[:, 0] - mean_g[:, 0] / slope.clamp_min(1e-30))
    return float(share[usable].median())
