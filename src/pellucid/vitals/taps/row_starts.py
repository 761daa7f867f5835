"""The first tokens of rows, in training and in evaluation: whether both have one form."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor, nn

from pellucid.vitals.taps.recorded_call import ids_in, inputs_of

#: Tokens of each start, and rows of a call.
_TOKENS, _ROWS = 4, 16
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


class RowStarts:
    """Keeps the starts of rows of some calls, spread over the training."""

    def __init__(self) -> None:
        #: of training and of evaluation: the calls so far, and the starts of those that are kept
        self._n_calls = [0, 0]
        self._starts: tuple[list[Tensor], list[Tensor]] = ([], [])

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
        starts = starts_of(args, kwargs)
        if starts is not None:
            self._starts[not torch.is_grad_enabled()].append(starts)

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


def starts_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Int[Tensor, "rows 4"] | None:
    """The first tokens of a call's first rows, behind padding; None without ids.

    Args:
        args: The call's.
        kwargs: The call's.
    """
    ids = ids_in(inputs_of(args, kwargs))
    if ids is None or ids.ndim != 2 or ids.shape[1] < _TOKENS:
        return None
    mask = kwargs.get("attention_mask")
    first = torch.zeros(len(ids[:_ROWS]), 1, dtype=torch.long, device=ids.device)
    if isinstance(mask, Tensor) and mask.shape == ids.shape:
        first = (mask[:_ROWS] != 0).long().argmax(1, keepdim=True)
    places = (first + torch.arange(_TOKENS, device=ids.device)).clamp_max(ids.shape[1] - 1)
    return ids[:_ROWS].gather(1, places).long()


def _shared(starts: Int[Tensor, "rows 4"]) -> int:
    """How many tokens all rows begin with."""
    return int((starts == starts[:1]).all(0).long().cumprod(0).sum())
