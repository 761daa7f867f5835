"""Small models to count: one on paper, and any that a config can say."""

from __future__ import annotations

from dataclasses import replace

import torch
from hypothesis import strategies as st

from pellucid import config
from pellucid.model import assemble

#: Small enough to count on paper: T = 3, d_model = 4, 2 layers, 2 heads of 3, 1 key/value head.
SMALL = config.Transformer(
    vocab_size=10,
    context_length=3,
    d_model=4,
    embedding=config.Embedding(tied=True, scaled=False),
    decoder=config.Stack(
        n_layers=2,
        positions=config.Learned(),
        attention=config.MultiHead(
            n_heads=2,
            n_kv_heads=1,
            d_head=3,
            qkv_bias=False,
            out_bias=False,
            qk_norm=None,
            dropout=0.0,
        ),
        feed_forward=config.MLP(d_ff=5, activation="relu", bias=False),
        norm=config.RMSNorm(eps=1e-6),
        residual=config.PreNorm(),
        final_norm=True,
        dropout=0.0,
    ),
    initialisation=config.Initialisation(
        weights=config.Normal(std=0.1), embedding_std=0.1, outputs="plain"
    ),
)
assert SMALL.decoder is not None
SMALL_STACK = SMALL.decoder
SMALL_ATTENTION = SMALL_STACK.layers[0].attention
assert isinstance(SMALL_ATTENTION, config.MultiHead)
SMALL_HEADS = SMALL_ATTENTION

LINEAR = config.LinearAttention(n_heads=2, d_head=3, qkv_bias=False, out_bias=False, chunk=2)
LATENT = config.LatentAttention(
    n_heads=2,
    d_head=3,
    d_rotated=2,
    d_value=4,
    d_latent=5,
    latent_norm=config.RMSNorm(eps=1e-6),
    latent_bias=True,
    out_bias=False,
    dropout=0.0,
)
MEMORY = config.NeuralMemory(n_heads=2, d_head=3, window=2, chunk=2)

NORMS = st.sampled_from(
    [
        config.LayerNorm(eps=1e-5, bias=True),
        config.LayerNorm(eps=1e-5, bias=False),
        config.LayerNorm(eps=1e-5, bias=False, gain=False),
        config.RMSNorm(eps=1e-6),
        config.RMSNorm(eps=1e-6, gain=False),
        config.RMSNorm(eps=1e-6, unit_offset=True),
        config.BatchNorm(eps=1e-5, momentum=0.1),
        config.GroupNorm(eps=1e-5, n_groups=2),
        config.InstanceNorm(eps=1e-5),
    ]
)
#: Norms that a head's queries and keys may have.
QUERY_NORMS = st.sampled_from(
    [config.LayerNorm(eps=1e-5, bias=True), config.RMSNorm(eps=1e-6)],
)
RESIDUALS = [
    config.PreNorm(),
    config.PreNorm(multiplier=0.5),
    config.PostNorm(),
    config.OutputNorm(),
    config.SandwichNorm(),
    config.DeepNorm(alpha=2.0, beta=0.5),
    config.NoResidual(),
]
PROJECTIONS = st.builds(
    config.EmbeddingProjection,
    width=st.sampled_from([2, 6]),
    bias=st.booleans(),
    place=st.sampled_from(["last", "before_norm", "first"]),
)
POSITIONS = [
    config.NoPositions(),
    config.Learned(),
    config.Learned(offset=2),
    config.Sinusoidal(base=1e4),
    config.Rotary(base=1e4, n_features=2),
    config.ShawRelative(max_distance=3, values=False),
    config.ShawRelative(max_distance=2, values=True),
    config.BucketedBias(n_buckets=6, max_distance=9),
    config.ALiBi(),
    config.Disentangled(
        n_buckets=6,
        content_to_position=True,
        position_to_content=True,
        own_projections=True,
        norm=config.RMSNorm(eps=1e-6),
    ),
    config.Disentangled(
        n_buckets=8,
        max_distance=9,
        content_to_position=True,
        position_to_content=False,
        own_projections=False,
    ),
    config.ALiBi(max_exponent=4.0, scaled=True, rounded=True),
]


def with_stack(**changes: object) -> config.Transformer:
    """The small model with another stack."""
    return replace(SMALL, decoder=replace(SMALL_STACK, **changes))  # type: ignore[arg-type]


def is_built(attention: config.OneAttention) -> bool:
    """Whether `assemble` has a module for this kind yet."""
    try:
        with torch.device("meta"):
            assemble(with_stack(attention=attention), seed=0)
    except NotImplementedError:
        return False
    return True


#: Asked once, and not while hypothesis draws: building a model draws numbers too.
BUILT = {type(attention): is_built(attention) for attention in (LINEAR, MEMORY)}


@st.composite
def heads(
    draw: st.DrawFn, d_head: int, n_heads: int, d_value: int | None, *, crossed: bool = False
) -> config.MultiHead:
    """Multi-head attention of a width, all else free."""
    divisors = [n for n in range(1, n_heads + 1) if n_heads % n == 0]
    norm = draw(st.none() | QUERY_NORMS)
    return config.MultiHead(
        n_heads=n_heads,
        n_kv_heads=draw(st.sampled_from(divisors)),
        d_head=d_head,
        d_value=d_value,
        qkv_bias=draw(st.booleans()),
        out_bias=draw(st.booleans()),
        qk_norm=norm,
        qk_norm_over=draw(st.sampled_from(["each_head", "each_head_own_gain", "all_heads"])),
        dropout=0.0,
        window=draw(st.none() | st.integers(1, 9)),
        soft_cap=draw(st.none() | st.just(5.0)),
        sinks=draw(st.booleans()),
        key_bias=draw(st.none() | st.booleans()),
        output_gate=None if crossed else draw(st.sampled_from([None, "features", "heads"])),
    )


@st.composite
def attentions(draw: st.DrawFn, *, scored: bool, shaw: bool, causal: bool) -> config.Attention:
    """One kind of attention for all layers, or several in turn."""
    d_head, n_heads = 2 * draw(st.integers(1, 3)), draw(st.integers(1, 4))
    attention: st.SearchStrategy[config.OneAttention] = heads(
        d_head, n_heads, draw(st.none() | st.integers(1, 5))
    )
    common = {"n_heads": st.just(n_heads), "d_head": st.just(d_head), "chunk": st.integers(1, 5)}
    if not shaw:
        attention |= st.builds(
            config.LatentAttention,
            n_heads=st.just(n_heads),
            d_head=st.integers(1, 5),
            d_rotated=st.just(d_head),
            d_value=st.integers(1, 5),
            d_latent=st.integers(1, 5),
            d_query_latent=st.none() | st.integers(1, 5),
            latent_norm=QUERY_NORMS,
            latent_bias=st.booleans(),
            out_bias=st.booleans(),
            dropout=st.just(0.0),
        )
    # linear attention has no scores that positions could add to
    if BUILT[config.LinearAttention] and not scored:
        biases = {"qkv_bias": st.booleans(), "out_bias": st.booleans()}
        attention |= st.builds(config.LinearAttention, **common, **biases)
    # a memory is written from left to right
    if BUILT[config.NeuralMemory] and not scored and causal:
        memory_options = {"window": st.integers(1, 9), "frozen": st.booleans()}
        attention |= st.builds(config.NeuralMemory, **common, **memory_options)
    alternating = st.builds(
        config.Alternating, layers=st.lists(attention, min_size=2, max_size=3).map(tuple)
    )
    return draw(attention | alternating)


def _without_norms(attention: config.Attention) -> config.Attention:
    """Attention whose projections of queries and keys can also project distances."""
    match attention:
        case config.MultiHead():
            return replace(attention, qk_norm=None)
        case config.Alternating(layers=layers):
            return replace(attention, layers=tuple(map(_without_norms, layers)))
        case _:
            return attention


@st.composite
def stacks(draw: st.DrawFn, *, causal: bool, crossed: bool) -> config.Stack:
    """A stack of any parts."""
    # parts that act on scores or values need a layer that has scores
    positions = draw(st.sampled_from(POSITIONS))
    scored = config.adds_to_scores(positions)
    shaw = isinstance(positions, config.ShawRelative)
    feed_forward = draw(st.sampled_from([config.MLP, config.GatedMLP]))
    disentangled = isinstance(positions, config.Disentangled)
    attention = draw(attentions(scored=scored, shaw=shaw or disentangled, causal=causal))
    adds_to_embedding = isinstance(
        positions, config.Learned | config.Sinusoidal | config.NoPositions
    )
    cross = None
    if crossed:
        cross_heads = draw(
            heads(2 * draw(st.integers(1, 3)), draw(st.integers(1, 3)), None, crossed=True)
        )
        cross = replace(cross_heads, qk_norm=None, window=None)
    parallel = [config.Parallel(), config.Parallel(shared_norm=True)]
    residuals = RESIDUALS if crossed else [*RESIDUALS, *parallel]
    return config.Stack(
        n_layers=draw(st.integers(1, 3)),
        positions=positions,
        attention=_without_norms(attention) if disentangled else attention,
        feed_forward=feed_forward(
            d_ff=draw(st.integers(1, 9)), activation="silu", bias=draw(st.booleans())
        ),
        norm=draw(NORMS),
        residual=draw(st.sampled_from(residuals)),
        final_norm=draw(st.booleans()),
        dropout=0.0,
        input_norm=draw(st.none() | NORMS),
        cross_attention=cross,
        # the other, which adds no parameters, takes torch long to put on
        reparametrisation=draw(st.none() | st.just(config.WeightNorm())),
        embedding_positions=None
        if adds_to_embedding
        else draw(st.none() | st.just(config.Learned())),
    )


@st.composite
def transformers(draw: st.DrawFn) -> config.Transformer:
    """Every kind of part in every combination: an encoder, a decoder, or both."""
    shape = draw(st.sampled_from(["encoder", "decoder", "both"]))
    transform = st.builds(
        config.HeadTransform,
        activation=st.sampled_from(["gelu", "tanh", None]),
        norm=st.none() | NORMS,
        bias=st.booleans(),
    )
    classes = st.builds(
        config.ClassificationHead,
        classes=st.sampled_from([("a", "b"), ("a", "b", "c")]),
        pooling=st.sampled_from(["mean", "last"] if shape == "decoder" else ["mean", "first"]),
        dropout=st.just(0.1),
        bias=st.booleans(),
        transform=st.none() | transform,
    )
    projection = draw(st.none() | PROJECTIONS)
    tied = draw(st.booleans())
    # a tied head reads vectors as wide as the embedding's
    optional = st.nothing() if tied and projection is not None else st.none()
    biases = st.sampled_from([(False, False), (True, False), (True, True)])
    head = st.builds(
        lambda bias, transform: config.LanguageHead(
            bias=bias[0], fixed_bias=bias[1], transform=transform
        ),
        biases,
        optional | transform,
    )
    return config.Transformer(
        vocab_size=draw(st.integers(2, 20)),
        context_length=draw(st.integers(1, 8)),
        d_model=2 * draw(st.integers(1, 6)),
        embedding=config.Embedding(
            tied=tied,
            scaled=draw(st.booleans()),
            segments=draw(st.none() | st.integers(1, 3)),
            projection=projection,
        ),
        encoder=None if shape == "decoder" else draw(stacks(causal=False, crossed=False)),
        decoder=None if shape == "encoder" else draw(stacks(causal=True, crossed=shape == "both")),
        head=draw(st.just(config.NoHead()) | head | (st.nothing() if shape == "both" else classes)),
        pooler=draw(st.booleans()),
        initialisation=SMALL.initialisation,
    )
