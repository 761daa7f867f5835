from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import pytest
import torch

from pellucid import config
from pellucid.batches import TokenBatch
from pellucid.counting import memory
from pellucid.counting.memory import state_memory
from pellucid.model import assemble, learn_in_bfloat16
from pellucid.objectives import NextToken
from pellucid.optim import assemble_optimiser, gate
from pellucid.rounded_weights import Rounding
from support.architectures import SMALL, SMALL_HEADS, SMALL_STACK, with_stack

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
#: Biases, norms on queries and keys, and a table of positions: not all in a layer is a matrix.
BUSY = with_stack(
    positions=config.BucketedBias(n_buckets=4, max_distance=6),
    attention=replace(SMALL_HEADS, qkv_bias=True, sinks=True, qk_norm=config.RMSNorm(eps=1e-6)),
    feed_forward=config.GatedMLP(d_ff=5, activation="silu", bias=True),
)


def rows_of(
    optimiser: config.Optimiser, model: config.Transformer = SMALL, **options: Any
) -> dict[str, int]:
    all_options = {"sequences": 2, "precision": "float32", **options}
    return {row.part: row.n_bytes for row in memory(model, optimiser, **all_options)}


@pytest.mark.parametrize("described", [SMALL, BUSY], ids=["small", "busy"])
@pytest.mark.parametrize("name", OPTIMISERS)
def test_weights_gradients_and_moments_take_the_bytes_that_torch_takes(
    name: str, described: config.Transformer
) -> None:
    model = assemble(described, seed=0)
    optimiser = assemble_optimiser(OPTIMISERS[name], model.named_parameters())
    ids = torch.arange(6).reshape(2, 3)
    loss = NextToken()(model, TokenBatch(ids=ids, targets=ids, n_supervised=6)).total
    loss.backward()
    gradients = optimiser.gradients()
    optimiser.step(gate(gradients, loss, clip_norm=None, blocked=torch.zeros(())), 1.0)
    # a moment has the shape of its parameter; AdamW's counter of steps is one number
    state = optimiser.state_tensors().values()
    rows = rows_of(OPTIMISERS[name], described)
    assert rows["weights"] == sum(p.nbytes for p in model.parameters())
    assert rows["gradients"] == sum(gradient.nbytes for gradient in gradients)
    assert rows["optimiser"] == sum(tensor.nbytes for tensor in state if tensor.ndim)


@pytest.mark.parametrize("rounding", get_args(Rounding))
@pytest.mark.parametrize("name", ["adamw", "muon"])
def test_weights_in_bfloat16_take_the_bytes_that_torch_takes(name: str, rounding: Rounding) -> None:
    model = assemble(BUSY, seed=0)
    learn_in_bfloat16(model, rounding)
    optimiser = assemble_optimiser(OPTIMISERS[name], model.named_parameters())
    parameters = list(model.parameters())
    for parameter in parameters:
        parameter.grad = torch.zeros_like(parameter)
    zero = torch.zeros(())
    optimiser.step(gate(optimiser.gradients(), zero, clip_norm=None, blocked=zero), 1.0)
    counted_rows = state_memory(BUSY, OPTIMISERS[name], rounding=rounding)
    rows = {row.part: row.n_bytes for row in counted_rows}
    low_bits = [getattr(p, "low_bits", None) for p in parameters]
    remainders = sum(bits.nbytes for bits in low_bits if bits is not None)
    assert rows["weights"] == sum(p.nbytes for p in parameters) + remainders
    assert rows["gradients"] == sum(gradient.nbytes for gradient in optimiser.gradients())
    state = optimiser.state_tensors().values()
    assert rows["optimiser"] == sum(tensor.nbytes for tensor in state if tensor.ndim)


def test_activations_are_counted_as_on_paper() -> None:
    # per token, 4 bytes each: what goes into 2 norms of 2 layers, and the state after the last
    wide = 2 * 2 * 4 + 4
    # as wide as the products, per layer: what comes out of 2 norms, queries and their output,
    # keys and values, 2 d_ff
    narrow = 2 * (2 * 4 + 2 * 6 + 2 * 3 + 2 * 5)
    assert rows_of(ADAMW)["activations"] == 2 * 3 * (4 * wide + 4 * narrow)
    assert rows_of(ADAMW, precision="bfloat16")["activations"] == 2 * 3 * (4 * wide + 2 * narrow)
    assert rows_of(ADAMW, sequences=6)["activations"] == 3 * rows_of(ADAMW)["activations"]


def test_dropout_leaves_its_masks_and_products_leave_the_weights_of_attention() -> None:
    plain = rows_of(ADAMW)["activations"]
    # a mask after each of 2 sublayers of 2 layers, and one of the embedding
    dropped = rows_of(ADAMW, with_stack(dropout=0.1))["activations"]
    assert dropped == plain + 6 * 4 * (2 * 2 * 4 + 4)
    # a weight for each of 3 keys in 2 heads of 2 layers
    products = rows_of(ADAMW, kernel="products")["activations"]
    assert products == plain + 6 * 4 * (2 * 2 * 3)


def test_what_no_fused_kernel_does_leaves_its_scores_in_memory() -> None:
    capped = with_stack(attention=replace(SMALL_HEADS, soft_cap=5.0))
    extra_bytes = rows_of(ADAMW, capped)["activations"] - rows_of(ADAMW)["activations"]
    # for each of 6 tokens, in 2 layers: a score and a weight for 3 keys in 2 heads
    assert extra_bytes == 6 * 2 * (2 * 2 * 3) * 4
    # every doubling of the text doubles what each token leaves
    long = rows_of(ADAMW, replace(capped, context_length=6))["activations"]
    assert long > 2 * rows_of(ADAMW, capped)["activations"]
    plain = rows_of(ADAMW, replace(SMALL, context_length=6))["activations"]
    assert plain == 2 * rows_of(ADAMW)["activations"]


def test_both_stacks_of_a_pair_leave_activations() -> None:
    pair = replace(
        SMALL,
        encoder=SMALL_STACK,
        decoder=replace(SMALL_STACK, cross_attention=SMALL_HEADS),
    )
    rows = rows_of(ADAMW, pair)
    assert rows["encoder activations"] == rows_of(ADAMW)["activations"]
    # and the state that goes into its norm, and what comes out
    crossed = 6 * 2 * (2 * 4 + 2 * 6 + 2 * 3) * 4
    assert rows["decoder activations"] == rows_of(ADAMW)["activations"] + crossed
