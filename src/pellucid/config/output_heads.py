"""What stands on top of a model's last states."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pellucid.config.checks import fraction, positive
from pellucid.config.feed_forward import Activation
from pellucid.config.norms import Norm
from pellucid.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadTransform:
    """norm(activation(dense(x))) before the logits, as in BERT."""

    activation: Activation
    norm: Norm


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageHead:
    """One logit per token of the vocabulary.

    What is left out is not there: `bias`; a `transform` first; `soft_cap`: logits become
    c tanh(z / c); `scaled`: hidden states are divided by sqrt(d_model) first, as in T5.
    """

    bias: bool = False
    transform: HeadTransform | None = None
    soft_cap: float | None = None
    scaled: bool = False

    def __post_init__(self) -> None:
        if self.soft_cap is not None:
            positive("soft_cap", self.soft_cap)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoHead:
    """Hidden states are all there is: a sentence encoder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassificationHead:
    """One logit per class, from one vector for the whole text.

    `classes` are their names, in order; left out, they are found in the data when a run is
    prepared. `pooling`: the state of the "first" token (through the pooler, where there is one), of
    the "last" real one, or the "mean" over all real ones. `dropout` is of that vector. `bias`:
    whether each class has a bias of its own.
    """

    classes: tuple[str, ...] | None
    pooling: Literal["first", "mean", "last"]
    dropout: float
    bias: bool

    def __post_init__(self) -> None:
        fraction("dropout", self.dropout)
        if self.classes is not None:
            if len(self.classes) < 2:
                raise ConfigError(
                    f"classes must name at least two, was {list(self.classes)}: with one there is "
                    "nothing to tell apart"
                )
            if len(set(self.classes)) < len(self.classes):
                raise ConfigError(f"classes must differ from each other, was {list(self.classes)}")

    @property
    def names(self) -> tuple[str, ...]:
        """`classes`, where they must be known by now."""
        if self.classes is None:
            raise ConfigError(
                "model.head.classes is not set; they are found in the data when a run is prepared: "
                'name them to do without data, as in --set model.head.classes=["no","yes"]'
            )
        return self.classes


Head = LanguageHead | NoHead | ClassificationHead

#: One logit per token, and nothing besides.
PLAIN_HEAD = LanguageHead()
