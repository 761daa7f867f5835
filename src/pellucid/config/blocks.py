"""The parts of a block: its feed-forward layer, and its residual path with the place of the norm.

One frozen class per kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pellucid.config.checks import Checked, Count, NotNegative, Positive, check_turns
from pellucid.errors import ConfigError

#: The function between the two matrices of a feed-forward layer.
Activation = Literal[
    "relu", "relu_squared", "gelu", "gelu_tanh", "quick_gelu", "silu", "sigmoid", "tanh"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class MLP(Checked):
    """down(activation(up(x))): `d_ff` units, each written back to the stream.

    Source: Vaswani et al. 2017, equation 2.

    Attributes:
        d_ff: the inner width.
        activation: the nonlinear function.
        bias: whether the matrices have biases.
    """

    d_ff: Count
    activation: Activation
    bias: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GatedMLP(Checked):
    """down(activation(gate(x)) * up(x)); with SiLU this is SwiGLU.

    Source: Shazeer 2020, equation 6.

    Attributes:
        d_ff: the inner width.
        activation: the nonlinear function.
        bias: whether the matrices have biases.
    """

    d_ff: Count
    activation: Activation
    bias: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ClampedGatedMLP(Checked):
    """down((up(x) + 1) g sigmoid(slope g)), g = gate(x), as in gpt-oss.

    Attributes:
        d_ff: the inner width.
        bias: whether the matrices have biases.
        limit: before the product, g is at most `limit`, and up(x) between -`limit` and `limit`.
        slope: the factor of g in the sigmoid.
    """

    d_ff: Count
    bias: bool
    limit: Positive
    slope: Positive


#: A feed-forward layer that all tokens use.
DenseFeedForward = MLP | GatedMLP | ClampedGatedMLP


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertGroups(Checked):
    """The experts are in `n_groups` equal groups, and a token uses the best `n_active` groups only.

    Attributes:
        n_groups: into how many equal groups the experts are cut.
        n_active: how many groups a token can use: the best ones.
        score: how good a group is: its largest score, as in DeepSeek-V2, or the sum of its two
            largest, as in DeepSeek-V3.
    """

    n_groups: Count
    n_active: Count
    score: Literal["largest", "two_largest"]

    def _check(self) -> None:
        if self.n_active > self.n_groups:
            raise ConfigError(
                f"groups.n_active must be at most n_groups, was {self.n_active} of {self.n_groups}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Router(Checked):
    """A linear layer that gives each token a logit for each expert, and the rule that weighs them.

    Attributes:
        scores: a softmax over all logits, or a sigmoid of each. The experts with the largest scores
            are chosen, and the scores are their weights.
        normalised: whether the weights of the chosen experts are divided by their sum. After a
            softmax this is the same as a softmax over the chosen experts alone.
        bias: whether the linear layer has biases.
        scale: the weights are multiplied by it.
        groups: groups of experts.
        balancing_rate: with it, each expert has a bias that is added to its score for the choice
            alone, as in DeepSeek-V3. After each update it moves by this rate, up if the expert got
            too few tokens and down if too many. With 0 it stays as it is.
    """

    scores: Literal["softmax", "sigmoid"]
    normalised: bool
    bias: bool = False
    scale: Positive = 1.0
    groups: ExpertGroups | None = None
    balancing_rate: NotNegative | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Experts(Checked):
    """A mixture of experts: each token uses the `n_active` of `n_experts` that its router chooses.

    No token is dropped, and each expert computes only the tokens that chose it. So a token costs as
    much as its own experts.

    Source: Shazeer et al. 2017; Fedus, Zoph and Shazeer 2022 (`load_loss`); Dai et al. 2024
    (`shared`).

    Attributes:
        n_experts: how many experts there are.
        n_active: how many of them a token uses.
        expert: each expert.
        router: how experts are chosen and weighed.
        shared: a layer that every token uses too.
        shared_gate: whether a sigmoid of the token scales the shared layer.
        weights_on: whether a weight multiplies an expert's output, or its input as in Llama 4.
        load_loss: the weight of the load-balancing loss; Switch Transformers have 0.01.
        router_z_loss: the weight of (log Z)^2 of the router's logits; ST-MoE has 0.001.
    """

    n_experts: Count
    n_active: Count
    expert: DenseFeedForward
    router: Router
    shared: DenseFeedForward | None = None
    shared_gate: bool = False
    weights_on: Literal["output", "input"] = "output"
    load_loss: NotNegative = 0.0
    router_z_loss: NotNegative = 0.0

    def _check(self) -> None:
        if self.n_active > self.n_experts:
            raise ConfigError(
                f"n_active must be at most n_experts, was {self.n_active} of {self.n_experts}"
            )
        if self.shared_gate and self.shared is None:
            raise ConfigError("shared_gate scales the shared layer: set shared, or leave it out")
        if self.router.groups is not None:
            self._check_groups(self.router.groups)

    def _check_groups(self, groups: ExpertGroups) -> None:
        if self.n_experts % groups.n_groups:
            raise ConfigError(
                f"n_experts must be a multiple of router.groups.n_groups, was {self.n_experts} and "
                f"{groups.n_groups}"
            )
        group_size = self.n_experts // groups.n_groups
        if self.n_active > groups.n_active * group_size:
            raise ConfigError(
                f"n_active is {self.n_active}, but the {groups.n_active} active groups have "
                f"{groups.n_active * group_size} experts: set router.groups.n_active higher"
            )
        if groups.score == "two_largest" and group_size < 2:
            raise ConfigError(
                'router.groups.score must be "largest" if a group has one expert: it has no second'
            )


#: A feed-forward layer that is alike in all blocks.
OneFeedForward = DenseFeedForward | Experts


@dataclass(frozen=True, slots=True, kw_only=True)
class AlternatingFeedForward(Checked):
    """The layers have these kinds of feed-forward in turn: for example wide layers, then narrow.

    Attributes:
        layers: the kinds that take turns.
        first: the kinds of the first layers, one each; the turns begin after them.
    """

    layers: tuple[OneFeedForward, ...]
    first: tuple[OneFeedForward, ...] = ()

    def _check(self) -> None:
        check_turns(self, self.layers, self.first)


#: The feed-forward layers of a stack.
FeedForward = OneFeedForward | AlternatingFeedForward


@dataclass(frozen=True, slots=True, kw_only=True)
class PreNorm(Checked):
    """x + multiplier f(norm(x)): the residual stream itself is never normalised.

    Attributes:
        multiplier: the factor of a layer's output: Granite's residual_multiplier, MiniCPM's
            scale_depth / sqrt(n_layers); absent, 1.
    """

    multiplier: Positive | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PostNorm:
    """norm(x + f(x)), as in the original Transformer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputNorm:
    """x + norm(f(x)), as in OLMo 2: the norm follows the layer instead of preceding it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandwichNorm:
    """x + norm'(f(norm(x))), as in Gemma 2: one norm before the layer and one after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeepNorm(Checked):
    """norm(alpha x + f(x)); values, outputs and feed-forward start `beta` times as large.

    Attributes:
        alpha: the factor of the residual path.
        beta: the factor of those weights at the start.
    """

    alpha: Positive
    beta: Positive


@dataclass(frozen=True, slots=True, kw_only=True)
class Parallel:
    """x + attention(norm(x)) + feed_forward(norm'(x)), as in GPT-NeoX: both read the same x.

    A decoder with `cross_attention` cannot have it.

    Attributes:
        shared_norm: whether both layers read one norm, as in GPT-J, Phi, Falcon and Cohere.
    """

    shared_norm: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NoResidual:
    """f(norm(x)): no residual path. Use it to see why models have one."""


#: How a block adds to its input.
Residual = PreNorm | PostNorm | OutputNorm | SandwichNorm | DeepNorm | Parallel | NoResidual
