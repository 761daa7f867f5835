"""What a loss never asks for, what it asks for alone, and rows that are sorted."""

from __future__ import annotations

from typing import cast

import pytest
import torch
from torch import Tensor, nn

from pellucid.batches import IGNORED
from pellucid.diagnosis.finding import limit
from pellucid.vitals.call.alignment import are_classes
from pellucid.vitals.call.arguments import Arguments
from pellucid.vitals.call.documents import joined_starts
from pellucid.vitals.call.first_model import equal_units, longest_wavelength, trained_gains
from pellucid.vitals.call.padding_mask import misfit, misfits
from pellucid.vitals.call.positions import PositionNotes
from pellucid.vitals.call.reading_order import filled
from pellucid.vitals.call.token_order import falls
from pellucid.vitals.call.unasked import asks_for_one_id, unasked, unpaid_masks
from pellucid.vitals.taps.recorded_call import Call

ROWS, TIME, SPACE = 8, 64, 3


def text(seed: int = 0) -> Tensor:
    """Rows of 20 ids, of which `SPACE` is a fifth."""
    draws = torch.Generator().manual_seed(seed)
    ids = torch.randint(4, 24, (ROWS, TIME + 1), generator=draws)
    return ids.masked_fill(torch.rand(ids.shape, generator=draws) < 0.2, SPACE)


def split(ids: Tensor) -> tuple[Tensor, Tensor]:
    """Inputs and their next tokens."""
    return ids[:, :-1], ids[:, 1:]


def test_an_id_that_is_never_a_target_is_unasked() -> None:
    ids, targets = split(text())
    without_space = targets.masked_fill(targets == SPACE, IGNORED)
    assert unasked(ids, targets, ()) == 0
    assert unasked(ids, without_space, ()) > 0.1 > limit("LOS031", "share")
    assert unasked(ids, without_space, (SPACE,)) == 0


def test_padding_prompts_and_places_left_out_at_random_are_not_unasked() -> None:
    ids, targets = split(text(1))
    padded = ids.clone()
    padded[:, 40:] = 0
    paid = targets.masked_fill(torch.arange(1, TIME + 1) >= 40, IGNORED)
    prompts = targets.masked_fill(torch.arange(TIME) < 40, IGNORED)
    random = targets.masked_fill(torch.rand(targets.shape) < 0.3, IGNORED)
    assert unasked(padded, paid, ()) == unasked(ids, prompts, ()) == unasked(ids, random, ()) == 0


def test_one_token_that_is_asked_for_alone() -> None:
    ids, targets = split(text(2))
    alone = targets.masked_fill(targets != SPACE, IGNORED)
    assert asks_for_one_id(ids, alone) == 1
    assert asks_for_one_id(ids, targets) == 0
    alone[0, :10] = targets[0, :10]
    assert asks_for_one_id(ids, alone) == 0


def test_ids_of_sorted_rows_never_fall() -> None:
    ids = torch.randint(500, (ROWS, TIME), generator=torch.Generator().manual_seed(3))
    sorted_share = falls(ids.sort(1).values)
    assert sorted_share is not None
    assert sorted_share < limit("DAT009", "falls")
    assert 0.3 < (falls(ids) or 0.0) < 0.7
    assert falls(ids[:, :8]) is None


def test_an_id_between_all_tokens_fills_a_row() -> None:
    ids = text(6)[:, :32]
    woven = torch.stack([ids, torch.zeros_like(ids)], 2).flatten(1)
    assert filled(woven) == filled(woven.flip(1)) == 0.5
    assert filled(text(7)) == filled(torch.zeros(ROWS, TIME, dtype=torch.long)) == 0


def test_masks_of_other_rows_hide_tokens_and_show_padding() -> None:
    ids, lengths = text(4)[:4, :TIME], torch.tensor([20, 60, 34, 64])
    mask = (torch.arange(TIME) < lengths[:, None]).long()
    ids = ids.masked_fill(mask == 0, 0)

    def share(mask: Tensor) -> float | None:
        call = Call((), {"input_ids": ids, "attention_mask": mask})
        return misfit(Arguments(call, "input_ids", mask="attention_mask"))

    assert share(mask) == 0
    assert (share(mask.roll(1, 0)) or 0.0) >= limit("ATT011", "misfit")
    assert share(torch.ones_like(mask)) == 0
    # of several batches, all rows count
    shown = [mask.roll(1, 0) != 0, *[mask != 0] * 3]
    together = misfits([*((ids, part) for part in shown), None, (ids, None)])["call.misfit"]
    assert 4 * float(together) == share(mask.roll(1, 0))
    assert misfits([None, (ids, None), (ids[:, :7], mask[:, :7] != 0)]) == {}
    assert share(mask.flip(1)) is None  # they are filled up at their start


def test_rows_that_begin_late_in_a_table_of_positions_are_noted() -> None:
    table, ids = nn.Embedding(128, 4), text(5)[:, :TIME]

    def first(positions: Tensor) -> float | None:
        notes = PositionNotes(ids)
        notes.note("wpe", table, (positions,))
        return notes.signs().get("call.first_position")

    places = torch.arange(TIME)
    assert first(places[None]) == 0
    assert first((places + 50)[None]) == 50
    assert first(places + torch.arange(ROWS)[:, None]) is None


def test_a_base_of_one_has_wavelengths_far_below_a_row() -> None:
    def model(base: float) -> nn.Module:
        rotary = nn.Module()
        rotary.inv_freq = base ** (-torch.arange(0, 1, 0.25))
        return nn.Sequential(rotary)

    assert (longest_wavelength(model(1.0), TIME) or 1.0) < limit("POS006", "share")
    assert (longest_wavelength(model(1e4), TIME) or 0.0) > 10
    assert longest_wavelength(nn.Linear(2, 2), TIME) is None


def test_layers_of_one_number_are_alike_and_zeros_are_not() -> None:
    layers = nn.Sequential(nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 16))
    assert equal_units(layers) == 0
    nn.init.zeros_(layers[0].weight)
    assert equal_units(layers) == 0
    nn.init.constant_(layers[1].weight, 0.02)
    assert equal_units(layers) == 1 / 3
    assert equal_units(nn.LayerNorm(8)) is None


def test_gains_that_differ_were_trained() -> None:
    model = nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 8), nn.RMSNorm(8))
    assert trained_gains(model) == 0
    with torch.no_grad():
        cast("Tensor", model[0].weight)[3] += 1e-3
    assert trained_gains(model) == 1 / 2
    assert trained_gains(nn.Sequential(nn.Linear(8, 8))) is None
    assert trained_gains(nn.Sequential(nn.LayerNorm(1))) is None


def test_texts_that_are_joined_are_told_of_where_their_own_tokens_are_asked_for() -> None:
    ids = torch.randint(10, 90, (4, 24), generator=torch.Generator().manual_seed(1))
    ids[:, [0, 12]] = 2
    call = Call((), {"input_ids": ids})
    arguments = Arguments(call, "input_ids", starts=(2,))
    answers = torch.where(torch.arange(24) % 12 > 5, ids, IGNORED)
    starts = joined_starts(arguments, ids, answers)
    assert starts is not None
    assert starts.nonzero()[:, 1].tolist() == [12] * 4
    is_masked = torch.arange(24) % 4 == 1
    hidden = torch.where(is_masked, ids, IGNORED)
    assert joined_starts(arguments, ids.masked_fill(is_masked, 4), hidden) is None


def test_classes_are_few_kinds_that_stand_nowhere_in_the_inputs() -> None:
    ids = torch.randint(10, 90, (4, 24), generator=torch.Generator().manual_seed(1))
    assert are_classes(ids, ids % 4)
    assert not are_classes(ids, ids)  # 90 kinds
    few = ids % 20
    assert not are_classes(few, few.roll(-1, 1))
    assert not are_classes(ids[:, :20], ids % 4)
    assert not are_classes(None, ids % 4)


@pytest.mark.parametrize(
    ("least", "low", "high"),
    [(0, 0.0, 0.0), (40, 0.3, 0.5)],  # all of the masked tokens, and those of the rarer ids
)
def test_masked_tokens_that_are_not_paid_for(least: int, low: float, high: float) -> None:
    draws = torch.Generator().manual_seed(0)
    tokens = torch.randint(100, (8, 64), generator=draws)
    is_masked = torch.rand(tokens.shape, generator=draws) < 0.2
    targets = torch.where(is_masked & (tokens >= least), tokens, IGNORED)
    assert low <= unpaid_masks(torch.where(is_masked, 101, tokens), targets) <= high
    assert unpaid_masks(tokens, tokens) == 0


def test_answers_of_one_token_behind_a_template_are_no_masks() -> None:
    ids = torch.randint(20, 90, (16, 24), generator=torch.Generator().manual_seed(1))
    ids[:, [5, 12, 22]] = 10  # the template ends in an id that stands in the prompt too
    targets = torch.full_like(ids, IGNORED)
    targets[:, 22] = ids[:, 23]
    targets[::2, 22] = 7  # answers that are pushed down: the gradient names another token
    assert unpaid_masks(ids, targets) == 0
