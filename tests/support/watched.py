"""Small trainings to be watched: pellucid's own loop, over a job built by hand."""

from __future__ import annotations

import string
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from pellucid import config
from pellucid.batches import TokenBatch
from pellucid.model import Transformer, assemble
from pellucid.objectives import NextToken
from pellucid.optim import assemble_optimiser, assemble_schedule
from pellucid.presets import find
from pellucid.training import (
    Event,
    HeldOut,
    Interrupts,
    Job,
    Observer,
    Progress,
    Resumed,
    Started,
    Watcher,
    train,
)

_SAID = (
    "the quick brown fox jumps over a lazy dog and the cat sat on the mat while it rains in the "
    "garden where old trees grow slowly and birds sing songs of spring to nobody at all"
)
WORDS = _SAID.split()
LETTERS = string.ascii_lowercase + " "


def text(n_words: int = 4000) -> Tensor:
    """Ids of letters of words in random order: pairs of letters tell much, and more is to learn."""
    word_ids = torch.randint(len(WORDS), (n_words,), generator=torch.Generator().manual_seed(7))
    letters = " ".join(WORDS[i] for i in word_ids.tolist())
    return torch.tensor([LETTERS.index(letter) for letter in letters])


def windows(ids: Tensor, rows: int, time: int, seed: int) -> TokenBatch:
    """Rows from random places of a text."""
    starts = torch.randint(
        len(ids) - time - 1, (rows,), generator=torch.Generator().manual_seed(seed)
    )
    cut = torch.stack([ids[start : start + time + 1] for start in starts.tolist()])
    return TokenBatch(ids=cut[:, :-1], targets=cut[:, 1:], n_supervised=rows * time)


def small(**changes: Any) -> config.Run:
    """`nano`, smaller, with its own recipe; `changes` are of its model's decoder."""
    nano = find("nano")
    attention = replace(nano.model.decoder.attention, d_head=16)
    decoder = replace(
        nano.model.decoder,
        n_layers=3,
        attention=attention,
        feed_forward=replace(nano.model.decoder.feed_forward, d_ff=128),
    )
    return replace(
        nano,
        model=replace(
            nano.model,
            vocab_size=len(LETTERS),
            context_length=48,
            d_model=32,
            decoder=replace(decoder, **changes),
        ),
    )


def adam(learning_rate: float, **changes: Any) -> config.AdamW:
    """AdamW in place of nano's Muon."""
    return replace(
        config.AdamW(learning_rate=learning_rate, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1),
        **changes,
    )


def job_of(
    run: config.Run,
    *,
    steps: int,
    seed: int = 1,
    model: Transformer | None = None,
    batch: Callable[[int, int], TokenBatch] | None = None,
) -> Job:
    """A job on `text`, with nothing to save and nothing to say."""
    torch.manual_seed(seed)
    model = assemble(run.model, seed=seed) if model is None else model
    ids = text()
    settings = replace(
        run.training,
        batch_size=8,
        log_every=5,
        evaluate_every=10**6,
        checkpoint_every=10**6,
        device="cpu",
    )
    plan = config.Plan(
        total_steps=steps,
        threads=1,
        device="cpu",
        precision="float32",
        compile=False,
        device_name="cpu",
        torch_version=torch.__version__,
    )

    def rows(place: int, n: int) -> TokenBatch:
        return windows(ids, n, run.model.context_length, seed * 10**6 + place)

    return Job(
        model=model,
        objective=NextToken(),
        optimiser=assemble_optimiser(run.optimiser, model.named_parameters()),
        schedule=assemble_schedule(run.schedule, total=steps),
        settings=settings,
        plan=plan,
        seed=seed,
        batch=batch or rows,
        evaluate=lambda: HeldOut(loss_nats=1.0, over=1, unit="tokens", measures={}),
        sample=lambda step: None,
        save=lambda step, checkpoint, best: Path(f"step-{step}"),
        facts={},
        non_finite_folder=Path("aside"),
    )


class WhenAsked:
    """A thread pool that works when its result is asked for: no time passes meanwhile."""

    def __init__(self, workers: int, thread_name_prefix: str) -> None:
        self._call: Callable[[], Any] = lambda: None

    def submit(self, call: Callable[..., Any], *args: Any) -> WhenAsked:
        self._call = lambda: call(*args)
        return self

    def done(self) -> bool:
        return False

    def result(self) -> Any:
        return self._call()

    def shutdown(self) -> None:
        """Nothing is left to do."""


def simulate(monkeypatch: pytest.MonkeyPatch, clock: Any) -> None:
    """Let a training take its time from `clock`, and save checkpoints in between."""
    for module in ("run_clock", "meter", "saving"):
        monkeypatch.setattr(f"pellucid.training.{module}.time", clock)
    monkeypatch.setattr("pellucid.training.saving.ThreadPoolExecutor", WhenAsked)


def run_job(
    job: Job,
    watchers: Sequence[Watcher] = (),
    observers: Sequence[Observer] = (),
    *,
    first: Started | Resumed | None = None,
    progress: Progress | None = None,
) -> list[Event]:
    """Train; returns all events."""
    from contextlib import ExitStack

    event_list: list[Event] = []
    first = first or Started(
        step=0, total_steps=job.plan.total_steps, name="t", guessing_nats=0.0, facts=()
    )
    with ExitStack() as stack:
        every = [event_list.append, *observers]

        def send(event: Event) -> None:
            for observer in (event_list.append, *observers):
                observer(event)

        every += [stack.enter_context(watcher(job, send)) for watcher in watchers]
        for observer in every:
            observer(first)
        train(job, progress or Progress(), every, stack.enter_context(Interrupts()))
    return event_list
