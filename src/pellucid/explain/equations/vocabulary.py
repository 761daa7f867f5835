"""Predictions over the vocabulary, as the formulas of losses read them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch

from pellucid.explain.equations.equation import softmax
from pellucid.explain.formulas.nodes import (
    Constant,
    Formula,
    Index,
    Largest,
    Places,
    Read,
    Total,
    setting,
)
from pellucid.explain.losses.types import (
    DistillationLoss,
    PolicyLoss,
    TokensLoss,
)
from pellucid.explain.trace_types import Trace

#: The rows of a loss, and the words.
ROWS_AND_WORDS = ("t", "v")


class WordScores(NamedTuple):
    """Logits of each row over the vocabulary, divided by a temperature."""

    score: Callable[[Index], Formula]
    n_words: int

    def share(self, word: Index = "v") -> Formula:
        """exp(z - max) over its sum."""
        return softmax(self.score(word), self.score, self.n_words)

    def log_sum(self) -> Formula:
        """log Σ exp(z)."""
        top = Largest("m", self.n_words, self.score("m"))
        return top + Total("m", self.n_words, (self.score("m") - top).apply("exp")).apply("log")

    def over_words(self, part: Callable[[str], Formula]) -> Formula:
        """The sum over the vocabulary."""
        return Total("l", self.n_words, part("l"))


def scores_at_places(trace: Trace, loss: TokensLoss, temperature: float = 1.0) -> WordScores:
    """The logits of each place that counts."""
    rows = Places(loss.places.cpu(), ("t",))

    def score(word: Index) -> Formula:
        return _over_temperature(Read("logits", (rows, word), "z"), temperature)

    return WordScores(score, trace.model.head_weight.shape[0])


def teacher_scores(loss: DistillationLoss) -> WordScores:
    """The teacher's logits at the same places, over the temperature."""

    def score(word: Index) -> Formula:
        return _over_temperature(Read("teacher_logits", ("t", word), "z"), loss.temperature)

    return WordScores(score, loss.teacher_logits.shape[-1])


def _over_temperature(formula: Formula, temperature: float) -> Formula:
    """z / T, or z if T is 1."""
    return formula if temperature == 1.0 else formula / setting(temperature, "T")


def targets_one_hot(trace: Trace, loss: TokensLoss) -> Constant:
    """y: 1 for the target of each row, 0 for every other word."""
    hits = torch.zeros(len(loss.places), trace.model.head_weight.shape[0])
    return Constant(hits.scatter(1, loss.targets[:, None].cpu(), 1.0), ROWS_AND_WORDS, "y")


def target_places(trace: Trace, loss: TokensLoss) -> Places:
    """The targets; if each is the next token of the text, they are numbers of the trace."""
    targets = loss.targets.cpu()
    n, ids = len(targets), trace.ids.cpu()
    first = int(loss.places[0]) + 1 if n else 0
    follows = torch.equal(loss.places.cpu(), torch.arange(first - 1, first - 1 + n))
    if follows and torch.equal(ids[first : first + n], targets):
        return Places(targets, ("t",), "ids", offset=first)
    return Places(targets, ("t",))


def temperature_of(loss: TokensLoss) -> float:
    """By what a loss divides the logits whose entropy it reads."""
    return loss.temperature if isinstance(loss, PolicyLoss) else 1.0


def log_share(z: WordScores, word: Index = "v") -> Formula:
    """log p of a word."""
    return z.score(word) - Read("log_z", ("t",), "log Z")


class TwoPredictions:
    """The student's prediction p and the teacher's q, both at the temperature, for each word."""

    def __init__(self, n_words: int) -> None:
        self.n_words = n_words

    def log_p(self, word: str = "v") -> Formula:
        """log p of the student."""
        return Read("student_log_ps", ("t", word), "log p")

    def log_q(self, word: str = "v") -> Formula:
        """log q of the teacher."""
        return Read("teacher_log_ps", ("t", word), "log q")

    def p(self, word: str = "v") -> Formula:
        """p of the student."""
        return self.log_p(word).apply("exp")

    def q(self, word: str = "v") -> Formula:
        """q of the teacher."""
        return self.log_q(word).apply("exp")

    def log_middle(self, word: str = "v") -> Formula:
        """log m, with m = (p + q) / 2."""
        return ((self.p(word) + self.q(word)) / 2.0).apply("log")

    def total(self, part: Callable[[str], Formula]) -> Formula:
        """The sum over the vocabulary."""
        return Total("l", self.n_words, part("l"))

    def p_over_middle(self) -> Formula:
        """KL(p || m)."""
        return self.total(lambda w: self.p(w) * (self.log_p(w) - self.log_middle(w)))


def softplus(z: Formula) -> Formula:
    """log(1 + exp(z)), without an overflow."""
    return z.clamp_min(0.0) + (1.0 + (-_size(z)).apply("exp")).apply("log")


def _size(z: Formula) -> Formula:
    return z.clamp_min(0.0) - z.clamp_max(0.0)


def log_ratio(row: str = "t") -> Formula:
    """log(ref/π) of each token of an answer."""
    return Read("reference_log_ps", (row,), "log ref") - Read("log_p", (row,), "log π")


def class_scores(trace: Trace) -> WordScores:
    """The logits of a classifier, with classes as the words."""

    def score(number: Index) -> Formula:
        return Read("class_logits", (number,), "z")

    return WordScores(score, len(trace["class_logits"]))
