"""From numbers to words: the word for a reading, given the readings before it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pellucid.training import Guard, guarded
from pellucid.vitals.async_metrics import Column
from pellucid.vitals.label_baselines import Baselines
from pellucid.vitals.loss_window import LOSSES, LossWindow
from pellucid.vitals.readings import AGGREGATES, EXTRA_SIGNS, drop_missing, summarise, thinned
from pellucid.vitals.record import Point, Record
from pellucid.vitals.rules import Rule
from pellucid.vitals.signs import Sign, Word
from pellucid.vitals.word_history import WordHistory

_CLIPPED = 100
_MEDIAN_OF = 256
#: Fewer readings have no meaningful median.
_LEAST = 5
#: Fewer readings of the largest score show no trend; a score below this has not grown.
_FEWEST_SCORES, _GROWN = 8, 25.0
#: Once the task is solved, these are watch at worst.
_CORRECTNESS_SIGNS = ("predictions.certain", "predictions.error_norm")

#: Judged as a multiple of its own median.
_RELATIVE = ("gradient.norm", "stream.rms")
#: Judged as a multiple of its first value.
_OF_FIRST = ("embeddings.rms",)

#: An update, the number that was read at it, and whether the rule's condition holds for it.
_Reading = tuple[int, float, bool]


class VerdictTracker:
    """The words for a run's numbers."""

    def __init__(self, rules: Mapping[str, Rule], guard: Guard | None = None) -> None:
        self.rules = dict(rules)
        self._descriptions = {id: rule.description for id, rule in rules.items()}
        self.guard = guard or Guard()
        self.signs: dict[str, Sign] = {}
        #: ln V, and the losses that counting labels reaches; None while unknown
        self.guessing: float | None = None
        self.baselines: Baselines | None = None
        #: whether the loss is a mean over tokens: only then rules about tokens apply
        self.counts_tokens = True
        #: whether guessing costs `guessing` in this loss: it compares no answers, and no teacher
        self.is_cross_entropy = True
        #: the norm at which gradients are clipped, if they are
        self.clip_norm: float | None = None
        #: all readings so far, thinned
        self.record = Record()
        #: signs that mean nothing for this objective, each with the reason: shown, not judged
        self.excuses: dict[str, str] = {}
        #: whether the answers compared with a reference come from the data, not from the model
        self.has_given_answers = False
        self._words_so_far = WordHistory(self.rules)
        self._history: dict[str, list[float]] = {}
        self._window = LossWindow()
        self._first: dict[str, float] = {}
        self._scores: list[tuple[int, float]] = []
        #: the variance of the logits before the first update
        self._spread = 0.0
        self._steady_updates = 0
        self._rate: float | None = None
        self._highest_rate = 0.0
        self._clips: list[bool] = []
        self._batch: float | None = None
        self._repeats = 0

    @guarded("the learning rate")
    def rate(self, learning_rate: float) -> None:
        """Take the learning rate of the next update."""
        rising = self._rate is not None and learning_rate > self._rate * (1 + 1e-6)
        self._steady_updates = 0 if rising else self._steady_updates + 1
        self._rate = learning_rate
        self._highest_rate = max(self._highest_rate, learning_rate)

    def rates(self, rates: Sequence[tuple[int, float]]) -> None:
        """Take and record the learning rates of some updates, each with its update."""
        for step, rate in rates:
            self.rate(rate)
            self.record.rates.add(Point(step, rate))

    def loss(self, step: int, value: float) -> None:
        """Take the loss of one update, in nats a token."""
        self.losses([(step, value)])

    @guarded("loss.*")
    def losses(self, losses: Sequence[tuple[int, float]]) -> None:
        """Take the losses of some updates, each with its update, in nats a token."""
        readings: dict[str, list[_Reading]] = {}
        for step, value in losses:
            self.record.losses.add(Point(step, value))
            mean = self._window.add(value)
            if self.guessing is not None and self.is_cross_entropy:
                excess = mean - self.guessing
                applies = self._applies("loss.value", excess)
                readings.setdefault("loss.value", []).append((step, excess, applies))
                for id, reading in self._readings_of_tokens(value, mean, self.guessing):
                    readings.setdefault(id, []).append((step, reading, True))
            if self._window.is_full:
                rise = mean - self._window.lowest
                readings.setdefault("loss.rise", []).append((step, rise, True))
        for id, values in readings.items():
            self.guard(id, self._words, id, values)

    def _readings_of_tokens(
        self, value: float, mean: float, guessing: float
    ) -> Iterator[tuple[str, float]]:
        """The readings of signs that only a loss over tokens has."""
        if not self.counts_tokens:
            return
        if self._window.updates >= 100 and self._past_warm_up(LOSSES):
            yield "loss.learnt", guessing - mean
        if self.baselines is None:
            return
        assert self._window.first is not None
        if self._window.updates <= 50 and self._window.first > guessing - 1:
            yield "loss.below_bigram", self.baselines.bigram - value
        if self._window.updates >= 300 and self._past_warm_up(100):
            yield "loss.context", self.baselines.unigram - mean

    @guarded("gradient.norm")
    def norm(self, step: int, value: float) -> None:
        """Take the norm of one update's gradients, before clipping if that is known."""
        self.record.norms.add(Point(step, value))
        self._judge("gradient.norm", step, self._of_median("gradient.norm", value))
        if self.clip_norm is None:
            return
        self._clips = [*self._clips, value >= self.clip_norm * (1 - 1e-3)][-_CLIPPED:]
        share = sum(self._clips) / len(self._clips)
        hard = len(self._clips) == _CLIPPED and value > 20 * self.clip_norm
        self._judge("gradient.clipped", step, share, applies=hard)

    def read(self, step: int, readings: Sequence[tuple[Column, list[float]]]) -> None:
        """Take the readings of one step."""
        latest = {column.id: values for column, values in readings}
        for column, values in map(drop_missing, readings):
            if values:
                self.guard(column.id, self._take, step, column, values)
        reference = latest.get("reference.kl")
        if reference is not None and step > 1:
            self._judge("reference.still", step, float(step) if reference[0] == 0 else 0.0)

    def _take(self, step: int, column: Column, values: list[float]) -> None:
        match column.id:
            case "loss":
                self.loss(step, values[0])
            case "gradient.norm":
                self.norm(step, values[0])
            case "norm.gain":
                self._place("norm.gain_low", step, column, values, "min")
                self._place("norm.gain_high", step, column, values, "max")
            case "batch":
                self._repeats = self._repeats + 1 if values[0] == self._batch else 0
                self._batch = values[0]
                self._judge("batch.repeats", step, float(self._repeats))
            case "logits.spread":
                self._spread = values[0] if step <= 1 else self._spread
            case id if id in self.rules:
                self._place(id, step, column, values, AGGREGATES.get(id, "max"))
            case _:
                raise KeyError(f"thresholds.toml has no rule for the reading {column.id}")
        for id, aggregate in EXTRA_SIGNS.get(column.id, ()):
            value, place = summarise(column, values, aggregate)
            self._judge(id, step, value, place=place)

    def _place(
        self, id: str, step: int, column: Column, values: list[float], aggregate: str
    ) -> None:
        value, place = summarise(column, values, aggregate)
        if id in _RELATIVE:
            value = self._of_median(id, value)
        if id in _OF_FIRST:
            first = self._first.setdefault(id, value)
            value = value / first if first > 0 else 1.0
        if id == "attention.max_logit":
            self.guard("attention.heading_for", self._judge_trend, step, value)
        self._judge(id, step, value, place=place, applies=self._applies(id, value))

    def _judge(
        self, id: str, step: int, value: float, *, place: str = "", applies: bool = True
    ) -> None:
        """Find the word for a reading, through the guard: an error switches off this sign only."""
        self.guard(id, self._words, id, [(step, value, applies)], place)

    def _words(self, id: str, readings: Sequence[_Reading], place: str = "") -> None:
        word: Word = "calm"
        guessing = self.guessing if self.counts_tokens else None
        for step, value, applies in readings:
            is_judged = applies and id not in self.excuses
            is_solved = id in _CORRECTNESS_SIGNS and self._window.is_solved(guessing)
            word = self._words_so_far.next(id, value, is_judged=is_judged, is_solved=is_solved)
            self.record.add(id, Point(step, value, word, place))
        step, value, _ = readings[-1]
        rule, excuse = self.rules[id], self.excuses.get(id) if math.isfinite(value) else None
        self.signs[id] = Sign(
            id=id,
            equation=rule.equation,
            step=step,
            value=value,
            word=word,
            rule=self._descriptions[id] + (f"; not judged here: {excuse}" if excuse else ""),
            source=rule.source,
            place=place,
        )

    def _applies(self, id: str, value: float) -> bool:
        """Whether the rule's condition holds; a value that is not finite is always judged."""
        if not math.isfinite(value):
            return True
        match id:
            case "loss.value" if self.rules[id].word(value) == "watch":
                return self.rules[id].word(value - self._spread / 2) == "watch"
            case "attention.entropy":
                scores = self.signs.get("attention.max_logit")
                return scores is None or scores.value > 30
            case "stream.branch_ratio":
                return self._window.updates >= 100
            case "reference.same":
                return self._window.is_halved
            case "reference.kl" if self.has_given_answers:
                return self.rules[id].word(value) == "sick"
            case "tokens.cosine":
                return self._window.updates >= 200
            case "update.ratio" if value < 0.01:
                full = self._rate is None or self._rate >= self._highest_rate / 2
                return full and self._past_warm_up(_LEAST)
            case _:
                return True

    def _judge_trend(self, step: int, largest: float) -> None:
        """Judge the trend of the largest score, by a line through its recent readings."""
        if not math.isfinite(largest):
            return
        self._scores = thinned([*self._scores, (step, largest)])
        if len(self._scores) < _FEWEST_SCORES:
            return
        steps, scores = zip(*self._scores[len(self._scores) // 2 :], strict=True)
        slope = statistics.linear_regression(steps, scores).slope
        has_grown = largest > _GROWN and slope > 0
        forecast = largest + max(0.0, slope) * step
        self._judge("attention.heading_for", step, forecast, applies=has_grown)

    def _past_warm_up(self, updates: int) -> bool:
        return self._rate is None or self._steady_updates >= updates

    def _of_median(self, id: str, value: float) -> float:
        """A number over its own median so far, which it then joins; 1 while there is no median."""
        history = self._history.setdefault(id, [])
        relative = 1.0
        if not math.isfinite(value):
            return value
        if len(history) >= _LEAST:
            median = statistics.median(history)
            relative = value / median if median > 0 else 1.0
        history.append(value)
        del history[:-_MEDIAN_OF]
        return relative

    @property
    def doubted(self) -> set[str]:
        """Signs whose last reading alone was sick, while their word is not sick yet."""
        return self._words_so_far.doubted

    def state_dict(self) -> dict[str, Any]:
        """The windows, as plain values."""
        windows = {key: getattr(self, name) for key, name in _WINDOWS.items()}
        windows["past"] = self._words_so_far.past
        label_losses = None if self.baselines is None else list(self.baselines)
        window = self._window.state_dict()
        return windows | window | {"guessing": self.guessing, "baselines": label_losses}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take back what `state_dict` gave."""
        self.guessing = state["guessing"]
        self.baselines = None if state["baselines"] is None else Baselines(*state["baselines"])
        self._window.load_state_dict(state)
        self._words_so_far.past = state.get("past", self._words_so_far.past)
        for key, name in _WINDOWS.items():
            if key in state:  # an older version saved fewer
                setattr(self, name, state[key])


#: By their keys in a saved state: the attributes that words depend on.
_WINDOWS = {
    "history": "_history",
    "spread": "_spread",
    "first": "_first",
    "scores": "_scores",
    "settled": "_steady_updates",
    "rate": "_rate",
    "highest_rate": "_highest_rate",
    "clips": "_clips",
}
