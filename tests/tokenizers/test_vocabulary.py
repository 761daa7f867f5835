from __future__ import annotations

import numpy as np
import pytest
import tokenizers
from tokenizers import models

from pellucid.errors import TextError
from pellucid.tokenizers import (
    Framing,
    Tokenizer,
    mask_id_of,
    sentinels_of,
    train_bytes,
    vocabulary_of,
    with_mask,
    with_sentinels,
)
from pellucid.tokenizers.train import (
    train_byte_pairs,
    train_characters,
    train_word_pieces,
    train_words,
)

TEXTS = [
    "The unhappiest people, it's said (in 1912), were playing; unhappy players played on.\n"
] * 9
MADE = {
    "bytes": train_bytes(),
    "characters": train_characters(TEXTS),
    "byte pairs": train_byte_pairs(TEXTS, 300),
    "words": train_words(TEXTS, 60),
    "word pieces": train_word_pieces(TEXTS, 90, lowercase=True),
}


def words_in(tokenizer: Tokenizer, text: str) -> list[str]:
    """The words that the tables find, each decoded; a blank alone is one too, and left out."""
    ids = np.array(tokenizer.encode(text))
    words = vocabulary_of(tokenizer).words(ids)
    words_found = [
        tokenizer.decode(ids[words == word].tolist()).strip() for word in np.unique(words)
    ]
    return [word for word in words_found if word]


@pytest.mark.parametrize("kind", MADE)
def test_words_are_those_of_the_text_whatever_the_tokens_are(kind: str) -> None:
    expected = ["the", "people", ",", "were", "(", "in", "1912", ")", "played", "on", ".", "it"]
    text = "The people, were (in 1912) played on.\nit"
    lower_words = [word.lower() for word in words_in(MADE[kind], text)]
    assert lower_words == (
        expected[:-1] if kind == "words" else expected
    )  # only " it" was ever met


def test_apostrophe_is_within_a_word_where_the_tokenizer_does_not_say_otherwise() -> None:
    assert words_in(MADE["byte pairs"], "it's on") == ["it's", "on"]
    assert words_in(MADE["word pieces"], "it's on") == ["it", "'", "s", "on"]


def test_words_of_word_pieces_are_those_that_the_library_tells() -> None:
    tokenizer = MADE["word pieces"]
    inner = tokenizers.Tokenizer.from_str(tokenizer.to_json())
    text = " ".join(reversed(TEXTS[0].split())) + " unplayed, (plied) 1921!"
    encoding = inner.encode(text, add_special_tokens=False)
    assert len(set(encoding.word_ids)) < len(encoding.ids)
    # an unknown token is a special token here, and a word of its own there, too
    assert vocabulary_of(tokenizer).words(np.array(encoding.ids)).tolist() == encoding.word_ids


@pytest.mark.parametrize("kind", MADE)
def test_special_tokens_are_words_of_their_own_and_not_ordinary(kind: str) -> None:
    tokenizer = MADE[kind]
    vocabulary = vocabulary_of(tokenizer)
    special = {tokenizer.begin_id, tokenizer.end_id, tokenizer.unknown_id} - {None}
    assert set(np.flatnonzero(vocabulary.special).tolist()) == special
    all_ids = [*vocabulary.ordinary.tolist(), *special]
    assert sorted(all_ids) == list(range(tokenizer.vocab_size))
    (letter,) = tokenizer.encode("e")
    ids = np.array([letter, tokenizer.end_id, tokenizer.begin_id, letter])
    assert vocabulary.words(ids).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("kind", MADE)
def test_mask_is_added_at_the_end_of_a_tokenizer_made_here_and_once(kind: str) -> None:
    plain = MADE[kind]
    with pytest.raises(TextError, match=r"has no mask token"):
        mask_id_of(plain)
    masked = with_mask(plain)
    assert mask_id_of(masked) == plain.vocab_size
    assert masked.vocab_size == plain.vocab_size + 1
    assert masked.roles()["mask_token"] == "<mask>"
    assert with_mask(masked).sha256 == masked.sha256
    assert masked.encode(TEXTS[0]) == plain.encode(TEXTS[0])
    assert mask_id_of(masked) not in masked.encode("a <mask> of text")  # text is text
    assert Framing(masked, masks=True).ids_of("a <mask>").count(mask_id_of(masked)) == 1


@pytest.mark.parametrize("kind", MADE)
def test_hundred_sentinels_are_added_at_the_end_of_a_tokenizer_made_here(kind: str) -> None:
    plain = MADE[kind]
    with pytest.raises(TextError, match=r"has no sentinels"):
        sentinels_of(plain)
    extended = with_sentinels(plain)
    assert sentinels_of(extended) == list(range(plain.vocab_size, plain.vocab_size + 100))
    assert vocabulary_of(extended).special[sentinels_of(extended)].all()
    assert with_sentinels(extended).sha256 == extended.sha256


def test_a_mask_that_is_written_stands_for_a_token_with_the_blank_before_it() -> None:
    pairs = with_mask(train_byte_pairs(["the cat sat on the mat"] * 9, 300))
    ids = Framing(pairs, masks=True).ids_of("the <mask> sat")[1:-1]
    assert [pairs.token(token_id) for token_id in ids] == ["the", "<mask>", " sat"]
    single = with_mask(train_bytes())  # there a blank is a token, and a mask stands for a byte
    ids = Framing(single, masks=True).ids_of("a <mask>")[1:-1]
    assert [single.token(token_id) for token_id in ids] == ["a", " ", "<mask>"]


def test_tokenizer_of_others_is_not_given_tokens_that_its_models_do_not_know() -> None:
    vocabulary = {"<s>": 0, "</s>": 1, "a": 2}
    foreign = Tokenizer(tokenizers.Tokenizer(models.WordLevel(vocabulary, unk_token="a")))
    with pytest.raises(TextError, match=r"comes from a file and has no mask token"):
        with_mask(foreign)
    with pytest.raises(TextError, match=r"comes from a file and has no sentinels"):
        with_sentinels(foreign)


def test_mask_and_sentinels_that_a_file_brings_are_taken() -> None:
    vocabulary = {"<s>": 0, "</s>": 1, "a": 2, "<extra_id_1>": 3, "<extra_id_0>": 4, "<mask>": 5}
    inner = tokenizers.Tokenizer(models.WordLevel(vocabulary, unk_token="a"))
    inner.add_special_tokens(["<mask>", "<extra_id_0>", "<extra_id_1>"])
    foreign = Tokenizer(inner)
    assert mask_id_of(with_mask(foreign)) == 5
    assert sentinels_of(with_sentinels(foreign)) == [4, 3]
