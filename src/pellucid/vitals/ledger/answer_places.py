"""Where the answers of a model that marks them stand in its rows."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pellucid.vitals.ledger.batch_rows import last_places

#: Fewer answers say nothing.
_FEWEST = 16


def count_answers(
    ids: Int[Tensor, "rows time"], mask: object, starts: object, ends: object
) -> Float[Tensor, " 4"] | None:
    """How many answers there are, how many stand nowhere, and how many in each of two texts.

    Nowhere is padding, a separator, and an end before its start. The separator is the token that
    all rows end with; the first text ends at the first one. An answer at the first place means that
    there is none, and models leave out one behind the row. None without places of answers.

    Args:
        ids: The ids that the model reads.
        mask: 1 for tokens and 0 for padding, if the call has such a mask.
        starts: (rows,) the first place of each answer.
        ends: (rows,) the last place.
    """
    if not isinstance(starts, Tensor) or not isinstance(ends, Tensor) or ids.ndim != 2:
        return None
    rows, time = ids.shape
    if starts.shape != (rows,) or ends.shape != (rows,) or starts.is_floating_point():
        return None
    real = torch.ones_like(ids, dtype=torch.bool)
    if isinstance(mask, Tensor) and mask.shape == ids.shape:
        real = mask.bool()
    places = torch.arange(time, device=ids.device)
    last = last_places(real)
    ending = ids.gather(1, last)
    is_separator = (ids == ending) & (places > 0) & (ending == ending[:1]).all()
    first_end = torch.where(is_separator, places, time).amin(1)
    is_answer = (starts > 0) & (starts < time) & (ends < time)
    is_text = real & ~is_separator
    is_placed = ends >= starts
    for bound in (starts, ends):
        is_placed = is_placed & is_text.gather(1, bound.clamp(0, time - 1).long()[:, None])[:, 0]
    is_pair = is_answer & is_placed & (first_end < last[:, 0])
    in_first = is_pair & (starts < first_end)
    columns = (is_answer, is_answer & ~is_placed, in_first, is_pair & ~in_first)
    return torch.stack([column.sum() for column in columns]).float()


def share_misplaced(counts: Float[Tensor, " 4"]) -> Float[Tensor, ""]:
    """The share of answers that stand nowhere, or in the text with the fewer answers of a pair.

    A question holds no answer to itself, whether it comes before its text or behind it.

    Args:
        counts: What `count_answers` gives, added up over some updates.
    """
    n, nowhere, first, second = counts.unbind()
    share = (nowhere + torch.minimum(first, second)) / n.clamp_min(1)
    return torch.where(n >= _FEWEST, share, 0.0)
