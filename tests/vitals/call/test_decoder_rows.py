"""What a decoder reads and is paid for, as the first call shows it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pellucid.batches import IGNORED
from pellucid.vitals.call.alignment import alignment
from pellucid.vitals.call.arguments import Arguments, arguments_of
from pellucid.vitals.call.decoder_rows import measure
from pellucid.vitals.call.paid_targets import PaidTargets
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
    fields = {"pad": PAD, "ends": (END,), "special": (PAD, END), "room": 512, "is_of_model": True}
    fields |= changes
    arguments = Arguments(call, "decoder_input_ids", source="input_ids", **fields)
    return measure(arguments, source, tokens, targets)


def test_a_sound_decoder_has_calm_signs() -> None:
    targets = targets_of()
    signs = signs_of(inputs_of(targets), targets)
    assert set(signs.values()) == {0.0}


def test_targets_under_other_ids_than_the_decoder_reads_are_renamed() -> None:
    targets = targets_of()
    draws = torch.randint(10, 30, targets.shape, generator=torch.Generator().manual_seed(5))
    targets = torch.where(targets >= 10, draws, targets)
    tokens = inputs_of(targets)
    others = torch.where(targets >= 10, targets + 1, targets)
    assert signs_of(tokens, others)["targets.renamed"] == 1
    assert signs_of(tokens, targets.flip(0))["targets.renamed"] < 1


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


class Pair(nn.Module):
    """A model whose forward pass moves labels itself, as its config says."""

    def __init__(self, start: int | None) -> None:
        super().__init__()
        self.config = SimpleNamespace(
            model_type="pair",
            is_encoder_decoder=True,
            pad_token_id=PAD,
            decoder_start_token_id=start,
        )

    def forward(self, input_ids: Tensor, labels: Tensor) -> Tensor:
        raise NotImplementedError


def test_labels_are_moved_as_the_config_says_where_a_model_has_no_method_for_it() -> None:
    targets = targets_of()
    call = Call((), {"input_ids": torch.full((ROWS, 5), 300), "labels": targets})
    arguments = arguments_of(Pair(END), call)
    assert arguments is not None
    assert arguments.source == "input_ids"
    assert arguments.inputs[:, 0].tolist() == [END] * ROWS
    assert arguments.inputs[:, 1:].tolist() == targets[:, :-1].clamp_min(PAD).tolist()
    assert arguments_of(Pair(None), call) is None


def test_all_rows_say_whether_targets_have_an_end() -> None:
    targets = targets_of()
    bare = targets.masked_fill(targets == END, IGNORED)
    bare[:2].masked_fill_(bare[:2] != IGNORED, 11)  # the first rows end alike
    source = torch.full((ROWS, 5), 300)
    call = Call((), {"input_ids": source, "decoder_input_ids": inputs_of(bare)})
    arguments = Arguments(call, "decoder_input_ids", source="input_ids", ends=(END,), room=512)
    rows = (source[:2], inputs_of(bare)[:2], bare[:2])
    assert measure(arguments, *rows)["targets.unclosed"] == 0
    paid = PaidTargets(bare, bare[:2])
    assert measure(arguments, *rows, paid)["targets.unclosed"] > 0.5


def test_mask_of_a_source_that_was_read_before_is_no_text() -> None:
    call = Call((), {"attention_mask": torch.ones(ROWS, 5).long(), "labels": targets_of()})
    assert arguments_of(Pair(END), call) is None
