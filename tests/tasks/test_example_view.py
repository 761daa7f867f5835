"""The view of a batch shows its training: targets at their places, nothing over a boundary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from pellucid.batches import IGNORED, LabelBatch, PairBatch, PreferenceBatch, TokenBatch
from pellucid.tasks.example_view import view_example

NOT = IGNORED


def decode(ids: Sequence[int]) -> str:
    return "".join(chr(ord("a") + token_id) for token_id in ids)


def tensor(*rows: list[int]) -> torch.Tensor:
    return torch.tensor(rows)


ANSWER = TokenBatch(
    ids=tensor([0, 1, 2, 9, 9]),
    targets=tensor([NOT, 2, 3, NOT, NOT]),
    padding=tensor([1, 1, 1, 0, 0]).bool(),
    n_supervised=2,
)


def test_a_row_shows_what_follows_each_token_and_leaves_padding_out() -> None:
    view = view_example(ANSWER, decode)
    assert view.rows == (("a", None, "itself"), ("b", "c", "0 to 1"), ("c", "d", "0 to 2"))
    assert view.begins == ()
    assert view.note == "2 places of padding, which are neither seen nor learnt"


def test_a_pad_that_is_also_the_end_of_a_text_is_told_from_it_by_the_mask() -> None:
    ended = replace(ANSWER, padding=tensor([1, 1, 1, 1, 0]).bool())
    view = view_example(ended, decode)
    assert [token for token, _, _ in view.rows] == ["a", "b", "c", "j"]
    assert view.note == "1 place of padding, which is neither seen nor learnt"


def test_packed_neighbours_see_nothing_of_each_other() -> None:
    packed = TokenBatch(
        ids=tensor([0, 1, 2, 3, 4, 5, 9]),
        targets=tensor([1, NOT, 3, 4, NOT, NOT, NOT]),
        documents=tensor([4, 4, 5, 5, 5, 6, 7]),
        padding=tensor([1, 1, 1, 1, 1, 1, 0]).bool(),
        n_supervised=3,
    )
    view = view_example(packed, decode)
    assert view.begins == ((0, "example 1 of this row"), (2, "example 2 of this row"))
    assert view.rows == (
        ("a", "b", "itself"),
        ("b", None, "0 to 1"),
        ("c", "d", "itself"),
        ("d", "e", "2 to 3"),
        ("e", None, "2 to 4"),
    )
    assert view.note == ("1 more in this row; 1 place of padding, which is neither seen nor learnt")


def test_an_encoder_sees_both_ways() -> None:
    hidden = replace(ANSWER, targets=tensor([NOT, 1, NOT, NOT, NOT]), padding=None)
    view = view_example(hidden, decode, causal=False)
    assert view.rows[1] == ("b", "b", "0 to 4, both ways")
    assert len(view.rows) == 5


def test_a_pair_shows_the_source_and_what_is_written_while_looking_at_it() -> None:
    pair = PairBatch(
        source=tensor([0, 1, 9]),
        source_padding=tensor([1, 1, 0]).bool(),
        ids=tensor([8, 5, 6, 9]),
        targets=tensor([5, 6, 7, NOT]),
        n_supervised=3,
    )
    view = view_example(pair, decode)
    assert view.begins == ((0, "the source"), (2, "what is written"))
    assert view.rows == (
        ("a", None, "0 to 1, both ways"),
        ("b", None, "0 to 1, both ways"),
        ("i", "f", "itself and the source"),
        ("f", "g", "2 to 3 and the source"),
        ("g", "h", "2 to 4 and the source"),
    )
    assert "2 places of padding" in view.note


def test_a_labelled_text_says_its_class_by_name() -> None:
    batch = LabelBatch(
        ids=tensor([0, 1], [2, 9]),
        padding=tensor([1, 1], [1, 0]).bool(),
        labels=torch.tensor([1, 0]),
        n_supervised=2,
    )
    view = view_example(batch, decode, causal=False, classes=("ham", "spam"))
    assert view.note == "of the whole is learnt: 'spam'"
    assert view.rows == (("a", None, "0 to 1, both ways"), ("b", None, "0 to 1, both ways"))
    other = view_example(batch, decode, causal=False, row=1)
    assert other.title.startswith("row 2 ")
    assert other.rows == (("c", None, "itself"),)
    assert other.note.startswith("of the whole is learnt: class 0; 1 place of padding")
    two_labels = replace(batch, labels=torch.tensor([[1.0, 1.0], [0.0, 0.0]]))
    assert "'ham', 'spam'" in view_example(two_labels, decode, classes=("ham", "spam")).note
    assert "no class" in view_example(two_labels, decode, row=1).note


def test_a_preference_shows_both_answers() -> None:
    worse = replace(ANSWER, ids=tensor([0, 1, 7, 9, 9]), targets=tensor([NOT, 7, 9, NOT, NOT]))
    view = view_example(PreferenceBatch(chosen=ANSWER, rejected=worse, n_supervised=1), decode)
    assert view.begins == ((0, "the chosen answer"), (3, "the rejected answer"))
    assert view.rows[1] == ("b", "c", "0 to 1")
    assert view.rows[4] == ("b", "h", "3 to 4")
    assert view.note.startswith("4 places of padding")
