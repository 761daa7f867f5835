"""Models that read a row to its end, and what they still know of its text there."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pellucid.diagnosis import diagnose, history_of_watch
from pellucid.vitals import watch

ROWS, TIME, VOCAB, PAD = 8, 48, 40, 0


class Recurrent(nn.Module):
    """A classifier of the state at a row's last token, or at the end of its padding.

    Args:
        reads_end: Whether it is the end of the padding.
        pads: The id that its table of embeddings keeps at zero.
    """

    def __init__(self, *, reads_end: bool, pads: int | None = PAD) -> None:
        super().__init__()
        self.table = nn.Embedding(VOCAB, 16, padding_idx=pads)
        self.lstm = nn.LSTM(16, 16, batch_first=True)
        self.head = nn.Linear(16, 3)
        self.reads_end = reads_end

    def forward(self, text: Tensor, lengths: Tensor) -> Tensor:
        states, _ = self.lstm(self.table(text))
        last = states[:, -1] if self.reads_end else states[torch.arange(len(text)), lengths - 1]
        return self.head(last)


class Pooled(nn.Module):
    """A classifier of the mean of all places, padding included."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(VOCAB, 16, padding_idx=PAD)
        self.head = nn.Linear(16, 3)

    def forward(self, text: Tensor, lengths: Tensor) -> Tensor:
        return self.head(torch.tanh(self.table(text).mean(1)))


def codes(model: nn.Module, *, pads_before: bool = False) -> list[str]:
    """The codes of a short training on rows that are mostly padding."""
    torch.manual_seed(0)
    draws = torch.Generator().manual_seed(0)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    with watch(model, optimizer) as w:
        for _ in range(6):
            ids = torch.randint(1, VOCAB, (ROWS, TIME), generator=draws)
            lengths = torch.randint(4, 12, (ROWS,), generator=draws)
            ids = ids.masked_fill(torch.arange(TIME) >= lengths[:, None], PAD)
            labels = ids[:, 0] % 3
            loss = F.cross_entropy(model(ids.flip(1) if pads_before else ids, lengths), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            w.step(loss)
    return [finding.code for finding in diagnose(history_of_watch(w))]


@pytest.mark.parametrize("pads", [PAD, None])
def test_a_state_at_the_end_of_the_padding_knows_nothing_of_the_text(pads: int | None) -> None:
    assert codes(Recurrent(reads_end=True, pads=pads))[0] == "ATT003"


@pytest.mark.parametrize(
    ("model", "options"),
    [
        (Recurrent(reads_end=False), {}),
        (Recurrent(reads_end=True), {"pads_before": True}),
        (Recurrent(reads_end=False, pads=None), {}),
        (Pooled(), {}),
    ],
)
def test_outputs_that_follow_the_text_are_left_alone(
    model: nn.Module, options: dict[str, Any]
) -> None:
    assert "ATT003" not in codes(model, **options)
