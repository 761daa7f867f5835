"""What a decoder reads and is paid for, as the first call shows it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from pellucid.batches import IGNORED
from pellucid.vitals.call.alignment import alignment
from pellucid.vitals.call.arguments import Arguments
from pellucid.vitals.call.decoder_rows import measure
from pellucid.vitals.taps.recorded_call import Call

ROWS, TIME, PAD, END = 6, 24, 0, 2


def targets_of(seed: int = 3) -> Tensor:
    """Targets by Zipf's law that end in their row, and what is ignored behind them."""
    draws = torch.Generator().manual_seed(seed)
    frequencies = 1 / torch.arange(1, 60, dtype=torch.float64)
    ids = torch.multinomial(frequencies, ROWS * TIME, True, generator=draws).view(ROWS, TIME) + 10
    for row in range(ROWS):
        ids[row, TIME - 1 - row] = END
        ids[row, TIME - row :] = IGNORED
    return ids


def inputs_of(targets: Tensor) -> Tensor:
    ids = targets.clamp_min(PAD).roll(1, 1)
    ids[:, 0] = PAD
    return ids


def signs_of(tokens: Tensor, targets: Tensor, **changes: Any) -> dict[str, float]:
    source = torch.full((ROWS, 5), 300)
    call = Call((), {"input_ids": source, "decoder_input_ids": tokens})
    fields = {"pad": PAD, "ends": (END,), "special": (PAD, END), "room": 512} | changes
    arguments = Arguments(call, "decoder_input_ids", source="input_ids", **fields)
    return measure(arguments, source, tokens, targets)


def test_a_sound_decoder_has_calm_signs() -> None:
    targets = targets_of()
    signs = signs_of(inputs_of(targets), targets)
    assert set(signs.values()) == {0.0}


def test_a_decoder_that_reads_one_token_is_known() -> None:
    targets = targets_of()
    assert signs_of(torch.zeros_like(targets), targets)["batch.decoder"] == 1


def test_a_decoder_that_reads_other_rows_is_known_and_one_with_gaps_is_not() -> None:
    targets = targets_of()
    tokens = inputs_of(targets)
    assert signs_of(tokens.roll(1, 0), targets)["targets.unread"] > 0.85
    draws = torch.rand(tokens.shape, generator=torch.Generator().manual_seed(5))
    gaps = tokens.masked_fill(draws < 0.4, 5)
    assert signs_of(gaps, targets).get("targets.unread", 0.0) < 0.85


def test_targets_of_padding_are_counted() -> None:
    targets = targets_of()
    padded = targets.masked_fill(targets == IGNORED, PAD)
    assert signs_of(inputs_of(padded), padded)["targets.padding"] > 0


@pytest.mark.parametrize(("room", "share"), [(512, 1.0), (4, 0.0)])
def test_targets_that_all_stop_without_an_end_are_known(room: int, share: float) -> None:
    targets = targets_of()[:, :4]
    assert signs_of(inputs_of(targets), targets, room=room)["targets.unclosed"] == share


def test_an_end_that_the_config_does_not_name_is_one() -> None:
    targets = targets_of()
    other_end = targets.masked_fill(targets == END, 7)
    assert signs_of(inputs_of(other_end), other_end)["targets.unclosed"] == 0


def test_rows_of_two_targets_have_no_distant_offset() -> None:
    targets = targets_of()[:, :2]
    assert alignment(inputs_of(targets), targets).share >= 0


def test_a_decoder_that_is_given_its_source_is_meant() -> None:
    targets = targets_of()
    tokens = inputs_of(targets).roll(1, 0)
    call = Call((), {"input_ids": tokens, "decoder_input_ids": tokens})
    arguments = Arguments(call, "decoder_input_ids", source="input_ids", ends=(END,))
    assert "targets.unread" not in measure(arguments, tokens, tokens, targets)
