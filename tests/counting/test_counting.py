from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid import config
from pellucid.batches import TokenBatch
from pellucid.counting import flops_per_token, memory, parameter_count, parameters
from pellucid.errors import ConfigError
from pellucid.model import assemble
from pellucid.objectives import NextToken
from pellucid.optim import assemble_optimiser, gate

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

ADAMW = config.AdamW(learning_rate=0.01, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.0)
OPTIMISERS: dict[str, config.Optimiser] = {
    "adamw": ADAMW,
    "adam": config.Adam(learning_rate=0.01, betas=(0.9, 0.95), eps=1e-8, l2=0.0),
    "sgd": config.SGD(learning_rate=0.01, momentum=0.0, l2=0.0),
    "sgd with momentum": config.SGD(learning_rate=0.01, momentum=0.9, l2=0.0),
    "muon": config.Muon(
        learning_rate=0.01, momentum=0.9, weight_decay=0.0, newton_schulz_steps=2, rest=ADAMW
    ),
}

NORMS = st.sampled_from(
    [
        config.LayerNorm(eps=1e-5, bias=True),
        config.LayerNorm(eps=1e-5, bias=False),
        config.RMSNorm(eps=1e-6),
    ]
)
POSITIONS = st.sampled_from(
    [
        config.Learned(),
        config.Rotary(base=1e4),
        config.Sinusoidal(base=1e4),
        config.NoPositions(),
    ]
)
RESIDUALS = st.sampled_from([config.PreNorm(), config.PostNorm(), config.NoResidual()])


@st.composite
def models(draw: st.DrawFn) -> config.Transformer:
    """Every kind of part in every combination."""
    n_kv_heads = draw(st.integers(1, 3))
    attention = config.MultiHead(
        n_heads=n_kv_heads * draw(st.integers(1, 3)),
        n_kv_heads=n_kv_heads,
        d_head=2 * draw(st.integers(1, 3)),
        qkv_bias=draw(st.booleans()),
        out_bias=draw(st.booleans()),
        qk_norm=draw(st.none() | NORMS),
        dropout=0.0,
    )
    feed_forward = draw(st.sampled_from([config.MLP, config.GatedMLP]))
    stack = config.Stack(
        n_layers=draw(st.integers(1, 3)),
        positions=draw(POSITIONS),
        attention=attention,
        feed_forward=feed_forward(
            d_ff=draw(st.integers(1, 9)), activation="silu", bias=draw(st.booleans())
        ),
        norm=draw(NORMS),
        residual=draw(RESIDUALS),
        final_norm=draw(st.booleans()),
        dropout=0.0,
    )
    return replace(
        SMALL,
        vocab_size=draw(st.integers(2, 20)),
        context_length=draw(st.integers(1, 8)),
        d_model=2 * draw(st.integers(1, 6)),
        embedding=config.Embedding(tied=draw(st.booleans()), scaled=draw(st.booleans())),
        decoder=stack,
    )


@settings(max_examples=60, deadline=None)
@given(model=models())
def test_counted_parameters_are_those_of_the_assembled_model(model: config.Transformer) -> None:
    with torch.device("meta"):
        built = assemble(model, seed=0)
    assert parameter_count(model) == sum(p.numel() for p in built.parameters())


@settings(max_examples=60, deadline=None)
@given(model=models())
def test_each_row_counts_the_modules_it_speaks_of(model: config.Transformer) -> None:
    with torch.device("meta"):
        built = assemble(model, seed=0)

    def of(*words: str) -> int:
        """Parameters whose name has one of `words` as a part."""
        named = built.named_parameters()
        return sum(p.numel() for name, p in named if set(words) & set(name.split(".")))

    rows = {row.part: row.count for row in parameters(model)}
    assert rows["token embedding"] == of("token_embedding")
    assert rows["attention"] == of("attention")
    assert rows["feed-forward"] == of("feed_forward")
    assert rows["norms of the blocks"] == of("attention_norm", "feed_forward_norm")
    assert rows.get("final norm", 0) == of("final_norm")
    assert rows.get("position embedding", 0) == of("positions")
    assert rows.get("head", 0) == of("head")


def test_small_model_is_counted_as_on_paper() -> None:
    counts = {row.part: (row.times, row.count) for row in parameters(SMALL)}
    assert counts == {
        "token embedding": (1, 10 * 4),
        "position embedding": (1, 3 * 4),
        "attention": (2, 2 * (4 * 6 + 2 * 4 * 3 + 6 * 4)),
        "feed-forward": (2, 2 * 2 * 4 * 5),
        "norms of the blocks": (4, 4 * 4),
        "final norm": (1, 4),
    }


def test_flops_are_counted_as_on_paper() -> None:
    forward = {row.part: row.forward for row in flops_per_token(SMALL)}
    assert forward == {
        "attention projections": 2 * 144,
        # 3 tokens see 1, 2 and 3 keys: 2 on average; 6 features, 2 products, 2 layers
        "attention scores and sums": 2 * 2 * 2 * 6 * 2,
        "feed-forward": 2 * 80,
        "head": 2 * 40,
    }
    assert all(row.backward == 2 * row.forward for row in flops_per_token(SMALL))


def test_head_costs_the_same_tied_or_not() -> None:
    untied = replace(SMALL, embedding=config.Embedding(tied=False, scaled=False))
    assert flops_per_token(untied) == flops_per_token(SMALL)


def rows_of(optimiser: config.Optimiser, **options: Any) -> dict[str, int]:
    given = {"sequences": 2, "precision": "float32", **options}
    return {row.part: row.n_bytes for row in memory(SMALL, optimiser, **given)}


@pytest.mark.parametrize("name", OPTIMISERS)
def test_weights_gradients_and_moments_take_the_bytes_that_torch_takes(name: str) -> None:
    model = assemble(SMALL, seed=0)
    optimiser = assemble_optimiser(OPTIMISERS[name], model.named_parameters())
    ids = torch.arange(6).reshape(2, 3)
    loss = NextToken()(model, TokenBatch(ids=ids, targets=ids, n_supervised=6), 6).total
    loss.backward()
    gradients = optimiser.gradients()
    optimiser.step(gate(gradients, loss, clip_norm=None, blocked=torch.zeros(())), 1.0)
    # a moment has the shape of its parameter; AdamW's counter of steps is one number
    state = optimiser.state_tensors().values()
    rows = rows_of(OPTIMISERS[name])
    assert rows["weights"] == sum(p.nbytes for p in model.parameters())
    assert rows["gradients"] == sum(gradient.nbytes for gradient in gradients)
    assert rows["optimiser"] == sum(tensor.nbytes for tensor in state if tensor.ndim)


def test_activations_are_counted_as_on_paper() -> None:
    # per token and layer: 4 d_model, queries and their output, keys and values, 2 d_ff
    per_token = 2 * (4 * 4 + 2 * 6 + 2 * 3 + 2 * 5)
    assert rows_of(ADAMW)["activations"] == 2 * 3 * per_token * 4
    assert rows_of(ADAMW, precision="bfloat16")["activations"] == 2 * 3 * per_token * 2
    assert rows_of(ADAMW, sequences=6)["activations"] == 3 * rows_of(ADAMW)["activations"]


def test_model_whose_vocabulary_is_not_known_is_not_counted() -> None:
    with pytest.raises(ConfigError, match=r"model\.vocab_size is not set"):
        parameter_count(replace(SMALL, vocab_size=None))
