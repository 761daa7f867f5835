"""From numbers to words: what one reading says, and what it says after those before it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from pellucid.training import Guard, guarded
from pellucid.vitals.async_metrics import Column
from pellucid.vitals.label_baselines import Baselines
from pellucid.vitals.loss_window import LOSSES, LossWindow
from pellucid.vitals.readings import SHOWN, TAKE, measured, taken, thinned
from pellucid.vitals.record import Point, Record
from pellucid.vitals.rules import Rule
from pellucid.vitals.signs import Sign, Word, mildest

_CLIPPED = 100
_MEDIAN_OF = 256
#: Fewer readings have no median worth the name.
_LEAST = 5

#: Fewer readings of the largest score are no course, and below this it is not grown.
_FEWEST_SCORES, _GROWN = 8, 25.0

#: Of these there is no more to say than watch once the task is solved.
_CORRECTNESS_SIGNS = ("predictions.certain", "predictions.error_norm")

#: Judged by how many times its own median it is.
_RELATIVE = ("gradient.norm", "stream.rms")
#: Judged by how much of what it was at first it is.
_OF_FIRST = ("embeddings.rms",)


class VerdictTracker:
    """The words for a run's numbers."""

    def __init__(self, rules: Mapping[str, Rule], guard: Guard | None = None) -> None:
        self.rules = dict(rules)
        self.guard = guard or Guard()
        self.signs: dict[str, Sign] = {}
        #: ln V, and what the labels tell by themselves; None while not known
        self.guessing: float | None = None
        self.baselines: Baselines | None = None
        #: whether the loss is a mean over tokens, and what is known of their losses holds of it
        self.counts_tokens = True
        #: what gradients are clipped at, where they are
        self.clip_norm: float | None = None
        #: what was told and found so far, thinned
        self.record = Record()
        #: signs that say nothing in this training, each with the reason: shown, and not judged
        self.excused: dict[str, str] = {}
        #: whether what is compared with a reference are answers of somebody else's
        self.answers_are_given = False
        #: signs whose last reading was sick by itself, and which are not called so yet
        self.doubted: set[str] = set()
        self._past: dict[str, list[Word]] = {}
        self._history: dict[str, list[float]] = {}
        self._window = LossWindow()
        self._first: dict[str, float] = {}
        self._scores: list[tuple[int, float]] = []
        #: the variance of the logits before the first update
        self._spread = 0.0
        self._settled = 0
        self._rate: float | None = None
        self._highest_rate = 0.0
        self._clips: list[bool] = []
        self._batch: float | None = None
        self._same = 0

    @guarded("the learning rate")
    def rate(self, learning_rate: float) -> None:
        """Take the learning rate of the next update."""
        rising = self._rate is not None and learning_rate > self._rate * (1 + 1e-6)
        self._settled = 0 if rising else self._settled + 1
        self._rate = learning_rate
        self._highest_rate = max(self._highest_rate, learning_rate)

    @guarded("loss.*")
    def loss(self, step: int, value: float) -> None:
        """Take the loss of one update, in nats a token."""
        self.record.losses.add(Point(step, value))
        mean = self._window.add(value)
        if self.guessing is not None:
            above = mean - self.guessing
            self._judge("loss.value", step, above, applies=self._applies("loss.value", above))
            if self.counts_tokens:
                self._of_tokens(step, value, mean, self.guessing)
        if self._window.is_full:
            self._judge("loss.rise", step, mean - self._window.lowest)

    def _of_tokens(self, step: int, value: float, mean: float, guessing: float) -> None:
        """What is known of a loss over tokens."""
        if self._past_warm_up(LOSSES) and self._window.updates >= 100:
            self._judge("loss.learnt", step, guessing - mean)
        if self.baselines is None:
            return
        assert self._window.first is not None
        if self._window.updates <= 50 and self._window.first > guessing - 1:
            self._judge("loss.below_bigram", step, self.baselines.bigram - value)
        if self._window.updates >= 300 and self._past_warm_up(100):
            self._judge("loss.context", step, self.baselines.unigram - mean)

    @guarded("gradient.norm")
    def norm(self, step: int, value: float) -> None:
        """Take the norm of one update's gradients: before clipping, where that is known."""
        self.record.norms.add(Point(step, value))
        self._judge("gradient.norm", step, self._of_median("gradient.norm", value))
        clip_norm = self.clip_norm
        if clip_norm is None:
            return
        self._clips = [*self._clips, value >= clip_norm * (1 - 1e-3)][-_CLIPPED:]
        share = sum(self._clips) / len(self._clips)
        hard = len(self._clips) == _CLIPPED and value > 20 * clip_norm
        self._judge("gradient.clipped", step, share, applies=hard)

    def read(self, step: int, readings: Sequence[tuple[Column, list[float]]]) -> None:
        """Take what a tape brought."""
        latest = {column.id: values for column, values in readings}
        for column, values in map(measured, readings):
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
                self._same = self._same + 1 if values[0] == self._batch else 0
                self._batch = values[0]
                self._judge("batch.repeats", step, float(self._same))
            case "logits.spread":
                self._spread = values[0] if step <= 1 else self._spread
            case id if id in self.rules:
                self._place(id, step, column, values, TAKE.get(id, "max"))
            case _:
                raise KeyError(f"thresholds.toml has no rule for the reading {column.id}")
        for id, take in SHOWN.get(column.id, ()):
            value, where = taken(column, values, take)
            self._judge(id, step, value, where=where)

    def _place(self, id: str, step: int, column: Column, values: list[float], take: str) -> None:
        value, where = taken(column, values, take)
        if id in _RELATIVE:
            value = self._of_median(id, value)
        if id in _OF_FIRST:
            first = self._first.setdefault(id, value)
            value = value / first if first > 0 else 1.0
        if id == "attention.max_logit":
            self.guard("attention.heading_for", self._ahead, step, value)
        self._judge(id, step, value, where=where, applies=self._applies(id, value))

    def _judge(
        self, id: str, step: int, value: float, *, where: str = "", applies: bool = True
    ) -> None:
        """Find the word for a reading, through the guard: of one sign, whatever becomes of it."""
        self.guard(id, self._word, id, step, value, where, applies)

    def _word(self, id: str, step: int, value: float, where: str, applies: bool) -> None:
        rule = self.rules[id]
        excuse = self.excused.get(id) if math.isfinite(value) else None
        latest: Word = rule.word(value) if applies and excuse is None else "calm"
        if latest == "sick" and id in _CORRECTNESS_SIGNS and math.isfinite(value):
            guessing = self.guessing if self.counts_tokens else None
            latest = "watch" if self._window.is_solved(guessing) else latest
        past = self._past.setdefault(id, [])
        past.append(latest)
        del past[: -rule.readings]
        # what is not finite is sick at once; else the mildest of the last readings
        word = latest if not math.isfinite(value) else mildest(past)
        if len(past) < rule.readings and math.isfinite(value):
            word = "calm"
        (self.doubted.add if latest == "sick" != word else self.doubted.discard)(id)
        self.signs[id] = Sign(
            id=id,
            equation=rule.equation,
            step=step,
            value=value,
            word=word,
            rule=rule.told + (f"; not judged here: {excuse}" if excuse else ""),
            source=rule.source,
            where=where,
        )
        self.record.sign(self.signs[id])

    def _applies(self, id: str, value: float) -> bool:
        """Whether the rule's condition holds; what is not finite is judged always."""
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
            case "reference.kl" if self.answers_are_given:
                return self.rules[id].word(value) == "sick"
            case "tokens.cosine":
                return self._window.updates >= 200
            case "update.ratio" if value < 0.01:
                full = self._rate is None or self._rate >= self._highest_rate / 2
                return full and self._past_warm_up(_LEAST)
            case _:
                return True

    def _ahead(self, step: int, largest: float) -> None:
        """Where the largest score is heading: a line through what was read of late."""
        if not math.isfinite(largest):
            return
        self._scores = thinned([*self._scores, (step, largest)])
        if len(self._scores) < _FEWEST_SCORES:
            return
        late = self._scores[len(self._scores) // 2 :]
        steps, scores = zip(*late, strict=True)
        slope = statistics.linear_regression(steps, scores).slope
        grown = largest > _GROWN and slope > 0
        ahead = largest + max(0.0, slope) * step
        self._judge("attention.heading_for", step, ahead, applies=grown)

    def _past_warm_up(self, updates: int) -> bool:
        return self._rate is None or self._settled >= updates

    def _of_median(self, id: str, value: float) -> float:
        """A number by its own median so far, which it then joins; 1 while there is none."""
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

    def state_dict(self) -> dict[str, Any]:
        """The windows, as plain values."""
        windows = {name: getattr(self, f"_{name}") for name in _WINDOWS}
        of_labels = None if self.baselines is None else list(self.baselines)
        return (
            windows
            | self._window.state_dict()
            | {"guessing": self.guessing, "baselines": of_labels}
        )

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take back what `state_dict` gave."""
        self.guessing = state["guessing"]
        self.baselines = None if state["baselines"] is None else Baselines(*state["baselines"])
        self._window.load_state_dict(state)
        for name in _WINDOWS:
            if name in state:  # what an older version kept has fewer
                setattr(self, f"_{name}", state[name])


_WINDOWS = (
    "past",
    "history",
    "spread",
    "first",
    "scores",
    "settled",
    "rate",
    "highest_rate",
    "clips",
)
