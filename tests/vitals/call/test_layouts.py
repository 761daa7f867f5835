"""Models that read (time, rows), as those of torch.nn do, and batches that are turned."""

from __future__ import annotations

import random

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pellucid.diagnosis import History, Reading, diagnose, history_of_watch
from pellucid.vitals import Watch, watch

TIME, ROWS, VOCAB = 40, 12, 64


class Recurrent(nn.Module):
    """A language model of ids (time, rows), or of (rows, time)."""

    def __init__(self, *, batch_first: bool) -> None:
        super().__init__()
        self.table = nn.Embedding(VOCAB, 16)
        self.rnn = nn.LSTM(16, 24, batch_first=batch_first)
        self.head = nn.Linear(24, VOCAB)

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.rnn(self.table(ids))[0])


def stream(length: int) -> Tensor:
    """A text in which three of four tokens follow from the one before."""
    draws = random.Random(0)
    following, text = draws.sample(range(VOCAB), VOCAB), [1]
    for _ in range(length - 1):
        text.append(following[text[-1]] if draws.random() < 0.75 else draws.randrange(VOCAB))
    return torch.tensor(text)


def trained(*, batch_first: bool, in_rows: bool) -> Watch:
    """A short training that was watched.

    Args:
        batch_first: Whether the model reads (rows, time).
        in_rows: Whether the texts stand along the second axis.
    """
    torch.manual_seed(0)
    model = Recurrent(batch_first=batch_first)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    text = stream(8 * TIME * ROWS + 1)
    with watch(model, optimizer) as w:
        for step in range(8):
            start = step * TIME * ROWS
            x, y = (text[i : i + TIME * ROWS].view(ROWS, TIME) for i in (start, start + 1))
            if not in_rows:
                x, y = x.t().contiguous(), y.t().contiguous()
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            w.step(loss)
    return w


@pytest.mark.parametrize("batch_first", [False, True])
def test_texts_along_the_axis_that_is_read_as_time_are_no_fault(batch_first: bool) -> None:
    w = trained(batch_first=batch_first, in_rows=batch_first)
    assert diagnose(history_of_watch(w)) == []


@pytest.mark.parametrize(
    ("batch_first", "sign"), [(False, "batch.across"), (True, "batch.columns")]
)
def test_texts_across_the_axis_that_is_read_as_time_are_seen(batch_first: bool, sign: str) -> None:
    w = trained(batch_first=batch_first, in_rows=not batch_first)
    assert {s.id: s.value for s in w.signs}[sign] > 10
    assert diagnose(history_of_watch(w)) != []


@pytest.mark.parametrize(
    ("signs", "codes"),
    [
        ({"batch.columns": 11.0}, ["DAT009"]),
        ({"batch.columns": 11.0, "call.time_first": 1.0}, []),
        ({"batch.across": 11.0, "call.time_first": 1.0}, ["DAT009"]),
    ],
)
def test_columns_are_right_where_time_comes_first(
    signs: dict[str, float], codes: list[str]
) -> None:
    readings = {id: (Reading(1, value, "watch"),) for id, value in signs.items()}
    findings = diagnose(History(name="layout", losses=((1, 4.2), (2, 4.1)), signs=readings))
    assert [finding.code for finding in findings] == codes
