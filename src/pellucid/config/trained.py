"""Which of a model's weights to train, if not all of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pellucid.config.checks import AtLeast, Checked, Count, Fraction, Positive
from pellucid.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class LastLayers(Checked):
    """The last `count` blocks, the final norm and the head are trained; the rest is frozen.

    A head that is tied to the embedding stays frozen with it.
    """

    count: Annotated[int, AtLeast(0)]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoRA(Checked):
    """W + (alpha / rank) up @ down: W stays fixed, and each layer learns two thin matrices.

    `targets` are names of linear layers or patterns such as "query" or "decoder.blocks.3.*"; a name
    without a dot matches the end of a path. `dropout` applies to the input of `down`. New weights,
    such as a classification head, are trained whole.
    """

    rank: Count
    alpha: Positive
    dropout: Fraction
    targets: tuple[str, ...]

    def _check(self) -> None:
        if not self.targets:
            raise ConfigError('targets must name at least one linear layer, such as "query"')


#: Which weights are trained.
Trained = LastLayers | LoRA
