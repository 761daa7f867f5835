"""Masks of padding as torch's own attention takes them: true hides a key."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pellucid.diagnosis import diagnose, history_of_watch
from pellucid.vitals import watch
from pellucid.vitals.call.padding_mask import KeyMaskNotes

ROWS, TIME, VOCAB, PAD = 8, 12, 40, 0


class Classifier(nn.Module):
    """Tells whether a text holds more high ids than low ones, of texts of several lengths.

    Args:
        hide: Makes the mask of padding from the ids.
    """

    def __init__(self, hide: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.hide = hide
        self.table = nn.Embedding(VOCAB, 16, padding_idx=PAD)
        layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1)
        self.head = nn.Linear(16, 2)

    def forward(self, text: Tensor) -> Tensor:
        states = self.encoder(self.table(text), src_key_padding_mask=self.hide(text))
        return self.head(states.mean(1))


def texts(generator: torch.Generator) -> Tensor:
    ids = torch.randint(1, VOCAB, (ROWS, TIME), generator=generator)
    lengths = torch.randint(4, TIME, (ROWS, 1), generator=generator)
    return ids.masked_fill(torch.arange(TIME) >= lengths, PAD)


def codes(hide: Callable[[Tensor], Tensor]) -> list[str]:
    """The codes of a short training with this mask."""
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    model = Classifier(hide)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    with watch(model, optimizer) as w:
        for _ in range(6):
            ids = texts(generator)
            labels = (ids > VOCAB // 2).sum(1).gt((ids != PAD).sum(1) / 2).long()
            loss = F.cross_entropy(model(ids), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            w.step(loss)
    return [finding.code for finding in diagnose(history_of_watch(w))]


def added(text: Tensor) -> Tensor:
    """The mask as numbers that are added to the scores."""
    return torch.zeros(text.shape).masked_fill(text == PAD, -torch.inf)


@pytest.mark.parametrize("hide", [lambda text: text == PAD, added])
def test_a_mask_that_hides_the_padding_is_right(hide: Callable[[Tensor], Tensor]) -> None:
    assert "ATT011" not in codes(hide)


def test_a_mask_that_hides_the_tokens_is_named() -> None:
    assert codes(lambda text: text != PAD)[0] == "ATT011"


def test_other_masks_and_other_modules_are_left_alone() -> None:
    ids = texts(torch.Generator().manual_seed(1))
    notes = KeyMaskNotes(ids)
    notes.note("mine", nn.Linear(2, 2), (ids != PAD,))
    notes.note("encoder", nn.TransformerEncoder.__new__(nn.TransformerEncoder), (ids, ids * 1.0))
    assert notes.signs() == {}
    attention = nn.MultiheadAttention(4, 2)
    notes.note("attention", attention, (ids == PAD,))
    assert notes.signs() == {"call.hidden_keys": 0}
    notes.note("attention", attention, (ids != PAD,))
    assert notes.signs() == {"call.hidden_keys": 1}
    square = KeyMaskNotes(ids[:, :ROWS])
    square.note("attention", attention, (ids[:, :ROWS] != PAD,))
    assert square.signs() == {}
