"""Other libraries' models in a shape, as their own code builds them.

Comes in: a shape. Goes out: a model on the CPU: nanoGPT's with the weights that are shared, the
others' with weights of their own draw. It does not know whether they train or write.
"""

from __future__ import annotations

import sys
from typing import Any

from benchmarks.shapes import Shape
from benchmarks.train_weights import for_nanogpt, initialise_as_gpt2, read


def nanogpt_model(shape: Shape, folder: str, checkout: str) -> Any:
    """nanoGPT's, from a checkout."""
    sys.path.insert(0, checkout)
    from model import GPT, GPTConfig  # pyright: ignore[reportMissingImports]

    settings = GPTConfig(
        block_size=shape.length,
        vocab_size=shape.vocab,
        n_layer=shape.layers,
        n_head=shape.heads,
        n_embd=shape.width,
        dropout=0.0,
        bias=True,
    )
    model = GPT(settings)
    model.load_state_dict(for_nanogpt(read(folder)))
    return model


def litgpt_model(shape: Shape) -> Any:
    """litgpt's with LayerNorm and a tied head; its positions are rotary."""
    from litgpt import GPT, Config  # pyright: ignore[reportMissingImports]

    settings = Config(
        block_size=shape.length,
        vocab_size=shape.vocab,
        padded_vocab_size=shape.vocab,
        n_layer=shape.layers,
        n_head=shape.heads,
        n_embd=shape.width,
        intermediate_size=4 * shape.width,
        parallel_residual=False,
        attn_bias=True,
        bias=True,
        norm_class_name="LayerNorm",
        mlp_class_name="GptNeoxMLP",
    )
    model = GPT(settings)
    model.lm_head.weight = model.transformer.wte.weight
    initialise_as_gpt2(model)
    return model


def x_transformers_model(shape: Shape) -> Any:
    """x-transformers' decoder with learned positions, flash attention and a tied head."""
    from x_transformers import (  # pyright: ignore[reportMissingImports]
        Decoder,
        TransformerWrapper,
    )

    layers = Decoder(
        dim=shape.width,
        depth=shape.layers,
        heads=shape.heads,
        attn_dim_head=shape.width // shape.heads,
        attn_flash=True,
    )
    model = TransformerWrapper(
        num_tokens=shape.vocab,
        max_seq_len=shape.length,
        attn_layers=layers,
        tie_embedding=True,
        # the same as the others': its own would shrink the logits
        tie_embedding_scale=1.0,
    )
    initialise_as_gpt2(model)
    return model
