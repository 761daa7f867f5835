"""Every part states facts, and the facts are what the part computes."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pellucid import config
from pellucid.maths import latent_attention
from pellucid.model import (
    BatchNorm,
    GroupNorm,
    InstanceNorm,
    LayerNorm,
    MultiHeadAttention,
    RMSNorm,
    Transformer,
    View,
    assemble_trained,
    look,
)
from pellucid.model.cache import KeysAndValues, NoCache
from pellucid.model.facts import (
    AddedPositionFacts,
    ClampedFeedForwardFacts,
    DisentangledFacts,
    DistanceBiasFacts,
    DistanceVectorFacts,
    ExpertsFacts,
    FeedForwardFacts,
    IdentityFacts,
    LatentAttentionFacts,
    LinearAttentionFacts,
    LinearFacts,
    LoRAFacts,
    NoPositionFacts,
    NormFacts,
    ResidualFacts,
    RotaryFacts,
    SoftmaxAttentionFacts,
    UnknownFacts,
    attention_facts,
    block_facts,
    facts_of,
    feed_forward_facts,
    linear_facts,
    norm_facts,
    position_facts,
)
from pellucid.model.scores import Scoring, gather
from pellucid.typed import named_modules
from support.models import BASE, VARIANTS, build, random_ids, with_stack

EXACT = {"rtol": 1e-9, "atol": 1e-9}
NORMS = {
    "layer": lambda: LayerNorm(8, eps=0.1, bias=True),
    "layer without bias": lambda: LayerNorm(8, eps=0.1, bias=False),
    "layer with an offset": lambda: LayerNorm(8, eps=0.1, bias=True, unit_offset=True),
    "layer without gain": lambda: LayerNorm(8, eps=0.1, bias=False, gain=False),
    "rms": lambda: RMSNorm(8, eps=0.1),
    "rms without gain": lambda: RMSNorm(8, eps=0.1, gain=False),
    "rms in groups": lambda: RMSNorm(8, eps=0.1, n_groups=4),
    "group without bias": lambda: GroupNorm(8, eps=0.1, n_groups=2, bias=False),
    "rms with an offset": lambda: RMSNorm(8, eps=0.1, unit_offset=True),
    "batch": lambda: BatchNorm(8, eps=0.1, momentum=0.1),
    "group": lambda: GroupNorm(8, eps=0.1, n_groups=2),
    "instance": lambda: InstanceNorm(8, eps=0.1),
}
#: Containers and torch's own machinery: they compute nothing that an observer could ask about.
CONTAINERS = (nn.ModuleList, nn.ModuleDict, Transformer)
MACHINERY = "torch.nn.utils"


def models() -> dict[str, Transformer]:
    extra_variants = {
        "batch norm": with_stack(norm=config.BatchNorm(eps=1e-5, momentum=0.1)),
        "instance norm": with_stack(norm=config.InstanceNorm(eps=1e-5)),
    }
    built = {name: build(model) for name, model in (VARIANTS | extra_variants).items()}
    built["lora"] = build(BASE)
    lora = config.LoRA(rank=2, alpha=4.0, dropout=0.0, targets=("query", "up"))
    assemble_trained(built["lora"], lora, seed=1)
    built["lora"].double()
    return built


MODELS = models()


@pytest.fixture(params=list(MODELS))
def model(request: pytest.FixtureRequest) -> Transformer:
    return MODELS[request.param]


def test_every_part_states_facts(model: Transformer) -> None:
    silent = {
        name: facts.reason
        for name, module in named_modules(model).items()
        if not isinstance(module, CONTAINERS) and not type(module).__module__.startswith(MACHINERY)
        if isinstance(facts := facts_of(module), UnknownFacts)
    }
    assert silent == {}


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("kind", NORMS)
def test_a_norm_computes_what_it_states(kind: str, training: bool) -> None:
    norm = NORMS[kind]().double().train(training)
    draws = torch.Generator().manual_seed(0)
    for tensor in (*norm.parameters(), *norm.buffers()):
        tensor.data.uniform_(0.5, 2.0, generator=draws)
    x = torch.randn(3, 5, 8, dtype=torch.float64, generator=draws) * 2 + 1
    facts = norm_facts(norm)
    assert isinstance(facts, NormFacts)
    expected = by_facts(norm, facts, x)
    torch.testing.assert_close(norm(x), expected, **EXACT)


def by_facts(norm: nn.Module, facts: NormFacts, x: Tensor) -> Tensor:
    axes = {"features": -1, "sequence": -2, "batch": (0, 1)}[facts.mean_over]
    grouped = x.unflatten(-1, (facts.n_groups, -1)) if facts.mean_over == "features" else x
    mean = grouped.mean(axes, keepdim=True) if facts.centred else torch.zeros_like(grouped)
    variance = (grouped - mean).square().mean(axes, keepdim=True)
    if facts.running_mean is not None and facts.running_variance is not None and not norm.training:
        mean, variance = (
            norm.get_buffer(facts.running_mean),
            norm.get_buffer(facts.running_variance),
        )
    scaled = ((grouped - mean) / (variance + facts.eps).sqrt()).reshape(x.shape)
    if facts.gain is not None:
        scaled = scaled * (facts.gain_offset + norm.get_parameter(facts.gain))
    return scaled if facts.bias is None else scaled + norm.get_parameter(facts.bias)


@pytest.mark.parametrize("kind", NORMS)
def test_a_norm_mixes_tokens_only_if_it_says_so(kind: str) -> None:
    norm = NORMS[kind]().double()
    x = torch.randn(3, 5, 8, dtype=torch.float64)
    other_token, other_row = x.clone(), x.clone()
    other_token[0, 3] += 1 + torch.arange(8)
    other_row[2] += 1 + torch.arange(8)
    facts = norm_facts(norm)
    assert isinstance(facts, NormFacts)
    first = norm(x)[0, 0]
    assert torch.equal(norm(other_token)[0, 0], first) == (facts.mean_over == "features")
    assert torch.equal(norm(other_row)[0, 0], first) == (facts.mean_over != "batch")


def test_attention_computes_what_it_states(model: Transformer) -> None:
    stack = model.stack
    time = 11
    x = torch.randn(2, time, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    view = look(time, x.device, causal=True)
    for place, block in enumerate(stack.blocks):
        layer, positions = block.attention, stack.positions.for_layer(place)
        facts = attention_facts(layer)
        outputs = layer(x, positions, view, NoCache())
        changed_input = x.clone()
        changed_input[:, 0] += 1
        is_changed = (layer(changed_input, positions, view, NoCache()) - outputs).abs().amax(
            (0, 2)
        ) > 1e-12
        if isinstance(facts, SoftmaxAttentionFacts):
            expected = softmax_by_facts(layer, facts, x, positions, view)
            torch.testing.assert_close(outputs, expected, **EXACT)
            assert is_changed.nonzero().max() < (facts.window or time)
        elif isinstance(facts, LatentAttentionFacts):
            expected = latent_by_facts(layer, facts, x, stack.positions, view)
            torch.testing.assert_close(outputs, expected, **EXACT)
        else:
            assert isinstance(layer.n_heads, int)
            assert facts.n_heads == layer.n_heads
            assert bool(is_changed[-1])
        if isinstance(facts, LinearAttentionFacts):
            assert (facts.d_head, facts.d_value) == (4, 4)


def softmax_by_facts(
    layer: nn.Module, facts: SoftmaxAttentionFacts, x: Tensor, positions: nn.Module, view: View
) -> Tensor:
    def heads(name: str, norm_name: str | None, count: int) -> Tensor:
        bound = facts.clip or torch.inf
        norm = nn.Identity() if norm_name is None else layer.get_submodule(norm_name)

        def normed(x: Tensor) -> Tensor:
            if facts.norms_over_all_heads:
                return norm(x.transpose(1, 2).flatten(2)).unflatten(-1, (count, -1)).transpose(1, 2)
            return norm(x)

        projected = layer.get_submodule(name)(x).unflatten(-1, (count, -1)).transpose(1, 2)
        if facts.norms_after_rotation:
            return normed(positions.rotate(projected.clamp(-bound, bound), view))
        return positions.rotate(normed(projected).clamp(-bound, bound), view)

    q = heads(facts.query, facts.query_norm, facts.n_heads)
    k = heads(facts.key, facts.key_norm, facts.n_kv_heads)
    v = layer.get_submodule(facts.value)(x).unflatten(-1, (facts.n_kv_heads, -1)).transpose(1, 2)
    v = v if facts.clip is None else v.clamp(-facts.clip, facts.clip)
    assert (q.shape[-1], v.shape[-1]) == (facts.d_head, facts.d_value)
    k, v = (t.repeat_interleave(facts.n_heads // facts.n_kv_heads, dim=1) for t in (k, v))
    scores = facts.scale * q @ k.mT
    if facts.soft_cap is not None:
        scores = facts.soft_cap * (scores / facts.soft_cap).tanh()
    bias = positions.in_layer(layer).bias(q, k, view, facts.scale)
    scores = scores if bias is None else scores + bias
    time = x.shape[1]
    key_distances = torch.arange(time)[:, None] - torch.arange(time)
    hidden = (key_distances < 0) | (key_distances >= (facts.window or time))
    scores = scores.masked_fill(hidden, -torch.inf)
    if facts.sinks is not None:
        sinks = layer.get_parameter(facts.sinks)[None, :, None, None].expand(*scores.shape[:3], 1)
        weights = torch.cat((scores, sinks), dim=-1).softmax(-1)[..., :-1]
    else:
        weights = scores.softmax(-1)
    mixed = positions.add_values(weights @ v, weights, view)
    if facts.output_gate is not None:
        gates = layer.get_submodule(facts.output_gate)(x).sigmoid()
        per_head = gates.unflatten(-1, (facts.n_heads, -1)).transpose(1, 2)
        assert per_head.shape[-1] == (1 if facts.gate_over == "heads" else facts.d_value)
        mixed = mixed * per_head
    return layer.get_submodule(facts.output)(mixed.transpose(1, 2).flatten(2))


def latent_by_facts(
    layer: nn.Module, facts: LatentAttentionFacts, x: Tensor, positions: nn.Module, view: View
) -> Tensor:
    """From the equation: queries, latents and shared keys as the facts name them."""
    reads, plain = x, facts.d_head - facts.d_rotated
    if facts.query_latent is not None and facts.query_latent_norm is not None:
        reads = layer.get_submodule(facts.query_latent_norm)(
            layer.get_submodule(facts.query_latent)(x)
        )
    q = layer.get_submodule(facts.query)(reads).unflatten(-1, (facts.n_heads, -1)).transpose(1, 2)
    q = torch.cat((q[..., :plain], positions.rotate(q[..., plain:], view)), dim=-1)
    latents = layer.get_submodule(facts.latent_norm)(layer.get_submodule(facts.latent)(x))
    shared = positions.rotate(layer.get_submodule(facts.rotated_key)(x)[:, None], view)[:, 0]
    key, value = (
        layer.get_submodule(name).weight.unflatten(0, (facts.n_heads, -1))
        for name in (facts.key, facts.value)
    )
    assert latents.shape[-1] == facts.d_latent
    k = torch.cat(
        (latents[:, None] @ key.mT, shared[:, None].expand(-1, facts.n_heads, -1, -1)), -1
    )
    if positions.bias(q, k, view, facts.scale) is None:
        q = q * facts.scale * facts.d_head**0.5
        order = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
        mixed = latent_attention(q, latents, shared, key, value, mask=order)
    else:
        values = KeysAndValues(k, latents[:, None] @ value.mT)
        mixed = gather(q, values, Scoring(facts.scale), positions, view)
    return layer.get_submodule(facts.output)(mixed.transpose(1, 2).flatten(2))


def _input_width(model: Transformer) -> int:
    """The features of a state that positions are added to."""
    stack = model.stack
    mapped = stack.input_projection is not None and stack.projection_place != "first"
    return model.token_embedding.embedding_dim if mapped else model.d_model


def test_positions_act_where_they_state(model: Transformer) -> None:
    last = len(model.stack.blocks) - 1
    attention, time = model.stack.blocks[last].attention, 7
    scheme = model.stack.positions.for_layer(last)
    if isinstance(attention, MultiHeadAttention):
        scheme = scheme.in_layer(attention)
    draws = torch.Generator().manual_seed(3)
    view = look(time, torch.device("cpu"), causal=True)
    x = torch.randn(2, time, _input_width(model), dtype=torch.float64, generator=draws)
    d_head = attention.query.out_features // attention.n_heads
    d_value = attention.output.in_features // attention.n_heads
    q, r = torch.randn(2, 2, 4, time, d_head, dtype=torch.float64, generator=draws)
    weights = torch.rand(2, 4, time, time, dtype=torch.float64, generator=draws)
    facts = position_facts(scheme)
    assert not isinstance(facts, UnknownFacts)
    added = isinstance(facts, AddedPositionFacts)
    assert torch.equal(scheme.embed(x, view), x) != added
    assert torch.equal(scheme.rotate(q, view), q) != isinstance(facts, RotaryFacts)
    bias = scheme.bias(q, r, view, 0.5)
    biased = isinstance(facts, DistanceBiasFacts | DistanceVectorFacts | DisentangledFacts)
    assert (bias is not None) == biased
    mixes = isinstance(facts, DistanceVectorFacts) and facts.values is not None
    mixed = torch.zeros(2, 4, time, d_value, dtype=torch.float64)
    assert torch.equal(scheme.add_values(mixed, weights, view), mixed) != mixes
    if isinstance(facts, AddedPositionFacts):
        table = dict(scheme.named_parameters()) | dict(scheme.named_buffers())
        rows = table[facts.table][facts.first_row :][:time]
        assert torch.equal(scheme.embed(x, view), x + rows)
        assert table[facts.table].requires_grad == facts.learned
    if isinstance(facts, RotaryFacts):
        rotated = scheme.rotate(q, view)
        assert torch.equal(rotated[..., facts.n_rotated :], q[..., facts.n_rotated :])
        pair = (0, facts.n_rotated // 2 if facts.pairing == "half_split" else 1)
        lengths = [t[..., list(pair)].norm(dim=-1) for t in (q, rotated)]
        torch.testing.assert_close(*lengths, rtol=1e-6, atol=1e-6)
    if isinstance(facts, DistanceBiasFacts):
        bias_of_scaled = scheme.bias(r, q, view, 2.0)
        torch.testing.assert_close(bias_of_scaled, (4.0 if facts.scaled else 1.0) * bias, **EXACT)
        key_distances = torch.arange(time)[:, None] - torch.arange(time)
        by_distance = all(
            bias[..., key_distances == n].flatten(0, -2).std(-1).max() < 1e-9
            for n in range(1, time - 1)
        )
        assert by_distance == (facts.by == "distance")
    if isinstance(facts, NoPositionFacts):
        assert list(scheme.parameters()) == []


def test_a_feed_forward_layer_computes_what_it_states(model: Transformer) -> None:
    activations = {
        "gelu": F.gelu,
        "silu": F.silu,
        "tanh": torch.tanh,
        "relu_squared": lambda x: F.relu(x).square(),
        "quick_gelu": lambda x: x * torch.sigmoid(1.702 * x),
        "sigmoid": torch.sigmoid,
    }
    layer = model.stack.blocks[0].feed_forward
    x = torch.randn(2, 3, 16, dtype=torch.float64)
    facts = feed_forward_facts(layer)
    if isinstance(facts, ExpertsFacts):
        experts = layer.get_submodule(facts.experts)
        assert len(list(experts.children())) == facts.n_experts
        routing = layer.route(x.view(-1, 16))
        assert routing.experts.shape == (6, facts.rule.n_active)
        sums = routing.weights.sum(-1)
        assert torch.allclose(sums, sums[0]) == (facts.rule.normalised or facts.n_experts == 1)
        return
    if isinstance(facts, ClampedFeedForwardFacts):
        gate = layer.get_submodule(facts.gate)(x).clamp(max=facts.limit)
        up = layer.get_submodule(facts.up)(x).clamp(-facts.limit, facts.limit)
        inner = (up + 1) * gate * torch.sigmoid(facts.slope * gate)
        torch.testing.assert_close(layer(x), layer.get_submodule(facts.down)(inner), **EXACT)
        return
    assert isinstance(facts, FeedForwardFacts)
    assert facts.activation is not None
    up = layer.get_submodule(facts.up)(x)
    assert up.shape[-1] == facts.d_ff
    activation = activations[facts.activation]
    if facts.gate is None:
        inner = activation(up)
    else:
        inner = activation(layer.get_submodule(facts.gate)(x)) * up
    torch.testing.assert_close(layer(x), layer.get_submodule(facts.down)(inner), **EXACT)


def test_a_block_joins_its_layers_as_it_states(model: Transformer) -> None:
    block, positions = model.stack.blocks[0], model.stack.positions.for_layer(0)
    facts = block_facts(block)
    assert not isinstance(facts, UnknownFacts)
    x = torch.randn(2, 5, 16, dtype=torch.float64)
    view = look(5, x.device, causal=True)

    def attend(x: Tensor) -> Tensor:
        return block.attention(x, positions, view, NoCache())

    if facts.order == "parallel":
        second = block.attention_norm if facts.shared_norm else block.feed_forward_norm
        state = block.attention_norm(x), second(x)
        expected = x + attend(state[0]) + block.feed_forward(state[1])
    else:
        expected = x
        layers = ((block.attention_norm, attend), (block.feed_forward_norm, block.feed_forward))
        for norm, layer in layers:
            expected = joined(facts.residual, expected, norm, layer)
    torch.testing.assert_close(block(x, positions, view, NoCache()), expected, **EXACT)


def joined(facts: object, x: Tensor, norm: nn.Module, layer: object) -> Tensor:
    assert isinstance(facts, ResidualFacts)
    assert callable(layer)
    match facts.norm:
        case "input":
            return facts.carried * x + facts.multiplier * layer(norm(x))
        case "output":
            return facts.carried * x + norm(layer(x))
        case "sum":
            return norm(facts.carried * x + layer(x))
        case "sandwich":
            after, before = norm.get_submodule("after"), norm.get_submodule("before")
            return facts.carried * x + after(layer(before(x)))


def test_linear_layers_compute_what_they_state(model: Transformer) -> None:
    for layer in named_modules(model).values():
        facts = linear_facts(layer)
        if isinstance(facts, UnknownFacts):
            continue
        x = torch.randn(3, facts.n_inputs, dtype=torch.float64)
        bias = 0 if facts.bias is None else layer.get_parameter(facts.bias)
        expected = x @ getattr(layer, facts.weight).T + bias
        if isinstance(facts, LoRAFacts):
            down, up = layer.get_parameter(facts.down), layer.get_parameter(facts.up)
            expected = expected + facts.scale * x @ down.T @ up.T
        else:
            assert isinstance(facts, LinearFacts)
            assert facts.computed == (facts.weight not in dict(layer.named_parameters()))
        torch.testing.assert_close(layer(x), expected, **EXACT)


def test_an_adapter_states_whether_it_acts() -> None:
    model = build(BASE)
    assemble_trained(model, config.LoRA(rank=2, alpha=4.0, dropout=0.0, targets=("query",)), seed=1)
    layer = model.stack.blocks[0].attention.query
    facts = linear_facts(layer)
    assert isinstance(facts, LoRAFacts)
    assert (facts.rank, facts.scale, facts.active, facts.merged) == (2, 2.0, True, False)
    layer.merge()
    layer.active = False
    facts = linear_facts(layer)
    assert isinstance(facts, LoRAFacts)
    assert (facts.active, facts.merged) == (False, True)


def test_a_subclass_that_replaces_a_method_states_nothing_until_it_does() -> None:
    class Doubled(LayerNorm):
        def forward(self, x: Tensor) -> Tensor:
            return 2 * super().forward(x)

    class Renamed(LayerNorm):
        pass

    class Stating(Doubled):
        def facts(self) -> NormFacts:
            return NormFacts(mean_over="features", centred=True, eps=self.eps, gain=None)

    facts = norm_facts(Doubled(4, eps=1e-5, bias=True))
    assert facts == UnknownFacts(
        part="Doubled", reason="it replaces forward of LayerNorm and states no facts"
    )
    assert isinstance(norm_facts(Renamed(4, eps=1e-5, bias=True)), NormFacts)
    assert norm_facts(Stating(4, eps=1e-5, bias=True)) == NormFacts(
        mean_over="features", centred=True, eps=1e-5, gain=None
    )


def test_a_part_in_the_wrong_place_is_unknown() -> None:
    assert norm_facts(nn.Identity()) == IdentityFacts()
    assert norm_facts(nn.LayerNorm(4)) == UnknownFacts(
        part="LayerNorm", reason="it states no facts"
    )
    assert attention_facts(LayerNorm(4, eps=1e-5, bias=True)) == UnknownFacts(
        part="LayerNorm", reason="it is not attention"
    )


def test_the_window_and_the_sinks_are_stated() -> None:
    ids = random_ids(1, 8)
    for name, field, value in (
        ("window", "window", 8),
        ("sinks", "sinks", "sinks"),
        ("soft cap", "soft_cap", 2.0),
    ):
        attention = MODELS[name].stack.blocks[0].attention
        assert isinstance(attention, MultiHeadAttention)
        assert getattr(attention.facts(), field) == value
        assert MODELS[name](ids).isfinite().all()
