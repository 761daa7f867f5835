"""The losses that a training minimises: one frozen class per objective, with its own numbers.

Penalties go with any of them: see `ElasticNet`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pellucid.config.checks import (
    AtLeast,
    Checked,
    Count,
    Fraction,
    Interval,
    NotNegative,
    Positive,
    PositiveFraction,
    Share,
)
from pellucid.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class NextToken(Checked):
    """Predict each token from those before it: cross-entropy in nats per token.

    Attributes:
        label_smoothing: s in y = (1 - s) onehot + s / K.
        z_loss: the weight of (log Z)^2, which keeps log Z near 0.
        entropy_bonus: the reward for a nat of the predictions' entropy; it costs a second pass over
            the logits.
    """

    label_smoothing: Fraction
    z_loss: NotNegative
    entropy_bonus: NotNegative = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MLM(Checked):
    """Predict hidden tokens from the text before and after them, as BERT was trained.

    BERT has 15%; of these 80% masked, 10% replaced.

    Attributes:
        chosen: the share of tokens to predict.
        masked: the share of these that becomes the mask token.
        replaced: the share of these that becomes a random token; with `masked` at most 1. The
            others stay unchanged.
        whole_words: whether all tokens of a word are chosen together.
    """

    chosen: PositiveFraction
    masked: Share
    replaced: Share
    whole_words: bool = False

    def _check(self) -> None:
        if self.masked + self.replaced > 1:
            raise ConfigError(
                "masked and replaced must add up to at most 1, were "
                f"{self.masked} and {self.replaced}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanCorruption(Checked):
    """Write the spans that are missing from a text, as T5 was trained. For an encoder-decoder.

    Each span leaves one sentinel token in the text that the encoder reads.

    Attributes:
        corrupted: the share of tokens that is cut out.
        mean_span: how many tokens a span has on average.
    """

    corrupted: PositiveFraction
    mean_span: Annotated[float, AtLeast(1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seq2Seq(Checked):
    """Write a text from a source: predict each token from the source and the tokens before it.

    Attributes:
        label_smoothing: s in y = (1 - s) onehot + s / K.
        z_loss: the weight of (log Z)^2, which keeps log Z near 0.
        entropy_bonus: the reward for a nat of the predictions' entropy; it costs a second pass over
            the logits.
    """

    label_smoothing: Fraction
    z_loss: NotNegative = 0.0
    entropy_bonus: NotNegative = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Classification(Checked):
    """Name the class of a text: cross-entropy over the classes of the model's head.

    Attributes:
        label_smoothing: s in y = (1 - s) onehot + s / K; 0 with `multi_label`.
        multi_label: whether a text may have several classes or none: a yes or no for each.
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

    Attributes:
        label_smoothing: s in y = (1 - s) onehot + s / K.
        z_loss: the weight of (log Z)^2, which keeps log Z near 0.
        entropy_bonus: the reward for a nat of the predictions' entropy; it costs a second pass over
            the logits.
        packed: whether a row holds several examples, which do not see each other and have positions
            of their own. Otherwise a batch has rows of about the same length.
    """

    label_smoothing: Fraction
    z_loss: NotNegative = 0.0
    entropy_bonus: NotNegative = 0.0
    packed: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Distillation(Checked):
    """Predict what a teacher predicts: its whole distribution, at a temperature.

    loss = (1 - hard_weight) T^2 D(teacher, student) + hard_weight CE(next token, student)

    Attributes:
        teacher: the teacher's run; it must have the same tokenizer.
        divergence: D: KL(teacher || student), which covers all modes of the teacher; KL(student ||
            teacher), which seeks its strongest modes; or a mixture of both.
        temperature: T, the divisor of both logits.
        hard_weight: the weight of the text itself.
    """

    teacher: str
    divergence: Literal["forward", "reverse", "jensen_shannon"]
    temperature: Positive
    hard_weight: Share


@dataclass(frozen=True, slots=True, kw_only=True)
class DPO(Checked):
    """Make the chosen of two answers likelier than the rejected one, relative to a reference.

    The reference is the model at the start of the run. With z = beta [log(pi / ref) of the chosen -
    log(pi / ref) of the rejected]:

    Attributes:
        beta: the weight of the distance from the reference.
        loss: -log sigmoid(z), or max(0, 1 - z).
        label_smoothing: the share of pairs assumed to be the wrong way round; 0 with "hinge".
    """

    beta: Positive
    loss: Literal["sigmoid", "hinge"]
    label_smoothing: Annotated[float, Interval(ge=0, lt=0.5)]

    def _check(self) -> None:
        if self.loss == "hinge" and self.label_smoothing:
            raise ConfigError("label_smoothing must be 0 with the hinge loss, which has no labels")


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyGradient(Checked):
    """Sample answers, reward them, and make the better ones likelier, near a reference model.

    Attributes:
        estimator: "rloo": an answer's reward minus the mean of the other answers to its prompt.
            "grpo": minus the mean of all, divided by their standard deviation, which changes the
            optimum.
        beta: the weight of KL(model || reference), in nats per answer.
        kl: how KL enters. "in_reward": subtracted from the reward. With r = reference / model,
            "k2": (log r)^2 / 2 of the whole answer as a loss; "k3": r - 1 - log r of each token as
            a loss, which changes the optimum.
        n_samples: answers to each prompt.
        max_new_tokens: the most tokens of an answer.
        temperature: the sampling temperature; the run trains and compares the model at this
            temperature.
        entropy_bonus: the reward for a nat of an answer's entropy.
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
    """l1 sum |w| + l2 sum w^2, without a factor 1/2, for the weights that `parameters` names.

    `l1` alone is the lasso, `l2` alone ridge regression. Each update ends with the proximal step,
    so l1 makes weights exactly 0.

    Attributes:
        l1: the constant pull towards 0, which makes weights exactly 0.
        l2: the pull in proportion to the weight.
        parameters: names of weights, or patterns such as `*.feed_forward.*`, at least one. pellucid
            refuses one without a match, and lists the names.
    """

    l1: NotNegative
    l2: NotNegative
    parameters: tuple[str, ...]

    def _check(self) -> None:
        if not self.parameters:
            raise ConfigError('parameters must name at least one pattern, such as "head.weight"')
