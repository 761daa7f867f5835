"""The losses that a training minimises: one frozen class per objective, with its own numbers.

Penalties go with any of them: see `ElasticNet`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pellucid.config.checks import AtLeast, Checked, Count, Fraction, NotNegative, Positive
from pellucid.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class NextToken(Checked):
    """Predict each token from those before it: cross-entropy in nats per token.

    `label_smoothing` moves that share of the target to all tokens alike; `z_loss` is the weight of
    (log Z)^2, which keeps the logits' normaliser near 1; `entropy_bonus` rewards each nat of the
    entropy of a prediction.
    """

    label_smoothing: Fraction
    z_loss: NotNegative
    entropy_bonus: NotNegative = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MLM(Checked):
    """Predict hidden tokens from the text before and after them, as BERT was trained.

    The model predicts the share `chosen` of all tokens. Of these, the share `masked` becomes the
    mask token, the share `replaced` a random token, and the others stay unchanged. With
    `whole_words` all tokens of a word are chosen together.
    """

    chosen: float
    masked: float
    replaced: float
    whole_words: bool = False

    def _check(self) -> None:
        if not 0 < self.chosen < 1:
            raise ConfigError(f"chosen must be between 0 and 1, was {self.chosen}")
        if min(self.masked, self.replaced) < 0 or self.masked + self.replaced > 1:
            raise ConfigError(
                "masked and replaced must be shares that add up to at most 1, were "
                f"{self.masked} and {self.replaced}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanCorruption(Checked):
    """Write the spans that are missing from a text, as T5 was trained.

    The share `corrupted` of the tokens is cut out, in spans of `mean_span` tokens on average. Each
    span leaves one sentinel token in the text that the encoder reads.
    """

    corrupted: float
    mean_span: float

    def _check(self) -> None:
        if not 0 < self.corrupted < 1:
            raise ConfigError(f"corrupted must be between 0 and 1, was {self.corrupted}")
        if self.mean_span < 1:
            raise ConfigError(f"mean_span must be at least 1, was {self.mean_span}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Seq2Seq(Checked):
    """Write a text from a source: predict each token from the source and the tokens before it."""

    label_smoothing: Fraction
    z_loss: NotNegative = 0.0
    entropy_bonus: NotNegative = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Classification(Checked):
    """Name the class of a text: cross-entropy over the classes of the model's head.

    With `multi_label` a text may have several classes or none: a yes or no for each.
    """

    label_smoothing: Fraction
    multi_label: bool = False

    def _check(self) -> None:
        if self.multi_label and self.label_smoothing:
            raise ConfigError(
                "label_smoothing must be 0 with multi_label, because its classes do not compete; "
                f"was {self.label_smoothing}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class SFT(Checked):
    """Predict the tokens of answers from their prompts; the prompts themselves give no loss.

    With `packed` a row holds several examples. They do not see each other, and positions count from
    the beginning of each. Otherwise a batch has rows of about the same length.
    """

    label_smoothing: Fraction
    z_loss: NotNegative = 0.0
    entropy_bonus: NotNegative = 0.0
    packed: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Distillation(Checked):
    """Predict what a teacher predicts: its whole distribution, at a temperature.

    loss = (1 - hard_weight) T^2 D(teacher, student) + hard_weight CE(next token, student)

    `divergence`: "forward" is KL(teacher || student), which covers all modes of the teacher;
    "reverse" is KL(student || teacher), which seeks its strongest modes; "jensen_shannon" lies
    between them. `teacher` is the teacher's run.
    """

    teacher: str
    divergence: Literal["forward", "reverse", "jensen_shannon"]
    temperature: Positive
    hard_weight: float

    def _check(self) -> None:
        if not 0 <= self.hard_weight <= 1:
            raise ConfigError(f"hard_weight must be between 0 and 1, was {self.hard_weight}")


@dataclass(frozen=True, slots=True, kw_only=True)
class DPO(Checked):
    """Make the chosen of two answers likelier than the rejected one, relative to a reference.

    `beta` is the weight of the distance from the reference. `loss`: "sigmoid" is
    -log sigmoid(margin), and `label_smoothing` is the share of pairs assumed to be the wrong way
    round; "hinge" is max(0, 1 - margin).
    """

    beta: Positive
    loss: Literal["sigmoid", "hinge"]
    label_smoothing: float

    def _check(self) -> None:
        if not 0 <= self.label_smoothing < 0.5:
            raise ConfigError(
                f"label_smoothing must be at least 0 and less than 0.5, was {self.label_smoothing}"
            )
        if self.loss == "hinge" and self.label_smoothing:
            raise ConfigError("label_smoothing must be 0 with the hinge loss, which has no labels")


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyGradient(Checked):
    """Sample answers, reward them, and make the better ones likelier, near a reference model.

    `estimator`: "rloo" compares each of the `n_samples` answers to a prompt with the mean of the
    others; "grpo" also divides by the spread of the group, which changes the optimum. `beta` is the
    weight of KL(model || reference), in nats per answer; `kl`: "in_reward" subtracts it from the
    reward, "k2" and "k3" are losses (k3 also changes the optimum). Answers have at most
    `max_new_tokens` tokens and are sampled at `temperature`.
    """

    estimator: Literal["rloo", "grpo"]
    beta: NotNegative
    kl: Literal["in_reward", "k2", "k3"]
    n_samples: Annotated[int, AtLeast(2)]
    max_new_tokens: Count
    temperature: Positive
    entropy_bonus: NotNegative = 0.0


#: What a model learns.
Objective = (
    NextToken
    | MLM
    | SpanCorruption
    | Seq2Seq
    | Classification
    | SFT
    | Distillation
    | DPO
    | PolicyGradient
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ElasticNet(Checked):
    """Add l1 |w| + l2 w^2 for the weights whose names match one of `parameters`.

    Each update ends with the proximal step, so l1 makes weights exactly 0.
    `parameters` are names or patterns such as "head.weight" or "*.feed_forward.*". `l1` alone is
    the lasso, `l2` alone ridge regression.
    """

    l1: NotNegative
    l2: NotNegative
    parameters: tuple[str, ...]

    def _check(self) -> None:
        if not self.parameters:
            raise ConfigError('parameters must name at least one pattern, such as "head.weight"')
