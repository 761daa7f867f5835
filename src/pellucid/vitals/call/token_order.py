"""Whether rows hold running text, and whether the places that are paid for are like all others.

In a text, neighbours depend on one another more than tokens further apart: equal pairs of tokens
come again more often than the frequencies of single tokens explain. Rows that were reshaped or
interleaved have these pairs at another distance.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from pellucid.batches import IGNORED
from pellucid.vitals.call.row_content import find_masks

#: The distances at which pairs are counted, and the most tokens.
_DISTANCES, _TOKENS = (*range(1, 17), 24, 32, 48, 64), 4096
#: Fewer tokens, and fewer pairs that are equal by chance, say nothing.
_FEWEST_TOKENS, _FEWEST_PAIRS = 256, 4
#: A ratio counts if it is so many standard deviations of a Poisson number above 1.
_DEVIATIONS = 6
#: Fewer masked tokens say nothing, and such a sum in its standard errors may be chance.
_FEWEST_MASKED, _ERRORS = 32, 4.0
#: From this ratio on, neighbours belong together.
_TIED = 1.5
#: A form's id is at nearly all of its places, and hardly anywhere else.
_EVERYWHERE, _ELSEWHERE = 0.95, 0.2
#: Less than this above 1, a ratio is as good as none.
_LEAST = 0.25
#: Fewer paid places say nothing; and of such a task the places, or the targets, have few kinds.
_FEWEST_PAID, _FEWEST_KINDS = 8, 4
#: Of fewer kinds of tokens, one may well be a third of a text; and of fewer tokens, by chance.
_FEWEST_WORDS, _FEWEST_SCATTERED = 8, 128


def pair_ratio(
    ids: Int[Tensor, "rows time"], distance: int, *, without: int | None = None
) -> float | None:
    """How often two pairs of tokens at a distance are equal, over how often by chance.

    1 if the difference may be chance; None if there are too few pairs.

    Args:
        ids: Rows of text.
        distance: From the first token of a pair to the second.
        without: Pairs of which both tokens have this id do not count.
    """
    if ids.shape[1] <= distance:
        return None
    first, second = ids[:, :-distance].flatten().long(), ids[:, distance:].flatten().long()
    if without is not None:
        counts = (first != without) | (second != without)
        first, second = first[counts], second[counts]
    return _tie(first, second)


def target_ratio(ids: Int[Tensor, "rows time"], targets: Int[Tensor, "rows time"]) -> float | None:
    """How often two places have the same token and the same target, over how often by chance.

    1 if the difference may be chance; None if there are too few places. Of labels that belong to
    other rows it is 1, whatever else is wrong: what is read tells nothing of what is asked for. Of
    masked tokens, the token before the mask counts.

    Args:
        ids: The rows that the model reads.
        targets: The target of each place, `IGNORED` where nothing is paid for.
    """
    if ids.shape != targets.shape:
        return None
    places = find_masks(ids, targets)
    if places is not None and 2 * (places.is_paid & places.is_mask).sum() > places.is_paid.sum():
        return _ratio_before_masks(ids, targets)
    is_paid = targets != IGNORED
    return _tie(ids[is_paid].long(), targets[is_paid].long())


def _ratio_before_masks(ids: Tensor, targets: Tensor) -> float | None:
    """How often the text holds a masked token behind the one before it, over how often by chance.

    1 if the difference may be chance; None of too few.
    """
    is_paid = targets != IGNORED
    before, after = ids[:, :-1].long(), torch.where(is_paid, targets, ids)[:, 1:].long()
    # padding follows itself
    counts = ~is_paid[:, :-1] & (before != after)
    is_masked, is_text = counts & is_paid[:, 1:], counts & ~is_paid[:, 1:]
    n_masked, n_text = int(is_masked.sum()), int(is_text.sum())
    if n_masked < _FEWEST_MASKED or n_text < _FEWEST_TOKENS:
        return None
    size = int(torch.maximum(before.amax(), after.amax())) + 1
    pairs = before * size + after
    of_first, of_second, of_pair = (
        _times(values[is_masked], values[is_text]) for values in (before, after, pairs)
    )
    by_chance = of_first * of_second / n_text
    surplus = of_pair - by_chance
    errors = float(surplus.sum() / surplus.square().sum().sqrt().clamp_min(1e-9))
    if abs(errors) <= _ERRORS:
        return None if float(by_chance.sum()) < _FEWEST_PAIRS else 1.0
    return float(of_pair.sum() / by_chance.sum().clamp_min(1.0))


def _times(values: Tensor, text: Tensor) -> Tensor:
    """How often each value comes in a text."""
    ordered = text.sort().values
    n_until, n_before = (torch.searchsorted(ordered, values, right=end) for end in (True, False))
    return (n_until - n_before).double()


def _tie(first: Int[Tensor, " n"], second: Int[Tensor, " n"]) -> float | None:
    """`pair_ratio` of pairs that are given as their two tokens."""
    pairs = count_pairs(first, second)
    if pairs is None:
        return None
    if pairs.is_clear:
        return pairs.n_equal / max(pairs.by_chance, 1.0)
    return None if pairs.by_chance < _FEWEST_PAIRS else 1.0


class PairCount(NamedTuple):
    """How many pairs are equal, and how many are by chance, by the frequencies of their tokens."""

    n_equal: float
    by_chance: float

    @property
    def is_clear(self) -> bool:
        """Whether the difference is no chance; of few pairs, only if many more are equal."""
        spread = max(self.by_chance, _FEWEST_PAIRS) ** 0.5
        return abs(self.n_equal - self.by_chance) > _DEVIATIONS * spread


def count_pairs(first: Int[Tensor, " n"], second: Int[Tensor, " n"]) -> PairCount | None:
    """Count the pairs that are equal to another one; None of too few.

    Args:
        first: The first token of each pair.
        second: The second token of each.
    """
    n = len(first)
    if n < _FEWEST_TOKENS:
        return None
    first, second = first.long(), second.long()
    counts = _counts(first * (int(second.max()) + 1) + second)
    by_chance = n * (n - 1) / 2 * _agreement(first) * _agreement(second)
    return PairCount(float((counts * (counts - 1)).sum() / 2), by_chance)


def is_clearly_tied(first: Int[Tensor, " n"], second: Int[Tensor, " n"]) -> bool:
    """Whether pairs come again more often than by chance, and not by chance.

    Args:
        first: The first token of each pair.
        second: The second token of each.
    """
    pairs = count_pairs(first, second)
    return pairs is not None and pairs.is_clear and pairs.n_equal > pairs.by_chance


def interleaving(ids: Int[Tensor, "rows time"]) -> float:
    """What tokens at another distance tell of each other, over what neighbours do; 0 if unknown.

    Both are the ratio of `pair_ratio` above 1. Neighbours of a text tell most. Two of
    the most frequent token, as of a mask, do not count: a few more or less make many equal pairs.

    Args:
        ids: Rows of text.
    """
    rows = _sample_rows(ids)
    usual = int(rows.flatten().mode().values)
    nearest = pair_ratio(rows, 1, without=usual)
    others = [pair_ratio(rows, d, without=usual) for d in {*_DISTANCES[1:], len(ids)} - {1}]
    farther = [ratio for ratio in others if ratio is not None]
    if nearest is None or max(farther, default=0.0) < _TIED:
        return 0.0
    return (max(farther) - 1) / max(nearest - 1, _LEAST)


def falls(ids: Int[Tensor, "rows time"]) -> float | None:
    """The share of steps from a token to a higher or lower id that fall; None if they are few.

    Args:
        ids: Rows of text.
    """
    steps = (ids[:, 1:] - ids[:, :-1]).flatten()
    n = int((steps != 0).sum())
    return int((steps < 0).sum()) / n if n >= _FEWEST_TOKENS else None


def scattered(
    ids: Int[Tensor, "rows time"], targets: Int[Tensor, "rows time"]
) -> tuple[float, int]:
    """The share of the paid tokens that are the most frequent target, and that id, if scattered.

    The smaller share of two: of these targets, and of the tokens that they are predicted from. 0 of
    few tokens or kinds of tokens, of an id that comes in pieces, and of one at places where it is
    in all rows. A mask is no target.

    Args:
        ids: Rows of text.
        targets: The target of each place, `IGNORED` where nothing is paid for.
    """
    is_paid = targets != IGNORED
    if ids.shape != targets.shape or int(is_paid.sum()) < _FEWEST_SCATTERED:
        return 0.0, -1
    paid = targets[is_paid]
    usual = paid.mode().values
    is_usual = ids == usual
    # places that hold it in all rows are a form's, such as a first digit, if others hardly do
    is_target = (targets == usual) & is_paid
    others = is_target.sum(0) < _EVERYWHERE * is_paid.sum(0)
    n_others = int(is_paid[:, others].sum())
    if n_others and int(is_target[:, others].sum()) < _ELSEWHERE * n_others:
        return 0.0, -1
    share = min(float((x == usual).double().mean()) for x in (paid, ids[is_paid]))
    n_pieces = int((is_usual[:, 1:] & ~is_usual[:, :-1]).sum())
    if len(_counts(paid)) < _FEWEST_WORDS or 2 * n_pieces < (1 - share) * int(is_usual.sum()):
        return 0.0, -1
    return share, int(usual)


def entropy(ids: Int[Tensor, "rows time"]) -> float:
    """The entropy of single tokens, in nats: the loss of a model that knows their frequencies.

    Args:
        ids: Rows of text.
    """
    counts = _counts(ids)
    p = counts / counts.sum()
    return float(-(p * p.log()).sum())


def share_of_text(
    ids: Int[Tensor, "rows time"],
    targets: Int[Tensor, "rows time"],
    is_real: Bool[Tensor, "rows time"],
) -> float | None:
    """The share of a text's places that are paid for, if they have nothing in common; else None.

    Of a task with an answer, the places before it hold the same few tokens, or the answers are few,
    or what comes before is no running text.

    Args:
        ids: The rows that the model reads.
        targets: The target of each place, `IGNORED` where nothing is paid for.
        is_real: Whether each place holds a token.
    """
    if ids.shape != targets.shape or ids.shape != is_real.shape:
        return None
    is_paid = (targets != IGNORED) & is_real
    if int(is_paid.sum()) < _FEWEST_PAID:
        return None
    kinds = [len(_counts(x[is_paid])) for x in (ids, targets)]
    whole_rows = ids[is_real.all(1)]
    ratio = pair_ratio(_sample_rows(whole_rows), 1) if len(whole_rows) else None
    if min(kinds) < _FEWEST_KINDS or ratio is None or ratio < _TIED:
        return None
    return int(is_paid.sum()) / int(is_real.sum())


def _sample_rows(ids: Tensor) -> Tensor:
    """The first rows, of so many tokens together."""
    return ids[: max(1, _TOKENS // max(1, ids.shape[1]))]


def _counts(values: Tensor) -> Tensor:
    """How often each value comes."""
    counts: Tensor = cast("Any", torch).unique(values, return_counts=True)[1]
    return counts.double()


def _agreement(tokens: Tensor) -> float:
    """How likely two of the tokens are equal."""
    n = len(tokens)
    counts = _counts(tokens)
    return float((counts * (counts - 1)).sum()) / (n * (n - 1))
