from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings

from pellucid import config
from pellucid.counting import GrowthRow, flops_per_token, growth
from pellucid.counting.flops import window_flops
from pellucid.counting.formulas import evaluate
from pellucid.model import assemble
from support.architectures import (
    LATENT,
    LINEAR,
    MEMORY,
    SMALL,
    SMALL_HEADS,
    SMALL_STACK,
    is_built,
    transformers,
    with_stack,
)

WINDOW = replace(SMALL_HEADS, window=2)


def only(model: config.Transformer) -> GrowthRow:
    (row,) = growth(model, precision="float32")
    return row


@pytest.mark.parametrize(
    ("attention", "work", "memory", "step"),
    [
        (SMALL_HEADS, "O(T^2)", "O(T)", "O(T)"),
        (WINDOW, "O(T w)", "O(T)", "O(w)"),
        (LATENT, "O(T^2)", "O(T)", "O(T)"),
        (LINEAR, "O(T)", "O(T)", "O(1)"),
        (MEMORY, "O(T)", "O(T)", "O(w)"),
        (replace(SMALL_HEADS, soft_cap=5.0), "O(T^2)", "O(T^2)", "O(T)"),
    ],
    ids=["softmax", "window", "latent", "linear", "memory", "capped"],
)
def test_each_kind_of_attention_grows_as_the_textbook_says(
    attention: config.OneAttention, work: str, memory: str, step: str
) -> None:
    row = only(with_stack(attention=attention))
    assert (row.work, row.memory, row.step) == (work, memory, step)
    assert row.words


@pytest.mark.parametrize(
    ("attention", "ratio"),
    [(SMALL_HEADS, 4.0), (WINDOW, 2.0), (LATENT, 4.0), (LINEAR, 2.0), (MEMORY, 2.0)],
    ids=["softmax", "window", "latent", "linear", "memory"],
)
@pytest.mark.parametrize("causal", [True, False])
def test_twice_the_text_is_as_much_more_work_as_the_order_says(
    attention: config.OneAttention, ratio: float, causal: bool
) -> None:
    model = with_stack(attention=attention)
    if not causal and isinstance(attention, config.NeuralMemory):
        return  # a memory is written from left to right
    if not causal:
        model = replace(model, encoder=model.decoder, decoder=None)
    formula = only(model).work_formula

    def work(length: int) -> float:
        return float(evaluate(formula, {"T": length, **window_flops(attention, length)}))

    assert work(2**15) / work(2**14) == pytest.approx(ratio, rel=1e-3)


@settings(max_examples=60)
@given(model=transformers())
def test_work_of_a_text_is_that_of_its_tokens(model: config.Transformer) -> None:
    length = model.context_length
    per_token = {row.part: row.forward for row in flops_per_token(model)}
    stacks = dict(zip(("encoder", "decoder"), (model.encoder, model.decoder), strict=True))
    if sum(stack is not None for stack in stacks.values()) == 2:
        return
    (stack,) = model.stacks
    if isinstance(stack.attention, config.Alternating):
        return
    row = only(model)
    sizes = {"T": length, **window_flops(stack.attention, length)}
    meets = [count for part, count in per_token.items() if part.endswith("sums")]
    work = row.layers * evaluate(row.work_formula, sizes)
    assert abs(work - sum(meets) * length) < length  # whole FLOPs per token are rounded down


def cached_bytes(model: config.Transformer) -> tuple[int, int]:
    """What the model's own caches hold after two tokens: for each token of context, and once."""
    built = assemble(model, seed=0).eval()
    caches = built.new_caches()
    with torch.no_grad():
        built(torch.zeros(1, 2, dtype=torch.long), caches=caches)
    per_token = fixed = 0
    for cache in caches:
        for part in cache._store or ():
            per_token += part.nbytes // model.context_length
        for part in cache.state() or ():
            fixed += part.nbytes
    return per_token, fixed


@pytest.mark.parametrize(
    "attention",
    [SMALL_HEADS, replace(SMALL_HEADS, d_value=5), WINDOW, LATENT, LINEAR, MEMORY],
    ids=["grouped", "values of their own width", "window", "latent", "linear", "memory"],
)
def test_what_generation_keeps_is_what_the_caches_hold(attention: config.OneAttention) -> None:
    if not is_built(attention):
        pytest.skip(f"{type(attention).__name__} has no module yet")
    model = with_stack(attention=attention)
    row = only(model)
    assert (row.cache_bytes_per_token, row.state_bytes) == cached_bytes(model)


def test_an_encoder_keeps_nothing() -> None:
    row = only(replace(SMALL, encoder=SMALL_STACK, decoder=None))
    assert (row.cache_bytes_per_token, row.state_bytes) == (0, 0)
    assert (row.step, row.kept_formula) == ("none", "none")


def test_half_the_precision_is_half_the_cache() -> None:
    (half,) = growth(SMALL, precision="bfloat16")
    # 2 layers, 1 key/value head of 3 and 3 features
    assert (half.cache_bytes_per_token, only(SMALL).cache_bytes_per_token) == (24, 48)


def test_looking_across_grows_with_both_texts() -> None:
    pair = replace(
        SMALL,
        encoder=SMALL_STACK,
        decoder=replace(SMALL_STACK, cross_attention=SMALL_HEADS),
    )
    rows = {row.part: row for row in growth(pair, precision="float32")}
    assert list(rows) == ["encoder attention", "decoder attention", "cross attention"]
    cross = rows["cross attention"]
    assert (cross.work, cross.step) == ("O(n T)", "O(n)")
    work = evaluate(cross.work_formula, {"T": 5, "n": 7, "h": 2, "d_k": 3, "d_v": 3})
    assert work == 5 * 7 * 2 * 2 * 6


def test_kinds_that_take_turns_have_a_row_each() -> None:
    turns = with_stack(attention=config.Alternating(layers=(WINDOW, SMALL_HEADS)))
    rows = growth(turns, precision="float32")
    assert [(row.part, row.layers, row.work) for row in rows] == [
        ("window attention", 1, "O(T w)"),
        ("global attention", 1, "O(T^2)"),
    ]


@pytest.mark.parametrize(
    ("positions", "memory"),
    [
        (config.ALiBi(), "O(T^2)"),
        (config.BucketedBias(n_buckets=4, max_distance=6), "O(T^2)"),
        (config.ShawRelative(max_distance=2, values=True), "O(T^2)"),
        (config.Rotary(base=1e4, n_features=2), "O(T)"),
    ],
)
def test_what_is_added_to_scores_is_a_square(positions: config.Positions, memory: str) -> None:
    assert only(with_stack(positions=positions)).memory == memory
