"""Hugging Face's GPT-2 from random weights, on the token ids of a run of ours.

Comes in: a run of ours (its ids, tokenizer and shape), seconds, a learning rate, a batch size. Goes
out: a worker's contestant (`benchmarks.worker`); one step of it is one whole training. It does not
know pellucid's recipe.

The peer gets the shape of our preset (its own positions, biases, GELU and initialisation), bf16
autocast where the processor multiplies bf16, fused AdamW with decay on matrices alone, and clipping
at 1. Dropout is that of embeddings and residuals: in attention it would cost the fused kernel. The
rate has 5% linear warm-up and then a straight line to zero by the clock. It gets our order of the
text, our allocator settings, and all of its time for training: start-up and preparing the text are
not in it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

WARM_UP = 0.05


def gpt2(
    run: str,
    held_out: str | None,
    seconds: float,
    learning_rate: float,
    batch_size: int,
    dropout: float,
    weight_decay: float,
    seed: int,
) -> Callable[[int], dict[str, Any]]:
    """The contestant; `held_out` is a text, by default what the run itself holds out."""
    import torch
    import transformers

    from pellucid import load
    from pellucid.data import next_token_batches, open_prepared

    pellucid_run = load(run)
    text = open_prepared(Path(run) / "text")
    shape, stack = pellucid_run.config.model, pellucid_run.config.model.decoder
    assert stack is not None
    torch.manual_seed(seed)
    model = transformers.GPT2LMHeadModel(
        transformers.GPT2Config(
            vocab_size=shape.rows,
            n_positions=shape.context_length,
            n_embd=shape.d_model,
            n_layer=stack.n_layers,
            n_head=stack.n_heads,
            n_inner=stack.layers[0].feed_forward.d_ff,
            resid_pdrop=dropout,
            embd_pdrop=dropout,
            attn_pdrop=0.0,
            # the same function as its default, in one kernel instead of eight operations
            activation_function="gelu_pytorch_tanh",
            use_cache=False,
        )
    ).train()
    order = next_token_batches(text.train.tokens, context_length=shape.context_length, seed=seed)
    tokens, n_bytes = held_out_ids(pellucid_run, text, held_out)

    def train_and_evaluate(_: int) -> dict[str, Any]:
        updates = train(model, order, seconds, learning_rate, batch_size, weight_decay)
        nats = total_nats(model, tokens, shape.context_length)
        return {
            "updates": updates,
            "bits_per_byte": nats / np.log(2) / n_bytes,
            "parameters": model.num_parameters(),
            "our_parameters": sum(
                parameter.numel() for parameter in pellucid_run.model.parameters()
            ),
            "transformers": transformers.__version__,
        }

    return train_and_evaluate


def held_out_ids(pellucid_run: Any, text: Any, held_out: str | None) -> tuple[Any, int]:
    """The ids of a held-out text, made as `pellucid evaluate` makes them, and its bytes."""
    from pellucid.data import EncodedCounts, Piped, ReadCounts, encode_pieces, read_pieces

    if held_out is None:
        return text.held_out.tokens, text.manifest.held_out.n_bytes
    counts, ids = EncodedCounts(), []
    for piece in encode_pieces(
        read_pieces([held_out], None, ReadCounts(), Piped()), pellucid_run.tokenizer
    ):
        ids.append(piece.ids)
        counts.add(piece, pellucid_run.tokenizer.unknown_id)
    return np.concatenate(ids), counts.n_bytes


def train(
    model: Any,
    order: Any,
    seconds: float,
    learning_rate: float,
    batch_size: int,
    weight_decay: float,
) -> int:
    """Train for so long; how many updates that were."""
    import torch

    from pellucid.typed import multiplies_bfloat16

    matrices = [weight for weight in model.parameters() if weight.ndim == 2]
    vectors = [weight for weight in model.parameters() if weight.ndim < 2]
    groups = [
        {"params": matrices, "weight_decay": weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    optimiser = torch.optim.AdamW(groups, lr=0.0, betas=(0.9, 0.95), fused=True)
    is_fast = multiplies_bfloat16(torch.device("cpu"))
    updates, started = 0, time.perf_counter()
    while (share := (time.perf_counter() - started) / seconds) < 1:
        for group in optimiser.param_groups:
            group["lr"] = learning_rate * min(share / WARM_UP, (1 - share) / (1 - WARM_UP))
        batch = order.batch(updates * batch_size, batch_size)
        with torch.autocast("cpu", torch.bfloat16, enabled=is_fast):
            logits = model(input_ids=batch.ids).logits
        loss = torch.nn.functional.cross_entropy(
            logits.float().flatten(0, 1), batch.targets.flatten()
        )
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()
        updates += 1
    return updates


def total_nats(model: Any, tokens: Any, context_length: int) -> float:
    """Every token after the first once, in windows that do not overlap, in float32."""
    import torch

    from pellucid.data import next_token_windows

    model.eval()
    total = 0.0
    with torch.no_grad():
        for batch in next_token_windows(tokens, context_length=context_length, batch_size=16):
            logits = model(input_ids=batch.ids).logits.flatten(0, 1)
            total += torch.nn.functional.cross_entropy(
                logits, batch.targets.flatten(), reduction="sum"
            ).item()
    return total
