"""A module around an encoder-decoder takes two texts, under names of its own."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

from pellucid.vitals import watch

VOCAB, WIDTH, ROWS, TIME = 40, 16, 8, 12


class EncoderDecoder(nn.Module):
    """Adds up what the decoder has read, and the mean of the encoder's text."""

    def __init__(self) -> None:
        super().__init__()
        self.config = SimpleNamespace(model_type="bart", is_encoder_decoder=True, pad_token_id=0)
        self.embed, self.head = nn.Embedding(VOCAB, WIDTH), nn.Linear(WIDTH, VOCAB)

    def forward(self, source: Tensor, ids: Tensor) -> Tensor:
        states = self.embed(ids).cumsum(1) + self.embed(source).mean(1, keepdim=True)
        return self.head(states)


class Around(nn.Module):
    """Calls it with what the decoder reads, or with labels that it moves itself."""

    def __init__(self, moves: bool) -> None:
        super().__init__()
        self.net, self.moves = EncoderDecoder(), moves

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return self.net(x, y.roll(1, 1) if self.moves else y)


@pytest.mark.parametrize(
    ("moves", "shift", "unmoved"),
    [(False, 0, 1.0), (False, 1, None), (True, 0, None)],  # the first one reads its targets
)
def test_a_decoder_that_reads_its_targets_shows_through_a_module_around_it(
    moves: bool, shift: int, unmoved: float | None
) -> None:
    torch.manual_seed(0)
    model = Around(moves)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    with watch(model, optimiser) as w:
        for _ in range(3):
            source, text = torch.randint(1, VOCAB, (2, ROWS, TIME + 1))
            inputs, targets = (text[:, :TIME], text[:, 1:]) if shift else (text, text)
            logits = model(source, inputs)
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
            loss.backward()
            optimiser.step()
            optimiser.zero_grad()
            w.step(loss)
    values = {sign.id: sign.value for sign in w.signs}
    assert values["call.source"] > 0
    assert values.get("targets.unmoved") == unmoved
    assert values.get("targets.unread", 0.0) < 0.5
    assert ("call.future" in values) == bool(shift)
