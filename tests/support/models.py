"""Small models of many kinds, with weights wide enough that nothing is nearly flat."""

from __future__ import annotations

from dataclasses import replace

import torch

from pellucid import config
from pellucid.model import Transformer, assemble

BASE = config.Transformer(
    vocab_size=23,
    context_length=16,
    d_model=16,
    embedding=config.Embedding(tied=False, scaled=False),
    decoder=config.Stack(
        n_layers=2,
        positions=config.Rotary(base=10_000.0),
        attention=config.MultiHead(
            n_heads=4,
            n_kv_heads=4,
            d_head=4,
            qkv_bias=False,
            out_bias=False,
            qk_norm=None,
            dropout=0.0,
        ),
        feed_forward=config.MLP(d_ff=32, activation="gelu", bias=True),
        norm=config.LayerNorm(eps=1e-5, bias=True),
        residual=config.PreNorm(),
        final_norm=True,
        dropout=0.0,
    ),
    initialisation=config.Initialisation(
        weights=config.Normal(std=0.4), embedding_std=1.0, outputs="plain"
    ),
)


def with_stack(**changes: object) -> config.Transformer:
    """The base with another stack."""
    return replace(BASE, decoder=replace(BASE.decoder, **changes))  # type: ignore[arg-type]


def with_attention(**changes: object) -> config.Transformer:
    """The base with other attention."""
    attention = replace(BASE.decoder.attention, **changes)  # type: ignore[arg-type]
    return with_stack(attention=attention)


LATENT = config.LatentAttention(
    n_heads=4,
    d_head=3,
    d_rotated=2,
    d_value=5,
    d_latent=7,
    latent_norm=config.RMSNorm(eps=1e-6),
    latent_bias=False,
    out_bias=False,
    dropout=0.0,
)

VARIANTS: dict[str, config.Transformer] = {
    "rotary": BASE,
    "learned": with_stack(positions=config.Learned()),
    "sinusoidal": with_stack(positions=config.Sinusoidal(base=10_000.0)),
    "no positions": with_stack(positions=config.NoPositions()),
    "grouped": with_attention(n_kv_heads=2),
    "multi-query": with_attention(n_kv_heads=1),
    "qk-norm": with_attention(qk_norm=config.RMSNorm(eps=1e-6)),
    "biases": with_attention(qkv_bias=True, out_bias=True),
    "wide heads": with_attention(d_head=6),
    "post-norm": with_stack(residual=config.PostNorm(), final_norm=False),
    "no residual": with_stack(residual=config.NoResidual()),
    "rms-norm": with_stack(norm=config.RMSNorm(eps=1e-6)),
    "norm without bias": with_stack(norm=config.LayerNorm(eps=1e-5, bias=False)),
    "swiglu": with_stack(feed_forward=config.GatedMLP(d_ff=24, activation="silu", bias=False)),
    "squared relu": with_stack(
        feed_forward=config.MLP(d_ff=32, activation="relu_squared", bias=False)
    ),
    "clamped units": with_stack(
        feed_forward=config.ClampedGatedMLP(d_ff=24, bias=True, limit=1.0, slope=1.702)
    ),
    "experts": with_stack(
        feed_forward=config.Experts(
            n_experts=4,
            n_active=2,
            expert=config.GatedMLP(d_ff=12, activation="silu", bias=False),
            router=config.Router(scores="softmax", normalised=True),
            load_loss=0.01,
        )
    ),
    "grouped experts and a shared one": with_stack(
        feed_forward=config.Experts(
            n_experts=6,
            n_active=3,
            expert=config.MLP(d_ff=10, activation="gelu", bias=True),
            router=config.Router(
                scores="sigmoid",
                normalised=True,
                scale=2.5,
                groups=config.ExpertGroups(n_groups=3, n_active=2, score="two_largest"),
                balancing_rate=0.01,
            ),
            shared=config.GatedMLP(d_ff=8, activation="silu", bias=False),
            shared_gate=True,
            router_z_loss=0.001,
        )
    ),
    "experts with weighted inputs": with_stack(
        feed_forward=config.Experts(
            n_experts=3,
            n_active=1,
            expert=config.ClampedGatedMLP(d_ff=10, bias=True, limit=1.0, slope=1.702),
            router=config.Router(scores="sigmoid", normalised=False, bias=True),
            weights_on="input",
        )
    ),
    "sines before cosines": with_stack(
        positions=config.Sinusoidal(base=100.0, pairing="half_split", offset=2, down_to_base=True)
    ),
    "interleaved rotary": with_stack(positions=config.Rotary(base=100.0, pairing="interleaved")),
    "partial rotary": with_stack(positions=config.Rotary(base=100.0, n_features=2)),
    "stretched rotary": with_stack(
        positions=config.Rotary(base=100.0, scaling=config.LinearScaling(factor=2.0))
    ),
    "dynamic rotary": with_stack(
        positions=config.Rotary(
            base=100.0, scaling=config.DynamicNTK(factor=2.0, original_context_length=16)
        )
    ),
    "longrope": with_stack(
        positions=config.Rotary(
            base=100.0,
            scaling=config.LongRoPE(
                short=(1.0, 1.5),
                long=(2.0, 7.0),
                original_context_length=16,
                attention_factor=1.0,
            ),
        )
    ),
    "shaw": with_stack(positions=config.ShawRelative(max_distance=3, values=False)),
    "shaw with values": with_stack(positions=config.ShawRelative(max_distance=3, values=True)),
    "bucketed": with_stack(positions=config.BucketedBias(n_buckets=8, max_distance=12)),
    "bucketed in each layer": with_stack(
        positions=config.BucketedBias(n_buckets=8, max_distance=12, per_layer=True)
    ),
    "alibi": with_stack(positions=config.ALiBi()),
    "alibi, scaled": with_stack(positions=config.ALiBi(max_exponent=4.0, scaled=True)),
    "alibi, rounded": with_stack(positions=config.ALiBi(rounded=True)),
    "values of their own width": with_attention(d_value=7),
    "window": with_attention(window=8),
    "soft cap": with_attention(soft_cap=2.0, scale=0.3),
    "sinks": with_attention(sinks=True),
    "qk-norm over all heads": with_attention(
        qk_norm=config.RMSNorm(eps=1e-6), qk_norm_over="all_heads", n_kv_heads=2
    ),
    "qk-norm with a gain of each head": with_attention(
        qk_norm=config.RMSNorm(eps=1e-6),
        qk_norm_over="each_head_own_gain",
        n_kv_heads=2,
        scale_by_layer=True,
    ),
    "qk-norm after rotation": with_attention(
        qk_norm=config.LayerNorm(eps=1e-5, bias=True),
        qk_norm_over="each_head_own_gain",
        qk_norm_place="after_rotation",
    ),
    "clipped, gate of each head": with_attention(
        clip=0.7, output_gate="heads", n_kv_heads=2, d_value=3
    ),
    "gate of each feature": with_attention(output_gate="features", qkv_bias=True, key_bias=False),
    "alternating": with_stack(
        attention=config.Alternating(
            layers=(replace(BASE.decoder.attention, window=8), BASE.decoder.attention)
        )
    ),
    "layers that differ": with_stack(
        attention=config.Alternating(
            first=(replace(BASE.decoder.attention, d_head=6),),
            layers=(replace(BASE.decoder.attention, window=8), BASE.decoder.attention),
        ),
        feed_forward=config.AlternatingFeedForward(
            first=(config.MLP(d_ff=32, activation="gelu", bias=True),),
            layers=(config.GatedMLP(d_ff=24, activation="silu", bias=False),),
        ),
        positions=config.AlternatingPositions(
            layers=(config.Rotary(base=100.0, n_features=4), config.NoPositions())
        ),
        n_layers=4,
    ),
    "positions that take turns": with_stack(
        positions=config.AlternatingPositions(
            first=(config.BucketedBias(n_buckets=8, max_distance=12),),
            layers=(
                config.BucketedBias(n_buckets=4, max_distance=9),
                config.ShawRelative(max_distance=3, values=True),
            ),
        ),
        n_layers=3,
    ),
    "shared layers": with_stack(
        n_layers=4, shared_layers=config.SharedLayers(groups=2), norm=config.RMSNorm(eps=1e-6)
    ),
    "shared layers in turn": with_stack(
        positions=config.AlternatingPositions(
            layers=(config.Rotary(base=100.0), config.Rotary(base=10.0))
        ),
        n_layers=4,
        shared_layers=config.SharedLayers(groups=1, layers_per_group=2),
    ),
    "no first norm": with_stack(
        input_norm=config.LayerNorm(eps=1e-5, bias=True), first_attention_norm=False
    ),
    "latent": with_stack(attention=LATENT),
    "latent, of queries too": with_stack(
        positions=config.Rotary(base=100.0, pairing="interleaved"),
        attention=replace(
            LATENT,
            d_query_latent=6,
            latent_norm=config.LayerNorm(eps=1e-5, bias=True),
            latent_bias=True,
            out_bias=True,
            scale=0.3,
        ),
    ),
    "latent with a bias on scores": with_stack(positions=config.ALiBi(), attention=LATENT),
    "linear": with_stack(
        attention=config.LinearAttention(n_heads=4, d_head=4, qkv_bias=True, out_bias=True, chunk=4)
    ),
    "linear with learned positions": with_stack(
        positions=config.Learned(),
        attention=config.LinearAttention(
            n_heads=4, d_head=4, qkv_bias=False, out_bias=False, chunk=32
        ),
    ),
    "linear beside softmax": with_stack(
        attention=config.Alternating(
            layers=(
                config.LinearAttention(
                    n_heads=2, d_head=4, qkv_bias=False, out_bias=False, chunk=3
                ),
                BASE.decoder.attention,
            )
        )
    ),
    "memory": with_stack(attention=config.NeuralMemory(n_heads=4, d_head=4, window=4, chunk=3)),
    "memory with a bias on scores": with_stack(
        positions=config.ALiBi(),
        attention=config.NeuralMemory(n_heads=4, d_head=4, window=8, chunk=16),
    ),
    "unit offset": with_stack(norm=config.RMSNorm(eps=1e-6, unit_offset=True)),
    "group norm": with_stack(norm=config.GroupNorm(eps=1e-6, n_groups=4)),
    "sandwich": with_stack(residual=config.SandwichNorm()),
    "output norm": with_stack(residual=config.OutputNorm()),
    "deep norm": with_stack(residual=config.DeepNorm(alpha=1.7, beta=0.5)),
    "parallel": with_stack(residual=config.Parallel()),
    "input norm": with_stack(input_norm=config.LayerNorm(eps=1e-5, bias=True)),
    "weight norm": with_stack(reparametrisation=config.WeightNorm()),
    "spectral norm": with_stack(reparametrisation=config.SpectralNorm(power_iterations=2)),
    "busy head": replace(
        BASE,
        head=config.LanguageHead(
            bias=True,
            transform=config.HeadTransform(
                activation="gelu", norm=config.LayerNorm(eps=1e-5, bias=True)
            ),
            soft_cap=5.0,
            scaled=True,
        ),
    ),
    "factorised embedding": replace(
        with_stack(
            positions=config.Learned(),
            input_norm=config.LayerNorm(eps=1e-5, bias=True),
            feed_forward=config.MLP(d_ff=32, activation="tanh", bias=True),
        ),
        embedding=config.Embedding(
            tied=True,
            scaled=True,
            segments=2,
            projection=config.EmbeddingProjection(width=6, bias=True),
        ),
        head=config.LanguageHead(
            transform=config.HeadTransform(
                activation="gelu", norm=config.LayerNorm(eps=1e-5, bias=True)
            )
        ),
    ),
    "embedding mapped first": replace(
        with_stack(positions=config.Learned()),
        embedding=config.Embedding(
            tied=True,
            scaled=False,
            projection=config.EmbeddingProjection(width=6, bias=False, place="first"),
        ),
        head=config.LanguageHead(transform=config.HeadTransform(bias=False)),
    ),
    "embedding mapped before its norm": replace(
        with_stack(positions=config.Learned(), input_norm=config.RMSNorm(eps=1e-6)),
        embedding=config.Embedding(
            tied=False,
            scaled=False,
            projection=config.EmbeddingProjection(width=20, bias=True, place="before_norm"),
        ),
    ),
    "disentangled": with_stack(
        positions=config.Disentangled(
            n_buckets=8,
            max_distance=10,
            content_to_position=True,
            position_to_content=True,
            own_projections=False,
            norm=config.LayerNorm(eps=1e-5, bias=True),
        ),
        attention=replace(BASE.decoder.attention, scale=12**-0.5, n_kv_heads=2),
    ),
    "disentangled with own projections": with_stack(
        positions=config.Disentangled(
            n_buckets=6,
            content_to_position=False,
            position_to_content=True,
            own_projections=True,
        ),
    ),
    "two schemes of positions": with_stack(
        positions=config.BucketedBias(n_buckets=8, max_distance=12),
        embedding_positions=config.Learned(),
    ),
    "fixed head bias": replace(BASE, head=config.LanguageHead(bias=True, fixed_bias=True)),
    "tied and scaled": replace(BASE, embedding=config.Embedding(tied=True, scaled=True)),
    "multipliers": replace(
        with_stack(residual=config.PreNorm(multiplier=0.4)),
        embedding=config.Embedding(tied=True, scaled=False, multiplier=3.0),
        head=config.LanguageHead(multiplier=0.2, bias=True),
    ),
    "parallel with one norm": with_stack(residual=config.Parallel(shared_norm=True)),
    "layer norm, unit offset": with_stack(
        norm=config.LayerNorm(eps=1e-5, bias=True, unit_offset=True)
    ),
    "layer norm without gain": with_stack(
        norm=config.LayerNorm(eps=1e-5, bias=False, gain=False),
        feed_forward=config.MLP(d_ff=32, activation="tanh", bias=True),
    ),
    "rms norm without gain": with_stack(
        norm=config.RMSNorm(eps=1e-5, gain=False),
        feed_forward=config.MLP(d_ff=32, activation="quick_gelu", bias=True),
    ),
    "learned with an offset": with_stack(
        positions=config.Learned(offset=2),
        feed_forward=config.GatedMLP(d_ff=24, activation="sigmoid", bias=True),
    ),
}


def build(model: config.Transformer, *, seed: int = 0, double: bool = True) -> Transformer:
    """The model in evaluation mode, in float64 by default."""
    built = assemble(model, seed=seed).eval()
    return built.double() if double else built


def random_ids(rows: int, columns: int, *, vocab: int = 23, seed: int = 1) -> torch.Tensor:
    """Token ids from a seed."""
    return torch.randint(vocab, (rows, columns), generator=torch.Generator().manual_seed(seed))


def _stack(**changes: object) -> config.Stack:
    return replace(BASE.decoder, **changes)  # type: ignore[arg-type]


def _encoder(**changes: object) -> config.Transformer:
    return replace(BASE, encoder=_stack(**changes), decoder=None)


def _pair(model: config.Transformer = BASE, **changes: object) -> config.Transformer:
    stack = _stack(**changes)
    decoder = replace(stack, cross_attention=BASE.decoder.attention)
    return replace(model, encoder=stack, decoder=decoder)


ENCODERS: dict[str, config.Transformer] = {
    "rotary": _encoder(),
    "bucketed": _encoder(positions=config.BucketedBias(n_buckets=8, max_distance=12)),
    "shaw": _encoder(positions=config.ShawRelative(max_distance=3, values=True)),
    "alibi": _encoder(positions=config.ALiBi()),
    "bert": replace(
        _encoder(
            positions=config.Learned(),
            residual=config.PostNorm(),
            final_norm=False,
            input_norm=config.LayerNorm(eps=1e-12, bias=True),
        ),
        embedding=config.Embedding(tied=True, scaled=False, segments=2),
        pooler=True,
        head=config.LanguageHead(
            bias=True,
            transform=config.HeadTransform(
                activation="gelu", norm=config.LayerNorm(eps=1e-12, bias=True)
            ),
        ),
    ),
}

ENCODERS["mpnet"] = replace(
    ENCODERS["bert"],
    encoder=replace(
        ENCODERS["bert"].stacks[0],
        positions=config.BucketedBias(n_buckets=8, max_distance=12),
        embedding_positions=config.Learned(),
    ),
)
ENCODERS["deberta"] = replace(
    ENCODERS["bert"],
    encoder=replace(
        ENCODERS["bert"].stacks[0],
        positions=VARIANTS["disentangled"].stacks[0].positions,
        embedding_positions=config.Learned(),
        attention=VARIANTS["disentangled"].stacks[0].attention,
    ),
)
ENCODERS["electra"] = replace(
    ENCODERS["bert"],
    embedding=replace(
        ENCODERS["bert"].embedding, projection=config.EmbeddingProjection(width=6, bias=True)
    ),
)

PAIRS: dict[str, config.Transformer] = {
    "original": _pair(
        replace(BASE, embedding=config.Embedding(tied=True, scaled=True)),
        positions=config.Sinusoidal(base=10_000.0),
        residual=config.PostNorm(),
        final_norm=False,
    ),
    "t5": _pair(
        positions=config.BucketedBias(n_buckets=8, max_distance=12),
        norm=config.RMSNorm(eps=1e-6),
        attention=replace(BASE.decoder.attention, scale=1.0),
    ),
    "bart": replace(
        _pair(
            replace(
                BASE,
                embedding=config.Embedding(tied=True, scaled=True),
                head=config.LanguageHead(bias=True, fixed_bias=True),
            ),
            positions=config.Learned(),
            residual=config.PostNorm(),
            final_norm=False,
            input_norm=config.LayerNorm(eps=1e-5, bias=True),
        ),
        encoder=_stack(
            n_layers=1,
            positions=config.Learned(),
            feed_forward=config.MLP(d_ff=20, activation="gelu", bias=True),
            residual=config.PostNorm(),
            final_norm=False,
            input_norm=config.LayerNorm(eps=1e-5, bias=True),
        ),
    ),
    "grouped, rotary, sandwich": _pair(
        attention=replace(BASE.decoder.attention, n_kv_heads=2), residual=config.SandwichNorm()
    ),
}
