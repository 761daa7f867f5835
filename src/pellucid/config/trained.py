"""Which of a model's weights are trained, where not all of them are."""

from __future__ import annotations

from dataclasses import dataclass

from pellucid.config.checks import at_least, fraction, positive
from pellucid.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class LastLayers:
    """The last `count` blocks, the final norm and the head are trained; the rest is frozen.

    A head that is tied to the embedding stays frozen with it.
    """

    count: int

    def __post_init__(self) -> None:
        at_least("count", self.count, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoRA:
    """W stays, and (alpha / rank) up @ down is learnt beside it: two thin matrices per layer.

    `targets` are names of linear layers or patterns such as "query" or "decoder.blocks.3.*"; a name
    without a dot is met at the end of a path. `dropout` is of what `down` reads. Weights that are
    new (a classification head) are trained whole.
    """

    rank: int
    alpha: float
    dropout: float
    targets: tuple[str, ...]

    def __post_init__(self) -> None:
        at_least("rank", self.rank, 1)
        positive("alpha", self.alpha)
        fraction("dropout", self.dropout)
        if not self.targets:
            raise ConfigError('targets must name at least one linear layer, such as "query"')


Trained = LastLayers | LoRA
