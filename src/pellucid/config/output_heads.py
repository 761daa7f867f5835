"""The layer after a model's last states: one frozen class per kind of output head."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pellucid.config.blocks import Activation
from pellucid.config.checks import Checked, Fraction, Positive
from pellucid.config.norms import Norm
from pellucid.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadTransform:
    """norm(activation(dense(x))) before the logits, as in BERT.

    Before tokens it gives vectors as wide as the embedding's, before classes d_model features.

    Attributes:
        activation: the function after the dense layer.
        norm: the norm after it.
        bias: whether the dense layer has a bias.
    """

    activation: Activation | None = None
    norm: Norm | None = None
    bias: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageHead(Checked):
    """One logit per token of the vocabulary.

    Attributes:
        bias: whether each token has a bias of its own.
        transform: a dense layer, an activation and a norm before the logits, as in BERT.
        soft_cap: logits z become c tanh(z / c), c this number.
        scaled: whether states are divided by sqrt(d_model) first, as in T5.
        fixed_bias: whether training leaves the bias as it is, as in BART; it starts at 0, and needs
            `bias`.
        multiplier: another factor of the states: Cohere's logit_scale, 1 / logits_scaling of
            Granite, dim_model_base / d_model of MiniCPM; not with `scaled`.
    """

    bias: bool = False
    transform: HeadTransform | None = None
    soft_cap: Positive | None = None
    scaled: bool = False
    fixed_bias: bool = False
    multiplier: Positive | None = None

    def _check(self) -> None:
        if self.scaled and self.multiplier is not None:
            raise ConfigError(
                "head.multiplier must be none with scaled = true, was "
                f"{self.multiplier:g}: hidden states have one factor; set scaled = false"
            )
        if self.fixed_bias and not self.bias:
            raise ConfigError(
                "fixed_bias needs bias = true: without a bias nothing is fixed; set both, or leave "
                "fixed_bias out"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class NoHead:
    """The model gives hidden states only: a sentence encoder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassificationHead(Checked):
    """One logit per class, from one vector for the whole text.

    Attributes:
        classes: their names, in order: at least two, which differ. Absent, a run takes them from
            its data.
        pooling: the vector: the last state of the "first" token, through the `pooler` if the model
            has one; the "mean" over all tokens; or the state of the "last" token. Padding does not
            count.
        dropout: on what the matrix of the classes reads.
        bias: whether each class has a bias of its own: in BERT's classifier yes, in GPT-2's and
            Llama's no.
        transform: a dense layer, an activation and a norm before the matrix of the classes, as in
            RoBERTa ("tanh"), ELECTRA ("gelu"), DistilBERT ("relu") and ModernBERT.
        input_dropout: on the vector before `transform`.
    """

    classes: tuple[str, ...] | None
    pooling: Literal["first", "mean", "last"]
    dropout: Fraction
    bias: bool
    transform: HeadTransform | None = None
    input_dropout: Fraction = 0.0

    def _check(self) -> None:
        if self.input_dropout and self.transform is None:
            raise ConfigError(
                f"input_dropout must be 0 without a transform, was {self.input_dropout}: it comes "
                "before the transform; set dropout instead"
            )
        if self.classes is None:
            return
        if len(self.classes) < 2:
            raise ConfigError(
                f"classes must name at least two, was {list(self.classes)}: with one there is "
                "nothing to tell apart"
            )
        if len(set(self.classes)) < len(self.classes):
            raise ConfigError(f"classes must differ from each other, was {list(self.classes)}")

    @property
    def names(self) -> tuple[str, ...]:
        """`classes`, which must be known.

        Raises:
            ConfigError: they are not set yet.
        """
        if self.classes is None:
            raise ConfigError(
                "model.head.classes is not set: pellucid finds them in the data when it prepares a "
                'run; without data name them, as in --set model.head.classes=["no","yes"]'
            )
        return self.classes


#: The last layer of a model.
Head = LanguageHead | NoHead | ClassificationHead

#: One logit per token, without the optional parts.
PLAIN_HEAD = LanguageHead()
