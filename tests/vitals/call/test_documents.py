"""Where a text begins behind another one in a row of questions and answers."""

from __future__ import annotations

import pytest
import torch

from pellucid.batches import IGNORED
from pellucid.vitals.call.arguments import Arguments
from pellucid.vitals.call.documents import joined_starts
from pellucid.vitals.taps.recorded_call import Call

_START, _END = 1, 2


@pytest.mark.parametrize("is_closed", [True, False])
def test_texts_with_an_end_between_them_count_as_told_apart(is_closed: bool) -> None:
    text = [_START, 5, 6, 7, _END if is_closed else 8]
    tokens = torch.tensor([text * 2, text * 2])
    targets = torch.full_like(tokens, IGNORED)
    for place in (2, 3, 7, 8):
        targets[:, place] = tokens[:, place + 1]
    call = Call((), {"input_ids": tokens})
    arguments = Arguments(call, "input_ids", ends=(_END,), starts=(_START,))
    starts = joined_starts(arguments, tokens, targets)
    assert (starts is None) == is_closed
