"""The numbers that causes read from a history; None if unknown."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from functools import cached_property

from pellucid.diagnosis.finding import limit
from pellucid.diagnosis.history.history import History, Reading
from pellucid.vitals import Mark, MarkName


class HistoryView:
    """One training: its signs, its loss and its rates."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.facts = history.facts
        self.losses = [value for _, value in history.losses]
        self.steps = [step for step, _ in history.losses]

    # ---- signs

    def readings(self, id: str, *, last_step: int | None = None, after: int = 0) -> list[Reading]:
        """The finite readings of a sign from update `after` + 1 to `last_step`."""
        return [
            read
            for read in self.history.signs.get(id, ())
            if math.isfinite(read.value)
            and read.step > after
            and (last_step is None or read.step <= last_step)
        ]

    def first(self, id: str) -> float | None:
        """A sign's first value, if it is from one of the first five updates."""
        early = self.readings(id, last_step=5)
        return early[0].value if early else None

    def last(self, id: str) -> float | None:
        """The median of a sign's last three values."""
        last_three = [read.value for read in self.readings(id)[-3:]]
        return statistics.median(last_three) if last_three else None

    def usual(self, id: str, *, after: int = 0, last_step: int | None = None) -> float | None:
        """The median of a sign's values."""
        numbers = [read.value for read in self.readings(id, after=after, last_step=last_step)]
        return statistics.median(numbers) if numbers else None

    def highest(self, id: str, *, last_step: int | None = None) -> Reading | None:
        """A sign's largest reading."""
        return max(
            self.readings(id, last_step=last_step), key=lambda read: read.value, default=None
        )

    def lowest(self, id: str, *, after: int = 0) -> Reading | None:
        """A sign's smallest reading."""
        return min(self.readings(id, after=after), key=lambda read: read.value, default=None)

    def lasting(self, id: str, test: Callable[[float], bool], *, n: int = 3) -> Reading | None:
        """The first of `n` readings in a row that all pass a test."""
        readings = self.readings(id)
        for i in range(len(readings) - n + 1):
            if all(test(read.value) for read in readings[i : i + n]):
                return readings[i]
        return None

    def growth(self, id: str) -> float | None:
        """The ratio of a sign's largest value to its first."""
        first, highest = self.first(id), self.highest(id)
        return None if not first or highest is None else highest.value / first

    def often(self, name: MarkName, share: float) -> Mark | None:
        """A mark that the ledger saw several times, and in such a share of the updates or more."""
        mark = self.history.marks.get(name)
        if mark is None or mark.n_seen < limit("UPD003", "times") or mark.share < share:
            return None
        return mark

    def weights_with(self, name: MarkName) -> str:
        """The first weights that many ranks saw a mark in; empty if it is not known."""
        ranks = self.history.ranks
        names = [] if ranks is None else list(ranks.places.get(name, ()))
        return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")

    def at_clip(self, norm: float) -> bool:
        """Whether a norm has the clipping limit: some tools measure norms after clipping."""
        return self.facts.clip_norm is not None and norm >= 0.98 * self.facts.clip_norm

    # ---- preferences and rewards

    def measure(self, kind: str) -> list[float]:
        """The values of a column of preferences or rewards, in order; none if it is absent."""
        return [value for _, value in self.history.measures.get(kind, ())]

    @property
    def gains(self) -> list[float]:
        """Margins of preferences or rewards, which training should raise."""
        measures = self.history.measures
        points = measures.get("margin", measures.get("reward", self.history.gains))
        return [value for _, value in points]

    def late(self, kind: str) -> float | None:
        """The median of the last half of such a column, of three values at least."""
        values = self.measure(kind)
        return statistics.median(values[len(values) // 2 :]) if len(values) >= 3 else None

    # ---- the loss

    @property
    def updates(self) -> int:
        """The last update in the history."""
        last = [points[-1][0] for points in (self.history.losses, self.history.rates) if points]
        return max(last, default=0)

    @property
    def guessing(self) -> float | None:
        """ln V."""
        size = self.facts.vocab_size
        return math.log(size) if size and size > 1 else None

    @property
    def start(self) -> float | None:
        """The first loss, if it is from one of the first five updates."""
        return self.losses[0] if self.losses and self.steps[0] <= 5 else None

    @cached_property
    def end(self) -> float | None:
        """The mean loss of the last tenth, of five updates at least."""
        return _mean(self.losses[-max(5, len(self.losses) // 10) :])

    @cached_property
    def best(self) -> float | None:
        """The lowest mean of ten updates in a row."""
        starts = range(0, max(1, len(self.losses) - 9), 5)
        averages = [_mean(self.losses[i : i + 10]) for i in starts]
        return min((mean for mean in averages if mean is not None), default=None)

    @cached_property
    def learnt(self) -> float | None:
        """How far below its start (and below guessing) the loss is at the end."""
        starts = [v for v in (self.guessing, self.start) if v is not None]
        return None if self.end is None or not starts else min(starts) - self.end

    @cached_property
    def fall(self) -> float | None:
        """How far the loss fell from the middle third to the last."""
        n = len(self.losses) // 3
        middle, last = _mean(self.losses[n : 2 * n]), _mean(self.losses[-n:] if n else [])
        return None if middle is None or last is None else middle - last

    @property
    def nan_share(self) -> float:
        """The share of the losses that are NaN; 0 without losses."""
        return sum(map(math.isnan, self.losses)) / max(1, len(self.losses))

    @property
    def comes_down(self) -> bool:
        """Whether the loss began above guessing, as of large logits or a sum, and still falls."""
        start, guessing, learnt = self.start, self.guessing, limit("FIT004", "learnt")
        if start is None or guessing is None or self.fall is None:
            return False
        return start > guessing + learnt and self.fall > learnt

    @property
    def quarters(self) -> list[float]:
        """The mean loss of each quarter; none of fewer than four losses."""
        n = len(self.losses) // 4
        return [sum(self.losses[i * n : (i + 1) * n]) / n for i in range(4)] if n else []

    @property
    def rose(self) -> float | None:
        """How far the end of the loss is above its best."""
        return None if self.end is None or self.best is None else self.end - self.best

    @property
    def has_trained_norms(self) -> bool:
        """Whether the gains of most norms were trained before: they begin as one number."""
        return (self.first("weights.trained") or 0.0) > limit("FIT004", "trained")

    @property
    def fresh(self) -> bool:
        """Whether training began with an untrained model, judged by its loss and its norms.

        A trained one begins 1 nat below guessing, or at half of it if there are few classes. On
        texts of another kind it may not, and a new head has to guess: then the gains of most of its
        norms tell, which begin as one number.
        """
        if self.has_trained_norms:
            return False
        start, guessing = self.start, self.guessing
        unlike = start is None or guessing is None or start > max(guessing - 1, guessing / 2)
        return unlike and not self.facts.pretrained

    @property
    def learns_tokens(self) -> bool:
        """Whether the loss is of tokens, as far as is known: others go by other rates.

        A rate of 5e-7 is usual for preferences and rewards. Their losses begin at ln 2 or at 0.
        """
        if self.facts.on_preferences or self.facts.on_rewards or self.gains:
            return False
        return self.guessing is not None or self.start is None or self.start > 1

    @property
    def coin(self) -> float | None:
        """ln 2, if it is the loss of guessing between two answers: IPO and hinges have another."""
        is_sigmoid = self.start is None or self.start < limit("PRF001", "start")
        return math.log(2) if self.facts.on_preferences and is_sigmoid else None

    @property
    def goes_well(self) -> bool:
        """Whether the loss came down and stayed down."""
        if self.facts.on_rewards or self.history.stopped is not None:
            return self.history.stopped is None
        learnt, rose = self.learnt, self.rose
        if learnt is None or rose is None or self.above_frequencies:
            return False
        return learnt > 0.3 and rose < max(0.15, 0.15 * learnt)

    @property
    def above_frequencies(self) -> bool:
        """Whether the loss is not below the entropy of single tokens after a hundred updates."""
        unigram, end = self.facts.unigram, self.end
        if unigram is None or end is None or self.updates < 100 or not self.losses:
            return False
        return end > unigram + 0.1 or self.at_frequencies

    @property
    def at_frequencies(self) -> bool:
        """Whether the loss ends at the entropy of single tokens, and no longer falls."""
        unigram, end, fall, best = self.facts.unigram, self.end, self.fall, self.best
        if unigram is None or end is None or fall is None or best is None:
            return False
        low, high = limit("DAT009", "below"), limit("DAT009", "above")
        at_entropy = unigram - low < end < unigram + high and best > unigram - 2 * high
        return at_entropy and fall < limit("DAT009", "flat") and self.updates >= 100

    # ---- rates

    @property
    def memory(self) -> float | None:
        """Over how many updates Adam averages squared gradients."""
        betas = self.facts.betas
        return None if betas is None else 1 / (1 - betas[1]) if betas[1] < 1 else math.inf

    @property
    def chance_step(self) -> float | None:
        """The size of Adam's steps, in rates, for gradients without anything in common."""
        betas = self.facts.betas
        if betas is None or not 0 < betas[0] < 1:
            return None
        return ((1 - betas[0]) / (1 + betas[0])) ** 0.5

    @property
    def steps_vanish(self) -> bool:
        """Whether the last steps of Adam were far below those of chance."""
        step, chance = self.facts.remembered_step, self.chance_step
        if step is None or chance is None:
            return False
        return step <= limit("OPT008", "swollen") * chance

    @property
    def has_full_steps(self) -> bool | None:
        """Whether Adam's first step had the size of the rate; None if unknown."""
        first = self.first("update.effective_step")
        if self.facts.betas is None or first is None or math.isnan(first):
            return None  # a warm-up that begins at a rate of 0 has no first step
        return first > limit("OPT009", "first")

    @property
    def rate(self) -> float | None:
        """The highest learning rate."""
        return self.facts.learning_rate or max((v for _, v in self.history.rates), default=None)

    @property
    def distance(self) -> float | None:
        """How far all steps together moved the weights at most, of their size; None if unknown."""
        mark, rates = self.history.marks.get("stride"), dict(self.history.rates)
        if mark is None or not mark.values:
            return None
        known_rates = [rates[step] for step in mark.steps if step in rates]
        distance = statistics.fmean(mark.values) * self.updates
        # steps are as long as the rate is high: the few that were seen may be of a warm-up
        if any(known_rates):
            distance *= statistics.fmean(rates.values()) / statistics.fmean(known_rates)
        return distance

    @cached_property
    def warm_up_end(self) -> int:
        """The first update whose rate is at least half of the highest."""
        highest = max((value for _, value in self.history.rates), default=0.0)
        early = (step for step, value in self.history.rates if value >= highest / 2)
        return next(early, 0)


def _mean(values: Sequence[float]) -> float | None:
    finite = [value for value in values if math.isfinite(value)]
    return statistics.fmean(finite) if finite else None
