from __future__ import annotations

import dataclasses
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.batches import IGNORED, TokenBatch
from pellucid.data import Masking, masked_batches, masked_windows, masking_for, next_token_batches
from pellucid.errors import TextError
from pellucid.tokenizers import Framing, mask_id_of, train_bytes, with_mask
from pellucid.tokenizers.train import train_byte_pairs, train_word_pieces

FEW = settings(max_examples=40)
TEXTS = ["one small step (for a man), one giant leap for mankind.", "who said this first?"] * 4
PIECES = with_mask(train_word_pieces(TEXTS, 70, lowercase=True))
BYTES = with_mask(train_bytes())
PAIRS = with_mask(train_byte_pairs(TEXTS, 300))


def stream(tokenizer: Any, texts: list[str] = TEXTS) -> tuple[np.ndarray, np.ndarray]:
    """All tokens, and where documents begin."""
    documents = [tokenizer.encode_document(text) for text in texts]
    starts = np.cumsum([0, *(len(document) for document in documents)])[:-1]
    return np.array([token for document in documents for token in document], np.uint16), starts


def rule(tokenizer: Any = BYTES, **changes: Any) -> Masking:
    shares = {"chosen": 0.15, "masked": 0.8, "replaced": 0.1, "whole_words": False} | changes
    return masking_for(tokenizer, **shares)


def restored(batch: TokenBatch) -> torch.Tensor:
    """The text that was hidden."""
    return torch.where(batch.targets == IGNORED, batch.ids, batch.targets)


TOKENS, STARTS = stream(BYTES)


@FEW
@given(
    position=st.integers(0, 100),
    n=st.integers(1, 7),
    seed=st.integers(0, 2**63 - 1),
    words=st.booleans(),
)
def test_what_is_hidden_is_given_back_by_the_targets(
    position: int, n: int, seed: int, words: bool
) -> None:
    masking = rule(whole_words=words)
    batch = masked_batches(TOKENS, masking, context_length=34, seed=seed).batch(position, n)
    plain = next_token_batches(TOKENS, context_length=32, seed=seed).batch(position, n)
    restored_ids = restored(batch)
    assert torch.equal(restored_ids[:, 1:-1], plain.ids)
    assert set(restored_ids[:, 0].tolist()) == {BYTES.begin_id}
    assert set(restored_ids[:, -1].tolist()) == {BYTES.end_id}
    assert batch.n_supervised == max(1, int((batch.targets != IGNORED).sum()))


@FEW
@given(position=st.integers(0, 100), n=st.integers(1, 7), seed=st.integers(0, 9))
def test_same_seed_and_position_hide_the_same_tokens_however_they_are_asked_for(
    position: int, n: int, seed: int
) -> None:
    masking = rule()
    batched = masked_batches(TOKENS, masking, context_length=20, seed=seed).batch(position, n)
    fresh = masked_batches(TOKENS, masking, context_length=20, seed=seed)
    singles = [fresh.batch(position + index, 1) for index in reversed(range(n))][::-1]
    assert torch.equal(batched.ids, torch.cat([single.ids for single in singles]))
    assert torch.equal(batched.targets, torch.cat([single.targets for single in singles]))


def test_each_epoch_and_each_seed_hides_other_tokens() -> None:
    masking = dataclasses.replace(rule(), masked=1.0, replaced=0.0)
    tokens = np.full(64, 5, dtype=np.uint16)  # windows that differ in nothing but what is hidden
    order = masked_batches(tokens, masking, context_length=66, seed=0)
    hidden = [order.batch(epoch, 1).ids.tolist() for epoch in range(10)]
    other = masked_batches(tokens, masking, context_length=66, seed=1)
    hidden += [other.batch(epoch, 1).ids.tolist() for epoch in range(10)]
    assert len({str(mask) for mask in hidden}) == 20


def test_special_tokens_are_never_chosen_and_never_drawn() -> None:
    masking = rule(chosen=0.9, masked=0.2, replaced=0.8)
    order = masked_batches(TOKENS, masking, context_length=34, seed=0)
    batch = order.batch(0, 40 * order.rows_per_epoch)
    special = torch.tensor([BYTES.begin_id, BYTES.end_id])
    assert not torch.isin(batch.targets, special).any()
    assert not torch.isin(batch.targets, torch.tensor([mask_id_of(BYTES)])).any()
    replaced = (batch.targets != IGNORED) & (batch.ids != batch.targets)
    assert not torch.isin(batch.ids[replaced], special).any()
    # every ordinary token is drawn: all 256 bytes, and the mask
    assert len(batch.ids[replaced].unique()) == 257


def test_each_ordinary_token_is_chosen_once_an_epoch_where_all_are() -> None:
    masking = dataclasses.replace(rule(), chosen=1.0)
    order = masked_batches(np.arange(95, dtype=np.uint16), masking, context_length=12, seed=0)
    batch = order.batch(order.rows_per_epoch, order.rows_per_epoch)
    targets = batch.targets[batch.targets != IGNORED].tolist()
    assert sorted(targets) == list(range(95))


@pytest.mark.parametrize("words", [False, True])
def test_shares_are_those_that_were_asked_for(words: bool) -> None:
    """Chi-squared of mask, another token, the same: 3 classes, 2 degrees of freedom."""
    masking = rule(whole_words=words)
    order = masked_batches(TOKENS, masking, context_length=34, seed=1)
    batch = order.batch(0, 300 * order.rows_per_epoch)
    special = torch.tensor([BYTES.begin_id, BYTES.end_id])
    possible = 300 * int((~torch.isin(torch.from_numpy(TOKENS.astype(int)), special)).sum())
    is_target = batch.targets != IGNORED
    n = int(is_target.sum())
    assert n / possible == pytest.approx(0.15, rel=0.02 if words else 0.005)
    masks = int((batch.ids[is_target] == mask_id_of(BYTES)).sum())
    n_same = int((batch.ids[is_target] == batch.targets[is_target]).sum())
    # of those replaced, one in 256 is drawn as it was
    expected = np.array([0.8, 0.1 * 255 / 256, 0.1 + 0.1 / 256]) * n
    counts = np.array([masks, n - masks - n_same, n_same])
    assert float(((counts - expected) ** 2 / expected).sum()) < 13.8  # 1 in 1000


def test_every_place_of_a_window_is_as_likely_as_any_other() -> None:
    masking = rule()
    tokens = np.full(40, 5, dtype=np.uint16)
    batch = masked_batches(tokens, masking, context_length=42, seed=3).batch(0, 4000)
    counts = (batch.targets != IGNORED).sum(dim=0)[1:-1].double()
    assert float(counts.sum()) == 4000 * 6  # 15% of 40 is a whole number
    expected = 4000 * 0.15
    # drawn without replacement: the statistic is (1 - 0.15) of a chi-squared of 39
    assert float(((counts - expected) ** 2 / expected).sum()) / 0.85 < 73


@pytest.mark.parametrize("tokenizer", [PIECES, PAIRS], ids=["word pieces", "byte pairs"])
def test_whole_words_are_chosen_whole_or_not_at_all(tokenizer: Any) -> None:
    tokens, starts = stream(tokenizer)
    masking = rule(tokenizer, whole_words=True, chosen=0.3)
    order = masked_batches(tokens, masking, context_length=26, seed=0, documents=starts)
    # which of two equally frequent pairs becomes a piece is chance: enough rows for any of them
    batch = order.batch(0, 20 * order.rows_per_epoch)
    n_several = 0
    for row, targets in zip(restored(batch).numpy(), batch.targets.numpy(), strict=True):
        words = masking.vocabulary.words(row[1:-1])
        is_target = targets[1:-1] != IGNORED
        for word in np.unique(words):
            is_chosen = is_target[words == word]
            assert is_chosen.all() or not is_chosen.any()
            n_several += is_chosen.all() and len(is_chosen) > 1
    assert n_several > 20


def test_rows_are_framed_as_a_text_is_when_the_model_is_used() -> None:
    masking = rule(PIECES)
    framed = Framing(PIECES).ids_of("one")
    assert [*masking.before, *PIECES.encode("one"), *masking.after] == framed
    assert (masking.before, masking.after) == ((PIECES.begin_id,), (PIECES.end_id,))
    order = masked_batches(stream(PIECES)[0], masking, context_length=9, seed=0)
    assert order.batch(0, 2).ids.shape == (2, 9)
    assert order.rows_per_epoch * order.tokens_per_row == len(stream(PIECES)[0])


def test_frame_belongs_to_the_documents_that_it_stands_next_to() -> None:
    masking = rule()
    kinds = {"context_length": 34, "documents": STARTS}
    batch = masked_batches(TOKENS, masking, seed=0, **kinds).batch(0, 5)
    plain = next_token_batches(TOKENS, context_length=32, seed=0, documents=STARTS).batch(0, 5)
    assert batch.documents is not None
    assert plain.documents is not None
    assert torch.equal(batch.documents[:, 1:-1], plain.documents)
    assert torch.equal(batch.documents[:, 0], plain.documents[:, 0])
    assert torch.equal(batch.documents[:, -1], plain.documents[:, -1])


@FEW
@given(n=st.integers(1, 90), length=st.integers(3, 20), batch_size=st.integers(1, 4))
def test_evaluation_hides_each_token_at_most_once_and_the_same_every_time(
    n: int, length: int, batch_size: int
) -> None:
    masking = dataclasses.replace(rule(), chosen=1.0)
    tokens = np.arange(n, dtype=np.uint16)
    cut = {"context_length": length, "batch_size": batch_size, "seed": 0}
    batches = list(masked_windows(tokens, masking, **cut))
    second_reading = list(masked_windows(tokens, masking, **(cut | {"batch_size": 1})))
    hidden_tokens = [token for b in batches for token in b.targets[b.targets != IGNORED].tolist()]
    assert Counter(hidden_tokens) == Counter(range(n))
    ids = torch.cat([batch.ids for batch in batches])
    assert torch.equal(ids, torch.cat([batch.ids for batch in second_reading]))


def test_context_without_room_beside_the_frame_is_refused() -> None:
    with pytest.raises(TextError, match="no room for a text between the 2 tokens that frame it"):
        masked_batches(TOKENS, rule(), context_length=2, seed=0)
