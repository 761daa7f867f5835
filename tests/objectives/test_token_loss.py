"""The next-token objective on a model."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from pellucid import maths
from pellucid.batches import IGNORED, TokenBatch
from pellucid.objectives import NextToken
from support.models import VARIANTS, build, random_ids


def batch_of(rows: int, ignored: int) -> TokenBatch:
    ids = random_ids(rows, 11)
    targets = ids[:, 1:].clone()
    targets[0, :ignored] = IGNORED
    return TokenBatch(
        ids=ids[:, :-1], targets=targets, n_supervised=int((targets != IGNORED).sum())
    )


def test_is_the_mean_cross_entropy_of_the_next_token() -> None:
    model, batch = build(VARIANTS["rotary"]), batch_of(3, 4)
    loss = NextToken()(model, batch)
    plain = F.cross_entropy(model(batch.ids).flatten(0, 1), batch.targets.flatten())
    torch.testing.assert_close(loss.total, plain)
    torch.testing.assert_close(loss.parts["loss_nats"], plain)
    logits = model(batch.ids)[batch.targets != IGNORED]
    torch.testing.assert_close(loss.parts["log_z"], logits.logsumexp(-1).mean())


def test_plain_part_does_not_know_smoothing_or_penalty() -> None:
    model, batch = build(VARIANTS["rotary"]), batch_of(2, 0)
    plain = NextToken()(model, batch)
    penal = NextToken(label_smoothing=0.1, z_loss=0.1)(model, batch)
    torch.testing.assert_close(penal.parts["loss_nats"], plain.total)
    assert penal.total > plain.total


def test_tied_embedding_gets_both_gradients() -> None:
    model, batch = build(VARIANTS["tied and scaled"]), batch_of(2, 3)
    own_loss = NextToken()(model, batch).total
    plain = F.cross_entropy(model(batch.ids).flatten(0, 1), batch.targets.flatten())
    weights = list(model.parameters())
    torch.testing.assert_close(
        torch.autograd.grad(own_loss, weights), torch.autograd.grad(plain, weights)
    )


def test_entropy_bonus_is_taken_off_and_named() -> None:
    model, batch = build(VARIANTS["busy head"]), batch_of(3, 4)
    plain, paid = NextToken()(model, batch), NextToken(entropy_bonus=0.2)(model, batch)
    entropy = maths.entropy_of_logits(model(batch.ids))[batch.targets != IGNORED].mean()
    torch.testing.assert_close(paid.parts["entropy"], entropy.detach())
    torch.testing.assert_close(paid.total, plain.total - 0.2 * entropy)
    weights = list(model.parameters())
    torch.testing.assert_close(
        torch.autograd.grad(paid.total, weights, materialize_grads=True),
        torch.autograd.grad(plain.total - 0.2 * entropy, weights, materialize_grads=True),
    )


def test_accuracy_is_the_share_of_tokens_that_were_expected_most() -> None:
    model, batch = build(VARIANTS["busy head"]), batch_of(3, 4)
    is_target = batch.targets != IGNORED
    right = (model(batch.ids).argmax(-1) == batch.targets)[is_target].double().mean()
    torch.testing.assert_close(NextToken()(model, batch).parts["accuracy"], right)
