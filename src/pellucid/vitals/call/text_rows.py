"""Rows of ids as a loop passes them: one token alone, starts that come twice, copies, padding."""

from __future__ import annotations

from typing import Any, cast

import torch
from jaxtyping import Int
from torch import Tensor

from pellucid.typed import to_list
from pellucid.vitals.call.arguments import Arguments
from pellucid.vitals.call.reading_order import disorder, filled, text_in_columns
from pellucid.vitals.call.token_order import (
    entropy,
    falls,
    interleaving,
    scattered,
    share_of_text,
    target_ratio,
)
from pellucid.vitals.call.unasked import asks_for_one_id, unasked, unpaid_masks
from pellucid.vitals.ledger.label_tokens import MOST_CLASSES

#: Fewer rows, and shorter ones, say nothing.
_FEWEST_ROWS, _SHORTEST = 4, 4
#: Halves of fewer different tokens may be alike by chance.
_VARIOUS = 3
#: Of fewer kinds of tokens, the highest may well be the most frequent.
_KINDS = 8
#: The highest id is a third of all tokens, or so many times as frequent as the next one.
_THIRD, _RATIO = 0.3, 4
#: Rows are cut short if the model has room for so many times their length.
_ROOM = 4
#: Of rows that are cut out of a stream of texts, a few hold the end of one.
_WITH_ENDS = 0.25


def measure(
    arguments: Arguments, ids: Int[Tensor, "batch time"], targets: Int[Tensor, "rows time"] | None
) -> dict[str, float]:
    """The signs of the first batch's ids.

    Args:
        arguments: The call.
        ids: All its rows.
        targets: The target of each place that is paid for; None if outputs are not of places.
    """
    signs = {"batch.highest": at_highest(arguments, ids, targets)}
    text = without_end(arguments, without_common_padding(arguments, ids))
    if is_cut_short(arguments, text):
        signs["batch.cut_length"] = float(text.shape[1])
    if len(ids) >= _FEWEST_ROWS and ids.shape[1] > _SHORTEST:
        signs["batch.doubled_start"] = doubled_start(ids)
    if targets is None:
        twice = None if arguments.source is not None else same_halves(arguments, ids)
        return signs if twice is None else signs | {"batch.same_halves": twice}
    signs["batch.copies"] = copies(ids)
    signs |= {"batch.interleaved": interleaving(ids), "batch.entropy": entropy(ids)}
    share, scattered_id = scattered(ids, targets)
    special_ids = (*arguments.special, *arguments.ends, arguments.pad)
    is_named = scattered_id in special_ids
    signs |= {
        "batch.filled": filled(ids, special_ids),
        "batch.scattered": share if is_named else 0.0,
    }
    signs["batch.unspelt"] = 0.0 if is_named else share
    if (ratio := target_ratio(ids, targets)) is not None:
        signs["targets.tied"] = ratio
    falling_share = falls(ids)
    if falling_share is not None:
        signs["batch.falls"] = falling_share
    if arguments.source is None:
        signs |= _reading_order(arguments, ids)
        signs["targets.unasked"] = unasked(ids, targets, (*arguments.special, *arguments.ends))
        signs["targets.unpaid_masks"] = unpaid_masks(ids, targets)
        signs["targets.one_id"] = asks_for_one_id(ids, targets)
    share = _paid_share(arguments, ids, targets)
    if share is not None:
        signs["targets.paid"] = share
    values = (*arguments.call.args, *arguments.call.kwargs.values())
    if not any(isinstance(value, Tensor) and value.is_floating_point() for value in values):
        signs["batch.length"] = float(ids.shape[1])  # no state of an earlier call comes with it
    return signs


def _reading_order(arguments: Arguments, ids: Int[Tensor, "batch time"]) -> dict[str, float]:
    """Whether texts stand in the columns, and whether the rows show any order."""
    rows, is_real = text_places(arguments, ids)
    ratio = disorder(rows, is_real)
    signs = {"batch.columns": text_in_columns(ids)}
    return signs if ratio is None else signs | {"batch.disorder": ratio}


def _paid_share(arguments: Arguments, ids: Tensor, targets: Tensor) -> float | None:
    """The share of a text's tokens that are paid for; None if they are no running text."""
    mask = arguments.tensor(arguments.mask)
    if arguments.source is not None:
        return None
    if mask is None or bool((mask == 1).all()):
        return share_of_text(ids, targets, torch.ones_like(ids, dtype=torch.bool))
    n_rows = len(mask)
    return share_of_text(ids[:n_rows], targets[:n_rows], mask == 1)


def same_halves(arguments: Arguments, ids: Int[Tensor, "batch time"]) -> float | None:
    """The share of rows that are a text, an end, and the same text again; None of too few rows.

    A token that all texts begin with may come before, and a second end between.

    Args:
        arguments: The call, whose mask tells text from padding.
        ids: The ids of its rows.
    """
    texts: list[list[int]] = [
        to_list(row[real]) for row, real in zip(*text_places(arguments, ids), strict=True)
    ]
    if len(texts) < _FEWEST_ROWS:
        return None
    return sum(is_doubled(text) or is_doubled(text[1:]) for text in texts) / len(texts)


def text_places(arguments: Arguments, ids: Int[Tensor, "batch time"]) -> tuple[Tensor, Tensor]:
    """The rows that have a mask, all without one; and whether each place holds no padding.

    Args:
        arguments: The call.
        ids: All its rows, or those that the mask is for.
    """
    mask = arguments.tensor(arguments.mask)
    rows = ids[: len(ids) if mask is None else len(mask)]
    if mask is not None and mask.shape == rows.shape:
        return rows, mask.bool()
    is_text = torch.ones_like(rows, dtype=torch.bool)
    return rows, is_text if arguments.pad is None else rows != arguments.pad


def is_doubled(text: list[int]) -> bool:
    """Whether the second half of a text is its first, which holds various tokens.

    Args:
        text: The ids; of an odd number, the one in the middle does not count.
    """
    start = (len(text) + 1) // 2
    return text[: len(text) - start] == text[start:] and len(set(text[start:])) >= _VARIOUS


def various(ids: Tensor, places: Tensor) -> Tensor:
    """For each row, whether some places hold more than one id.

    Args:
        ids: The rows (rows, time).
        places: Which places count.
    """
    lowest = ids.masked_fill(~places, int(ids.max()) + 1).amin(1)
    highest = ids.masked_fill(~places, -1).amax(1)
    return lowest < highest


def copies(ids: Int[Tensor, "batch time"]) -> float:
    """The share of rows that are equal to a row before them."""
    if ids.shape[1] < _SHORTEST:
        return 0.0
    kinds: Tensor = cast("Any", torch).unique(ids, dim=0)
    return 1 - len(kinds) / len(ids)


def without_end(arguments: Arguments, ids: Int[Tensor, "batch time"]) -> Tensor:
    """The rows without the end token that all of them have at the last place: a cut comes first."""
    last = ids[:, -1]
    is_end = int(last[0]) in (*arguments.ends, *arguments.special) and bool((last == last[0]).all())
    return ids[:, :-1] if is_end and ids.shape[1] > 1 else ids


def without_common_padding(arguments: Arguments, ids: Int[Tensor, "batch time"]) -> Tensor:
    """The rows without the padding that all of them end with from one place on.

    Args:
        arguments: The call, whose mask tells text from padding.
        ids: All its rows.
    """
    mask = arguments.tensor(arguments.mask)
    if mask is None or mask.shape[1] != ids.shape[1]:
        return ids
    is_text = (mask != 0).any(0)
    length = int(is_text.sum())
    is_start = bool(is_text[:length].all()) and length > 1
    return ids[: len(mask), :length] if is_start and length < len(is_text) else ids


def is_cut_short(arguments: Arguments, ids: Int[Tensor, "batch time"]) -> bool:
    """Whether all rows stop at one place in the middle of their text, far before they have to.

    Args:
        arguments: The call.
        ids: All its rows, `without_end`.
    """
    mask, time = arguments.tensor(arguments.mask), ids.shape[1]
    if len(ids) < _FEWEST_ROWS or time < 2 or (arguments.room or 0) < _ROOM * time:
        return False
    if mask is not None and not bool(mask[:, :time].all()):
        return False
    # a place that holds one token in all rows is a template's, or the end of each
    is_various = bool((ids[:, 1:] != ids[:1, 1:]).any(0).all())
    return is_various and _share_with_special(ids[:, 1:], arguments) <= _WITH_ENDS


def _share_with_special(ids: Tensor, arguments: Arguments) -> float:
    """The share of rows that hold a token with a special meaning, such as an end."""
    special = torch.tensor(arguments.special, dtype=ids.dtype, device=ids.device)
    return float(torch.isin(ids, special).any(1).double().mean())


def at_highest(
    arguments: Arguments, ids: Int[Tensor, "batch time"], targets: Int[Tensor, "rows time"] | None
) -> float:
    """The share of tokens that are the highest id, if they lie scattered; 0 otherwise.

    Ids that are cut off at a bound all become it. An image, or padding, is one piece. A mask is no
    target, and neither are tokens where each has a class.

    Args:
        arguments: The call.
        ids: All its rows.
        targets: The target of each place, `IGNORED` where nothing is paid for; None if unknown.
    """
    mask = arguments.tensor(arguments.mask)
    if mask is not None:
        ids = ids[: len(mask)]
    is_real = torch.ones_like(ids, dtype=torch.bool) if mask is None else mask != 0
    if is_real.shape != ids.shape or int(ids.max()) in (*arguments.special, *arguments.ends):
        return 0.0
    tokens = ids[is_real]
    kinds: Tensor = cast("Any", torch).unique(tokens)
    if len(kinds) < _KINDS:
        return 0.0
    is_highest = tokens == kinds[-1]
    share = float(is_highest.double().mean())
    n_pieces = int((is_highest[1:] & ~is_highest[:-1]).sum())
    if n_pieces < share * (1 - share) * len(tokens) / 2:
        return 0.0
    runner_up = torch.bincount(tokens[~is_highest].flatten()).max() / len(tokens)
    if share < _THIRD and share < _RATIO * float(runner_up):
        return 0.0  # a space, or an end of short texts, is not much more frequent than a letter
    paid = None if targets is None else targets[targets >= 0]
    if paid is not None and len(paid) and int(paid.max()) >= MOST_CLASSES:
        share = min(share, float((paid == kinds[-1]).double().mean()))
    return share


def doubled_start(ids: Int[Tensor, "batch time"]) -> float:
    """1 if all rows begin with the same id exactly twice, else 0."""
    first = ids[:, 0]
    is_same = (first == first[0]).all() & (ids[:, 1] == first).all() & (ids[:, 2] != first).all()
    return float(is_same)


def most_padded(arguments: Arguments) -> tuple[int, int, int] | None:
    """The row with the most padding at its end, its length, and that without padding.

    Without a mask, a long end of the id that the config calls padding counts.
    """
    ids, mask = arguments.tensor(arguments.masked), arguments.tensor(arguments.mask)
    if ids is None or ids.ndim != 2 or ids.is_floating_point():
        return None
    time = ids.shape[1]
    places = torch.arange(time, device=ids.device)
    if mask is None and arguments.pad is None:
        return None
    is_real = ids != arguments.pad if mask is None else mask.bool()
    lengths = torch.where(is_real, places + 1, 0).amax(1)
    n_pads = time - lengths
    usable = (lengths > 1) & (n_pads > 0)
    if mask is None:
        usable &= n_pads >= max(_SHORTEST, time // 10)
    else:  # padding at the start moves the positions of what follows
        usable &= (is_real == (places < lengths[:, None])).all(1)
    if not bool(usable.any()):
        return None
    row = int(torch.where(usable, lengths, time + 1).argmin())
    return row, time, int(lengths[row])
