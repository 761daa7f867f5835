"""What the first update does with each row: some are made likelier, others less likely.

A loss over log P of tokens has the gradient w (softmax(z) - y) by the logits, wherever it is
computed: w is positive where the target is to become likelier. Cross-entropy lowers no target, a
policy gradient lowers those of bad answers, and DPO lowers the rejected ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import combinations
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from pellucid.vitals.call import pair_weights
from pellucid.vitals.call.answer_rows import (
    MaskedIds,
    RowReadings,
    alike,
    begin_alike,
    compare_pairs,
    mixed_groups,
    pair_signs,
    pays_last_alone,
)
from pellucid.vitals.call.answer_texts import Writing, cut_off
from pellucid.vitals.call.place_weights import read_rows
from pellucid.vitals.call.reward_order import FirstRewards
from pellucid.vitals.taps.outputs import log_ps_in, scores_in
from pellucid.vitals.taps.recorded_call import is_plain

#: Most calls of an update, rows of a call from its start and from its middle, places of a row.
_CALLS, _ROWS, _PLACES = 8, 8, 32
#: So many logits of a call may be kept: 32 MiB of float32.
_MAX_LOGITS = 2**23
#: What another call takes back of a row's weight: all, but for rounding in half precision.
_ROUNDING = 0.02
#: Fewer answers of a model's own are unlikely by chance.
_FEWEST_OWN = 8
#: Steps change the weights of pairs.
_OF_WEIGHTS = "answers.explained", "answers.units"


class Answers:
    """Collects the weights of the first update's rows, and who wrote them."""

    def __init__(self) -> None:
        #: whether it still collects
        self.is_open = True
        #: signed weights, and how many rows of the call each stands for
        self._weights: list[Tensor] = []
        self._stands_for: list[float] = []
        self._scores: list[Tensor] = []
        self._writing = Writing()
        self._is_own = False
        #: the share of the model's own answers that equal another one to their prompt
        self._alike: float | None = None
        #: the ids of each training call, and their masks
        self._texts: list[MaskedIds] = []
        #: what the gradients of these calls show of their rows
        self._rows: dict[int, RowReadings] = {}
        self._n_calls = 0
        #: the rewards of all rows of the update, if the loop passes them
        self.rewards = FirstRewards()
        self._is_shuffled = False  # whether its answers come in another order than it wrote them
        #: the prompts that the model wrote from, and the share of a call's gradient on their places
        self._prompts: Tensor | None = None
        self._paid_prompts: float | None = None
        self._pays_last_alone = False
        #: signs of a policy's first call
        self._of_policy: dict[str, Tensor] = {}

    def on_writing(self, ids: Tensor | None) -> None:
        """Note the ids of a call without gradients: the model may be writing.

        Args:
            ids: The ids (rows, time) of the call.
        """
        if self.is_open and ids is not None and ids.ndim == 2:
            self._writing.note(ids)

    def on_training(self, ids: Tensor | None, mask: object = None) -> None:
        """Keep the ids of a training call, and compare them with those that the model wrote from.

        Args:
            ids: The ids (rows, time) of the call.
            mask: Its mask of padding, if it has one.
        """
        writing, self._writing = self._writing, Writing()
        self.rewards.close()
        if not self.is_open or ids is None or ids.ndim != 2:
            return
        if len(self._texts) < _CALLS:
            kept_mask = mask.clone() if isinstance(mask, Tensor) else None
            self._texts.append((ids.clone(), kept_mask))
        if (prompt := writing.prompt) is None:
            return
        n, width = prompt.shape
        if writing.is_in(ids):
            self._is_own = True
            self._alike = alike(ids[:n], prompt)
            if len(self._texts) == 1 and len(ids) == n:
                self._prompts = prompt
        elif begin_alike(ids, writing.start):
            self._is_own = self._is_shuffled = True
            self._alike = alike(ids, ids[:, :width])

    def on_outputs(
        self,
        logits: Tensor | None,
        output: Any,
        register: Callable[[Tensor, Callable[[Tensor], None]], None],
    ) -> None:
        """Read the gradient of a training call's outputs, once it arrives.

        Args:
            logits: The logits (rows, time, vocab), if the call gave any.
            output: All that the call gave.
            register: Puts a hook on a tensor.
        """
        if not self.is_open:
            return
        self._n_calls += 1
        if self._n_calls > _CALLS:
            return
        call = len(self._texts) - 1
        log_ps = None if logits is not None else log_ps_in(output)
        if log_ps is not None:
            terms = tuple(part.detach().clone() for part in log_ps if part is not None)
            register(log_ps[0], partial(self._take_log_ps, call, terms))
        elif logits is None:
            scores = scores_in(output)
            if scores is not None:
                register(scores, partial(self._take_scores, call))
        elif logits.requires_grad and is_plain(logits) and logits.numel():
            rows = _chosen_rows(logits)
            places = _chosen_places(logits, len(rows))
            kept = logits.detach()[rows][:, places].clone()  # a loop may write to its logits
            register(logits, partial(self._take, call, rows, places, kept))

    def _take_scores(self, call: int, gradient: Tensor) -> None:
        weights = -gradient.detach().flatten()
        self._scores.append(weights)
        rows = torch.arange(len(weights), device=weights.device)
        self._rows[call] = RowReadings(rows, weights, weights.new_full((len(rows),), torch.nan))

    def _take_log_ps(self, call: int, terms: tuple[Tensor, ...], gradient: Tensor) -> None:
        """Some trainers let the model itself give log P of each token, and entropies with them."""
        weights = -gradient.detach()
        # where labels leave a place out, log P is 0, and a sum over all places pays for it too
        is_paid = (weights != 0) & (terms[0] != 0)
        weights = weights.masked_fill(~is_paid, torch.nan)
        log_p, n_tokens = (terms[0] * is_paid).sum(-1), is_paid.sum(-1)
        is_unknown = ~is_paid if len(terms) > 1 else torch.ones_like(is_paid)
        surplus = sum(terms, torch.zeros_like(weights)).masked_fill(is_unknown, torch.nan)
        rows = torch.arange(len(weights), device=weights.device)
        medians = weights.nanmedian(-1).values
        self._add(call, RowReadings(rows, medians, surplus.nanmean(-1), log_p, n_tokens))
        self._stands_for.append(1.0)

    def _add(self, call: int, reading: RowReadings) -> None:
        self._weights.append(reading.weights)
        self._rows[call] = reading

    def _take(
        self, call: int, rows: Tensor, places: Tensor, logits: Tensor, gradient: Tensor
    ) -> None:
        part = gradient.detach()[rows][:, places]
        if call == 0 and self._prompts is not None:
            if len(places) == gradient.shape[1]:
                self._pays_last_alone = pays_last_alone(part, self._prompts.shape[1])
            mass = part.abs().sum((0, 2)).float()
            # the token behind a prompt is guessed at its last place
            is_prompt = places < self._prompts.shape[1] - 1
            self._paid_prompts = float((mass * is_prompt).sum() / mass.sum().clamp_min(1e-30))
        weights, surplus, log_p, n_tokens, tie = read_rows(part, logits)
        if self._is_own and not self._of_policy:
            price = pair_weights.entropy_price(part, logits)
            self._of_policy = {"answers.ratio": tie, "answers.entropy_price": price}
        if len(places) < gradient.shape[1]:
            log_p = torch.full_like(log_p, torch.nan)  # a part of the tokens has another log P
        self._add(call, RowReadings(rows, weights, surplus, log_p, n_tokens))
        self._stands_for.append(len(gradient) / len(rows))

    def close(self) -> None:
        """Collect nothing from now on."""
        self.is_open, self._writing, self._texts = False, Writing(), []

    def measure(self, *, is_scaled: bool) -> dict[str, float]:
        """The signs of the first update, which ends the collection.

        Args:
            is_scaled: Whether a scaler may have multiplied the loss.
        """
        texts = self._texts
        self.close()
        rows = sum(len(ids) for ids, _ in texts) * max(1.0, self._n_calls / _CALLS)
        signs = {"answers.own": 1.0, "answers.rows": rows} if self._is_own else {}
        shares = {"answers.alike": self._alike, "answers.prompts": self._paid_prompts}
        signs |= {id: share for id, share in shares.items() if share is not None}
        surplus = [row.surplus[row.surplus.isfinite()] for row in self._rows.values()]
        # rows without a gradient are left out: of a few, rewards choose the unlikely ones
        if self._is_own and sum(map(len, surplus)) >= _FEWEST_OWN:
            signs["answers.surplus"] = float(torch.cat(surplus).mean())
        if self._prompts is not None and 0 in self._rows:
            signs |= mixed_groups(self._prompts, self._rows[0])
        readings = self._rows if self._weights and not self._is_shuffled else {}
        sizes = [len(ids) for ids, _ in texts]
        signs |= self.rewards.compare(sizes, readings, self._prompts)
        if self._is_own and self._weights:
            signs |= pair_weights.own_weights(torch.cat(self._weights))
            signs["answers.last"] = float(self._pays_last_alone)
            signs |= {id: float(value) for id, value in self._of_policy.items()}
        if _are_undone(texts, self._rows):
            return signs | {"answers.undone": 1.0}
        if not (weights := self._weights or self._scores):
            return signs
        all_weights = torch.cat([w.double().cpu() for w in weights])
        all_weights = all_weights[torch.isfinite(all_weights) & (all_weights != 0)]
        if not len(all_weights) and not self._is_own:
            return signs | pair_signs(texts)  # equal answers of a pair cancel each other
        raised, lowered = all_weights[all_weights > 0], -all_weights[all_weights < 0]
        if not len(raised) or not len(lowered):
            return signs
        signs["answers.lowered"] = len(lowered) / len(all_weights)
        signs["answers.paired"] = pair_weights.paired(raised, lowered)
        signs |= {} if self._is_own else pair_weights.balance_of_sides(raised, lowered)
        # a mean over each answer's tokens gives the two of a pair other weights
        is_half = len(raised) == len(lowered) and not self._is_own
        if signs["answers.paired"] or is_half:
            comparison = compare_pairs(texts, self._rows)
            signs |= pair_signs(texts, self._rows) | cut_off(texts, self._rows) | comparison
            self.is_open = not comparison and not self._is_own  # later updates bring more pairs
            self._texts = texts if self.is_open else []
        if self._weights:
            sizes = all_weights.abs()
            signs["answers.uneven"] = float(sizes.std(correction=0) / sizes.mean())
            if not is_scaled:
                signs["answers.weight"] = self._total_raised()
        return signs

    def measure_later(self) -> dict[str, float]:
        """What the first update could not tell: of too few pairs, or of rewards that come late."""
        signs = compare_pairs(self._texts, self._rows)
        if signs or self._n_calls >= _CALLS:
            self.close()
        known = {id: value for id, value in signs.items() if id not in _OF_WEIGHTS}
        return known | self.rewards.compare_late()

    def _total_raised(self) -> float:
        """The sum of the weights of all rows that are raised, in all calls."""
        total = sum(
            float(weights.nan_to_num(0).clamp(min=0).sum()) * n
            for weights, n in zip(self._weights, self._stands_for, strict=True)
        )
        return total * max(1.0, self._n_calls / _CALLS)


def _are_undone(calls: Sequence[MaskedIds], readings: Mapping[int, RowReadings]) -> bool:
    """Whether a later call reads the rows of an earlier one, and takes back what that one does.

    So it is if log P of a model is compared with log P of the same model.

    Args:
        calls: The rows of each call.
        readings: What the gradient showed of these calls.
    """
    known_calls = [
        (calls[call][0], reading.weights.nan_to_num())
        for call, reading in sorted(readings.items())
        if 0 <= call < len(calls)
    ]
    for (ids, weights), (other_ids, other_weights) in combinations(known_calls, 2):
        if not torch.equal(ids, other_ids) or weights.shape != other_weights.shape:
            continue
        is_undone = (weights + other_weights).abs() <= _ROUNDING * weights.abs()
        if bool(weights.any()) and bool(is_undone.all()):
            return True
    return False


def _chosen_rows(logits: Tensor) -> Int[Tensor, " rows"]:
    """Rows from the start and from the middle, where the other answers of pairs often begin."""
    n, middle = len(logits), len(logits) // 2
    rows = sorted({*range(min(_ROWS, n)), *range(middle, min(middle + _ROWS, n))})
    return torch.tensor(rows, device=logits.device)


def _chosen_places(logits: Tensor, n_rows: int) -> Int[Tensor, " places"]:
    """All places, if they are not too many to keep; else some, from the first one to the last."""
    time = logits.shape[1]
    n = time if n_rows * time * logits.shape[2] <= _MAX_LOGITS else min(time, _PLACES)
    return torch.linspace(0, time - 1, n, device=logits.device).round().long()
