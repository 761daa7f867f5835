"""Rows of one label: texts that stand twice in them; and targets that are padding amid a text."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from pellucid.batches import IGNORED
from pellucid.vitals.call.arguments import Arguments
from pellucid.vitals.call.paid_targets import PaidTargets
from pellucid.vitals.call.target_rows import padding_for_text
from pellucid.vitals.call.text_rows import is_doubled, same_halves
from pellucid.vitals.taps.recorded_call import Call

PAD, START, END = 0, 1, 2
TEXT, OTHER = [7, 8, 9, 8], [7, 9, 9, 8]


@pytest.mark.parametrize(
    ("row", "is_twice"),
    [
        ([*TEXT, END, *TEXT, END], True),
        ([*TEXT, END, *TEXT], True),
        ([*TEXT, END, END, *TEXT, END], True),
        ([*TEXT, END, *OTHER, END], False),
        ([7, 8, 7, 8], False),
        ([7, 7, 7, END, 7, 7, 7], False),
    ],
)
def test_a_text_stands_twice(row: list[int], is_twice: bool) -> None:
    assert is_doubled(row) == is_twice


def test_the_share_of_rows_that_hold_a_text_twice() -> None:
    once = [START, *TEXT, END, *OTHER, END, PAD]
    twice = [START, *TEXT, END, *TEXT, END, PAD]
    ids = torch.tensor([once, twice, twice, twice])
    arguments = Arguments(Call((), {"input_ids": ids, "mask": (ids != PAD).long()}), "input_ids")
    assert same_halves(replace(arguments, mask="mask"), ids) == 0.75
    assert same_halves(replace(arguments, pad=PAD), ids) == 0.75
    assert same_halves(replace(arguments, pad=PAD), ids[:3]) is None


def paid(targets: Tensor, *, of_tokens: bool) -> PaidTargets:
    return PaidTargets(targets, targets, unbalanced=0.0 if of_tokens else None)


def test_padding_that_is_asked_for_amid_a_text_is_counted_unless_it_may_be_a_class() -> None:
    tokens = torch.tensor([[START, *TEXT, END, PAD, PAD]])
    arguments = Arguments(Call((), {"input_ids": tokens}), "input_ids", pad=PAD)
    masked = torch.tensor([[PAD, 7, PAD, PAD, PAD, PAD, IGNORED, IGNORED]])
    share = padding_for_text(arguments, tokens, masked, paid(masked, of_tokens=True))
    assert share == pytest.approx(4 / 6)
    assert padding_for_text(arguments, tokens, masked, paid(masked, of_tokens=False)) == 0
    # padding may be the end of a text
    following = torch.tensor([[*TEXT, END, PAD, PAD, IGNORED]])
    assert padding_for_text(arguments, tokens, following, paid(following, of_tokens=True)) == 0
