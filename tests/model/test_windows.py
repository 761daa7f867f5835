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

    def drawn(heads: int, width: int) -> torch.Tensor:
        x = torch.randn(batch, heads, time, width, generator=generator, dtype=torch.float64)
        return x.requires_grad_()

    q, read = drawn(4, 8), KeysAndValues(drawn(kv_heads, 8), drawn(kv_heads, 6))
    scoring, none = Scoring(0.3), NoPositions()
    view = look(time, CPU, causal=True)
    by_blocks = gather(q, read, scoring, none, view, window)
    by_mask = gather(q, read, scoring, none, view.in_window(window, time, CPU))
    torch.testing.assert_close(by_blocks, by_mask, rtol=0, atol=1e-12)
    parts = (q, *read)
    grads = [torch.autograd.grad(out.square().sum(), parts) for out in (by_blocks, by_mask)]
    for one, other in zip(*grads, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kept", [5, 9])
def test_one_query_after_a_cache_reads_its_window_alone(kept: int) -> None:
    read = KeysAndValues(*torch.randn(2, 1, 2, kept, 8, dtype=torch.float64))
    q = torch.randn(1, 2, 1, 8, dtype=torch.float64)
    view = look(1, CPU, causal=True, start=kept - 1)
    got = gather(q, read, Scoring(0.3), NoPositions(), view, 4)
    forgotten = KeysAndValues(*(part.clone() for part in read))
    for part in forgotten:
        part[:, :, :-4] = torch.nan
    torch.testing.assert_close(got, gather(q, forgotten, Scoring(0.3), NoPositions(), view, 4))


def test_no_square_is_made_for_a_window() -> None:
    q = torch.zeros(1, 1, 4096, 8)
    blocks = in_blocks(q, KeysAndValues(q, q), 64)
    assert blocks.mask.numel() == 4096 * 128
