"""The optimiser, the schedule, the length of the training and its loop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pellucid.config.checks import (
    Betas,
    Checked,
    Count,
    Fraction,
    NotNegative,
    Positive,
    PositiveFraction,
)
from pellucid.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class AdamW(Checked):
    """Adam with decoupled weight decay."""

    learning_rate: Positive
    betas: Betas
    eps: Positive
    weight_decay: NotNegative


@dataclass(frozen=True, slots=True, kw_only=True)
class Adam(Checked):
    """Adam with coupled L2: the penalty passes through the adaptive denominator."""

    learning_rate: Positive
    betas: Betas
    eps: Positive
    l2: NotNegative


@dataclass(frozen=True, slots=True, kw_only=True)
class SGD(Checked):
    """Gradient descent with momentum and L2."""

    learning_rate: Positive
    momentum: Fraction
    l2: NotNegative


@dataclass(frozen=True, slots=True, kw_only=True)
class Muon(Checked):
    """Orthogonalised momentum for the hidden matrices, AdamW for everything else."""

    learning_rate: Positive
    momentum: Fraction
    weight_decay: NotNegative
    newton_schulz_steps: Count
    rest: AdamW


#: How gradients become updates.
Optimiser = AdamW | Adam | SGD | Muon


@dataclass(frozen=True, slots=True, kw_only=True)
class Cosine(Checked):
    """Linear warm-up over the share `warm_up` of all steps, then half a cosine down to `final`."""

    warm_up: Fraction
    final: Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class Linear(Checked):
    """Linear warm-up, then a straight line down to `final`."""

    warm_up: Fraction
    final: Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant(Checked):
    """Linear warm-up, then no change."""

    warm_up: Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmUpStableDecay(Checked):
    """Linear warm-up, a plateau, then a straight line to `final` over the last share `decay`."""

    warm_up: Fraction
    decay: float
    final: Fraction

    def _check(self) -> None:
        if not 0 < self.decay <= 1 - self.warm_up:
            raise ConfigError(
                f"decay must be greater than 0 and at most 1 - warm_up = {1 - self.warm_up}, "
                f"was {self.decay}"
            )


#: How the learning rate changes over a run.
Schedule = Cosine | Linear | Constant | WarmUpStableDecay


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps(Checked):
    """Train for this many updates."""

    count: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens(Checked):
    """Train until the model has predicted at least this many tokens."""

    count: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class Minutes(Checked):
    """Train for this long: from the first evaluation to the last checkpoint.

    pellucid plans the number of updates, and plans again while it trains: see docs/run-folder.md.
    """

    count: Positive


@dataclass(frozen=True, slots=True, kw_only=True)
class Epochs(Checked):
    """Go this many times through the training data."""

    count: Positive


#: How long a run is.
Budget = Steps | Tokens | Minutes | Epochs


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowingBatch(Checked):
    """Begin with batches of `first` sequences, and double them until they are `batch_size`.

    They double at equal intervals over the share `until` of all updates.
    """

    first: Count
    until: PositiveFraction


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowingLength(Checked):
    """Begin with rows of `first` tokens, and double them until they have the full length.

    They double at equal intervals over the share `until` of all updates. Each update sees as many
    tokens as without growth.
    """

    first: Count
    until: PositiveFraction


#: What grows while a model trains.
Growth = GrowingBatch | GrowingLength


@dataclass(frozen=True, slots=True, kw_only=True)
class Training(Checked):
    """The loop: how long, how large a batch, in which precision, and how often it reports.

    `batch_size` counts sequences per update; `accumulation` cuts them into equal parts to save
    memory. `clip_norm` limits the norm of the gradient (default: no clipping). Intervals are in
    steps. `keep_checkpoints` says how many of the newest checkpoints stay, besides the best one.
    `sentence` is the fixed prompt that the model continues as it learns; if it is empty, the run
    takes one from the held-out text. With `documents_apart` no token sees another document of its
    row, and positions count from the beginning of each. Without it a row is text end to end.
    `growth` makes the batch or the rows grow during the training. `recompute` is what the backward
    pass computes again to save memory: nothing, all but products of matrices and attention, or
    every block from its input. It changes no number. With `patience` the run ends early: after so
    many evaluations in a row without a new best held-out loss. With `ema_decay` the run keeps a
    moving average of its weights, and evaluates, samples, saves and exports that.
    """

    budget: Budget
    batch_size: Count
    accumulation: Count
    clip_norm: Positive | None
    device: str
    precision: Literal["auto", "float32", "bfloat16"]
    compile: Literal["auto", "on", "off"]
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
