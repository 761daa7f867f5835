"""Rows of one label: texts that stand twice in them; and targets that are padding amid a text."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from pellucid.batches import IGNORED
from pellucid.vitals.call.arguments import Arguments
from pellucid.vitals.call.padding_mask import shown_before
from pellucid.vitals.call.paid_targets import PaidTargets
from pellucid.vitals.call.row_content import one_token
from pellucid.vitals.call.target_rows import padding_for_text, unended_rows, unpaid_rows
from pellucid.vitals.call.text_rows import (
    at_highest,
    is_cut_short,
    is_doubled,
    measure,
    same_halves,
    without_common_padding,
)
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


def filled_rows(*texts: list[int], at_start: bool) -> Tensor:
    width = max(map(len, texts))
    pads = [[PAD] * (width - len(text)) for text in texts]
    pairs = zip(pads, texts, strict=True)
    return torch.tensor([p + t if at_start else t + p for p, t in pairs])


def test_padding_before_a_text_is_seen_unless_the_mask_hides_it() -> None:
    texts = [TEXT, TEXT * 2, TEXT * 3]
    before, behind = (filled_rows(*texts, at_start=start) for start in (True, False))
    arguments = Arguments(Call((), {"input_ids": before}), "input_ids", pad=PAD)
    assert shown_before(arguments) == pytest.approx(2 / 3)
    call = Call((), {"input_ids": before, "mask": (before != PAD).long()})
    assert shown_before(replace(arguments, call=call, mask="mask")) == 0
    assert shown_before(replace(arguments, call=Call((), {"input_ids": behind}))) == 0
    assert shown_before(replace(arguments, pad=None)) is None
    alike = Call((), {"input_ids": before[:1].expand(3, -1)})
    assert shown_before(replace(arguments, call=alike)) == 0


def test_rows_of_one_token_and_padding_are_one_token() -> None:
    rows = filled_rows([3] * 16, [3] * 24, [3] * 32, at_start=False)
    assert float(one_token(rows)) == 1
    short = filled_rows([3] * 3, [4] * 4, [5] * 16, at_start=False)
    assert float(one_token(short)) < 0.5


def test_rows_cut_out_of_a_stream_may_hold_the_end_of_a_text() -> None:
    ids = torch.arange(40).view(8, 5) + 5
    arguments = Arguments(Call((), {"ids": ids}), "ids", special=(END,), room=64)
    assert is_cut_short(arguments, ids)
    ids[0, 3] = END
    assert is_cut_short(arguments, ids)
    ids[:4, 3] = END
    assert not is_cut_short(arguments, ids)


def test_rows_that_are_cut_and_filled_up_again_are_cut_short() -> None:
    ids = torch.nn.functional.pad(torch.arange(32).view(8, 4) + 5, (0, 12), value=PAD)
    mask = (ids[:4] != PAD).long()
    call = Call((), {"input_ids": ids[:4], "mask": mask})
    arguments = Arguments(call, "input_ids", mask="mask", room=64)
    assert measure(arguments, ids, None)["batch.cut_length"] == 4
    mask[1, 3] = 0  # a shorter text
    assert "batch.cut_length" not in measure(arguments, ids, None)
    mask[1, 3] = 1
    mask[:, 0] = 0  # filled up at the start too
    assert without_common_padding(arguments, ids).shape == ids.shape
    mask[:, :] = 1
    assert without_common_padding(arguments, ids).shape == ids.shape


@pytest.mark.parametrize(
    ("ends", "share"),
    [
        ([[9], [9], [9], [9]], 0.0),  # an end that the config does not know
        ([[8], [8], [8], [8]], 1.0),  # a full stop, which stands inside of texts too
        ([[END], [END], [END], [END]], 0.0),
    ],
)
def test_answers_are_endless_without_an_end_of_their_own(
    ends: list[list[int]], share: float
) -> None:
    texts = [[5, 6, 8, 7, *[n] * 2, *end] for n, end in enumerate(ends, start=20)]
    tokens = filled_rows(*texts, [30] * 12, at_start=False)
    targets = torch.full_like(tokens, IGNORED)
    targets[:, :-1] = torch.where(tokens[:, 1:] == PAD, IGNORED, tokens[:, 1:])
    arguments = Arguments(Call((), {"ids": tokens}), "ids", pad=PAD, ends=(END,))
    signs = unended_rows(arguments, tokens, targets, targets)
    assert signs is not None
    assert signs["targets.endless"] == share
    assert signs["targets.unended"] == 0


def test_rows_without_labels_are_counted_in_the_whole_batch() -> None:
    labels = torch.tensor([[5, 6], [IGNORED, IGNORED], [IGNORED, IGNORED], [IGNORED, IGNORED]])
    call = Call((), {"ids": labels[:1].clamp_min(0), "labels": labels[:1]})
    arguments = Arguments(call, "ids", labels="labels")
    known = PaidTargets(labels, labels[:1], single=1.0)
    assert unpaid_rows(arguments, known) == 0.75
    assert unpaid_rows(arguments, None) == 0


def cut_off(bound: int) -> tuple[Arguments, Tensor]:
    """Rows of ids that are cut off at a bound."""
    draws = torch.Generator().manual_seed(1)
    ids = torch.randint(10, 90, (8, 24), generator=draws).clamp_max(bound)
    return Arguments(Call((), {"input_ids": ids}), "input_ids"), ids


def test_ids_that_are_cut_off_show_where_each_token_has_a_class_too() -> None:
    arguments, ids = cut_off(50)
    assert at_highest(arguments, ids, None) > 0.3
    assert at_highest(arguments, ids, ids % 4) > 0.3
    assert at_highest(arguments, ids, ids) > 0.3
    # a mask is no target
    other_tokens = torch.where(ids == 50, 32 + ids % 7, ids)
    assert at_highest(arguments, ids, other_tokens) == 0
    assert at_highest(*cut_off(200), None) == 0


@pytest.mark.parametrize("targets", [None, torch.full((4, 9), IGNORED)])
def test_starts_that_come_twice_show_whatever_the_outputs_are(targets: Tensor | None) -> None:
    ids = torch.tensor([[START, START, 5 + i, *TEXT, END, PAD] for i in range(4)])
    arguments = Arguments(Call((), {"input_ids": ids}), "input_ids")
    assert measure(arguments, ids, targets)["batch.doubled_start"] == 1
    assert measure(arguments, ids[:, 1:], None)["batch.doubled_start"] == 0
    assert "batch.doubled_start" not in measure(arguments, ids[:3], None)


@pytest.mark.parametrize(("is_asked", "share"), [(True, 0.0), (False, 1.0)])
def test_an_end_that_a_teacher_gives_a_share_of_is_asked_for(is_asked: bool, share: float) -> None:
    """Places of several tokens have no single target, but are paid for."""
    texts = [[*range(10, 18 + n), END] for n in range(4)]
    tokens = filled_rows(*texts, [30] * 14, at_start=False)
    targets = torch.full_like(tokens, IGNORED)
    targets[:, 3:6] = tokens[:, 4:7]  # what is clear to the teacher
    all_targets = targets.clone()
    for row, text in enumerate(texts):
        all_targets[row, 6 : len(text) - 2 + is_asked] = 50
    arguments = Arguments(Call((), {"ids": tokens}), "ids", pad=PAD, ends=(END,))
    signs = unended_rows(arguments, tokens, targets, all_targets)
    assert signs is not None
    assert signs["targets.unended"] == share
