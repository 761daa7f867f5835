"""What the weights of answers in the first gradient follow, where they differ.

A loss over pairs weighs each by its margin: -log sigmoid(beta z) by sigmoid(-beta z). Before the
first update, z = 0 for every pair if the reference is the model. A loss without a reference (CPO,
SimPO) has the model's own log ratio in the place of z.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from statistics import fmean, pstdev
from typing import Any, NamedTuple, cast

import torch
from jaxtyping import Float
from torch import Tensor

#: Of fewer pairs, any two numbers are in one order by chance.
_FEWEST = 6
#: Of one answer on a side, its weight is no rule.
_FEWEST_OF_SIDE = 3
#: Equal numbers differ by no more of their mean than this, in half precision.
_EQUAL = 0.03
#: Of the raised and the lowered rows, at least so many have a partner if the loss compares pairs.
_PAIRED = 0.9

#: Weights of one answer's tokens differ if their logarithms deviate so much, of so many tokens.
_UNEVEN, _FEWEST_PLACES = 0.5, 16
#: The logarithm of a probability of 0 counts as the first number; tokens that are rarer than the
#: second have a gradient of rounding alone.
_LEAST, _RAREST = -1e4, 1e-6
#: A line explains so much of the spread: a temperature bends it. It is looked for at so many
#: places, without each of so many tokens in turn.
_LINE, _MOST_PLACES, _CANDIDATES = 0.999, 64, 4
#: Less than a gradient has.
_TINY = 1e-30
#: Answers of fewer tokens may end alike.
_SHORTEST = 4


class PaidAnswer(NamedTuple):
    """An answer as the loss pays for it.

    Attributes:
        weight: The size of the weight of each of its tokens.
        log_p: log P of all its paid tokens, in nats; NaN if unknown.
        n_tokens: How many these are; NaN if unknown.
        surplus: How much likelier its tokens are than the model's own would be, in nats a token.
    """

    weight: float
    log_p: float
    n_tokens: float
    surplus: float = math.nan

    @property
    def mean(self) -> float:
        """log P of a token."""
        return self.log_p / max(self.n_tokens, 1.0)

    @property
    def is_known(self) -> bool:
        """Whether weight, log P and length are numbers: a sharp temperature may divide by 0."""
        return all(map(math.isfinite, (self.weight, self.log_p, self.n_tokens)))


def balance_of_sides(raised: Tensor, lowered: Tensor) -> dict[str, float]:
    """What raised answers weigh in all, over what lowered ones do, if each side has one weight.

    Before the first update a loss of single answers (KTO) gives all of a side the same weight.

    Args:
        raised: The weights of the raised rows.
        lowered: The weights of the lowered rows, as positive numbers.
    """
    sides: list[list[float]] = [cast("Any", weights).tolist() for weights in (raised, lowered)]
    if min(map(len, sides)) < _FEWEST_OF_SIDE or max(map(_unevenness, sides)) > _EQUAL:
        return {}
    return {"answers.balance": sum(sides[0]) / sum(sides[1])}


def explain_weights(pairs: Sequence[tuple[PaidAnswer, PaidAnswer]]) -> dict[str, float]:
    """How well the model's own log P explains the weights of pairs.

    `answers.explained` is 1 if all pairs weigh the same, by their answers or by all their tokens.
    Else it is the highest rank correlation with what some losses weigh pairs by: the model's log
    ratio, without a reference, or the probability of both answers.

    Args:
        pairs: Raised answers, each with its lowered one.
    """
    readable_pairs = [pair for pair in pairs if all(paid.is_known for paid in pair)]
    if len(readable_pairs) < _FEWEST:
        return {}
    weights = [fmean((a.weight, b.weight)) for a, b in readable_pairs]
    totals = [fmean((a.weight * a.n_tokens, b.weight * b.n_tokens)) for a, b in readable_pairs]
    if min(map(_unevenness, (weights, totals))) <= _EQUAL:
        return {"answers.explained": 1.0}
    sums = [a.log_p - b.log_p for a, b in readable_pairs]
    token_ratios = [a.mean - b.mean for a, b in readable_pairs]
    explained = (
        -rank_correlation(weights, sums),
        -rank_correlation(totals, token_ratios),
        rank_correlation(weights, [a.log_p + b.log_p for a, b in readable_pairs]),
        rank_correlation(weights, [a.mean + b.mean for a, b in readable_pairs]),
    )
    by_surplus = [a.surplus + b.surplus for a, b in readable_pairs]
    if all(map(math.isfinite, by_surplus)):
        explained = (*explained, rank_correlation(weights, by_surplus))
    return {"answers.explained": max(0.0, *explained)}


def differ_in_unit(pairs: Sequence[tuple[PaidAnswer, PaidAnswer]]) -> dict[str, float]:
    """Whether the loss takes log P of one side's answers as it is, and of the other side's a mean.

    Both answers of a pair have one weight, whatever the margin is: each token of a sum has all of
    it, and each token of a mean over n tokens one n-th. `answers.units` is 1 if one side is a sum
    and the other a mean, and 0 if both are the same, or lengths differ too little to tell.

    Args:
        pairs: Raised answers, each with its lowered one.
    """
    readable_pairs = [pair for pair in pairs if all(paid.is_known for paid in pair)]
    if len(readable_pairs) < _FEWEST or any(b.weight <= 0 for _, b in readable_pairs):
        return {}
    in_sums, in_means, mean_of_raised, mean_of_lowered = (
        _unevenness(
            [a.weight * a.n_tokens**m / (b.weight * b.n_tokens**n) for a, b in readable_pairs]
        )
        <= _EQUAL
        for m, n in ((0, 0), (1, 1), (1, 0), (0, 1))
    )
    is_mixed = mean_of_raised or mean_of_lowered
    return {"answers.units": float(is_mixed and not (in_sums or in_means))}


def own_weights(weights: Tensor) -> dict[str, float]:
    """How the weights of the model's own answers lie: `answers.lowered` and `answers.level`.

    The latter is their standard deviation over their mean size, if all of them are known.

    Args:
        weights: Of all rows; NaN if unknown, or without a gradient.
    """
    known = weights[weights.isfinite() & (weights != 0)].double()
    if len(known) < _FEWEST:
        return {}
    signs = {"answers.lowered": float((known < 0).double().mean())}
    if len(known) == len(weights):
        signs["answers.level"] = float(known.std(correction=0) / known.abs().mean())
    return signs


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """The correlation of the ranks of two rows of numbers (Spearman); 0 if one is constant."""
    a, b = _ranks(first), _ranks(second)
    a_mean, b_mean = fmean(a), fmean(b)
    product = sum((x - a_mean) * (y - b_mean) for x, y in zip(a, b, strict=True))
    size = math.sqrt(sum((x - a_mean) ** 2 for x in a) * sum((y - b_mean) ** 2 for y in b))
    return product / size if size else 0.0


def _ranks(values: Sequence[float]) -> list[float]:
    """The rank of each number; equal ones share theirs."""
    return [
        fmean((sum(other < value for other in values), sum(other <= value for other in values)))
        for value in values
    ]


def _unevenness(values: Sequence[float]) -> float:
    return pstdev(values) / max(fmean(values), 1e-30)


def paired(raised: Float[Tensor, " n"], lowered: Float[Tensor, " m"]) -> float:
    """1 if rows are raised and lowered in pairs of one weight, else 0.

    -log sigmoid(margin) weighs both answers of a pair with sigmoid(-margin).

    Args:
        raised: The weights of rows that become likelier.
        lowered: The sizes of the weights of the others.
    """
    gaps = (raised[:, None].log() - lowered[None, :].log()).abs()
    partners = torch.cat([gaps.amin(1), gaps.amin(0)]) < _EQUAL
    is_even = abs(len(raised) - len(lowered)) <= 0.25 * (len(raised) + len(lowered))
    return float(is_even and float(partners.double().mean()) >= _PAIRED)


def ratio_tie(
    weights: Float[Tensor, "rows places"], log_p: Float[Tensor, "rows places"]
) -> Float[Tensor, ""]:
    """The correlation of log |w| with log p within rows; 0 where a row has one weight.

    A policy's first update weighs all tokens of an answer alike: p / p_old is 1. If log p_old is
    that of other tokens, the weights go with p.

    Args:
        weights: Of the targets; NaN if unknown.
        log_p: Of the targets.
    """
    is_known = weights.isfinite() & (weights != 0)
    sizes = weights.abs().log().masked_fill(~is_known, torch.nan)
    y = (sizes - sizes.nanmean(-1, keepdim=True)).nan_to_num()
    x = log_p.masked_fill(~is_known, torch.nan)
    x = (x - x.nanmean(-1, keepdim=True)).nan_to_num()
    n, variance = is_known.sum().clamp_min(1), y.square().sum()
    r = (x * y).sum() / (x.square().sum() * variance).sqrt().clamp_min(1e-30)
    is_uneven = (variance / n > _UNEVEN**2) & (n >= _FEWEST_PLACES)
    return torch.where(is_uneven, r, 0.0)


def entropy_price(
    gradient: Float[Tensor, "rows places vocab"], logits: Float[Tensor, "rows places vocab"]
) -> Float[Tensor, ""]:
    """What a policy's loss charges for a nat of entropy at a place, over what tokens weigh there.

    A loss with the entropy H at the price k has the gradient w (p - y) - k p (log p + H). So g / p
    of the tokens that were not drawn falls in log p, on a line with the slope -k. 0 unless nearly
    all places are on such lines and fall, which no weight of single tokens does to all of them.

    Args:
        gradient: Of the loss by the logits.
        logits: The logits.
    """
    places = (gradient != 0).any(-1).nonzero()
    places = places[:: max(1, len(places) // _MOST_PLACES)]
    if len(places) < _FEWEST_PLACES:
        return gradient.new_zeros(())
    g, z = (numbers[*places.T].float() for numbers in (gradient, logits))
    log_p = z.log_softmax(-1).clamp_min(_LEAST)
    p = log_p.exp()
    x, ratio = log_p - (p * log_p).sum(-1, keepdim=True), g / p.clamp_min(_RAREST)
    # the token that was drawn is on no line: it is among those that move most
    candidates = g.abs().topk(min(_CANDIDATES, g.shape[-1])).indices[..., None]
    lines = [
        _weighted_line(x, ratio, (p * (p > _RAREST)).scatter(-1, candidate, 0.0))
        for candidate in candidates.unbind(1)
    ]
    weights, slopes, fits = (torch.stack(numbers) for numbers in zip(*lines, strict=True))
    fit, best = fits.max(0)
    weight, slope = (numbers.gather(0, best[None])[0] for numbers in (weights, slopes))
    falls = (fit >= _LINE) & (slope < 0)
    total = -(slope * falls).sum() / (weight.abs() * falls).sum().clamp_min(_RAREST)
    return torch.where(falls.double().mean() >= _PAIRED, total, 0.0)


def _weighted_line(x: Tensor, y: Tensor, shares: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The line through y by x of each row: its height at 0, its slope, and how well it fits.

    The latter is the square of the correlation, and 0 where y is constant.

    Args:
        x: (..., n).
        y: (..., n).
        shares: (..., n), what each number weighs.
    """
    shares = shares / shares.sum(-1, keepdim=True).clamp_min(_RAREST)
    mean_x, mean_y = ((shares * part).sum(-1, keepdim=True) for part in (x, y))
    product = (shares * (x - mean_x) * (y - mean_y)).sum(-1)
    spread_x, spread_y = (
        (shares * (part - mean).square()).sum(-1) for part, mean in ((x, mean_x), (y, mean_y))
    )
    slope = product / spread_x.clamp_min(_RAREST)
    fit = product.square() / (spread_x * spread_y).clamp_min(_TINY)
    return mean_y[..., 0] - slope * mean_x[..., 0], slope, fit


def same_answer(answers: Sequence[Sequence[int]]) -> float:
    """The share of answers that end like most of them do, for all the length that they have.

    Args:
        answers: What each says behind the start that it shares with its partner, of one side.
    """
    length = min(map(len, answers), default=0)
    if length < _SHORTEST:
        return 0.0
    ends = Counter(tuple(answer[len(answer) - length :]) for answer in answers)
    end, n = ends.most_common(1)[0]
    return n / len(answers) if len({*end}) >= _SHORTEST - 1 else 0.0  # padding says nothing
