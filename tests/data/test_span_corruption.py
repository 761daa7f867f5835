from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.batches import PairBatch
from pellucid.data import Spans, next_token_batches, span_batches, span_windows, spans_for
from pellucid.data.span_corruption import random_spans
from pellucid.errors import TextError
from pellucid.tokenizers import sentinels_of, train_bytes, with_sentinels

FEW = settings(max_examples=60)
BYTES = with_sentinels(train_bytes())
TOKENS = np.random.Generator(np.random.Philox(0)).integers(0, 256, 900).astype(np.uint16)
SHARES = st.floats(0.02, 0.9)
MEANS = st.floats(1, 9)


def rule(corrupted: float = 0.15, mean_span: float = 3.0) -> Spans:
    return spans_for(BYTES, corrupted=corrupted, mean_span=mean_span, start_id=BYTES.begin_id)


def put_together(source: list[int], target: list[int], spans: Spans) -> list[int]:
    """The text: each sentinel of the source replaced by the pieces that follow it in the target."""
    assert source[-1] == target[-1] == spans.end_id
    places = [place for place, token in enumerate(target) if token in spans.sentinels]
    pieces_by_sentinel = {
        target[start]: target[start + 1 : end]
        for start, end in pairwise([*places, len(target) - 1])
    }
    return [piece for token in source[:-1] for piece in pieces_by_sentinel.get(token, [token])]


@FEW
@given(
    corrupted=SHARES,
    mean_span=MEANS,
    context_length=st.integers(6, 80),
    position=st.integers(0, 99),
    seed=st.integers(0, 2**63 - 1),
)
def test_source_and_target_together_give_back_the_window(
    corrupted: float, mean_span: float, context_length: int, position: int, seed: int
) -> None:
    spans = rule(corrupted, mean_span)
    order = span_batches(TOKENS, spans, context_length=context_length, seed=seed)
    batch = order.batch(position, 3)
    window = spans.window(context_length)
    plain = next_token_batches(TOKENS, context_length=window, seed=seed).batch(position, 3)
    for row in range(3):
        source, target = batch.source[row].tolist(), batch.targets[row].tolist()
        assert put_together(source, target, spans) == plain.ids[row].tolist()
        n_tokens, n_spans = spans.cut_out(window)
        assert [t for t in source if t in spans.sentinels] == list(spans.sentinels[:n_spans])
        assert [t for t in target if t in spans.sentinels] == list(spans.sentinels[:n_spans])
        assert len(target) == n_tokens + n_spans + 1
        assert batch.ids[row].tolist() == [spans.start_id, *target[:-1]]
    assert max(batch.source.shape[1], batch.targets.shape[1]) <= context_length
    assert batch.n_supervised == batch.targets.numel()
    assert batch.source_padding.all()


@FEW
@given(length=st.integers(2, 400), corrupted=SHARES, mean_span=MEANS, seed=st.integers(0, 9))
def test_spans_have_the_number_and_the_tokens_that_were_asked_for(
    length: int, corrupted: float, mean_span: float, seed: int
) -> None:
    n_tokens, n_spans = rule(corrupted, mean_span).cut_out(length)
    random = np.random.Generator(np.random.Philox(seed))
    is_hidden = random_spans(length, n_tokens, n_spans, random)
    assert len(is_hidden) == length
    assert is_hidden.sum() == n_tokens
    assert (np.diff(is_hidden.astype(int), prepend=0) == 1).sum() == n_spans
    assert not is_hidden[0]
    assert is_hidden[-1]
    assert abs(n_tokens - length * corrupted) <= 1 or n_tokens in (1, length - 1)


def test_share_and_mean_span_hold_as_the_paper_has_them() -> None:
    spans = rule()
    # Raffel et al.: 512 tokens of text in, of inputs of 568 tokens, and targets of 114
    assert spans.window(512) == 568
    n_tokens, n_spans = spans.cut_out(568)
    assert n_tokens + n_spans + 1 == 114
    assert n_tokens / 568 == pytest.approx(0.15, abs=0.001)
    assert n_tokens / n_spans == pytest.approx(3, abs=0.1)


def test_every_way_of_parting_is_equally_likely() -> None:
    random = np.random.Generator(np.random.Philox(5))
    draws = [tuple(random_spans(8, 3, 2, random).tolist()) for _ in range(4000)]
    kinds, counts = np.unique(np.array(draws), axis=0, return_counts=True)
    assert len(kinds) == 4 * 2  # 5 kept tokens in 2 parts, and 3 cut out in 2
    assert float(((counts - 500) ** 2 / 500).sum()) < 24.3  # 1 in 1000 at 7 degrees of freedom


def test_same_seed_and_position_cut_the_same_spans_and_another_seed_others() -> None:
    def batch(seed: int, position: int) -> PairBatch:
        return span_batches(TOKENS, rule(), context_length=40, seed=seed).batch(position, 4)

    assert torch.equal(batch(0, 7).source, batch(0, 7).source)
    assert torch.equal(batch(0, 7).source[1:], batch(0, 8).source[:-1])
    assert not torch.equal(batch(0, 7).source, batch(1, 7).source)


def test_evaluation_cuts_the_same_spans_out_of_all_windows_in_order() -> None:
    spans = rule()
    window = spans.window(40)
    batches = list(span_windows(TOKENS, spans, context_length=40, batch_size=4, seed=0))
    second_reading = list(span_windows(TOKENS, spans, context_length=40, batch_size=9, seed=0))
    sources = torch.cat([batch.source for batch in batches])
    targets = torch.cat([batch.targets for batch in batches])
    assert torch.equal(sources, torch.cat([batch.source for batch in second_reading]))
    restored_texts = [
        put_together(source, target, spans)
        for source, target in zip(sources.tolist(), targets.tolist(), strict=True)
    ]
    assert [token for text in restored_texts[:-1] for token in text] == TOKENS[
        : -(900 % window)
    ].tolist()
    assert restored_texts[-1] == TOKENS[-window:].tolist()


def test_windows_are_no_longer_than_there_are_sentinels_for() -> None:
    spans = rule()
    assert spans.cut_out(spans.window(4096))[1] == 100
    few_sentinels = Spans(corrupted=0.15, mean_span=3, sentinels=(7, 8), start_id=0, end_id=1)
    assert few_sentinels.cut_out(few_sentinels.window(4096))[1] == 2


def test_short_context_and_short_text_are_refused() -> None:
    with pytest.raises(TextError, match="context of 2 tokens has no room for a text and a span"):
        span_batches(TOKENS, rule(), context_length=2, seed=0)
    with pytest.raises(TextError, match="a text of one token is too short to cut"):
        list(span_windows(TOKENS[:1], rule(), context_length=9, batch_size=1, seed=0))


def test_sentinels_are_those_of_the_tokenizer() -> None:
    assert list(rule().sentinels) == sentinels_of(BYTES)
