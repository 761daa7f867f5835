"""What is minimised: one frozen class per objective, each with its own numbers.

Penalties go with any of them: see `ElasticNet`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pellucid.config.checks import at_least, fraction, positive
from pellucid.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class NextToken:
    """Predict each token from those before it: cross-entropy in nats per token.

    `label_smoothing` moves that share of the target to all tokens alike; `z_loss` is the weight of
    (log Z)^2, which keeps the logits' normaliser near 1; `entropy_bonus` rewards predictions that
    stay spread out, per nat of their entropy.
    """

    label_smoothing: float
    z_loss: float
    entropy_bonus: float = 0.0

    def __post_init__(self) -> None:
        _token_loss(self.label_smoothing, self.z_loss, self.entropy_bonus)


@dataclass(frozen=True, slots=True, kw_only=True)
class MLM:
    """Give back tokens that are hidden in a text that is seen both ways, as BERT was trained.

    Of all tokens the share `chosen` is predicted. Of those, the share `masked` is replaced by the
    mask token, the share `replaced` by a token drawn at random, and the rest stays as it is. With
    `whole_words` all tokens of a word are chosen together.
    """

    chosen: float
    masked: float
    replaced: float
    whole_words: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.chosen < 1:
            raise ConfigError(f"chosen must be between 0 and 1, was {self.chosen}")
        if min(self.masked, self.replaced) < 0 or self.masked + self.replaced > 1:
            raise ConfigError(
                "masked and replaced must be shares that add up to at most 1, were "
                f"{self.masked} and {self.replaced}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanCorruption:
    """Write the spans that were cut out of a text, as T5 was trained.

    The share `corrupted` of the tokens is cut out, in spans of `mean_span` tokens on average; each
    span leaves one sentinel token in the text that the encoder reads.
    """

    corrupted: float
    mean_span: float

    def __post_init__(self) -> None:
        if not 0 < self.corrupted < 1:
            raise ConfigError(f"corrupted must be between 0 and 1, was {self.corrupted}")
        if self.mean_span < 1:
            raise ConfigError(f"mean_span must be at least 1, was {self.mean_span}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Seq2Seq:
    """Write a text while looking at another: each token from the source and those before it."""

    label_smoothing: float
    z_loss: float = 0.0
    entropy_bonus: float = 0.0

    def __post_init__(self) -> None:
        _token_loss(self.label_smoothing, self.z_loss, self.entropy_bonus)


@dataclass(frozen=True, slots=True, kw_only=True)
class Classification:
    """Name the class of a text: cross-entropy over the classes of the model's head.

    With `multi_label` a text may be of several classes or of none: a yes or no for each.
    """

    label_smoothing: float
    multi_label: bool = False

    def __post_init__(self) -> None:
        fraction("label_smoothing", self.label_smoothing)
        if self.multi_label and self.label_smoothing:
            raise ConfigError(
                "label_smoothing must be 0 with multi_label, where no class takes from another; "
                f"was {self.label_smoothing}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class SFT:
    """Predict the tokens of answers from their prompts, which are seen and not predicted.

    With `packed` several examples lie in one row, none of them seen from another, and positions
    count from the beginning of each; otherwise rows of about the same length are put together.
    """

    label_smoothing: float
    z_loss: float = 0.0
    entropy_bonus: float = 0.0
    packed: bool = True

    def __post_init__(self) -> None:
        _token_loss(self.label_smoothing, self.z_loss, self.entropy_bonus)


@dataclass(frozen=True, slots=True, kw_only=True)
class Distillation:
    """Predict what a teacher predicts: its whole distribution, at a temperature.

    loss = (1 - hard_weight) T^2 D(teacher, student) + hard_weight CE(next token, student)

    `divergence`: "forward" is KL(teacher || student), which covers all that the teacher does;
    "reverse" KL(student || teacher), which keeps to what the teacher is sure of; "jensen_shannon"
    lies between. `teacher` is the run it comes from.
    """

    teacher: str
    divergence: Literal["forward", "reverse", "jensen_shannon"]
    temperature: float
    hard_weight: float

    def __post_init__(self) -> None:
        positive("temperature", self.temperature)
        if not 0 <= self.hard_weight <= 1:
            raise ConfigError(f"hard_weight must be between 0 and 1, was {self.hard_weight}")


@dataclass(frozen=True, slots=True, kw_only=True)
class DPO:
    """Make the chosen of two answers likelier than the rejected one, against a reference (DPO).

    `beta` is how dearly distance from the reference is paid for. `loss`: "sigmoid" is
    -log sigmoid(margin), with `label_smoothing` the share of pairs taken to be the wrong way round;
    "hinge" is max(0, 1 - margin).
    """

    beta: float
    loss: Literal["sigmoid", "hinge"]
    label_smoothing: float

    def __post_init__(self) -> None:
        positive("beta", self.beta)
        if not 0 <= self.label_smoothing < 0.5:
            raise ConfigError(
                f"label_smoothing must be at least 0 and less than 0.5, was {self.label_smoothing}"
            )
        if self.loss == "hinge" and self.label_smoothing:
            raise ConfigError("label_smoothing must be 0 with the hinge loss, which has no labels")


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyGradient:
    """Draw answers, reward them, and make the better ones likelier, on a leash to a reference.

    `estimator`: "rloo" compares each of the `n_samples` answers to a prompt with the mean of the
    others; "grpo" divides by the spread of the group too, which has another optimum. `beta` is the
    weight of KL(model || reference), in nats per answer; `kl`: "in_reward" takes it off the reward,
    "k2" and "k3" are losses (k3 has another optimum too). Answers have at most `max_new_tokens`
    tokens and are drawn at `temperature`.
    """

    estimator: Literal["rloo", "grpo"]
    beta: float
    kl: Literal["in_reward", "k2", "k3"]
    n_samples: int
    max_new_tokens: int
    temperature: float
    entropy_bonus: float = 0.0

    def __post_init__(self) -> None:
        at_least("beta", self.beta, 0)
        at_least("n_samples", self.n_samples, 2)
        at_least("max_new_tokens", self.max_new_tokens, 1)
        positive("temperature", self.temperature)
        at_least("entropy_bonus", self.entropy_bonus, 0)


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
class ElasticNet:
    """Add l1 |w| + l2 w^2 for the weights whose names match one of `parameters`.

    After each update the proximal step is taken, so that l1 gives weights that are exactly 0.
    `parameters` are names or patterns such as "head.weight" or "*.feed_forward.*". `l1` alone is
    the lasso, `l2` alone ridge regression.
    """

    l1: float
    l2: float
    parameters: tuple[str, ...]

    def __post_init__(self) -> None:
        at_least("l1", self.l1, 0)
        at_least("l2", self.l2, 0)
        if not self.parameters:
            raise ConfigError('parameters must name at least one pattern, such as "head.weight"')


def _token_loss(label_smoothing: float, z_loss: float, entropy_bonus: float) -> None:
    fraction("label_smoothing", label_smoothing)
    at_least("z_loss", z_loss, 0)
    at_least("entropy_bonus", entropy_bonus, 0)
