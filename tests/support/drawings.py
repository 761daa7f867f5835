"""Models to draw: one for each kind that a config can name, and any at all."""

from __future__ import annotations

from dataclasses import replace

from pellucid import config
from support.architectures import LATENT, SMALL, SMALL_HEADS, SMALL_STACK, with_stack

_LINEAR = config.LinearAttention(n_heads=2, d_head=4, qkv_bias=True, out_bias=False, chunk=2)
_MEMORY = config.NeuralMemory(n_heads=2, d_head=4, window=2, chunk=2)
_HEADS = replace(SMALL_HEADS, d_head=4)
_LAYER_NORM = config.LayerNorm(eps=1e-5, bias=True)


_CLASSES = config.ClassificationHead(
    classes=("no", "yes", "perhaps"), pooling="last", dropout=0.0, bias=True
)


_CLAMPED = config.ClampedGatedMLP(d_ff=8, bias=True, limit=7.0, slope=1.702)


def _experts(
    expert: config.DenseFeedForward, *, groups: config.ExpertGroups | None
) -> config.Experts:
    router = config.Router(
        scores="sigmoid", normalised=True, scale=2.5, groups=groups, balancing_rate=0.01
    )
    return config.Experts(
        n_experts=4, n_active=2, expert=expert, router=router, shared=expert, shared_gate=True
    )


def _rotary(scaling: config.RotaryScaling | None) -> config.Transformer:
    return with_stack(positions=config.Rotary(base=1e4, scaling=scaling), attention=_HEADS)


#: Every rule of where the norm belongs.
RULES: tuple[config.Residual, ...] = (
    config.PreNorm(),
    config.PostNorm(),
    config.OutputNorm(),
    config.SandwichNorm(),
    config.DeepNorm(alpha=2.0, beta=0.5),
    config.Parallel(),
    config.NoResidual(),
)
_STACKS: list[dict[str, object]] = [
    *(
        {"norm": norm}
        for norm in (
            _LAYER_NORM,
            config.RMSNorm(eps=1e-6),
            config.BatchNorm(eps=1e-5, momentum=0.1),
            config.GroupNorm(eps=1e-5, n_groups=2),
            config.InstanceNorm(eps=1e-5),
        )
    ),
    *({"residual": residual} for residual in RULES),
    *(
        {"positions": positions}
        for positions in (
            config.NoPositions(),
            config.Learned(),
            config.Sinusoidal(base=1e4),
            config.ShawRelative(max_distance=3, values=True),
            config.Disentangled(
                n_buckets=8,
                max_distance=9,
                content_to_position=True,
                position_to_content=True,
                own_projections=True,
                norm=config.RMSNorm(eps=1e-6),
            ),
            config.BucketedBias(n_buckets=6, max_distance=9),
            config.ALiBi(),
        )
    ),
    *(
        {"reparametrisation": kind}
        for kind in (
            config.WeightNorm(),
            config.SpectralNorm(power_iterations=1),
        )
    ),
    *(
        {"feed_forward": kind(d_ff=8, activation="silu", bias=True)}
        for kind in (
            config.MLP,
            config.GatedMLP,
        )
    ),
    {"feed_forward": _CLAMPED},
    {"feed_forward": _experts(_CLAMPED, groups=None)},
    {
        "feed_forward": config.AlternatingFeedForward(
            layers=(
                config.MLP(d_ff=8, activation="silu", bias=True),
                config.GatedMLP(d_ff=8, activation="silu", bias=True),
            )
        )
    },
    {
        "positions": config.AlternatingPositions(
            first=(config.ALiBi(),),
            layers=(
                config.BucketedBias(n_buckets=6, max_distance=9),
                config.BucketedBias(n_buckets=4, max_distance=9),
            ),
        ),
        "n_layers": 3,
    },
    {"shared_layers": config.SharedLayers(groups=1)},
    *(
        {"attention": attention, "positions": config.NoPositions()}
        for attention in (
            _HEADS,
            LATENT,
            _LINEAR,
            _MEMORY,
            config.Alternating(layers=(_HEADS, _MEMORY, _LINEAR)),
        )
    ),
]

_SCALINGS: tuple[config.RotaryScaling, ...] = (
    config.LinearScaling(factor=2.0),
    config.NTKScaling(factor=2.0),
    config.YaRN(
        factor=2.0,
        original_context_length=8,
        beta_fast=32.0,
        beta_slow=1.0,
        attention_factor=1.0,
    ),
    config.Llama3Scaling(
        factor=2.0,
        low_frequency_factor=1.0,
        high_frequency_factor=4.0,
        original_context_length=8,
    ),
    config.DynamicNTK(factor=2.0, original_context_length=8),
    config.LongRoPE(
        short=(1.0, 1.0), long=(2.0, 2.0), original_context_length=8, attention_factor=1.0
    ),
)


def _kinds(changes: dict[str, object]) -> str:
    return type(next(iter(changes.values()))).__name__


#: A model for each kind whose name its drawing has to bear.
MODELS: dict[str, config.Transformer] = {
    **{_kinds(changes): with_stack(**changes) for changes in _STACKS},
    **{type(scaling).__name__: _rotary(scaling) for scaling in _SCALINGS},
    "Rotary": _rotary(None),
    "Router": with_stack(feed_forward=_experts(_CLAMPED, groups=None)),
    "ExpertGroups": with_stack(
        feed_forward=_experts(
            config.MLP(d_ff=8, activation="silu", bias=True),
            groups=config.ExpertGroups(n_groups=2, n_active=1, score="two_largest"),
        )
    ),
    "EmbeddingProjection": replace(
        SMALL,
        embedding=config.Embedding(
            tied=False, scaled=False, projection=config.EmbeddingProjection(width=6, bias=True)
        ),
    ),
    "LanguageHead": SMALL,
    "NoHead": replace(SMALL, head=config.NoHead(), pooler=True),
    "ClassificationHead": replace(SMALL, head=_CLASSES, pooler=True),
    "HeadTransform": replace(
        SMALL,
        head=config.LanguageHead(
            transform=config.HeadTransform(activation="gelu", norm=_LAYER_NORM), soft_cap=3.0
        ),
    ),
}

#: An encoder and a decoder, with all that a model may have.
BOTH = replace(
    SMALL,
    embedding=config.Embedding(tied=True, scaled=True, segments=2),
    encoder=replace(
        SMALL_STACK,
        positions=config.BucketedBias(n_buckets=6, max_distance=9),
        input_norm=_LAYER_NORM,
    ),
    decoder=replace(
        SMALL_STACK,
        positions=config.BucketedBias(n_buckets=6, max_distance=9),
        cross_attention=SMALL_HEADS,
    ),
    pooler=True,
)

#: Numbers as long as any model's will be for a while.
LARGE = replace(
    BOTH,
    vocab_size=1_000_000,
    context_length=10_000_000,
    d_model=131_072,
    decoder=replace(
        SMALL_STACK,
        n_layers=1_000,
        attention=config.Alternating(
            layers=(
                replace(SMALL_HEADS, n_heads=1024, n_kv_heads=512, d_head=4096, soft_cap=1e6),
                replace(_LINEAR, n_heads=1024, d_head=4096, chunk=1_000_000),
                replace(_MEMORY, n_heads=1024, d_head=4096, window=1_000_000, chunk=1_000_000),
            )
        ),
        cross_attention=replace(SMALL_HEADS, n_heads=1024, n_kv_heads=512, d_head=4096),
        positions=config.Rotary(base=1e9, scaling=_SCALINGS[2]),
        feed_forward=config.GatedMLP(d_ff=1_000_000, activation="relu_squared", bias=True),
        residual=config.DeepNorm(alpha=1234.5678, beta=0.001),
        reparametrisation=config.SpectralNorm(power_iterations=1),
    ),
    head=config.LanguageHead(bias=True, soft_cap=1e6, scaled=True),
)
