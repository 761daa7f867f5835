from __future__ import annotations

import json
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.tokenizers import replay, tokenizer_from, train_bytes
from pellucid.tokenizers.tokenizer import Tokenizer
from pellucid.tokenizers.train import train_byte_pairs, train_words

PAIRS = train_byte_pairs(["low lower lowest newer wider aaaa 🙂 naïve\n" * 9], 320)


def symbols(tokenizer: Tokenizer, text: str) -> list[str]:
    """The tokens of a text as the vocabulary writes them."""
    vocabulary: dict[str, int] = json.loads(tokenizer.to_json())["model"]["vocab"]
    names = {token_id: token for token, token_id in vocabulary.items()}
    return [names[token_id] for token_id in tokenizer.encode(text)]


@settings(max_examples=60)
@given(text=st.text(alphabet="lowernid aé🙂\n"))
def test_replayed_merges_end_at_the_tokens(text: str) -> None:
    words = replay(PAIRS, text)
    assert [token for word in words for token in word.tokens] == symbols(PAIRS, text)


def test_replayed_merges_of_gpt2_end_at_the_published_tokens(shared_data: Path) -> None:
    tokenizer = tokenizer_from(shared_data / "tokenizer-gpt2" / "vocab.bpe")
    folder = shared_data / "tokenizer-gpt2" / "reference"
    text = (folder / "lib.rs.txt").read_bytes().decode()[:2000]
    words = replay(tokenizer, text)
    assert [token for word in words for token in word.tokens] == symbols(tokenizer, text)


def test_each_step_merges_the_pair_learned_first() -> None:
    ranks = PAIRS.merges()
    (word,) = replay(PAIRS, "lowest")
    assert word.steps
    assert all(ranks[step.pair] == step.rank for step in word.steps)
    assert all("".join(step.pair) in step.symbols for step in word.steps)


def test_tokenizer_without_merges_replays_none() -> None:
    assert replay(train_words(["a b"], 9), "a b") == []
    assert replay(train_bytes(), "a b") == []


@settings(max_examples=60)
@given(text=st.text())
def test_bytes_of_tokens_are_the_bytes_of_the_text(text: str) -> None:
    assert b"".join(PAIRS.bytes_of(i) or b"" for i in PAIRS.encode(text)) == text.encode()
