"""What a layer states about itself: norms, attention, feed-forward, linear layers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ActivationName = Literal[
    "relu", "relu_squared", "gelu", "gelu_tanh", "quick_gelu", "silu", "sigmoid", "tanh"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownFacts:
    """Nothing is known about this part, so observers must not describe it; `part` is its class."""

    part: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentityFacts:
    """The part returns its input."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NormFacts:
    """(x - mean) / sqrt(variance + eps) * (gain_offset + gain) + bias.

    Mean and variance are over one token's features in `n_groups` groups, over each feature of all
    tokens of a "sequence", or over each feature of all tokens of the "batch". If not `centred`, the
    mean is left out and the variance is the mean square.
    """

    mean_over: Literal["features", "sequence", "batch"]
    centred: bool
    eps: float
    gain: str | None
    bias: str | None = None
    #: 1 if the stored weight is the gain minus 1
    gain_offset: float = 0.0
    n_groups: int = 1
    #: how many features; None if only the input tells
    width: int | None = None
    #: buffers with the statistics of training, which the norm uses in evaluation mode
    running_mean: str | None = None
    running_variance: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SandwichFacts:
    """Two norms: of a layer's input and of its output."""

    before: str = "before"
    after: str = "after"


@dataclass(frozen=True, slots=True, kw_only=True)
class SoftmaxAttentionFacts:
    """softmax(cap(scale q k^T) + position bias + mask) v, then the output projection.

    Keys and values come from the "same_text" or from the "encoder". Positions act on the same text
    only. The stack's facts tell whether the mask is causal.
    """

    keys_from: Literal["same_text", "encoder"]
    n_heads: int
    n_kv_heads: int
    d_head: int
    d_value: int
    scale: float
    soft_cap: float | None
    #: a trained logit per head that takes a share of the softmax
    sinks: str | None
    dropout: float
    #: how many keys a query sees at most, including its own
    window: int | None = None
    #: norms of queries and keys, before or after rotary positions
    query_norm: str | None = None
    key_norm: str | None = None
    norms_over_all_heads: bool = False
    norms_after_rotation: bool = False
    #: the bound of queries, keys and values, after the norms and before rotary positions
    clip: float | None = None
    #: sigmoid of this projection multiplies the heads' outputs, feature by feature or head by head
    output_gate: str | None = None
    gate_over: Literal["features", "heads"] = "features"
    #: projections, in modules of these names
    query: str = "query"
    key: str = "key"
    value: str = "value"
    output: str = "output"
    #: projections of the vectors of distances, if content has its own
    position_query: str | None = None
    position_key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentAttentionFacts:
    """Softmax attention whose keys and values are products of a latent vector of each token.

    The last `d_rotated` of the `d_head` features of queries and keys have positions, and in keys
    they are the same for all heads. The first come from `key`, which reads `latent_norm`'s output;
    so does `value`. `query` reads `query_latent_norm`'s output, or the input without it.
    """

    n_heads: int
    d_head: int
    d_rotated: int
    d_value: int
    d_latent: int
    scale: float
    dropout: float
    query_latent: str | None = None
    query_latent_norm: str | None = None
    latent: str = "latent"
    latent_norm: str = "latent_norm"
    rotated_key: str = "rotated_key"
    query: str = "query"
    key: str = "key"
    value: str = "value"
    output: str = "output"


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearAttentionFacts:
    """phi(q) . phi(k) with phi = elu + 1, over the sum of them + eps; no softmax, no score bias."""

    n_heads: int
    d_head: int
    d_value: int
    chunk: int
    eps: float
    query: str = "query"
    key: str = "key"
    value: str = "value"
    output: str = "output"


@dataclass(frozen=True, slots=True, kw_only=True)
class NeuralMemoryFacts:
    """Softmax attention over a window, mixed by a gate with a memory that learns while it reads.

    It reads from left to right only. If `frozen`, every token reads the memory's first state.
    """

    n_heads: int
    d_head: int
    scale: float
    window: int
    chunk: int
    frozen: bool
    #: the memory's first state, the norm of its output, and the gate's logits
    memory: str = "memory"
    memory_norm: str = "memory_norm"
    mixing: str = "mixing"
    query: str = "query"
    key: str = "key"
    value: str = "value"
    output: str = "output"


@dataclass(frozen=True, slots=True, kw_only=True)
class GateFacts:
    """The logits of a share per head that depends on the token."""

    n_heads: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedForwardFacts:
    """down(activation(up(x))), or down(activation(gate(x)) * up(x)) with a `gate`.

    `activation` is None if it is a function of the user's own.
    """

    d_ff: int
    activation: ActivationName | None
    gate: str | None = None
    up: str = "up"
    down: str = "down"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClampedFeedForwardFacts:
    """down((u + 1) g sigmoid(slope g)); g = min(gate(x), limit), u = up(x) within +-limit."""

    d_ff: int
    limit: float
    slope: float
    gate: str = "gate"
    up: str = "up"
    down: str = "down"


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterFacts:
    """The `n_active` largest `scores` of the logits are weights, times `scale`.

    If `normalised`, they are divided by their sum first. If `grouped`, a token uses the experts of
    its best groups only.
    """

    scores: Literal["softmax", "sigmoid"]
    n_active: int
    normalised: bool
    scale: float
    grouped: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertsFacts:
    """sum of w_i expert_i(x) over the experts of a token, plus the shared layer.

    The experts are the numbered modules within `experts`; `rule` makes their weights.
    """

    n_experts: int
    rule: RouterFacts
    #: whether a weight scales an expert's output or its input
    weights_on: Literal["output", "input"]
    #: a buffer that is added to the scores for the choice alone
    choice_bias: str | None
    shared: str | None
    #: the logit of the shared layer's share
    shared_gate: str | None
    router: str = "router"
    experts: str = "experts"


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearFacts:
    """W x + b; W is `computed` if it depends on other parameters, as with weight norm."""

    n_inputs: int
    n_outputs: int
    weight: str = "weight"
    bias: str | None
    computed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LoRAFacts:
    """W x + b + scale up down x; if not `active` the update is left out, if `merged` W holds it."""

    n_inputs: int
    n_outputs: int
    rank: int
    scale: float
    dropout: float
    active: bool
    merged: bool
    weight: str = "weight"
    bias: str | None
    down: str = "lora_down"
    up: str = "lora_up"


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingFacts:
    """A table of trained vectors."""

    n_rows: int
    width: int
    table: str = "weight"


@dataclass(frozen=True, slots=True, kw_only=True)
class DropoutFacts:
    """In training each number becomes zero with this probability."""

    probability: float


NormPart = NormFacts | SandwichFacts | IdentityFacts | UnknownFacts
AttentionPart = (
    SoftmaxAttentionFacts
    | LatentAttentionFacts
    | LinearAttentionFacts
    | NeuralMemoryFacts
    | UnknownFacts
)
DenseFeedForwardPart = FeedForwardFacts | ClampedFeedForwardFacts
FeedForwardPart = DenseFeedForwardPart | ExpertsFacts | UnknownFacts
LinearPart = LinearFacts | LoRAFacts | UnknownFacts
