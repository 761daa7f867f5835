"""The next-token objective on a model."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from pellucid.batches import IGNORED, TokenBatch
from pellucid.objectives import NextToken
from support.models import VARIANTS, build, random_ids


def batch_of(rows: int, ignored: int) -> TokenBatch:
    ids = random_ids(rows, 11)
    targets = ids[:, 1:].clone()
    targets[0, :ignored] = IGNORED
    return TokenBatch(ids[:, :-1], targets, int((targets != IGNORED).sum()))


def test_is_the_mean_cross_entropy_of_the_next_token() -> None:
    model, batch = build(VARIANTS["rotary"]), batch_of(3, 4)
    loss = NextToken()(model, batch, batch.n_supervised)
    plain = F.cross_entropy(model(batch.ids).flatten(0, 1), batch.targets.flatten())
    torch.testing.assert_close(loss.total, plain)
    torch.testing.assert_close(loss.parts["loss_nats"], plain)
    logits = model(batch.ids)[batch.targets != IGNORED]
    torch.testing.assert_close(loss.parts["log_z"], logits.logsumexp(-1).mean())


def test_plain_part_does_not_know_smoothing_or_penalty() -> None:
    model, batch = build(VARIANTS["rotary"]), batch_of(2, 0)
    plain = NextToken()(model, batch, batch.n_supervised)
    penal = NextToken(label_smoothing=0.1, z_loss=0.1)(model, batch, batch.n_supervised)
    torch.testing.assert_close(penal.parts["loss_nats"], plain.total)
    assert penal.total > plain.total


def test_tied_embedding_gets_both_gradients() -> None:
    model, batch = build(VARIANTS["tied and scaled"]), batch_of(2, 3)
    ours = NextToken()(model, batch, batch.n_supervised).total
    plain = F.cross_entropy(model(batch.ids).flatten(0, 1), batch.targets.flatten())
    weights = list(model.parameters())
    torch.testing.assert_close(
        torch.autograd.grad(ours, weights), torch.autograd.grad(plain, weights)
    )
