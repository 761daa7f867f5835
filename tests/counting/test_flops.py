from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid import config
from pellucid.counting import flops_per_token
from pellucid.counting.flops import visible_keys
from pellucid.counting.formulas import evaluate
from support.architectures import (
    LINEAR,
    MEMORY,
    SMALL,
    SMALL_HEADS,
    SMALL_STACK,
    transformers,
    with_stack,
)


def forward(model: config.Transformer) -> dict[str, int]:
    return {row.part: row.forward for row in flops_per_token(model)}


def test_flops_are_counted_as_on_paper() -> None:
    assert forward(SMALL) == {
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


@given(length=st.integers(1, 12), window=st.integers(1, 15), causal=st.booleans())
def test_keys_that_a_query_sees_are_those_that_masks_let_through(
    length: int, window: int, causal: bool
) -> None:
    def mean_keys(window: int) -> int:
        pairs = ((query, key) for query in range(length) for key in range(length))
        return sum(
            (0 <= query - key < window) if causal else (abs(query - key) < window)
            for query, key in pairs
        )

    sizes = {"T": length, "w": min(window, length)}
    formula = visible_keys(causal=causal, window=True)
    assert evaluate(formula, sizes) * length == mean_keys(window)
    assert evaluate(visible_keys(causal=causal, window=False), sizes) * length == mean_keys(length)


def test_a_window_costs_less_and_one_that_holds_all_costs_the_same() -> None:
    part = "attention scores and sums"
    # 3 tokens see 1, 2 and 2 keys
    narrow = with_stack(attention=replace(SMALL_HEADS, window=2))
    assert forward(narrow)[part] == 2 * 2 * 2 * 6 * 5 // 3
    wide = with_stack(attention=replace(SMALL_HEADS, window=99))
    assert forward(wide)[part] == forward(SMALL)[part]


def test_values_of_their_own_width_are_counted() -> None:
    model = with_stack(attention=replace(SMALL_HEADS, d_value=5))
    assert forward(model)["attention scores and sums"] == 2 * (2 * 2 * (3 + 5) * 2)


def test_an_encoder_sees_every_token() -> None:
    encoder = replace(SMALL, decoder=None, encoder=SMALL_STACK)
    assert forward(encoder)["attention scores and sums"] == 2 * (2 * 6 * 2 * 3)


def test_linear_attention_costs_the_same_however_long_the_text() -> None:
    model = with_stack(attention=LINEAR)
    part = "attention sums"
    # within a chunk of 2: 1.5 keys of 6 features, twice; the state is read and written
    assert forward(model)[part] == 2 * (2 * 2 * 6 * 3 // 2 + 4 * 2 * 9)
    assert forward(replace(model, context_length=1024))[part] == forward(model)[part]


def test_a_memory_is_counted_as_on_paper() -> None:
    part = "attention scores and sums"
    frozen = replace(MEMORY, frozen=True)
    # windows of 1, 2 and 2 keys; a memory that is only read
    assert forward(with_stack(attention=frozen))[part] == 2 * (2 * 2 * 6 * 5 // 3 + 2 * 2 * 9)
    extra_work = (
        forward(with_stack(attention=MEMORY))[part] - forward(with_stack(attention=frozen))[part]
    )
    # chunks of 2: 1.5 keys on average, four more products by a matrix, decays of all pairs
    assert extra_work == 2 * (2 * 2 * 6 * 3 // 2 + 4 * 2 * 2 * 9 + 2 * 3 * 4 // 3)


def test_a_decoder_that_looks_across_sees_all_of_the_other_text() -> None:
    pair = replace(
        SMALL,
        encoder=SMALL_STACK,
        decoder=replace(SMALL_STACK, cross_attention=SMALL_HEADS),
    )
    rows, decoder_alone = forward(pair), forward(SMALL)
    assert rows["cross attention projections"] == decoder_alone["attention projections"]
    assert rows["cross attention scores and sums"] == 2 * (2 * 6 * 2 * 3)
    assert rows["decoder attention scores and sums"] == decoder_alone["attention scores and sums"]
    assert rows["head"] == decoder_alone["head"]


@settings(max_examples=100)
@given(model=transformers())
def test_every_model_can_be_counted_and_names_no_part_twice(model: config.Transformer) -> None:
    rows = flops_per_token(model)
    assert len({row.part for row in rows}) == len(rows)
    assert all(row.forward >= 0 for row in rows)
    headed = isinstance(model.head, config.LanguageHead)
    assert ("head" in {row.part for row in rows}) == headed


def test_transform_and_pooler_cost_their_matrix() -> None:
    norm = config.LayerNorm(eps=1e-5, bias=True)
    transform = config.HeadTransform(activation="gelu", norm=norm)
    model = replace(SMALL, head=config.LanguageHead(transform=transform), pooler=True)
    assert forward(model)["head transform"] == 2 * 16
    assert forward(model)["pooler, once a text"] == pytest.approx(2 * 16 / 3, abs=1)


def test_classes_cost_their_matrix_once_a_text() -> None:
    head = config.ClassificationHead(
        classes=("a", "b", "c"), pooling="last", dropout=0.0, bias=True
    )
    assert forward(replace(SMALL, head=head))["classifier, once a text"] == 2 * 3 * 4 // 3
