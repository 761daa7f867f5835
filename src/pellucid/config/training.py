"""The schedule, the length of the training and its loop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, assert_never

from pellucid.config.checks import (
    Checked,
    Count,
    Fraction,
    NotNegative,
    Positive,
    PositiveFraction,
    PositiveShare,
)
from pellucid.errors import ConfigError

#: What is done with the last 16 bits of float32, if weights are in bfloat16.
Rounding = Literal["remainder", "stochastic"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cosine(Checked):
    """Linear warm-up, then half a cosine from 1 down to `final`.

    Attributes:
        warm_up: the share of all steps in which the rate grows.
        final: the share of the peak at the end.
    """

    warm_up: Fraction
    final: Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class Linear(Checked):
    """Linear warm-up, then a straight line from 1 down to `final`.

    Attributes:
        warm_up: the share of all steps in which the rate grows.
        final: the share of the peak at the end.
    """

    warm_up: Fraction
    final: Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant(Checked):
    """Linear warm-up, then no change.

    Attributes:
        warm_up: the share of all steps in which the rate grows.
    """

    warm_up: Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmUpStableDecay(Checked):
    """Linear warm-up, then 1, then a straight line to `final` over the last `decay`.

    Attributes:
        warm_up: the share of all steps in which the rate grows.
        decay: the share of all steps in which it falls, at most 1 - `warm_up`.
        final: the share of the peak at the end.
    """

    warm_up: Fraction
    decay: PositiveShare
    final: Fraction

    def _check(self) -> None:
        if self.decay > 1 - self.warm_up:
            raise ConfigError(
                f"decay must be at most 1 - warm_up = {1 - self.warm_up}, was {self.decay}"
            )


#: How the learning rate changes over a run.
Schedule = Cosine | Linear | Constant | WarmUpStableDecay


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps(Checked):
    """Train for this many updates.

    Attributes:
        count: the number of updates.
    """

    count: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens(Checked):
    """Train until the model has seen at least this many tokens.

    Attributes:
        count: the number of tokens.
    """

    count: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class Minutes(Checked):
    """Train for this long: from the first evaluation to the last checkpoint.

    pellucid plans the number of updates, and plans again while it trains.

    Attributes:
        count: the number of minutes.
    """

    count: Positive


@dataclass(frozen=True, slots=True, kw_only=True)
class Epochs(Checked):
    """Go this many times through the training data.

    Attributes:
        count: the number of times; half an epoch is 0.5.
    """

    count: Positive


#: How long a run is.
Budget = Steps | Tokens | Minutes | Epochs


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowingBatch(Checked):
    """Begin with batches of `first` rows, and double them until they are `batch_size`.

    A budget of tokens then takes more updates.

    Attributes:
        first: the size at the start: a half, a quarter, ... of the full one.
        until: the share of all updates over which the size doubles, at equal intervals.
    """

    first: Count
    until: PositiveFraction


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowingLength(Checked):
    """Begin with rows of `first` tokens, and double them until they have the full length.

    Each update sees as many tokens as without growth. `SpanCorruption` cannot have it.

    Attributes:
        first: the size at the start: a half, a quarter, ... of the full one.
        until: the share of all updates over which the size doubles, at equal intervals.
    """

    first: Count
    until: PositiveFraction


#: What grows while a model trains.
Growth = GrowingBatch | GrowingLength


@dataclass(frozen=True, slots=True, kw_only=True)
class Training(Checked):
    """The loop: how long, how large a batch, in which precision, and how often it reports.

    Attributes:
        budget: the length of the training.
        batch_size: sequences per update, each of `context_length` tokens.
        accumulation: the number of equal parts of a batch, to save memory; `batch_size` must be a
            multiple of it.
        clip_norm: the largest norm of the whole gradient; absent, no clipping.
        device: "auto", or a name that torch knows: "cpu", "cuda", "cuda:1".
        precision: of the matrix products.
        compile: whether blocks are compiled; "all": and, on a GPU, the loss.
        log_every: steps between reports.
        evaluate_every: steps between evaluations on held-out text.
        evaluate_tokens: the most held-out tokens of an evaluation: of a text from its start, of
            rows from all over, because rows are often sorted.
        checkpoint_every: steps between checkpoints.
        keep_checkpoints: how many of the newest checkpoints stay, besides the best one.
        sentence: the fixed prompt that the model continues as it learns. If it is empty, the run
            takes one from the held-out text and writes it into its `config.toml`.
        documents_apart: whether no token sees another document of its row, and positions count from
            the beginning of each. Without it a row is text end to end.
        growth: a batch or rows that begin small and grow; absent, every update has the same size.
        recompute: what the backward pass computes again, to save memory: nothing; all but products
            of matrices and attention ("selective"); or each block from its input ("full"). The
            numbers stay the same.
        patience: the run ends early after so many evaluations in a row without a new best held-out
            loss; absent, it has its whole length.
        ema_decay: the share of a moving average of the weights that an update leaves; absent, there
            is no average.
        dropout_from_epoch: how often the text is read before dropout begins. Text that is new needs
            no dropout, and updates without it are faster.
        weights: the type of the blocks' matrices and of their gradients. In bfloat16 a small
            update would be lost. "bfloat16_remainder" keeps the other 16 bits of float32 beside
            each weight, for updates alone; "bfloat16_stochastic" rounds up or down at random.
    """

    budget: Budget
    batch_size: Count
    accumulation: Count
    clip_norm: Positive | None
    device: str
    precision: Literal["auto", "float32", "bfloat16"]
    compile: Literal["auto", "on", "all", "off"]
    log_every: Count
    evaluate_every: Count
    evaluate_tokens: Count
    checkpoint_every: Count
    keep_checkpoints: Count
    sentence: str
    documents_apart: bool = False
    growth: Growth | None = None
    recompute: Literal["none", "selective", "full"] = "none"
    patience: Count | None = None
    ema_decay: PositiveFraction | None = None
    dropout_from_epoch: NotNegative = 0.0
    weights: Literal["float32", "bfloat16_remainder", "bfloat16_stochastic"] = "float32"

    @property
    def rounding(self) -> Rounding | None:
        """What is done with the last bits of weights in bfloat16; None if they are in float32."""
        match self.weights:
            case "float32":
                return None
            case "bfloat16_remainder":
                return "remainder"
            case "bfloat16_stochastic":
                return "stochastic"
            case _:
                assert_never(self.weights)

    def compiles(self, *, on_gpu: bool) -> bool:
        """Whether blocks are to be compiled, if a compiler works."""
        return self.compile in ("on", "all") or (self.compile == "auto" and on_gpu)

    def _check(self) -> None:
        if self.batch_size % self.accumulation:
            raise ConfigError(
                f"batch_size must be a multiple of accumulation, was {self.batch_size} and "
                f"{self.accumulation}"
            )
        if self.patience is None or not isinstance(self.budget, Steps):
            return
        fewest = self.patience * self.evaluate_every
        if fewest >= self.budget.count:
            raise ConfigError(
                f"patience {self.patience} cannot end a run early: with evaluate_every "
                f"{self.evaluate_every} that takes {fewest:,} updates, and the run has "
                f"{self.budget.count:,}: evaluate more often, or choose a smaller patience"
            )
