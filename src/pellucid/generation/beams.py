"""Beam search without a model: which beams continue, and when the search is over.

    score = log P(text) / length^length_penalty

The length counts the generated tokens, including the end token but not the prompt, as in fairseq's
`lenpen` and transformers' `length_penalty` (version 5). A penalty of 0 compares log P itself, 1 its
mean per token; larger values prefer longer texts.

Each step considers the best 2 n candidates. A candidate that ends is a hypothesis only if it is
among the first n. The first n candidates that do not end are the next beams. So there are always n
beams.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.errors import ConfigError

#: With n hypotheses, True ends the search. False ends it if no beam, ended now, would score better
#: than the worst hypothesis; "never" only if no beam could ever score better.
EarlyStopping = bool | Literal["never"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Beams:
    """How wide to search, how to compare texts, and when the search is over.

    The search returns `n_best` texts. `early_stopping` is as in transformers. A text ends only
    after `min_new_tokens`, and is cut after `max_new_tokens`.

    Attributes:
        n_beams: how many texts are kept at each step.
        length_penalty: the power of the length that scores are divided by.
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
        for name, is_valid, allowed in checks:
            if not is_valid:
                raise ConfigError(f"{name} must be {allowed}; was {getattr(self, name)}")

    def score(self, log_p: float, length: int) -> float:
        """log P / length^length_penalty."""
        return log_p / length**self.length_penalty


class Hypothesis(NamedTuple):
    """A complete text: its ids (with the end token if it `ended`), log P of each, and its score.

    Attributes:
        ids: the token ids.
        log_p: log P of each token, in nats.
        score: by which texts are compared.
    """

    ids: tuple[int, ...]
    log_p: tuple[float, ...]
    ended: bool
    score: float


class _Beam(NamedTuple):
    ids: tuple[int, ...]
    log_p: tuple[float, ...]
    total: float


class _Candidate(NamedTuple):
    parent: int
    token: int
    total: float
    log_p: float


class Search:
    """The search for one text: `advance` it until it is `finished`.

    It starts with one beam without tokens.
    """

    def __init__(self, beams: Beams, *, end_id: int) -> None:
        self.beams = beams
        self.end_id = end_id
        self.finished = False
        self._alive = [_Beam((), (), 0.0)]
        self._hypotheses: list[Hypothesis] = []

    @property
    def n_alive(self) -> int:
        """The number of beams: the rows that `advance` expects."""
        return len(self._alive)

    @property
    def tokens(self) -> list[int]:
        """The latest token of each beam."""
        return [beam.ids[-1] for beam in self._alive]

    @property
    def best(self) -> list[Hypothesis]:
        """The best complete texts, best first: `n_best`, or fewer if there are not so many."""
        return self._hypotheses[: self.beams.n_best]

    def advance(self, next_log_p: Float[Tensor, "alive vocab"]) -> list[int]:
        """Make one step, and return the index of each new beam's parent.

        Args:
            next_log_p: (alive, vocab), log P of the next token after each beam.
        """
        n, length = self.beams.n_beams, len(self._alive[0].ids) + 1
        parents: list[int] = []
        alive: list[_Beam] = []
        for rank, candidate in enumerate(self._candidates(next_log_p, length)):
            ended = candidate.token == self.end_id
            parent = self._alive[candidate.parent]
            ids, log_p = (*parent.ids, candidate.token), (*parent.log_p, candidate.log_p)
            if ended or length == self.beams.max_new_tokens:
                if rank < n:
                    score = self.beams.score(candidate.total, length)
                    self._hypotheses.append(Hypothesis(ids, log_p, ended, score))
            elif len(alive) < n:
                parents.append(candidate.parent)
                alive.append(_Beam(ids, log_p, candidate.total))
        self._hypotheses = sorted(self._hypotheses, key=lambda h: h.score, reverse=True)[:n]
        self.finished = not alive or self._is_over(alive[0].total, length)
        self._alive = [] if self.finished else alive
        return [] if self.finished else parents

    def _candidates(self, next_log_p: Tensor, length: int) -> list[_Candidate]:
        """The best 2 n continuations by one token, best first, without impossible ones."""
        if length <= self.beams.min_new_tokens:
            next_log_p = next_log_p.clone()
            next_log_p[:, self.end_id] = -torch.inf
        beam_totals = torch.tensor([[beam.total] for beam in self._alive])
        totals = (beam_totals.to(next_log_p) + next_log_p).flatten()
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
        if len(self._hypotheses) < self.beams.n_beams:
            return False
        if self.beams.early_stopping is True:
            return True
        # a longer text can only lose log P; if length is rewarded, the longest gains most
        longest = self.beams.early_stopping == "never" and self.beams.length_penalty > 0
        reach = self.beams.max_new_tokens if longest else length
        return self.beams.score(best_alive, reach) <= self._hypotheses[-1].score
