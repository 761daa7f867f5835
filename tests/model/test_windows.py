"""A window by blocks is the window by a mask."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.model import NoPositions, look
from pellucid.model.cache import KeysAndValues
from pellucid.model.scores import Scoring, gather
from pellucid.model.windows import in_blocks

CPU = torch.device("cpu")


@settings(max_examples=60)
@given(
    time=st.integers(1, 17),
    window=st.integers(1, 18),
    batch=st.integers(1, 3),
    kv_heads=st.sampled_from([1, 2, 4]),
)
def test_blocks_give_what_a_mask_gives(time: int, window: int, batch: int, kv_heads: int) -> None:
    generator = torch.Generator().manual_seed(time * 31 + window)

    def draw_heads(heads: int, width: int) -> torch.Tensor:
        x = torch.randn(batch, heads, time, width, generator=generator, dtype=torch.float64)
        return x.requires_grad_()

    q, read = draw_heads(4, 8), KeysAndValues(draw_heads(kv_heads, 8), draw_heads(kv_heads, 6))
    scoring, no_positions = Scoring(0.3), NoPositions()
    view = look(time, CPU, causal=True)
    by_blocks = gather(q, read, scoring, no_positions, view, window)
    by_mask = gather(q, read, scoring, no_positions, view.in_window(window, time, CPU))
    torch.testing.assert_close(by_blocks, by_mask, rtol=0, atol=1e-12)
    parts = (q, *read)
    grads = [torch.autograd.grad(mixed.square().sum(), parts) for mixed in (by_blocks, by_mask)]
    for block_grad, mask_grad in zip(*grads, strict=True):
        torch.testing.assert_close(block_grad, mask_grad, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kept", [5, 9])
def test_one_query_after_a_cache_reads_its_window_alone(kept: int) -> None:
    read = KeysAndValues(*torch.randn(2, 1, 2, kept, 8, dtype=torch.float64))
    q = torch.randn(1, 2, 1, 8, dtype=torch.float64)
    view = look(1, CPU, causal=True, start=kept - 1)
    mixed = gather(q, read, Scoring(0.3), NoPositions(), view, 4)
    zeroed = KeysAndValues(*(part.clone() for part in read))
    for part in zeroed:
        part[:, :, :-4] = torch.nan
    torch.testing.assert_close(mixed, gather(q, zeroed, Scoring(0.3), NoPositions(), view, 4))


def test_no_square_is_made_for_a_window() -> None:
    q = torch.zeros(1, 1, 4096, 8)
    blocks = in_blocks(q, KeysAndValues(q, q), 64)
    assert blocks.mask.numel() == 4096 * 128
