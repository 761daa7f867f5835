"""What tokens tell of the classes of their places, where a model gives each token a label."""

from __future__ import annotations

import torch
from jaxtyping import Int
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
    rows, places = (classes != IGNORED).nonzero(as_tuple=True)
    if len(rows) < _FEWEST or int(classes.max()) >= MOST_CLASSES:
        return {}
    padded = torch.nn.functional.pad(ids, (1, 1))
    # a token is another word before, at and after the place
    words = torch.stack([3 * padded[rows, places + d] + d for d in range(3)], 1)
    labels = classes[rows, places]
    table = Joined(words, torch.ones_like(words) > 0, labels, rows)
    share, n = (float(number) for number in told_by_words(table))
    entropy = entropy_of_counts(torch.bincount(labels).float())
    return {
        "targets.entropy": float(entropy),
        "targets.told": share,
        "targets.told_rows": n,
        "targets.head": share_of_starts(arguments, ids[: len(paid.rows)], paid.rows),
    }


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
