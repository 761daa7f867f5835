"""Nothing is chosen from logits that are no numbers, whenever the host comes to look."""

from __future__ import annotations

import math

import pytest
import torch

from pellucid.errors import NonFiniteError
from pellucid.generation import finite, not_refused
from pellucid.generation.finite import _copy_with_maximum, finite_later, read_finite

CHOSEN = torch.tensor([3, 2**24 + 1, 0])


def logits(top: float) -> torch.Tensor:
    rows = torch.full((3, 5), -math.inf)
    rows[:, 1:3] = torch.tensor([0.5, -2.0])
    rows[1, 2] = top
    return rows


def test_ids_and_the_look_at_their_logits_are_read_copy_with_maximum() -> None:
    assert _copy_with_maximum(CHOSEN, logits(1.5), "the logits") == CHOSEN.tolist()
    assert _copy_with_maximum(CHOSEN, logits(1.5).bfloat16(), "the logits") == CHOSEN.tolist()


@pytest.mark.parametrize("top", [math.nan, math.inf])
def test_what_is_not_finite_is_refused_by_name_now_or_where_it_is_read(top: float) -> None:
    for look in (
        lambda: finite(logits(top), "the logits"),
        lambda: finite(logits(top).half(), "the logits"),
        lambda: finite_later(logits(top), "the logits"),  # a CPU is not waited for
        lambda: _copy_with_maximum(CHOSEN, logits(top), "the logits"),
    ):
        with pytest.raises(NonFiniteError, match=r"^the logits are not finite") as refused:
            look()
        assert refused.value.exit_code == 3
    with not_refused():
        assert read_finite(CHOSEN, logits(top), "the logits") == CHOSEN.tolist()


@pytest.mark.filterwarnings("ignore:.*prototype")
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("top", [1.5, math.nan])
def test_a_gpu_is_waited_for_once(top: float) -> None:
    values, chosen_on_gpu = logits(top).cuda(), CHOSEN.cuda()
    with torch.cuda.device(0):
        torch.cuda.set_sync_debug_mode("error")
        try:
            assert finite_later(values, "the logits") is values
        finally:
            torch.cuda.set_sync_debug_mode("default")
    if math.isnan(top):
        with pytest.raises(NonFiniteError):
            read_finite(chosen_on_gpu, values, "the logits")
    else:
        assert read_finite(chosen_on_gpu, values, "the logits") == CHOSEN.tolist()
