"""What tokens tell of the classes of their places, where a model gives each token a label."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pellucid.batches import IGNORED
from pellucid.vitals.call.arguments import Arguments
from pellucid.vitals.call.paid_targets import PaidTargets
from pellucid.vitals.call.target_rows import paid_heads
from pellucid.vitals.ledger.batch_rows import last_places
from pellucid.vitals.ledger.label_tokens import MOST_CLASSES, Joined, told_by_words
from pellucid.vitals.ledger.row_numbers import entropy_of_counts

#: Fewer places say nothing.
_FEWEST = 64
#: How far from its token a class is looked for.
_OFFSETS = (-2, -1, 1, 2)
#: Ids are counted modulo a number.
_KINDS = 512
#: In so many rows, the special token at one end alone has a class.
_ROWS = 0.9


def measure(
    arguments: Arguments, ids: Int[Tensor, "rows time"] | None, paid: PaidTargets
) -> dict[str, float]:
    """The entropy of the classes, and how well a token and its two neighbours tell them.

    Also the share of rows whose classes all stand at the start of their one text.

    Args:
        arguments: The call.
        ids: The ids that the model reads; None without any.
        paid: The targets of the loss.
    """
    classes = paid.all
    is_text = paid.unbalanced is not None or paid.noise is not None
    if ids is None or ids.shape != classes.shape or is_text:
        return {}
    wins = told_by_tokens(ids, classes)
    if wins is None:
        return {}
    share, n = (float(number) for number in wins)
    entropy = entropy_of_counts(torch.bincount(classes[classes != IGNORED]).float())
    return {
        "targets.entropy": float(entropy),
        "targets.told": share,
        "targets.told_rows": n,
        "targets.head": share_of_starts(arguments, ids[: len(paid.rows)], paid.rows),
        "targets.beside": beside_their_tokens(arguments, ids, paid),
    }


def beside_their_tokens(
    arguments: Arguments, ids: Int[Tensor, "rows time"], paid: PaidTargets
) -> float:
    """By how many standard errors a token beside a place tells its class better than its own does.

    0 unless the special token at one end of nearly all rows has a class, and not the one at the
    other end: this shows that classes were moved, and to which side. Tasks whose classes belong to
    a pair of tokens have none of both.

    Args:
        arguments: The call, cut to a few rows.
        ids: The ids of all rows.
        paid: The class of each place.
    """
    side = _side_of_classes(arguments, ids[: len(paid.rows)], paid.all[: len(paid.rows)])
    if not side:
        return 0.0
    return errors_beside(ids, paid.all, side)


def errors_beside(
    ids: Int[Tensor, "rows time"], classes: Int[Tensor, "rows time"], side: int
) -> float:
    """By how many standard errors tokens beside the places tell their classes better; 0 at least.

    Args:
        ids: The ids that the model reads.
        classes: The class of each place, `IGNORED` where nothing is paid for.
        side: -1 if classes were moved to the start of rows, 1 if to their end.
    """
    at_own_place = log_p_by_token(ids, classes, 0)
    errors = [0.0]
    for offset in _OFFSETS:
        if offset * side < 0:  # the token is behind a class that was moved to the start
            gain = log_p_by_token(ids, classes, offset) - at_own_place
            errors.append(float(gain.mean() / gain.std().clamp_min(1e-9)) * math.sqrt(len(gain)))
    return max(errors)


def told_by_tokens(
    ids: Int[Tensor, "rows time"], classes: Int[Tensor, "rows time"]
) -> Float[Tensor, " 2"] | None:
    """`told_by_words`, with a token and its two neighbours as the words of each place.

    None of too few places, or of too many classes.

    Args:
        ids: The ids that the model reads.
        classes: The class of each place, `IGNORED` where nothing is paid for.
    """
    rows, places = (classes != IGNORED).nonzero(as_tuple=True)
    if len(rows) < _FEWEST or int(classes.max()) >= MOST_CLASSES:
        return None
    padded = torch.nn.functional.pad(ids, (1, 1))
    # a token is another word before, at and after the place
    words = torch.stack([3 * padded[rows, places + d] + d for d in range(3)], 1)
    return told_by_words(Joined(words, torch.ones_like(words) > 0, classes[rows, places], rows))


def _side_of_classes(
    arguments: Arguments, ids: Int[Tensor, "rows time"], classes: Int[Tensor, "rows time"]
) -> int:
    """-1 if of the special tokens at the ends of nearly all rows only the first has a class.

    1 if only the last has one, else 0.
    """
    mask = arguments.tensor(arguments.mask)
    real = torch.ones_like(ids) if mask is None or mask.shape != ids.shape else mask
    first, last = real.long().argmax(1, keepdim=True), last_places(real.bool())
    sides = sides_of_ends(ids, classes, first, last)
    return next((side for side in (-1, 1) if float((sides == side).double().mean()) > _ROWS), 0)


def sides_of_ends(
    ids: Int[Tensor, "rows time"],
    classes: Int[Tensor, "rows time"],
    first: Int[Tensor, "rows 1"],
    last: Int[Tensor, "rows 1"],
) -> Int[Tensor, " rows"]:
    """-1 for a row if of its two ends only the first has a class, 1 if only the last, else 0.

    0 for all unless each end holds one token in all rows, as special tokens do.

    Args:
        ids: The ids that the model reads.
        classes: The class of each place, `IGNORED` where nothing is paid for.
        first: The place where each text begins.
        last: The place where it ends.
    """
    ends = torch.cat([first, last], 1)
    tokens, has_class = ids.gather(1, ends), (classes.gather(1, ends) != IGNORED).long()
    return (has_class[:, 1] - has_class[:, 0]) * (tokens == tokens[:1]).all()


def log_p_by_token(
    ids: Int[Tensor, "rows time"], classes: Int[Tensor, "rows time"], offset: int
) -> Float[Tensor, " places"]:
    """Log p of the class of each place by the token at an offset, counted in half of the rows.

    In the half that the place is not in. The token's counts are mixed with one count by the
    frequencies of classes, as of a token that is new.

    Args:
        ids: The ids that the model reads.
        classes: The class of each place, `IGNORED` where nothing is paid for.
        offset: From a place to the token.
    """
    rows, places = (classes != IGNORED).nonzero(as_tuple=True)
    width = max(_OFFSETS)
    words = torch.nn.functional.pad(ids, (width, width))[rows, places + width + offset] % _KINDS
    labels, half = classes[rows, places], rows % 2
    counts = torch.zeros((2, MOST_CLASSES, _KINDS), device=ids.device)
    one_each = torch.ones(len(rows), device=ids.device)
    counts = counts.index_put((half, labels, words), one_each, accumulate=True)
    prior = counts.sum(2) + 1 / MOST_CLASSES
    prior = (prior / prior.sum(1, keepdim=True))[1 - half, labels]
    n_of_word = counts.sum(1)[1 - half, words]
    return ((counts[1 - half, labels, words] + prior) / (n_of_word + 1)).log()


def share_of_starts(
    arguments: Arguments, ids: Int[Tensor, "rows time"], classes: Int[Tensor, "rows time"]
) -> float:
    """The share of rows whose classes stand one after another at the start, and text follows.

    So do classes of words that were not spread over the tokens of each word. 0 without a mask, or
    if a row has two texts: one of them may have no classes.

    Args:
        arguments: The call.
        ids: The ids that the model reads.
        classes: The class of each place, `IGNORED` where nothing is paid for.
    """
    mask = arguments.tensor(arguments.mask)
    if mask is None or mask.shape != ids.shape:
        return 0.0
    is_ending = (ids == ids.gather(1, last_places(mask.bool()))) & mask.bool()
    return 0.0 if bool((is_ending.sum(1) > 1).any()) else paid_heads(arguments, ids, classes)
