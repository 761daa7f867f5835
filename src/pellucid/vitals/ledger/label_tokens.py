"""Whether the tokens of rows tell the rows' labels: by counting words, and at one place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import pad

from pellucid.vitals.ledger.batch_rows import (
    MOST_CLASSES,
    Rows,
    kinds_of_tokens,
    last_places,
)

#: Ids are counted modulo a number.
_KINDS = 512
#: Fewer rows of a class say nothing of a place.
_FEWEST = 8


class LabelledRows(NamedTuple):
    """Some rows of a batch, and the class of each, below 0 if it is unknown.

    The classes are (rows,), or (rows, columns) of labels that do not exclude each other.
    """

    rows: Rows
    classes: Tensor


class Joined(NamedTuple):
    """The labelled rows of some updates.

    Attributes:
        ids: (rows, width).
        real: Whether they are tokens.
        classes: (rows,) `MOST_CLASSES` where the class is unknown.
        updates: (rows,) the number of the update.
    """

    ids: Int[Tensor, "rows width"]
    real: Bool[Tensor, "rows width"]
    classes: Int[Tensor, " rows"]
    updates: Int[Tensor, " rows"]


def join(batches: Sequence[LabelledRows | None]) -> Joined | None:
    """All labelled rows in one table; None if there are none.

    Args:
        batches: The labelled rows of each update.
    """
    width = max((batch.rows[0].shape[1] for batch in batches if batch is not None), default=0)
    if not width:
        return None
    ids, real, classes, updates = list[Tensor](), list[Tensor](), list[Tensor](), list[Tensor]()
    for i, batch in enumerate(batches):
        if batch is None:
            continue
        (rows, mask), row_classes = batch
        n = min(len(rows), len(row_classes))
        missing = (0, width - rows.shape[1])
        is_token = torch.ones_like(rows, dtype=torch.bool) if mask is None else mask
        ids.append(pad(rows[:n], missing))
        real.append(pad(is_token[:n], missing))
        classes.append(row_classes[:n].long())
        updates.append(torch.full_like(classes[-1], i))
    all_classes = torch.cat(classes)
    is_known = (all_classes >= 0) & (all_classes < MOST_CLASSES)
    all_classes = torch.where(is_known, all_classes, MOST_CLASSES)
    return Joined(torch.cat(ids), torch.cat(real), all_classes, torch.cat(updates))


def measure(batches: Sequence[LabelledRows | None]) -> dict[str, Tensor]:
    """The signs of labelled rows: what their words and places tell, and whether each is two texts.

    Of several labels, one column is taken, in which the most neighbours differ: columns of the same
    rows are no further evidence.

    Args:
        batches: The labelled rows of each update.
    """
    tables = [table for column in _columns(batches) if (table := join(column)) is not None]
    if not tables:
        return {}
    by_words, keys = (
        torch.stack([test(table) for table in tables]) for test in (told_by_words, told_by_place)
    )
    column = by_words[:, 1].argmax()
    return {
        "targets.told": by_words[column, 0],
        "targets.told_rows": by_words[column, 1],
        "targets.key": keys[column],
        "targets.two_texts": share_of_two_texts(tables[0]),
    }


def _columns(batches: Sequence[LabelledRows | None]) -> list[list[LabelledRows | None]]:
    """The batches with one class for each row: one list for each column of labels."""
    widths = {b.classes.shape[1:] for b in batches if b is not None}
    if len(widths) != 1 or widths == {()}:
        return [[None if b is None or b.classes.ndim > 1 else b for b in batches]]
    (width,) = widths.pop()
    return [
        [None if b is None else b._replace(classes=b.classes[:, i]) for b in batches]
        for i in range(width)
    ]


def share_of_two_texts(table: Joined) -> Float[Tensor, ""]:
    """The share of rows whose last token, the one that most rows end with, also parts them.

    An encoder reads a pair as one row, with its separator after each of the two texts.

    Source:
        Devlin et al. 2019 (1810.04805), section 3: "Input/Output Representations"
    """
    ending = table.ids.gather(1, last_places(table.real))
    is_other = table.real & (table.ids != ending)
    is_ending = table.real & (table.ids == ending)
    is_after = is_other.cumsum(1) > 0
    is_before = pad(is_other[:, 1:], (0, 1))
    is_parted = (is_ending & is_after & is_before).any(1)
    return (is_parted & (ending[:, 0] == ending.mode(0).values)).float().mean()


def told_by_words(table: Joined) -> Float[Tensor, " 2"]:
    """How often the words of a row speak for its class against its neighbour's; of how many rows.

    They are weighed each for itself, as counted in the other half of the updates. The share is a
    half if classes have nothing to do with the rows: a row is as likely to have either of the two.

    Source:
        naive Bayes with a number for each token and class (Maron 1961)
    """
    presence = kinds_of_tokens(table.ids, table.real)
    of_class = _one_hot(table.classes)
    is_odd = table.updates % 2 == 1
    scores = torch.zeros_like(of_class)
    for is_counted in (is_odd, ~is_odd):
        class_rows = of_class * is_counted[:, None]
        rates = (class_rows.T @ presence + 0.5) / (class_rows.sum(0)[:, None] + 1)
        half_scores = presence @ rates.log().T + (1 - presence) @ (1 - rates).log().T
        half_scores = half_scores.masked_fill(class_rows.sum(0) == 0, torch.nan)
        scores = torch.where(is_counted[:, None], scores, half_scores)
    labels, neighbours = table.classes, table.classes.roll(1)
    gap = scores.gather(1, labels[:, None]) - scores.gather(1, neighbours[:, None])
    is_pair = (labels != neighbours) & (torch.maximum(labels, neighbours) < MOST_CLASSES)
    is_pair &= (table.updates == table.updates.roll(1)) & gap[:, 0].isfinite()
    is_pair &= ~_is_repeated(table, is_odd)
    n_pairs = is_pair.sum()
    wins = ((gap[:, 0] > 0) & is_pair).sum()
    return torch.stack([wins / n_pairs.clamp_min(1), n_pairs.float()])


def _is_repeated(table: Joined, is_odd: Tensor) -> Tensor:
    """Whether a row also stands in the other half: it has its label there, whatever it says."""
    places = torch.arange(table.ids.shape[1], device=table.ids.device) + 1
    sums = ((table.ids + 1) * table.real * places.square()).sum(1)
    return ((sums[:, None] == sums) & (is_odd[:, None] != is_odd)).any(1)


def told_by_place(table: Joined) -> Float[Tensor, ""]:
    """1 if one place holds one token in all rows of a class, another one for each class; else 0.

    Places count from the start, and from the end.
    """
    counts = _one_hot(table.classes).sum(0)
    is_class = counts >= _FEWEST
    is_class[MOST_CLASSES] = False
    lengths = table.real.sum(1, keepdim=True)
    places = torch.arange(table.ids.shape[1], device=table.ids.device)
    place_ids = torch.where(table.real, table.ids, -1)
    reversed_ids = place_ids.gather(1, (lengths - 1 - places).clamp_min(0))
    reversed_ids = torch.where(places < lengths, reversed_ids, -1)
    classes = torch.where(is_class[table.classes], table.classes, MOST_CLASSES)
    is_key = torch.stack([_is_key(ids, classes, is_class) for ids in (place_ids, reversed_ids)])
    return (is_key.any() & (is_class.sum() > 1)).float()


def _one_hot(classes: Tensor) -> Tensor:
    """(rows, `MOST_CLASSES` + 1); the last column is for unknown classes."""
    empty = torch.zeros((len(classes), MOST_CLASSES + 1), device=classes.device)
    return empty.scatter(1, classes[:, None], 1.0)


def _is_key(ids: Tensor, classes: Tensor, is_class: Tensor) -> Tensor:
    """For each place, whether its token and the class name each other.

    Args:
        ids: (rows, places), below 0 where there is no token.
        classes: (rows,) of each row.
        is_class: Which classes count.
    """
    index = classes[:, None].expand_as(ids)
    empty = ids.new_full((len(is_class), ids.shape[1]), -1)
    low, high = (
        empty.scatter_reduce(0, index, ids, reduction, include_self=False)
        for reduction in ("amin", "amax")
    )
    is_one = ((low == high) & (low >= 0)) | ~is_class[:, None]
    # each class that does not count has a number of its own
    absent = -2 - torch.arange(len(is_class), device=ids.device)[:, None]
    ordered = torch.where(is_class[:, None], low, absent).sort(0).values
    return is_one.all(0) & (ordered[1:] != ordered[:-1]).all(0)
