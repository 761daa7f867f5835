"""Rows in training and in evaluation: whether both begin alike, and both read the same side.

A row's start has a form. Of its ids and its labels, the frequencies tell one language from another.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor, nn

from pellucid.vitals.taps.recorded_call import ids_in, inputs_of

#: Tokens of each start, and rows of a call.
_TOKENS, _ROWS = 4, 16
#: Ids are counted modulo a number. Of two texts, fewer tokens say nothing, and by so much more two
#: have in common which are of one kind.
_KINDS, _FEWEST_TOKENS, _EXCESS = 1024, 256, 0.1
#: Fewer rows or calls say nothing; the calls 1, 2, 4, 8, ... of a kind are kept, up to so many.
_FEWEST_ROWS, _FEWEST_CALLS, _MOST_CALLS = 8, 3, 12


class OtherStarts(NamedTuple):
    """Starts that all rows of training have, and others that all rows of evaluation have.

    Attributes:
        n_trained: The rows of training that were compared.
        n_evaluated: The rows of evaluation.
        token: The first token at which they differ, counted from 1.
    """

    n_trained: int
    n_evaluated: int
    token: int


class ExchangedTexts(NamedTuple):
    """How much two texts have in common: the sums of the smaller frequencies of each id.

    Attributes:
        crosswise: What training reads with what evaluation is to write, or the other way round, the
            smaller one.
        same_side: What training reads with what evaluation reads, and what both are to write, the
            larger one.
    """

    crosswise: float
    same_side: float


class RowStarts:
    """Keeps the starts of rows of some calls, spread over the training."""

    def __init__(self) -> None:
        #: of training and of evaluation: the calls so far, and the starts of those that are kept
        self._n_calls = [0, 0]
        self._starts: tuple[list[Tensor], list[Tensor]] = ([], [])
        #: of both, how often each id came in the rows, and in their labels (2, kinds)
        self._counts: tuple[list[Tensor], list[Tensor]] = ([], [])

    def is_due(self, module: nn.Module, kwargs: dict[str, Any]) -> bool:
        """Whether a call is one whose starts are kept: each costs time.

        Args:
            module: The model that is called.
            kwargs: The call's.
        """
        is_evaluation = not torch.is_grad_enabled()
        # a model that generates has no labels, and one that only lacks gradients may be a teacher
        if is_evaluation and (module.training or kwargs.get("labels") is None):
            return False
        self._n_calls[is_evaluation] += 1
        n = self._n_calls[is_evaluation]
        return not n & (n - 1) and len(self._starts[is_evaluation]) < _MOST_CALLS

    def keep(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Keep the starts of a call's rows.

        Args:
            args: The call's.
            kwargs: The call's.
        """
        ids, is_evaluation = ids_in(inputs_of(args, kwargs)), not torch.is_grad_enabled()
        if ids is None or ids.ndim != 2:
            return
        mask, labels = kwargs.get("attention_mask"), kwargs.get("labels")
        if not isinstance(mask, Tensor) or mask.shape != ids.shape:
            mask = torch.ones_like(ids)
        if ids.shape[1] >= _TOKENS:
            self._starts[is_evaluation].append(starts_of(ids, mask))
        if isinstance(labels, Tensor) and labels.ndim == 2 and not labels.is_floating_point():
            texts = (torch.where(mask != 0, ids, -1), labels)
            self._counts[is_evaluation].append(torch.stack([counts_of(text) for text in texts]))

    def compare(self, special: Collection[int] = ()) -> OtherStarts | None:
        """Where the starts differ; None if they do not, or if rows have no start in common.

        Args:
            special: Ids that begin texts, by the config: rows have one, or have none.
        """
        trained, evaluated = self._starts
        if len(trained) < _FEWEST_CALLS or not evaluated:
            return None
        rows = torch.cat(trained).cpu(), torch.cat(evaluated).cpu()
        if min(map(len, rows)) < _FEWEST_ROWS:
            return None
        n_shared = min(map(_shared, rows))
        is_other = rows[0][0, :n_shared] != rows[1][0, :n_shared]
        token = int(is_other.long().argmax()) + 1 if bool(is_other.any()) else 0
        starts = torch.tensor(sorted(special), dtype=torch.long)
        shares = [float(torch.isin(r[:, 0], starts).double().mean()) for r in rows]
        if not token and {*shares} != {0.0, 1.0}:
            return None
        return OtherStarts(len(rows[0]), len(rows[1]), token or 1)

    def exchanged(self) -> ExchangedTexts | None:
        """What the texts have in common, if evaluation reads what training is to write; else None.

        And the other way round. Texts of one kind have as much in common both ways.
        """
        if not all(self._counts):
            return None
        trained, evaluated = (torch.stack(counts).sum(0).cpu() for counts in self._counts)
        sums = [c.sum(1, keepdim=True) for c in (trained, evaluated)]
        if min(float(s.min()) for s in sums) < _FEWEST_TOKENS:
            return None
        p, q = (c / s for c, s in zip((trained, evaluated), sums, strict=True))
        same_side = torch.minimum(p, q).sum(1)
        crosswise = torch.minimum(p, q.flip(0)).sum(1)
        if bool((crosswise < same_side + _EXCESS).any()):
            return None
        return ExchangedTexts(float(crosswise.min()), float(same_side.max()))


def counts_of(ids: Tensor) -> Tensor:
    """How often each id comes, modulo a number; what is below 0 is no id.

    Args:
        ids: Whole numbers of any shape.
    """
    is_id = ids >= 0
    counts = torch.zeros(_KINDS, device=ids.device)
    return counts.index_add_(0, (ids.clamp_min(0) % _KINDS).flatten(), is_id.flatten().float())


def starts_of(ids: Int[Tensor, "batch time"], mask: Tensor) -> Int[Tensor, "rows 4"]:
    """The first tokens of a call's first rows, behind padding.

    Args:
        ids: The ids that the model reads.
        mask: (batch, time), 0 at padding.
    """
    first = (mask[:_ROWS] != 0).long().argmax(1, keepdim=True)
    places = (first + torch.arange(_TOKENS, device=ids.device)).clamp_max(ids.shape[1] - 1)
    return ids[:_ROWS].gather(1, places).long()


def _shared(starts: Int[Tensor, "rows 4"]) -> int:
    """How many tokens all rows begin with."""
    return int((starts == starts[:1]).all(0).long().cumprod(0).sum())
