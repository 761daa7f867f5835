"""Loops that change what they train: weights frozen on the way, and a body that is called alone."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pellucid.vitals import Watch, watch

VOCAB, WIDTH = 40, 16


class Body(nn.Module):
    """Embeddings, a layer, and a head that a loop may call by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(VOCAB, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.layer = nn.Linear(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, VOCAB)

    def get_input_embeddings(self) -> nn.Embedding:
        """As a model of transformers has it."""
        return self.table

    def states(self, ids: Tensor) -> Tensor:
        """Hidden states alone."""
        return self.layer(self.norm(self.table(ids)))

    def forward(self, ids: Tensor) -> Tensor:
        """Logits."""
        return self.head(self.states(ids))


def batch() -> Tensor:
    return torch.arange(8 * 17).reshape(8, 17) % VOCAB


def learn(w: Watch, optimizer: torch.optim.Optimizer, logits: Tensor, ids: Tensor) -> None:
    """One update, for the next tokens."""
    loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    w.step(loss)


def test_the_ledger_goes_on_after_its_weights_are_frozen() -> None:
    torch.manual_seed(0)
    model, ids = Body(), batch()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watch(model, optimizer, max_overhead=None) as w:
        for step in range(40):
            if step == 4:
                model.norm.requires_grad_(False)
                optimizer.zero_grad()
            learn(w, optimizer, model(ids[:, :-1]), ids)
    assert w.guard.off == {}
    marks = w.state.marks
    assert marks["stride"].n_seen > 30
    assert all(marks[name].n_seen == 0 for name in ("bare", "overwritten", "restored"))


def test_rows_are_known_of_a_body_that_is_called_alone() -> None:
    torch.manual_seed(0)
    model, ids = Body(), batch()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watch(model, optimizer, max_overhead=None) as w:
        for _ in range(12):
            learn(w, optimizer, model.head(model.states(ids[:, :-1])), ids)
    assert w.state.marks["same_rows"].share == 1
