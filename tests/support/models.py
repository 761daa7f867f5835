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
    "tied and scaled": replace(BASE, embedding=config.Embedding(tied=True, scaled=True)),
}


def build(model: config.Transformer, *, seed: int = 0, double: bool = True) -> Transformer:
    """The model in evaluation mode, in float64 by default."""
    built = assemble(model, seed=seed).eval()
    return built.double() if double else built


def random_ids(rows: int, columns: int, *, vocab: int = 23, seed: int = 1) -> torch.Tensor:
    """Token ids from a seed."""
    return torch.randint(vocab, (rows, columns), generator=torch.Generator().manual_seed(seed))
