from __future__ import annotations

from pathlib import Path

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import models

from pellucid.errors import TextError
from pellucid.tokenizers import Tokenizer
from pellucid.tokenizers.special_tokens import BEGIN, END, UNKNOWN
from pellucid.tokenizers.train import train_byte_pairs, train_bytes, train_characters

FEW_EXAMPLES = settings(max_examples=60)
ENGLISH = "the quick brown fox jumps over the lazy dog; the cat sat on the mat.\n" * 5
BYTES = train_bytes()
BYTE_PAIRS = train_byte_pairs([ENGLISH], 300)
CHARACTERS = train_characters([ENGLISH])
EVERY_TEXT = pytest.mark.parametrize("tokenizer", [BYTES, BYTE_PAIRS], ids=["bytes", "pairs"])
EACH = pytest.mark.parametrize(
    "tokenizer", [BYTES, BYTE_PAIRS, CHARACTERS], ids=["bytes", "pairs", "characters"]
)
SCATTERED = "🙂 世界, naïve 👩‍👩‍👧 e\u0301 \u200b\r\n\ttabs  and   blanks "


@EVERY_TEXT
@FEW_EXAMPLES
@given(text=st.text())
def test_any_text_comes_back_as_it_was(tokenizer: Tokenizer, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.decode(tokenizer.encode_document(text)) == text


@FEW_EXAMPLES
@given(text=st.text(alphabet=sorted(set(ENGLISH))))
def test_text_of_known_characters_comes_back_as_it_was(text: str) -> None:
    ids = CHARACTERS.encode(text)
    assert len(ids) == len(text)
    assert CHARACTERS.decode(ids) == text


@FEW_EXAMPLES
@given(text=st.text())
def test_bytes_are_one_token_each(text: str) -> None:
    assert len(BYTES.encode(text)) == len(text.encode())
    assert len(BYTE_PAIRS.encode(text)) <= len(text.encode())


def test_byte_pairs_shorten_the_text_they_were_trained_on() -> None:
    assert len(BYTE_PAIRS.encode(ENGLISH)) < len(ENGLISH) / 2


@EACH
def test_every_id_is_below_the_size_of_the_vocabulary(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode_document(ENGLISH + SCATTERED + BEGIN)
    assert 0 <= min(ids) <= max(ids) < tokenizer.vocab_size


def test_vocabularies_are_as_large_as_they_were_asked_to_be() -> None:
    assert BYTES.vocab_size == 256 + 2
    assert train_byte_pairs([ENGLISH], 280).vocab_size == 280
    assert train_byte_pairs(["ab"], 1000).vocab_size == 256 + 2 + 1  # nothing else to merge
    assert CHARACTERS.vocab_size == len(set(ENGLISH)) + 3


@EVERY_TEXT
def test_text_that_spells_a_special_token_is_text(tokenizer: Tokenizer) -> None:
    text = f"a{END}b{BEGIN}"
    ids = tokenizer.encode(text)
    assert not {tokenizer.begin_id, tokenizer.end_id} & set(ids)
    assert tokenizer.decode(ids) == text


def test_characters_that_spell_a_special_token_are_characters() -> None:
    tokenizer = train_characters([BEGIN, END, UNKNOWN])
    for text in (BEGIN, END, UNKNOWN):
        ids = tokenizer.encode(text)
        assert len(ids) == len(text)
        assert tokenizer.decode(ids) == text


@EACH
def test_begin_and_end_are_explicit_and_have_no_text(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode_document("the cat")
    assert ids == [tokenizer.begin_id, *tokenizer.encode("the cat"), tokenizer.end_id]
    assert tokenizer.begin_id != tokenizer.end_id
    assert tokenizer.decode([tokenizer.begin_id, tokenizer.end_id]) == ""
    assert tokenizer.token(tokenizer.begin_id) == BEGIN
    assert tokenizer.token(tokenizer.end_id) == END


def test_unknown_characters_are_counted_one_by_one() -> None:
    ids = CHARACTERS.encode("the éé cat")
    assert ids.count(CHARACTERS.unknown_id) == 2
    assert CHARACTERS.token(CHARACTERS.unknown_id or 0) == UNKNOWN


@EVERY_TEXT
def test_no_text_is_unknown_to_bytes(tokenizer: Tokenizer) -> None:
    assert tokenizer.unknown_id is None
    assert tokenizer.decode(tokenizer.encode(SCATTERED)) == SCATTERED


@FEW_EXAMPLES
@given(texts=st.lists(st.text(), max_size=4))
@pytest.mark.parametrize("tokenizer", [BYTES, BYTE_PAIRS, CHARACTERS])
def test_batch_gives_each_text_the_ids_that_it_has_alone(
    tokenizer: Tokenizer, texts: list[str]
) -> None:
    texts = [*texts, f"{BEGIN} and {END}"]
    batch_ids = [ids.tolist() for ids in tokenizer.encode_batch(texts)]
    assert batch_ids == [tokenizer.encode(text) for text in texts]


def test_byte_pairs_are_the_same_whenever_they_are_trained() -> None:
    texts = [f"word{index % 37} and some more words {index}" for index in range(300)]
    first = train_byte_pairs(texts, 400).to_json()
    assert all(train_byte_pairs(texts, 400).to_json() == first for _ in range(3))
    assert train_byte_pairs(reversed(texts), 400).to_json() == first


def test_most_frequent_pair_is_merged_first() -> None:
    tokenizer = train_byte_pairs(["zqzqzqzq ab"], 259)
    ids = tokenizer.encode("zqab")
    assert [tokenizer.token(token_id) for token_id in ids] == ["zq", "a", "b"]


@EACH
def test_saved_tokenizer_is_the_same_one(tokenizer: Tokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path / "tokenizer.json")
    loaded = Tokenizer.load(tmp_path / "tokenizer.json")
    text = ENGLISH + SCATTERED + END
    assert loaded.encode_document(text) == tokenizer.encode_document(text)
    assert loaded.to_json() == tokenizer.to_json()


def streamed(tokenizer: Tokenizer, ids: list[int]) -> list[str]:
    step = tokenizer.stream()
    return [step(token_id) for token_id in ids]


@EVERY_TEXT
@FEW_EXAMPLES
@given(text=st.text())
def test_streamed_pieces_add_up_to_the_text(tokenizer: Tokenizer, text: str) -> None:
    streamed_text = "".join(streamed(tokenizer, tokenizer.encode_document(text)))
    # a final replacement character could be the beginning of another one, and is waited for
    assert streamed_text == text if not text.endswith("\ufffd") else text.startswith(streamed_text)


@EVERY_TEXT
def test_character_of_several_tokens_comes_whole_with_the_last_of_them(
    tokenizer: Tokenizer,
) -> None:
    for character in ("🙂", "世", "é"):
        n_tokens = len(tokenizer.encode(character))
        assert n_tokens > 1
        pieces = streamed(tokenizer, tokenizer.encode(f"a{character}b"))
        assert pieces == ["a", *[""] * (n_tokens - 1), character, "b"]


@FEW_EXAMPLES
@given(ids=st.lists(st.integers(0, BYTES.vocab_size - 1), max_size=30))
def test_stream_of_bytes_that_are_no_text_shows_what_decoding_shows(ids: list[int]) -> None:
    """A model that has learned nothing writes such bytes; the end may still be waited for."""
    decoded, pieces = BYTES.decode(ids), "".join(streamed(BYTES, ids))
    assert decoded.startswith(pieces)
    assert set(decoded[len(pieces) :]) <= {"\ufffd"}


def test_two_streams_do_not_mix() -> None:
    first_stream, second_stream = BYTES.stream(), BYTES.stream()
    smile = BYTES.encode("🙂")
    assert [first_stream(token_id) for token_id in smile[:3]] == ["", "", ""]
    assert second_stream(BYTES.encode("a")[0]) == "a"
    assert first_stream(smile[3]) == "🙂"


def test_file_that_is_missing_or_no_tokenizer_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(TextError, match=r"nothing\.json does not exist"):
        Tokenizer.load(tmp_path / "nothing.json")
    (tmp_path / "bad.json").write_text('{"a": 1}')
    with pytest.raises(TextError, match=r"bad\.json is not a tokenizer"):
        Tokenizer.load(tmp_path / "bad.json")


def test_foreign_tokenizer_without_begin_and_end_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "tokenizer.json"
    tokenizers.Tokenizer(models.BPE(vocab={"a": 0}, merges=[])).save(str(file))
    with pytest.raises(TextError, match=r"tokenizer\.json: the tokenizer has no tokens that begin"):
        Tokenizer.load(file)


def test_file_that_says_to_cut_long_texts_cuts_none(tmp_path: Path) -> None:
    inner = tokenizers.Tokenizer.from_str(BYTES.to_json())
    inner.enable_truncation(4)
    inner.save(str(tmp_path / "tokenizer.json"))
    assert len(Tokenizer.load(tmp_path / "tokenizer.json").encode("a long text")) == 11


def test_vocabulary_with_gaps_has_a_row_for_its_highest_id() -> None:
    gapped = models.BPE(vocab={"<s>": 0, "</s>": 1, "a": 40}, merges=[])
    assert Tokenizer(tokenizers.Tokenizer(gapped)).vocab_size == 41
