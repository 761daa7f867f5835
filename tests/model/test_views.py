"""Who may see whom: masks that compose, and squares that are not made without need."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.errors import PellucidError
from pellucid.model import NoCache, View, look
from support.models import VARIANTS, build

CPU = torch.device("cpu")


def seen(view: View, time: int, batch: int) -> torch.Tensor:
    """Which keys each query sees, (batch, queries, keys), the kernel's own mask written out."""
    square = torch.ones(time, time, dtype=torch.bool)
    if view.causal:
        square = square.tril()
    mask = torch.ones(batch, 1, time, time, dtype=torch.bool) & square
    return (mask if view.mask is None else mask & view.mask)[:, 0]


@settings(max_examples=60)
@given(data=st.data(), time=st.integers(1, 7), batch=st.integers(1, 3), causal=st.booleans())
def test_masks_compose_as_the_words_say(
    data: st.DataObject, time: int, batch: int, causal: bool
) -> None:
    rows = st.lists(
        st.lists(st.integers(0, 2), min_size=time, max_size=time), min_size=batch, max_size=batch
    )
    documents = (
        torch.tensor(data.draw(rows)).sort(dim=1).values if data.draw(st.booleans()) else None
    )
    padding = torch.tensor(data.draw(rows)) > 0 if data.draw(st.booleans()) else None
    prefix = torch.randint(0, time + 1, (batch,)) if data.draw(st.booleans()) else None
    window = data.draw(st.none() | st.integers(1, time))
    view = look(time, CPU, causal=causal, padding=padding, documents=documents, prefix=prefix)
    mask = seen(view.in_window(window, time, CPU), time, batch)
    for row in range(batch):
        for query in range(time):
            for key in range(time):
                allowed = not causal or key <= query
                if causal and prefix is not None:
                    allowed = allowed or key < int(prefix[row])
                if padding is not None:
                    allowed = allowed and bool(padding[row, key])
                if documents is not None:
                    allowed = allowed and bool(documents[row, key] == documents[row, query])
                if window is not None:
                    allowed = allowed and abs(query - key) < window
                assert bool(mask[row, query, key]) == allowed


def test_no_square_is_made_where_the_kernel_has_another_way() -> None:
    padding = torch.ones(2, 9, dtype=torch.bool)
    assert look(9, CPU, causal=True).mask is None
    assert look(9, CPU, causal=False).mask is None
    assert look(1, CPU, causal=True, start=8).mask is None
    mask_of_padding = look(9, CPU, causal=False, padding=padding).mask
    assert mask_of_padding is not None
    assert mask_of_padding.shape == (2, 1, 1, 9)
    assert look(9, CPU, causal=True).in_window(9, 9, CPU).mask is None


def test_positions_count_from_the_beginning_of_each_document() -> None:
    documents = torch.tensor([[4, 4, 4, 5, 5, 9], [1, 2, 2, 2, 2, 2]])
    places = look(6, CPU, causal=True, documents=documents).places
    assert places is not None
    assert places.tolist() == [[0, 1, 2, 0, 1, 0], [0, 0, 1, 2, 3, 4]]


def test_documents_are_not_continued_from_a_cache() -> None:
    with pytest.raises(PellucidError, match="cannot be continued"):
        look(2, CPU, causal=True, start=3, documents=torch.zeros(1, 2, dtype=torch.long))


@pytest.mark.parametrize("name", ["rotary", "alibi", "shaw with values", "soft cap", "sinks"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_a_query_that_may_look_at_nothing_gathers_zero(name: str, dtype: torch.dtype) -> None:
    model = build(VARIANTS[name]).to(dtype)
    attention, positions = model.stack.blocks[0].attention, model.stack.positions.for_layer(0)
    x = torch.randn(2, 5, 16, dtype=dtype, requires_grad=True)
    padding = torch.tensor([[False] * 5, [True] * 5])
    view = look(5, CPU, causal=True, padding=padding)
    outputs = attention(x, positions, view, NoCache())
    zero_output = attention.output(torch.zeros(5, 16, dtype=dtype))
    torch.testing.assert_close(outputs[0], zero_output, rtol=0, atol=0)
    (grad,) = torch.autograd.grad(outputs.sum(), x)
    assert not grad[0].any()
    assert grad.isfinite().all()
    assert grad[1].any()
