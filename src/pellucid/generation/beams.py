"""Beam search as arithmetic: which beginnings of a text are gone on with, and when it is over.

    score = log P(text) / length^length_penalty

The length counts what was written, the token that ends the text included, and no prompt. So do
fairseq's `lenpen` and transformers' `length_penalty` (version 5). 0 compares log P itself, 1 its
mean per token; the larger, the longer the texts.

Of each step the best 2 n candidates are looked at. One that ends the text is whole only where it is
among the first n; the first n that do not end are gone on with. So there are always n to go on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.errors import ConfigError

#: True: over once n texts are whole. False: over once n are whole and no beginning scores better
#: than the worst of them, were it to end here. "never": nor could, whatever follows.
EarlyStopping = bool | Literal["never"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Beams:
    """How wide to search, how texts are compared, and when the search is over.

    `n_best` texts are given back. `early_stopping` has the meanings it has in transformers. A text
    ends only after `min_new_tokens`, and is cut after `max_new_tokens`.
    """

    n_beams: int = 4
    n_best: int = 1
    length_penalty: float = 1.0
    early_stopping: EarlyStopping = False
    min_new_tokens: int = 0
    max_new_tokens: int = 200

    def __post_init__(self) -> None:
        max_new = self.max_new_tokens
        powers_fit = abs(self.length_penalty) * math.log(max(max_new, 1)) < 700
        checks = (
            ("n_beams", self.n_beams >= 1, "at least 1"),
            ("n_best", 1 <= self.n_best <= self.n_beams, f"1 to n_beams, which is {self.n_beams}"),
            ("length_penalty", powers_fit, f"finite, and {max_new:,}^length_penalty too"),
            (
                "early_stopping",
                self.early_stopping in (True, False, "never"),
                'true, false, "never"',
            ),
            ("max_new_tokens", max_new >= 1, "at least 1"),
            (
                "min_new_tokens",
                0 <= self.min_new_tokens <= max_new,
                f"0 to max_new_tokens, {max_new}",
            ),
        )
        for name, holds, allowed in checks:
            if not holds:
                raise ConfigError(f"{name} must be {allowed}; was {getattr(self, name)}")

    def score(self, log_p: float, length: int) -> float:
        """log P / length^length_penalty."""
        return log_p / length**self.length_penalty


class Hypothesis(NamedTuple):
    """A whole text: its ids, the end among them if it `ended`, log P of each, and its score."""

    ids: tuple[int, ...]
    log_p: tuple[float, ...]
    ended: bool
    score: float


class _Beginning(NamedTuple):
    ids: tuple[int, ...]
    log_p: tuple[float, ...]
    total: float


class _Candidate(NamedTuple):
    parent: int
    token: int
    total: float
    log_p: float


class Search:
    """The search for one text: `advance` it until it is `done`.

    It starts with one beginning, of no tokens.
    """

    def __init__(self, beams: Beams, *, end_id: int) -> None:
        self.beams = beams
        self.end_id = end_id
        self.done = False
        self._alive = [_Beginning((), (), 0.0)]
        self._whole: list[Hypothesis] = []

    @property
    def n_alive(self) -> int:
        """How many beginnings are gone on with: the rows that `advance` expects."""
        return len(self._alive)

    @property
    def tokens(self) -> list[int]:
        """The latest token of each beginning."""
        return [beginning.ids[-1] for beginning in self._alive]

    @property
    def best(self) -> list[Hypothesis]:
        """The whole texts, best first; as many as were asked for, if so many were found."""
        return self._whole[: self.beams.n_best]

    def advance(self, next_log_p: Float[Tensor, "alive vocab"]) -> list[int]:
        """Take one step; for each beginning that lives on, which of those before it it was.

        Args:
            next_log_p: log P of the next token after each beginning.
        """
        n, length = self.beams.n_beams, len(self._alive[0].ids) + 1
        parents: list[int] = []
        alive: list[_Beginning] = []
        for rank, candidate in enumerate(self._candidates(next_log_p, length)):
            ended = candidate.token == self.end_id
            parent = self._alive[candidate.parent]
            ids, log_p = (*parent.ids, candidate.token), (*parent.log_p, candidate.log_p)
            if ended or length == self.beams.max_new_tokens:
                if rank < n:
                    score = self.beams.score(candidate.total, length)
                    self._whole.append(Hypothesis(ids, log_p, ended, score))
            elif len(alive) < n:
                parents.append(candidate.parent)
                alive.append(_Beginning(ids, log_p, candidate.total))
        self._whole = sorted(self._whole, key=lambda text: text.score, reverse=True)[:n]
        self.done = not alive or self._is_over(alive[0].total, length)
        self._alive = [] if self.done else alive
        return [] if self.done else parents

    def _candidates(self, next_log_p: Tensor, length: int) -> list[_Candidate]:
        """The best 2 n ways to go on by one token, best first; impossible ones are left out."""
        if length <= self.beams.min_new_tokens:
            next_log_p = next_log_p.clone()
            next_log_p[:, self.end_id] = -torch.inf
        so_far = torch.tensor([[beginning.total] for beginning in self._alive])
        totals = (so_far.to(next_log_p) + next_log_p).flatten()
        best = totals.topk(min(2 * self.beams.n_beams, totals.numel()))
        vocab = next_log_p.shape[1]
        best_log_p = next_log_p.flatten()[best.indices]
        ranked = zip(best.indices.cpu(), best.values.cpu(), best_log_p.cpu(), strict=True)
        return [
            _Candidate(int(place) // vocab, int(place) % vocab, float(total), float(log_p))
            for place, total, log_p in ranked
            if float(total) > -math.inf
        ]

    def _is_over(self, best_alive: float, length: int) -> bool:
        if len(self._whole) < self.beams.n_beams:
            return False
        if self.beams.early_stopping is True:
            return True
        # what is written can only lose log P; where length is rewarded, the longest gains most
        longest = self.beams.early_stopping == "never" and self.beams.length_penalty > 0
        reach = self.beams.max_new_tokens if longest else length
        return self.beams.score(best_alive, reach) <= self._whole[-1].score
