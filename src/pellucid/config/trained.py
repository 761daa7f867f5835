"""Which of a model's weights to train, if not all of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pellucid.config.checks import AtLeast, Checked, Count, Fraction, Positive
from pellucid.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class LastLayers(Checked):
    """The last blocks, the final norm and the head are trained; the rest is frozen.

    The blocks are those of the top stack: the decoder if the model has one. The head comes with its
    transform, bias and pooler. A head that is tied to the embedding stays frozen with it.

    Attributes:
        count: how many blocks.
    """

    count: Annotated[int, AtLeast(0)]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoRA(Checked):
    """W + (alpha / rank) up @ down: W stays fixed, and each layer learns two thin matrices.

    New weights, such as a classification head, are trained whole.

    Attributes:
        rank: `down` has the shape (rank, inputs), `up` the shape (outputs, rank).
        alpha: the update is scaled by `alpha` / `rank`.
        dropout: on the input of `down`.
        targets: names and patterns of linear layers, at least one: `query` is every layer whose
            path ends so, `*` every linear layer, `decoder.blocks.3.*` (with a dot) matches the
            whole path.
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
