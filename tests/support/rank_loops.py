"""Loops of other people on ranks: `python -m support.rank_loops FILE CASE...`.

Each case trains a small model under watch, and writes the codes of its findings, by rank.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data.distributed import DistributedSampler

from pellucid.diagnosis import diagnose, history_of_watch
from pellucid.vitals import watch

VOCAB, LENGTH, ROWS = 32, 12, 4
dist: Any = distributed


class Decoder(nn.Module):
    """A small causal model; its code depends on nothing but its arguments."""

    def __init__(self, dropout: float, scale: float = 1.0) -> None:
        super().__init__()
        self.scale = scale
        self.embedding = nn.Embedding(VOCAB, 16)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(16, 2, 32, dropout, batch_first=True, norm_first=True)
            for _ in range(2)
        )
        self.norm = nn.LayerNorm(16)
        self.head = nn.Linear(16, VOCAB)

    def forward(self, ids: Tensor) -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(ids.shape[1])
        x = self.embedding(ids)
        for layer in self.layers:
            x = layer(x, src_mask=mask, is_causal=True)
        return self.head(self.norm(x)) * self.scale


def token_loss(logits: Tensor, ids: Tensor, labels: Tensor | None = None) -> Tensor:
    """The mean cross-entropy of the next tokens."""
    labels = ids if labels is None else labels
    return F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())


@dataclass(kw_only=True)
class Case:
    """A loop, and what it does wrong: nothing by default."""

    steps: int = 12
    layout: str = "ddp"
    dropout: float = 0.0
    seeds_apart: bool = True
    parts: int = 1
    clip: float | None = None
    optimiser: Callable[..., Any] = torch.optim.AdamW
    model: Callable[[Case, int], nn.Module] = lambda case, rank: Decoder(case.dropout)
    prepare: Callable[[nn.Module, int], None] = lambda model, rank: None
    call: Callable[[nn.Module], nn.Module] = lambda model: model
    ids: Callable[[int, int], Tensor] = lambda step, rank: ids_of(2 * step + rank)
    labels: Callable[[Tensor, int, int], Tensor] = lambda ids, step, rank: ids
    loss: Callable[[Tensor, Tensor, Tensor], Tensor] = token_loss
    before_step: Callable[[nn.Module, int], None] = lambda model, step: None
    after_step: Callable[[nn.Module, int, int], None] = lambda model, step, rank: None
    rate: Callable[[int], float] = lambda rank: 1e-3
    fewer: int = 0
    is_watched: Callable[[int], bool] = lambda rank: True


def ids_of(number: int, rows: int = ROWS, length: int = LENGTH) -> Tensor:
    """Rows in which each token follows from the one before, so that there is something to learn."""
    generator = torch.Generator().manual_seed(number)
    first = torch.randint(VOCAB, (rows, 1), generator=generator)
    noise = (torch.rand(rows, length, generator=generator) < 0.3).long()
    return (first + torch.arange(length) + noise.cumsum(1)) % VOCAB


def all_reduce(average: bool) -> Callable[[nn.Module, int], None]:
    """Share gradients by hand."""

    def reduce(model: nn.Module, step: int) -> None:
        for parameter in model.parameters():
            if parameter.grad is not None:
                dist.all_reduce(parameter.grad)
                if average:
                    parameter.grad /= dist.get_world_size()

    return reduce


def divide(model: nn.Module, step: int) -> None:
    """Divide gradients once more."""
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad /= dist.get_world_size()


def move(model: nn.Module, step: int, rank: int) -> None:
    """Change the weights of one rank, once."""
    if rank == 1 and step == 5:
        with torch.no_grad():
            next(iter(model.parameters())).mul_(1.01)


def average_weights(model: nn.Module, step: int, rank: int) -> None:
    """Average the weights of ranks every four updates, as local SGD does."""
    if step % 4 == 3:
        with torch.no_grad():
            for parameter in model.parameters():
                dist.all_reduce(parameter)
                parameter /= dist.get_world_size()


class Sampled:
    """Rows of a `DistributedSampler` over so many rows, told its epoch or not."""

    sampler: DistributedSampler[int] | None = None

    def __init__(self, n_rows: int, *, tells_epoch: bool) -> None:
        self.n_rows, self.tells_epoch = n_rows, tells_epoch

    def __call__(self, step: int, rank: int) -> Tensor:
        if step == 0:
            Sampled.sampler = DistributedSampler(range(self.n_rows))
        sampler = Sampled.sampler
        assert sampler is not None
        per_epoch = sampler.num_samples // ROWS
        if self.tells_epoch:
            sampler.set_epoch(step // per_epoch)
        rows = [*sampler][step % per_epoch * ROWS :][:ROWS]
        return torch.cat([ids_of(row, rows=1) for row in rows])


def mask_half(ids: Tensor, step: int, rank: int) -> Tensor:
    """Labels of which rank 1 pays for few."""
    labels = ids.clone()
    if rank == 1:
        labels[:, : LENGTH - 4] = -100
    return labels


def by_tokens(logits: Tensor, ids: Tensor, labels: Tensor) -> Tensor:
    """The sum over tokens, divided by the tokens of all ranks."""
    count = (labels[:, 1:] != -100).sum()
    dist.all_reduce(count)
    total = F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten(), reduction="sum")
    return total * dist.get_world_size() / count


def shard(model: nn.Module, *, root: bool = True) -> nn.Module:
    """FSDP2, block by block."""
    from torch.distributed.fsdp import fully_shard

    for layer in model.layers:
        fully_shard(layer)
    return fully_shard(model) if root else model


def wrapped(case: Case, rank: int) -> nn.Module:
    """The model of a case in its layout."""
    torch.manual_seed(0)
    model = case.model(case, rank)
    case.prepare(model, rank)
    if case.layout == "ddp":
        model = DistributedDataParallel(model)
    if case.layout.startswith("fsdp"):
        model = shard(model, root=case.layout == "fsdp")
    return model


def train(case: Case, rank: int, w: Any, model: nn.Module, optimiser: Any) -> list[float]:
    """The loop."""
    losses = []
    for step in range(case.steps - rank * case.fewer):
        for part in range(case.parts):
            is_last = part == case.parts - 1
            syncs = is_last or not isinstance(model, DistributedDataParallel)
            with nullcontext() if syncs else model.no_sync():
                ids = case.ids(case.parts * step + part, rank)
                labels = case.labels(ids, step, rank)
                loss = case.loss(case.call(model)(ids), ids, labels)
                (loss / case.parts).backward()
            losses.append(float(loss.detach()))
            if w is not None:
                w.step(loss)
        case.before_step(model, step)
        if case.clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), case.clip)
        optimiser.step()
        optimiser.zero_grad()
        case.after_step(model, step, rank)
    return losses


CASES: dict[str, tuple[str, Case]] = {
    "sound: DDP": ("", Case()),
    "sound: DDP with dropout": ("", Case(dropout=0.1)),
    "sound: DDP in parts": ("", Case(parts=2)),
    "sound: DDP, clipped": ("", Case(clip=0.5)),
    "sound: DDP with SGD": ("", Case(optimiser=torch.optim.SGD)),
    "sound: by hand": ("", Case(layout="none", before_step=all_reduce(average=True))),
    "sound: weighted by tokens": ("", Case(labels=mask_half, loss=by_tokens)),
    "sound: averaged weights": ("", Case(layout="none", after_step=average_weights, steps=16)),
    "sound: FSDP": ("", Case(layout="fsdp", dropout=0.1)),
    "sound: FSDP, clipped, in parts": ("", Case(layout="fsdp", clip=1.0, parts=2)),
    "sound: a sampler that is told its epoch": ("", Case(ids=Sampled(16, tells_epoch=True))),
    "no wrapper, uneven batches": ("RNK001", Case(layout="none", fewer=3)),
    "a sampler that is not told its epoch": ("RNK010", Case(ids=Sampled(32, tells_epoch=False))),
    "no wrapper": ("RNK001", Case(layout="none")),
    "through .module": ("RNK001", Case(call=lambda model: model.module)),
    "only blocks sharded": ("RNK001", Case(layout="fsdp-blocks")),
    "drifted": ("RNK002", Case(after_step=move)),
    "other weights at the start": (
        "RNK002",
        Case(
            layout="none",
            before_step=all_reduce(average=True),
            prepare=lambda model, rank: model.head.reset_parameters() if rank else None,
        ),
    ),
    "the same rows": ("RNK003", Case(ids=lambda step, rank: ids_of(step))),
    "FSDP, the same rows": ("RNK003", Case(layout="fsdp", ids=lambda step, rank: ids_of(step))),
    "gradients divided once more": ("RNK004", Case(before_step=divide)),
    "loss divided once more": (
        "RNK004",
        Case(loss=lambda *of: token_loss(*of) / dist.get_world_size()),
    ),
    "FSDP, loss divided once more": (
        "RNK004",
        Case(layout="fsdp", loss=lambda *of: token_loss(*of) / dist.get_world_size()),
    ),
    "summed by hand": ("RNK005", Case(layout="none", before_step=all_reduce(average=False))),
    "uneven tokens": ("RNK006", Case(labels=mask_half)),
    "FSDP, uneven tokens": ("RNK006", Case(layout="fsdp", labels=mask_half)),
    "one seed": ("RNK007", Case(dropout=0.1, seeds_apart=False)),
    "FSDP, one seed": ("RNK007", Case(layout="fsdp", dropout=0.1, seeds_apart=False)),
    "another scale": (
        "RNK008",
        Case(model=lambda case, rank: Decoder(case.dropout, scale=1.0 + rank)),
    ),
    "other rates": ("RNK009", Case(rate=lambda rank: 1e-3 * (1 + rank))),
    # last: ranks that are watched unequally often no longer meet
    "sound: rank 0 alone is watched": ("", Case(is_watched=lambda rank: rank == 0)),
    "sound: FSDP, rank 0 alone is watched": (
        "",
        Case(layout="fsdp", is_watched=lambda rank: rank == 0),
    ),
}


def run(name: str, rank: int) -> dict[str, Any]:
    """The codes of a case, and whether the watch moved no bit."""
    case = CASES[name][1]
    ends, findings, watched = [], [], None
    Sampled.sampler = None
    for is_watched in (False, True):
        model = wrapped(case, rank)
        optimiser = case.optimiser(model.parameters(), lr=case.rate(rank))
        torch.manual_seed(1 + rank * case.seeds_apart)
        if is_watched and case.is_watched(rank):
            with watch(model, optimiser) as w:
                losses = train(case, rank, w, model, optimiser)
            findings, watched = diagnose(history_of_watch(w)), w
        else:
            losses = train(case, rank, None, model, optimiser)
        parts = [getattr(p, "to_local", lambda p=p: p)() for p in model.parameters()]
        ends.append((losses, [p.detach().clone() for p in parts], torch.get_rng_state()))
    (losses, weights, state), (other_losses, other_weights, other_state) = ends
    is_same = losses == other_losses and torch.equal(state, other_state)
    is_same &= all(map(torch.equal, weights, other_weights))
    return {
        "codes": [(f.code, f.severity, f.what, f.where) for f in findings],
        "same": is_same,
        "off": {} if watched is None else dict(watched.guard.off),
    }


def main(file: Path, names: Sequence[str]) -> None:
    """Run the cases, and write what came of each on each rank."""
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    all_results: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(all_results, {name: run(name, rank) for name in names})
    if rank == 0:
        file.write_text(json.dumps(all_results), encoding="utf-8")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:] or list(CASES))
