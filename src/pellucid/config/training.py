"""By which optimiser, on which schedule, for how long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pellucid.config.checks import at_least, fraction, positive
from pellucid.errors import ConfigError


def _betas(betas: tuple[float, float]) -> None:
    for beta in betas:
        fraction("betas", beta)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdamW:
    """Adam with decoupled weight decay."""

    learning_rate: float
    betas: tuple[float, float]
    eps: float
    weight_decay: float

    def __post_init__(self) -> None:
        positive("learning_rate", self.learning_rate)
        positive("eps", self.eps)
        at_least("weight_decay", self.weight_decay, 0)
        _betas(self.betas)


@dataclass(frozen=True, slots=True, kw_only=True)
class Adam:
    """Adam with coupled L2: the penalty passes through the adaptive denominator."""

    learning_rate: float
    betas: tuple[float, float]
    eps: float
    l2: float

    def __post_init__(self) -> None:
        positive("learning_rate", self.learning_rate)
        positive("eps", self.eps)
        at_least("l2", self.l2, 0)
        _betas(self.betas)


@dataclass(frozen=True, slots=True, kw_only=True)
class SGD:
    """Gradient descent with momentum and L2."""

    learning_rate: float
    momentum: float
    l2: float

    def __post_init__(self) -> None:
        positive("learning_rate", self.learning_rate)
        fraction("momentum", self.momentum)
        at_least("l2", self.l2, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Muon:
    """Orthogonalised momentum for the hidden matrices, AdamW for everything else."""

    learning_rate: float
    momentum: float
    weight_decay: float
    newton_schulz_steps: int
    rest: AdamW

    def __post_init__(self) -> None:
        positive("learning_rate", self.learning_rate)
        fraction("momentum", self.momentum)
        at_least("weight_decay", self.weight_decay, 0)
        at_least("newton_schulz_steps", self.newton_schulz_steps, 1)


Optimiser = AdamW | Adam | SGD | Muon


@dataclass(frozen=True, slots=True, kw_only=True)
class Cosine:
    """Linear warm-up over the share `warm_up` of all steps, then half a cosine down to `final`."""

    warm_up: float
    final: float

    def __post_init__(self) -> None:
        fraction("warm_up", self.warm_up)
        fraction("final", self.final)


@dataclass(frozen=True, slots=True, kw_only=True)
class Linear:
    """Linear warm-up, then a straight line down to `final`."""

    warm_up: float
    final: float

    def __post_init__(self) -> None:
        fraction("warm_up", self.warm_up)
        fraction("final", self.final)


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """Linear warm-up, then no change."""

    warm_up: float

    def __post_init__(self) -> None:
        fraction("warm_up", self.warm_up)


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmUpStableDecay:
    """Linear warm-up, a plateau, then a straight line to `final` over the last share `decay`."""

    warm_up: float
    decay: float
    final: float

    def __post_init__(self) -> None:
        fraction("warm_up", self.warm_up)
        fraction("final", self.final)
        if not 0 < self.decay <= 1 - self.warm_up:
            raise ConfigError(
                f"decay must be greater than 0 and at most 1 - warm_up = {1 - self.warm_up}, "
                f"was {self.decay}"
            )


Schedule = Cosine | Linear | Constant | WarmUpStableDecay


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """Train for this many updates."""

    count: int

    def __post_init__(self) -> None:
        at_least("count", self.count, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """Train until at least this many tokens were predicted."""

    count: int

    def __post_init__(self) -> None:
        at_least("count", self.count, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Minutes:
    """Train for about this long: the speed is measured first and fixes the number of steps."""

    count: float

    def __post_init__(self) -> None:
        positive("count", self.count)


@dataclass(frozen=True, slots=True, kw_only=True)
class Epochs:
    """Train until everything there is to learn from was seen this often."""

    count: float

    def __post_init__(self) -> None:
        positive("count", self.count)


Budget = Steps | Tokens | Minutes | Epochs


def _growth(growth: GrowingBatch | GrowingLength) -> None:
    at_least("first", growth.first, 1)
    positive("until", growth.until)
    fraction("until", growth.until)


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowingBatch:
    """The first updates see `first` sequences; these double until they are `batch_size`.

    They double at equal intervals over the share `until` of all updates.
    """

    first: int
    until: float

    def __post_init__(self) -> None:
        _growth(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowingLength:
    """Rows of text come in pieces of `first` tokens; these double until rows are whole.

    They double at equal intervals over the share `until` of all updates, which see as many tokens
    as ever.
    """

    first: int
    until: float

    def __post_init__(self) -> None:
        _growth(self)


Growth = GrowingBatch | GrowingLength


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """The loop: how long, how large a batch, in which precision, and how often it reports.

    `batch_size` counts sequences per update; `accumulation` is into how many equal parts they are
    cut to save memory. `clip_norm` bounds the gradient's norm (left out: no clipping). Intervals
    are in steps. `keep_checkpoints` says how many of the newest stay besides the best one.
    `sentence` is the fixed prompt whose continuation is shown as the model learns; an empty one is
    replaced by a beginning from the held-out text when the run begins. With `documents_apart` no
    token sees into another document of its row, and positions count from the beginning of each;
    otherwise a row is text end to end. `growth` is of what begins small, where anything does.
    """

    budget: Budget
    batch_size: int
    accumulation: int
    clip_norm: float | None
    device: str
    precision: Literal["auto", "float32", "bfloat16"]
    compile: Literal["auto", "on", "off"]
    log_every: int
    evaluate_every: int
    evaluate_tokens: int
    checkpoint_every: int
    keep_checkpoints: int
    sentence: str
    documents_apart: bool = False
    growth: Growth | None = None

    def __post_init__(self) -> None:
        for name in ("batch_size", "accumulation", "log_every", "evaluate_every"):
            at_least(name, getattr(self, name), 1)
        for name in ("evaluate_tokens", "checkpoint_every", "keep_checkpoints"):
            at_least(name, getattr(self, name), 1)
        if self.clip_norm is not None:
            positive("clip_norm", self.clip_norm)
        if self.batch_size % self.accumulation:
            raise ConfigError(
                f"batch_size must be a multiple of accumulation, was {self.batch_size} and "
                f"{self.accumulation}"
            )
