from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pellucid.data import Document, Split, choose_by_digest, split
from pellucid.errors import TextError

FEW = settings(max_examples=60)
TEXTS = st.lists(st.text(min_size=1, max_size=40), min_size=1, max_size=30)
SHARES = st.floats(0.01, 0.5)


def named(texts: list[str]) -> list[Document]:
    return [Document(f"{index}.txt", text) for index, text in enumerate(texts)]


def size(documents: tuple[Document, ...]) -> int:
    return sum(len(document.text.encode()) for document in documents)


def texts_of(documents: tuple[Document, ...]) -> list[str]:
    return sorted(document.text for document in documents)


def parted(texts: list[str], share: float) -> Split:
    try:
        return split(named(texts), share)
    except TextError:
        assume(False)
        raise


@FEW
@given(texts=TEXTS, share=SHARES)
def test_nothing_is_lost_and_nothing_is_in_both(texts: list[str], share: float) -> None:
    parts = parted(texts, share)
    assert size(parts.train) + size(parts.held_out) == sum(len(text.encode()) for text in texts)
    if parts.split_by == "documents":
        assert sorted(texts_of(parts.train) + texts_of(parts.held_out)) == sorted(texts)
    else:
        train, held_out_texts = (
            {d.name: d.text for d in parts.train},
            {d.name: d.text for d in parts.held_out},
        )
        for document in named(texts):
            ends = held_out_texts.get(document.name, "")
            assert train.get(document.name, "") + ends == document.text


@FEW
@given(texts=TEXTS, share=SHARES, seed=st.integers(0, 99))
def test_neither_names_nor_order_decide_what_is_held_out(
    texts: list[str], share: float, seed: int
) -> None:
    parts = parted(texts, share)
    mixed = random.Random(seed).sample(texts, len(texts))
    shuffled = [Document(f"other-{index:03}", text) for index, text in enumerate(mixed)]
    parts_again = split(shuffled, share)
    assert parts_again.split_by == parts.split_by
    assert texts_of(parts_again.held_out) == texts_of(parts.held_out)


@FEW
@given(texts=TEXTS, share=SHARES)
def test_whole_documents_never_overshoot_the_share_and_are_at_least_half_of_it(
    texts: list[str], share: float
) -> None:
    parts = parted(texts, share)
    assume(parts.split_by == "documents")
    held_out_bytes = share * sum(len(text.encode()) for text in texts)
    assert held_out_bytes / 2 <= size(parts.held_out) <= held_out_bytes


def test_documents_stay_in_their_order() -> None:
    documents = named([f"document number {index}" for index in range(100)])
    parts = split(documents, 0.2)
    assert parts.split_by == "documents"
    for part in (parts.train, parts.held_out):
        assert list(part) == [document for document in documents if document in part]


def test_another_document_moves_few_of_the_others() -> None:
    """A corpus that grows keeps nearly all of what it held out, held out."""
    texts = [f"text {index} " * 5 for index in range(200)]
    before = set(texts_of(split(named(texts), 0.2).held_out))
    after = set(texts_of(split(named([*texts, "one more"]), 0.2).held_out))
    assert len(before - after) <= 2


def test_of_one_long_text_the_end_is_held_out_from_a_new_line_on() -> None:
    lines = [f"line {index}\n" for index in range(1000)]
    parts = split([Document("book", "".join(lines))], 0.1)
    assert parts.split_by == "tails"
    (train,), (held_out,) = parts.train, parts.held_out
    assert train.text + held_out.text == "".join(lines)
    assert train.text.endswith("\n")
    assert held_out.text.startswith("line ")
    share = len(held_out.text) / len(train.text + held_out.text)
    assert 0.1 <= share <= 0.111


@pytest.mark.parametrize(("line_end", "begin"), [(4899, 5000), (4900, 4901), (4980, 4981)])
def test_the_tail_begins_at_a_line_of_the_hundredth_before_its_share(
    line_end: int, begin: int
) -> None:
    text = "a" * line_end + "\n" + "b" * (9_999 - line_end)
    divided = split([Document("one", text)], 0.5)
    assert divided.held_out[0].text == text[begin:]


def test_text_without_lines_is_cut_all_the_same() -> None:
    parts = split([Document("one", "x" * 1000)], 0.1)
    assert [len(d.text) for d in (*parts.train, *parts.held_out)] == [900, 100]


@pytest.mark.parametrize("documents", [[], [Document("one", "ab")]])
def test_too_little_text_is_refused(documents: list[Document]) -> None:
    with pytest.raises(TextError, match="too little text to hold any of it out"):
        split(documents, 0.05)


def test_what_is_held_out_of_a_fixed_corpus_never_changes() -> None:
    """The hashes of the texts decide; a change here changes what every run is measured on."""
    parts = split(named([f"document {index} " * (1 + index % 7) for index in range(60)]), 0.1)
    assert [document.name for document in parts.held_out] == [
        "7.txt",
        "10.txt",
        "14.txt",
        "21.txt",
        "22.txt",
        "39.txt",
        "53.txt",
        "59.txt",
    ]


def test_two_groups_are_enough_to_hold_one_out() -> None:
    digests = np.arange(32, dtype=np.uint8).reshape(2, 16)
    assert sorted(choose_by_digest(digests, 0.5).tolist()) == [False, True]
    with pytest.raises(TextError, match="1 group cannot be divided"):
        choose_by_digest(digests[[0, 0]], 0.5)


def test_a_document_that_fills_the_share_exactly_is_held_out() -> None:
    parts = split(named([10 * letter for letter in "abcd"]), 0.5)
    assert (size(parts.held_out), parts.split_by) == (20, "documents")
