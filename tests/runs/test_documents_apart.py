"""Documents kept apart while training: what a row shares its window with does not matter."""

from __future__ import annotations

from pathlib import Path

import torch

import pellucid
from pellucid.batches import TokenBatch
from pellucid.model import assemble
from pellucid.objectives import NextToken
from pellucid.runs import read_events
from pellucid.training import Evaluated
from pellucid.training.step import split_batch
from support.models import BASE
from support.tiny import TINY


def gradients(batch: TokenBatch) -> dict[str, torch.Tensor]:
    model = assemble(BASE, seed=0).double()
    NextToken()(model, batch).total.backward()
    return {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}


def test_gradients_of_two_documents_in_one_row_are_those_of_two_rows() -> None:
    ids = torch.randint(23, (1, 8), generator=torch.Generator().manual_seed(0))
    targets = ids.roll(-1, dims=1)
    documents = torch.tensor([[1] * 3 + [2] * 5])
    joint_gradients = gradients(
        TokenBatch(ids=ids, targets=targets, n_supervised=8, documents=documents)
    )
    first = gradients(TokenBatch(ids=ids[:, :3], targets=targets[:, :3], n_supervised=8))
    second = gradients(TokenBatch(ids=ids[:, 3:], targets=targets[:, 3:], n_supervised=8))
    for name, grad in joint_gradients.items():
        torch.testing.assert_close(grad, first[name] + second[name], rtol=0, atol=1e-12)


def test_parts_of_a_batch_keep_their_documents() -> None:
    ids = torch.arange(12).view(4, 3)
    batch = TokenBatch(ids=ids, targets=ids, n_supervised=12, documents=ids * 10)
    parts = list(split_batch(batch, 2))
    assert [part.documents.tolist() for part in parts if part.documents is not None] == [
        (ids[:2] * 10).tolist(),
        (ids[2:] * 10).tolist(),
    ]


def test_a_run_with_documents_apart_learns_and_sees_other_contexts(tmp_path: Path) -> None:
    folder = tmp_path / "text"
    folder.mkdir()
    for number in range(30):
        (folder / f"{number}.txt").write_text(f"note {number}: the cat sat on the mat.\n" * 2)
    settings = [*TINY, "text.held_out=0.2", "training.documents_apart=true"]
    pellucid.train([folder], out=tmp_path / "run", steps=8, settings=settings, show=False)
    pellucid.train([folder], out=tmp_path / "other", steps=8, settings=settings[:-1], show=False)
    losses = [
        [
            event.loss_nats
            for event in read_events(tmp_path / name / "metrics.jsonl")
            if isinstance(event, Evaluated)
        ]
        for name in ("run", "other")
    ]
    assert losses[0][-1] < losses[0][0]
    assert losses[0] != losses[1]
    assert pellucid.load(tmp_path / "run").config.training.documents_apart
