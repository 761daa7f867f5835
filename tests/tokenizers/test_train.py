from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.tokenizers import Tokenizer
from pellucid.tokenizers.train import train_word_pieces, train_words

TEXT = "The cat sat on the mat; the dog, too.\n\n  The cats sit.\t" * 3
WORDS = train_words([TEXT], 1000)
PIECES = train_word_pieces([TEXT], 60, lowercase=True)
KNOWN = ["The", " cat", " sat", ";", " the", " dog", ",", "\n", " ", "\t", "."]


@settings(max_examples=60)
@given(words=st.lists(st.sampled_from(KNOWN)))
def test_text_of_known_words_comes_back_as_it_was(words: list[str]) -> None:
    text = "The" + "".join(words)
    ids = WORDS.encode(text)
    if WORDS.unknown_id not in ids:  # two words without a blank are a third
        assert WORDS.decode(ids) == text


def test_training_text_comes_back_from_its_words() -> None:
    assert WORDS.decode(WORDS.encode(TEXT)) == TEXT
    assert len(WORDS.encode("The cat sat")) == 3


def test_most_frequent_words_are_kept_and_others_are_unknown() -> None:
    tokenizer = train_words(["a a a a b b b c c d"], 6)
    ids = tokenizer.encode("a a b c d zebra")
    assert tokenizer.vocab_size == 6
    assert ids.count(tokenizer.unknown_id or 0) == 3
    assert train_words(["a a a a b b b c c d"], 6).sha256 == tokenizer.sha256


def test_word_pieces_are_lower_case_and_lose_white_space() -> None:
    assert PIECES.decode(PIECES.encode("THE  cat\n\nsat")) == "the cat sat"
    cased = train_word_pieces([TEXT], 60, lowercase=False)
    assert cased.decode(cased.encode("The cat")) == "The cat"


def test_word_with_a_letter_never_seen_is_one_unknown_token() -> None:
    assert PIECES.encode("the żółć") == [*PIECES.encode("the"), PIECES.unknown_id]


@pytest.mark.parametrize("size", [40, 60, 80])
def test_word_pieces_are_no_more_than_asked_for(size: int) -> None:
    assert train_word_pieces([TEXT], size, lowercase=True).vocab_size <= size


@pytest.mark.parametrize("tokenizer", [WORDS, PIECES], ids=["words", "pieces"])
def test_streamed_pieces_add_up_to_what_decoding_gives(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode_document("The cat sat on the mat.")
    step = tokenizer.stream()
    assert "".join(step(token_id) for token_id in ids) == tokenizer.decode(ids)
    assert not tokenizer.exact
