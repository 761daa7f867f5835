"""The change of a prediction when heads are removed: two traces of one sentence, compared."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from pellucid.errors import PellucidError
from pellucid.explain.outputs import distribution_at
from pellucid.explain.trace_types import Trace
from pellucid.maths.divergences import kl_divergence
from pellucid.typed import to_list


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionChange:
    """At one token: the words whose probability changed most, before and after.

    `kl` is KL(before | after) at that token, `kls` at every token, in nats. `loss` is the change
    of the sentence's loss, None if it has none.
    """

    token: int
    words: tuple[int, ...]
    before: tuple[float, ...]
    after: tuple[float, ...]
    kl: float
    kls: tuple[float, ...]
    loss: float | None


@torch.no_grad()
def change(before: Trace, after: Trace, token: int = -1, *, n_words: int = 10) -> PredictionChange:
    """Compare the predictions of two traces of as many tokens.

    Args:
        before: one trace.
        after: the other, for example with heads removed or another token.
        token: the place of the prediction.
        n_words: how many words to list.

    Raises:
        PellucidError: one has more tokens, or the model has no head.
    """
    if len(before.ids) != len(after.ids):
        raise PellucidError(
            "the two traces have different numbers of tokens: change one, with trace.edit"
        )
    n = len(before.ids)
    p_before, p_after = distribution_at(before, token), distribution_at(after, token)
    changed_ids = (p_before - p_after).abs().topk(min(n_words, len(p_before))).indices
    kls = tuple(
        float(kl_divergence(distribution_at(before, place), distribution_at(after, place)))
        for place in range(n)
    )
    has_loss = "loss" in before.addresses()
    return PredictionChange(
        token=token % n,
        words=tuple(to_list(changed_ids)),
        before=tuple(to_list(p_before[changed_ids])),
        after=tuple(to_list(p_after[changed_ids])),
        kl=kls[token],
        kls=kls,
        loss=float(after["loss"] - before["loss"]) if has_loss else None,
    )
