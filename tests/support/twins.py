"""A small healthy training of every preset: its architecture, a sane rate, letters to learn.

Comes in: the name of a preset. Goes out: a job on the letters of `support.watched`: the next one
for decoders, hidden ones for encoders, and for encoder-decoders the source written once more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from pellucid import config
from pellucid.batches import IGNORED, Batch, PairBatch, TokenBatch
from pellucid.diagnosis import reduce_model
from pellucid.model import assemble
from pellucid.objectives import MLM, Seq2Seq
from pellucid.optim import assemble_schedule
from pellucid.presets import find
from pellucid.training import Job
from support.watched import LETTERS, adam, job_of, text, windows

_TIME = 32
#: Norms after the sum do not bear the rate of those before it.
RATES = {"transformer-base": 1e-3, "transformer-big": 1e-3}
#: What gives vectors of texts predicts no token.
WITHOUT_HEAD = {"minilm-l6"}
#: A token that replaces a hidden one, and begins each text.
_HIDDEN = len(LETTERS)


def twin_job(name: str, *, steps: int, seed: int = 1, rate: float | None = None) -> Job:
    """A healthy training of a preset's small twin."""
    preset = find(name)
    model = replace(reduce_model(preset.model), vocab_size=len(LETTERS) + 1, context_length=_TIME)
    run = replace(
        preset,
        model=model,
        optimiser=adam(RATES.get(name, 3e-3) if rate is None else rate),
        training=replace(preset.training, batch_size=8, accumulation=1, growth=None),
    )
    ids = text()
    built = assemble(model, seed=seed)
    job = job_of(
        run,
        steps=steps,
        seed=seed,
        model=built,
        batch=lambda place, n: windows(ids, n, _TIME, seed * 10**6 + place),
    )
    schedule = assemble_schedule(config.Cosine(warm_up=0.1, final=0.1), total=steps)
    job = replace(job, schedule=schedule)
    if model.decoder is None:
        return replace(job, objective=MLM(), batch=_over(job.batch, _masked))
    if model.encoder is not None:
        return replace(job, objective=Seq2Seq(), batch=_over(job.batch, _copied))
    return job


def _over(
    batch: Callable[[int, int], Batch], change: Callable[[TokenBatch, int], Batch]
) -> Callable[[int, int], Batch]:
    def changed_batch(place: int, n: int) -> Batch:
        token_batch = batch(place, n)
        assert isinstance(token_batch, TokenBatch)
        return change(token_batch, place)

    return changed_batch


def _masked(batch: TokenBatch, seed: int) -> TokenBatch:
    is_hidden = torch.rand(batch.ids.shape, generator=torch.Generator().manual_seed(seed)) < 0.15
    is_hidden[:, 0] = True
    return TokenBatch(
        ids=batch.ids.masked_fill(is_hidden, _HIDDEN),
        targets=batch.ids.masked_fill(~is_hidden, IGNORED),
        n_supervised=int(is_hidden.sum()),
    )


def _copied(batch: TokenBatch, seed: int) -> PairBatch:
    del seed
    begin = torch.full_like(batch.ids[:, :1], _HIDDEN)
    ids: Tensor = torch.cat([begin, batch.ids[:, :-1]], 1)
    return PairBatch(
        source=batch.ids,
        source_padding=torch.ones_like(batch.ids, dtype=torch.bool),
        ids=ids,
        targets=batch.ids,
        n_supervised=batch.ids.numel(),
    )


#: What `noted` was asked, in order.
ASKED: list[tuple[str, str]] = []


def noted(row: dict[str, object], answer: str) -> float:
    """A reward that keeps what it was asked, and depends on how often that was."""
    ASKED.append((str(row["instruction"]), answer))
    return float(answer.endswith(".")) - 0.05 * len(answer) + 0.01 * (len(ASKED) % 7)
