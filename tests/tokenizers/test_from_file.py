"""Tokenizers that others have published give the ids that others have published."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tokenizers import pre_tokenizers
from tokenizers.implementations import BertWordPieceTokenizer

from pellucid.errors import TextError
from pellucid.tokenizers import Tokenizer, tokenizer_from
from pellucid.tokenizers.train import train_byte_pairs, train_bytes
from support.tiny import train_tiny

SENTENCES = (
    "Hello, World! It's naïve, isn't it?",
    "  Un-tokenizable   embeddings\tand\nlines. ",
    "漢字 and Ünïcödé, 12,345.67 € 🙂",
)


@pytest.mark.parametrize("name", ["tokenizer.json", "vocab.bpe", "encoder.json", "."])
def test_gpt2_gives_the_published_encoding(shared_data: Path, name: str) -> None:
    folder = shared_data / "tokenizer-gpt2"
    tokenizer = tokenizer_from(folder / name)
    text = (folder / "reference" / "lib.rs.txt").read_bytes().decode()
    published = json.loads((folder / "reference" / "tokens_gpt2.json").read_text())
    assert tokenizer.encode(text) == published
    assert len(published) == 11_378
    assert tokenizer.decode(published) == text


def test_gpt2_gives_the_published_ids_of_short_texts(shared_data: Path) -> None:
    file = shared_data / "reference-vectors" / "tokenizer_facts_tiktoken.json"
    facts: dict[str, list[int]] = json.loads(file.read_text())["gpt2"]
    tokenizer = tokenizer_from(shared_data / "tokenizer-gpt2" / "vocab.bpe")
    plain = {text: ids for text, ids in facts.items() if "special" not in text}
    assert len(plain) > 9
    assert {text: tokenizer.encode(text) for text in plain} == plain
    (allowed,) = (ids for text, ids in facts.items() if "special" in text)
    assert [*tokenizer.encode("hello "), tokenizer.end_id] == allowed


def test_one_token_that_is_both_begin_and_end_stands_once(shared_data: Path) -> None:
    tokenizer = tokenizer_from(shared_data / "tokenizer-gpt2")
    assert tokenizer.begin_id == tokenizer.end_id == 50_256
    assert tokenizer.encode_document("hello world") == [50_256, 31373, 995]
    assert tokenizer.token(50_256) == "<|endoftext|>"
    assert 50_256 not in tokenizer.encode("a<|endoftext|>b")


@pytest.mark.parametrize("case", ["cased", "uncased"])
def test_bert_gives_the_ids_of_the_reference(shared_data: Path, case: str) -> None:
    file = shared_data / "tokenizer-bert" / f"bert_base_{case}_vocab.txt"
    tokenizer = tokenizer_from(file)
    reference = BertWordPieceTokenizer(str(file), lowercase=case == "uncased")
    for sentence in SENTENCES:
        assert tokenizer.encode_document(sentence) == reference.encode(sentence).ids
    assert tokenizer.token(tokenizer.begin_id) == "[CLS]"
    assert tokenizer.token(tokenizer.unknown_id or 0) == "[UNK]"
    assert not tokenizer.exact


def naive_merges(text: str, n: int, winner: Callable[[Any, dict[bytes, int]], Any]) -> list[Any]:
    """Algorithm 1 of Sennrich et al., by hand; `winner` chooses among the most frequent pairs."""
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    ids = {symbol: index for index, symbol in enumerate(sorted(alphabet))}
    cut = pre_tokenizers.ByteLevel(add_prefix_space=False).pre_tokenize_str(text)
    words = Counter(tuple(word) for word, _ in cut)
    pairs: Counter[Any] = Counter()
    for word, count in words.items():
        count_pairs(pairs, word, count)
    merges: list[Any] = []
    for _ in range(n):
        highest_count = max(pairs.values())
        best = winner([pair for pair, count in pairs.items() if count == highest_count], ids)
        merges.append(best)
        ids["".join(best)] = len(ids)
        for word in [word for word in words if best in pairwise(word)]:
            count = words.pop(word)
            count_pairs(pairs, word, -count)
            words[merged(word, best)] += count
            count_pairs(pairs, merged(word, best), count)
    return merges


def count_pairs(pairs: Counter[Any], word: tuple[str, ...], count: int) -> None:
    for pair in pairwise(word):
        pairs[pair] += count


def merged(word: tuple[str, ...], pair: tuple[str, str]) -> tuple[str, ...]:
    pieces: list[str] = []
    place = 0
    while place < len(word):
        step = 2 if word[place : place + 2] == pair else 1
        pieces.append("".join(word[place : place + step]))
        place += step
    return tuple(pieces)


def spelled(pair: tuple[str, str]) -> tuple[bytes, bytes]:
    """The bytes that the symbols of byte-level BPE mean."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    unprintable = [byte for byte in range(256) if byte not in printable]
    byte_of = {chr(byte): byte for byte in printable}
    byte_of |= {chr(256 + place): byte for place, byte in enumerate(unprintable)}
    left, right = (bytes(byte_of[symbol] for symbol in token) for token in pair)
    return left, right


def test_byte_pairs_differ_from_the_reference_in_the_breaking_of_ties_alone(
    shared_data: Path,
) -> None:
    folder = shared_data / "bpe-training-refs"
    text = (folder / "corpus.en").read_text("utf-8")
    lines = (folder / "train-bpe-reference-merges.txt").read_text("utf-8").splitlines()
    reference = [tuple(line.split(" ")) for line in lines]
    model = json.loads(train_byte_pairs([text], 258 + len(reference)).to_json())["model"]
    own_merges = [tuple(pair) for pair in model["merges"]]
    assert naive_merges(text, len(reference), lambda ties, _: max(ties, key=spelled)) == reference
    by_id = naive_merges(
        text, len(reference), lambda ties, ids: min(ties, key=lambda p: (ids[p[0]], ids[p[1]]))
    )
    assert by_id == own_merges
    assert len(set(own_merges) & set(reference)) == 239


def gpt2_files(folder: Path, *, drop: str = "", extra: str = "") -> Path:
    """A GPT-2 tokenizer of one merge, as its two files."""
    tokens = [*sorted(pre_tokenizers.ByteLevel.alphabet()), "th", extra, "<|endoftext|>"]
    kept_tokens = [token for token in tokens if token not in ("", drop)]
    vocabulary = {token: index for index, token in enumerate(kept_tokens)}
    (folder / "encoder.json").write_text(json.dumps(vocabulary))
    (folder / "vocab.bpe").write_text("#version: 0.2\nt h\n")
    return folder


def test_vocabulary_that_does_not_fit_its_merges_is_refused_by_name(tmp_path: Path) -> None:
    assert tokenizer_from(gpt2_files(tmp_path)).vocab_size == 258
    with pytest.raises(TextError, match=r"the merge 't h' needs the token 'th', which has no id"):
        tokenizer_from(gpt2_files(tmp_path, drop="th"))
    with pytest.raises(TextError, match="259 tokens, but no merge makes 1 of them, such as 'zz'"):
        tokenizer_from(gpt2_files(tmp_path, extra="zz"))
    with pytest.raises(TextError, match="lacks 1 of the 256 bytes"):
        tokenizer_from(gpt2_files(tmp_path, drop="A"))
    gpt2_files(tmp_path)
    shifted = {k: v + 1 for k, v in json.loads((tmp_path / "encoder.json").read_text()).items()}
    (tmp_path / "encoder.json").write_text(json.dumps(shifted))
    with pytest.raises(TextError, match="ids are not 0 to 257: 0 is missing"):
        tokenizer_from(tmp_path)


def test_what_is_no_tokenizer_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(TextError, match="does not exist: pass"):
        tokenizer_from(tmp_path / "nothing")
    with pytest.raises(TextError, match="holds no tokenizer"):
        tokenizer_from(tmp_path)
    file = tmp_path / "vocab.txt"
    file.write_text("")
    with pytest.raises(TextError, match="is empty"):
        tokenizer_from(file)
    file.write_text("[UNK]\n[CLS]\nword\n")
    with pytest.raises(TextError, match=r"it has no \[SEP\]"):
        tokenizer_from(file)
    file.write_text("[UNK]\n[CLS]\n[SEP]\nword\nword\n")
    with pytest.raises(TextError, match="'word' twice, in lines 4 and 5"):
        tokenizer_from(file)
    (tmp_path / "merges.txt").write_text("#version: 0.2\nt h\n")
    with pytest.raises(TextError, match=r"put encoder\.json or vocab\.json into the same folder"):
        tokenizer_from(tmp_path / "merges.txt")


def test_run_keeps_a_tokenizer_of_its_own(tmp_path: Path) -> None:
    import pellucid

    source = tmp_path / "source"
    source.mkdir()
    train_bytes().save(source / "tokenizer.json")
    value = json.dumps(str(source))
    train_tiny(
        tmp_path / "run",
        steps=4,
        settings=[f'text.tokenizer={{kind = "FromFile", path = {value}}}'],
    )
    shutil.rmtree(source)
    assert pellucid.load(tmp_path / "run").tokenizer.sha256 == train_bytes().sha256
    stored = json.loads((tmp_path / "run" / "text" / "text.json").read_text())
    assert stored["tokenizer_sha256"] == train_bytes().sha256
    train_byte_pairs(["another"], 258).save(tmp_path / "run" / "tokenizer.json")
    assert Tokenizer.load(tmp_path / "run" / "tokenizer.json").vocab_size == 258
    with pytest.raises(TextError, match="is not the tokenizer that encoded the run's text"):
        pellucid.resume(tmp_path / "run", show=False)
