"""What streams must give what everything at once would: any corpus, any cut, any interruption."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pellucid.data import (
    Document,
    Piece,
    ReadCounts,
    Split,
    array_writer,
    encode,
    encode_pieces,
    part,
    prepare_documents,
    survey,
)
from pellucid.data.encode import stretches_of
from pellucid.data.pieces import cut
from pellucid.data.split import Knife
from pellucid.errors import TextError
from pellucid.tokenizers import Tokenizer, train_bytes
from pellucid.tokenizers.train import (
    train_byte_pairs,
    train_characters,
    train_word_pieces,
    train_words,
)
from support.corpora import content_hash, direct_files, direct_split, parts_of, without_duplicates

FEW = settings(max_examples=30)
LETTERS = st.sampled_from("ab1é世🙂.'_ \n\t")
TEXTS = st.lists(st.text(LETTERS, min_size=1, max_size=300), min_size=1, max_size=12)
SHARES = st.floats(0.01, 0.5)
PROSE = (
    "It's the first line, isn't it?\n\nA second one (of 12 words); and more...\n"
    "    indented:\tthree  blanks   and 世界 déjà-vu 🙂🙂 x_1 \n\n\n... 3,141 ends here"
) * 3
TOKENIZERS = {
    "bytes": train_bytes(),
    "characters": train_characters([PROSE]),
    "byte pairs": train_byte_pairs([PROSE] * 20, 400),
    "words": train_words([PROSE], 200),
    "word pieces": train_word_pieces([PROSE], 200, lowercase=True),
}


def broken_up(text: str, at: Sequence[int]) -> list[str]:
    places = [0, *sorted(place % (len(text) + 1) for place in at), len(text)]
    return [text[a:b] for a, b in pairwise(places)]


def streamed(documents: Sequence[Document], at: Sequence[int]) -> Iterator[Piece]:
    """The documents in pieces, some of them empty."""
    for document in documents:
        *texts, end = broken_up(document.text, at)
        yield from (Piece(document.name, text, last=False) for text in texts)
        yield Piece(document.name, end)


@FEW
@given(texts=TEXTS, share=SHARES, at=st.lists(st.integers(0, 400), max_size=5), drop=st.booleans())
def test_corpus_in_pieces_is_parted_as_the_whole_would_be(
    texts: list[str], share: float, at: list[int], drop: bool
) -> None:
    all_documents = [Document(str(index), text) for index, text in enumerate(texts)]
    used_documents = without_duplicates(all_documents) if drop else all_documents
    expected = direct_split(used_documents, share)
    measured = survey(streamed(all_documents, at), tally := ReadCounts(), drop_duplicates=drop)
    assert tally.duplicates == len(texts) - len(set(texts))
    assert measured.n_bytes == sum(len(document.text.encode()) for document in used_documents)
    if expected is None:
        with pytest.raises(TextError, match="too little text"):
            part(lambda: streamed(all_documents, at), measured, share)
        return
    parts = part(lambda: streamed(all_documents, at), measured, share)
    assert parts.split_by == expected.split_by
    for side, documents in ((parts.train, expected.train), (parts.held_out, expected.held_out)):
        assert list(side.sizes) == [len(document.text.encode()) for document in documents]
        assert list(joined(side.pieces())) == list(documents)


def joined(pieces: Iterator[Piece]) -> Iterator[Document]:
    text = ""
    for piece in pieces:
        text += piece.text
        if piece.last:
            yield Document(piece.name, text)
            text = ""


@FEW
@given(text=st.text(LETTERS, max_size=400), longest=st.integers(1, 50), at=st.lists(st.integers(0)))
def test_text_is_cut_by_itself_alone_and_nothing_is_lost(
    text: str, longest: int, at: list[int]
) -> None:
    pieces = list(cut(broken_up(text, at), longest))
    assert "".join(pieces) == text
    assert all(0 < len(piece) <= longest for piece in pieces)
    assert pieces == list(cut([text], longest))


def test_text_is_cut_behind_a_word_then_at_any_blank_then_anywhere() -> None:
    assert list(cut(["one two.\nthree"], 11)) == ["one", " two.\nthree"]
    assert list(cut(["one. two. three."], 10)) == ["one. two.", " three."]
    assert list(cut(["x" * 10], 4)) == ["xxxx", "xxxx", "xx"]


WORDS = st.text(st.sampled_from("ab1é世🙂.'_"), max_size=5).map(lambda word: word + "s")
BLANKS = st.sampled_from([" ", "\n", "  ", "\n\n", "\t", "\n    ", " \n"])
PLAIN = st.lists(st.tuples(WORDS, BLANKS), max_size=60).map(lambda t: "".join(map("".join, t)))


@FEW
@pytest.mark.parametrize("kind", TOKENIZERS)
@given(text=PLAIN | st.just(PROSE), longest=st.integers(40, 90))
def test_long_document_in_pieces_becomes_the_ids_of_the_whole(
    kind: str, text: str, longest: int
) -> None:
    tokenizer = TOKENIZERS[kind]
    assert tokenizer.ends_at_blanks
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encode, "LONGEST_PIECE", longest)
        stretches = list(encode_pieces([Piece("a", text)], tokenizer))
    assert [int(i) for stretch in stretches for i in stretch.ids] == tokenizer.encode_document(text)
    assert (stretches[0].first, stretches[-1].last) == (True, True)
    assert (len(stretches) > 1) == (len(text) > longest)


def test_tokenizer_that_joins_over_blanks_gets_its_documents_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = json.loads(TOKENIZERS["byte pairs"].to_json())
    table["pre_tokenizer"]["use_regex"] = False
    greedy = Tokenizer(tokenizers.Tokenizer.from_str(json.dumps(table)))
    assert not greedy.ends_at_blanks
    pieces = [Piece("a book", "one "), Piece("a book", "two", last=True)]
    pieces[0] = replace(pieces[0], last=False)
    monkeypatch.setattr(encode, "LONGEST_PIECE", 4)
    assert [stretch.text for stretch in stretches_of(pieces, greedy)] == ["one two"]
    monkeypatch.setattr(encode, "_LONGEST_WHOLE", 6)
    with pytest.raises(
        TextError, match=r"a book is longer than 6 characters.*split it into several"
    ):
        list(stretches_of(pieces, greedy))


@settings(max_examples=25)
@given(
    texts=st.lists(st.text(LETTERS, min_size=1, max_size=60), min_size=2, max_size=12),
    share=SHARES,
    size=st.integers(1, 100),
    kind=st.sampled_from(sorted(TOKENIZERS)),
)
def test_shards_are_those_of_the_direct_way_whatever_the_parts(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], share: float, size: int, kind: str
) -> None:
    documents = [Document(str(index), text) for index, text in enumerate(texts)]
    split = direct_split(documents, share)
    assume(split is not None)
    assert split is not None
    folder = tmp_path_factory.mktemp("shards")
    tokenizer = TOKENIZERS[kind]
    direct_files(folder / "direct", split, tokenizer)
    measured = survey(streamed(documents, [3]), ReadCounts(), drop_duplicates=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(array_writer, "PART", size)
        patch.setattr(encode, "_BATCH", size)
        parts = part(lambda: streamed(documents, [3]), measured, share)
        manifest = prepare_documents(folder / "streamed", parts, tokenizer).manifest
    for file in (folder / "direct").iterdir():
        assert file.read_bytes() == (folder / "streamed" / file.name).read_bytes()
    assert manifest.sha256 == content_hash([*split.train, *split.held_out])
    assert manifest.train.n_bytes == sum(len(d.text.encode()) for d in split.train)
    if not tokenizer.exact:
        is_changed = [tokenizer.decode(tokenizer.encode(d.text)) != d.text for d in split.train]
        assert manifest.train.changed == sum(is_changed)
        ids = [i for d in split.train for i in tokenizer.encode_document(d.text)]
        assert manifest.train.unknown == ids.count(tokenizer.unknown_id or -1) / len(ids)


DOCUMENTS = tuple(Document(str(index), f"text {index} of some words\n") for index in range(60))
SPLIT = Split(DOCUMENTS[:50], DOCUMENTS[50:], "documents")


class PulledPlugError(Exception):
    """Raised to end a process without warning."""


@pytest.mark.parametrize("moment", [3, 20, 51, 58])
@pytest.mark.parametrize("harm", ["none", "torn journal", "flipped byte", "other key"])
def test_interrupted_encoding_goes_on_where_it_was_and_ends_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: int, harm: str
) -> None:
    tokenizer = TOKENIZERS["byte pairs"]
    monkeypatch.setattr(array_writer, "PART", 60)
    monkeypatch.setattr(encode, "_BATCH", 30)
    n_encoded: list[int] = []
    encode_batch = Tokenizer.encode_batch

    def counting(self: Tokenizer, texts: Sequence[str]) -> list[Any]:
        n_encoded.append(len(texts))
        return encode_batch(self, texts)

    monkeypatch.setattr(Tokenizer, "encode_batch", counting)
    prepare_documents(tmp_path / "straight", parts_of(SPLIT), tokenizer)
    assert sum(n_encoded) == 60
    bytes_done: list[int] = []

    def pull(n_bytes: int, ends: bool) -> None:
        bytes_done.append(n_bytes)
        if len(bytes_done) > moment:
            raise PulledPlugError

    with pytest.raises(PulledPlugError):
        prepare_documents(tmp_path / "text", parts_of(SPLIT), tokenizer, watch=pull)
    journal = tmp_path / "text.partial" / "parts.jsonl"
    if harm == "torn journal":
        journal.write_text(journal.read_text()[:-9])
    if harm == "flipped byte" and moment > 5:
        file = tmp_path / "text.partial" / "train.npy"
        content = bytearray(file.read_bytes())
        content[140] ^= 1
        file.write_bytes(content)
    if harm == "other key":
        journal.write_text(journal.read_text().replace('"key": "', '"key": "0'))
    n_encoded.clear()
    prepare_documents(tmp_path / "text", parts_of(SPLIT), tokenizer)
    for file in (tmp_path / "straight").iterdir():
        assert file.read_bytes() == (tmp_path / "text" / file.name).read_bytes()
    assert len(list((tmp_path / "text").iterdir())) == 5
    if harm == "none":
        assert sum(n_encoded) <= 60 - moment + 5
    if harm in ("other key", "flipped byte") and moment > 5:
        assert sum(n_encoded) == 60


@pytest.mark.nightly
def test_many_processes_go_on_where_one_stopped_and_write_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(array_writer, "PART", 60)
    monkeypatch.setattr(encode, "_BATCH", 30)
    n_new: list[int] = []

    def pull(n_bytes: int, ends: bool) -> None:
        n_new.append(n_bytes)
        if len(n_new) > 40:
            raise PulledPlugError

    for kind, tokenizer in TOKENIZERS.items():
        straight, text = tmp_path / kind / "straight", tmp_path / kind / "text"
        one_process = prepare_documents(straight, parts_of(SPLIT), tokenizer).manifest
        n_new.clear()
        with pytest.raises(PulledPlugError):
            prepare_documents(text, parts_of(SPLIT), tokenizer, watch=pull, n_processes=3)
        three_processes = prepare_documents(
            text, parts_of(SPLIT), tokenizer, n_processes=3
        ).manifest
        assert three_processes == one_process
        for file in straight.iterdir():
            assert file.read_bytes() == (text / file.name).read_bytes()


def test_a_process_that_ends_is_one_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pellucid.tokenizers.processes._CODE", "import sys; sys.exit(7)")
    pieces = [Piece("a", "some text", last=True)]
    with pytest.raises(TextError, match=r"has ended \(code 7\).*pass fewer --processes"):
        list(encode_pieces(pieces, TOKENIZERS["byte pairs"], n_processes=2))


def test_document_that_changes_between_two_readings_is_refused_by_its_name() -> None:
    measured = survey(streamed(DOCUMENTS, []), ReadCounts(), drop_duplicates=False)
    now = [replace(d, text=d.text.upper()) if d.name == "31" else d for d in DOCUMENTS]
    for changed_documents, name in (
        (now, "31"),
        (DOCUMENTS[:-1], "the text"),
        ((*DOCUMENTS, now[31]), "31"),
    ):
        parts = part(
            lambda changed_documents=changed_documents: streamed(changed_documents, []),
            measured,
            0.1,
        )
        pieces = chain(parts.train.pieces(), parts.held_out.pieces())
        with pytest.raises(TextError, match=f"^{name} changed while pellucid read it"):
            list(pieces)


def test_no_document_is_surveyed_as_none() -> None:
    empty = survey(iter(()), ReadCounts(), drop_duplicates=False)
    assert (len(empty.sizes), len(empty.digests), len(empty.used)) == (0, 0, 0)


def test_a_finished_part_is_in_the_files_before_the_next_one_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(array_writer, "PART", 80)
    sizes: list[tuple[int, int]] = []

    def values() -> Iterator[array_writer.Values]:
        for _ in range(3):
            yield {"train": np.zeros(10, np.int64)}
            lines = (tmp_path / array_writer.JOURNAL).read_text("utf-8").splitlines()
            sizes.append((len(lines), (tmp_path / "train.npy").stat().st_size))

    journal = array_writer.Journal(tmp_path, "key")
    journal.write("train", {"train": np.int64}, values(), dict)
    header = 128
    assert sizes == [(n + 2, header + 80 * (n + 1)) for n in range(3)]


def test_a_line_that_ends_just_before_the_cut_stays_whole_however_the_stretches_fall() -> None:
    text = "a" * 495 + "\n" + "b" * 504
    for cuts in ([1000], [498], [497, 499], list(range(480, 520))):
        knife = Knife(len(text), 0.5)
        stretches = [text[i:j] for i, j in pairwise([0, *cuts, len(text)])]
        parts = [part for stretch in stretches for part in knife.cut(stretch)]
        assert "".join(piece for in_tail, piece in parts if not in_tail) == "a" * 495 + "\n"
        assert "".join(piece for in_tail, piece in parts if in_tail) == "b" * 504
