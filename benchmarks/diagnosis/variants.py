"""Healthy trainings, many of them odd: what must not be taken for sick.

Comes in: nothing. Goes out: a table of variants. Some declare their intent, as their users would
have to: frozen weights, no positions, a smoothed loss.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from benchmarks.diagnosis.changes import fill
from benchmarks.diagnosis.fault import Variant
from benchmarks.diagnosis.faults_data import tokenizer
from benchmarks.diagnosis.rows import Batch
from benchmarks.diagnosis.setups import (
    HELD_OUT,
    TUNED,
    Arch,
    attention,
    loop,
    optimiser,
    rate,
    stack,
    starts,
)
from benchmarks.diagnosis.training import Training
from pellucid import config
from pellucid.diagnosis import declare
from pellucid.model.trainable import add_lora

_ALL: tuple[Arch, ...] = (*TUNED, *HELD_OUT)
_Configure = Callable[[config.Run, Arch], config.Run]


def _schedule(schedule: config.Schedule) -> _Configure:
    return lambda run, arch: replace(run, schedule=schedule)


def _tie(run: config.Run, arch: Arch) -> config.Run:
    other = replace(run.model.embedding, tied=not run.model.embedding.tied)
    return replace(run, model=replace(run.model, embedding=other))


def _batch(times: float) -> _Configure:
    return lambda run, arch: loop(run, batch_size=round(run.training.batch_size * times))


def _sgd(run: config.Run, arch: Arch) -> config.Run:
    return replace(run, optimiser=config.SGD(learning_rate=0.1, momentum=0.9, l2=0.0))


def _adam(run: config.Run, arch: Arch) -> config.Run:
    adam: Any = run.optimiser
    optimiser = config.Adam(
        learning_rate=adam.learning_rate, betas=adam.betas, eps=adam.eps, l2=0.0
    )
    return replace(run, optimiser=optimiser)


def _muon(run: config.Run, arch: Arch) -> config.Run:
    adam: Any = run.optimiser
    optimiser = config.Muon(
        learning_rate=0.01, momentum=0.95, weight_decay=0.1, newton_schulz_steps=5, rest=adam
    )
    return replace(run, optimiser=optimiser)


def _narrow(run: config.Run, arch: Arch) -> config.Run:
    first: Any = run.model.stacks[-1].attention
    heads = replace(first, n_heads=2, n_kv_heads=2, d_head=8)
    run = stack(run, attention=heads)
    return replace(run, model=replace(run.model, d_model=16))


def _norm(run: config.Run, arch: Arch) -> config.Run:
    other = config.RMSNorm(eps=1e-5) if arch == "gpt" else config.LayerNorm(eps=1e-5, bias=False)
    return stack(run, norm=other)


def _qk_norm(run: config.Run, arch: Arch) -> config.Run:
    return attention(run, qk_norm=config.RMSNorm(eps=1e-5))


def _relu(run: config.Run, arch: Arch) -> config.Run:
    feed: Any = run.model.stacks[-1].feed_forward
    return stack(run, feed_forward=replace(feed, activation="relu"))


def _long(run: config.Run, arch: Arch) -> config.Run:
    run = replace(run, model=replace(run.model, context_length=4 * 96))
    return loop(run, batch_size=4)


def _smooth(run: config.Run, arch: Arch) -> config.Run:
    return replace(run, objective=replace(run.objective, label_smoothing=0.1, z_loss=1e-4))


def _windows(run: config.Run, arch: Arch) -> config.Run:
    return attention(run, window=16)


def _declared(t: Training, **expectations: Any) -> None:
    t.declared = declare(**expectations)


def _ended(t: Training) -> None:
    t.tokenizer = tokenizer()


def _fine_tuning(t: Training) -> None:
    """Weights that know the text already; the rate is a fifth."""
    t.model.load_state_dict(pretrained(t))
    t.declared = declare(pretrained=True)


def _frozen(t: Training) -> None:
    _fine_tuning(t)
    t.model.token_embedding.requires_grad_(False)
    t.model.stack.blocks[0].requires_grad_(False)
    t.declared = declare(pretrained=True, frozen=["token_embedding", r"blocks\.0\.", "head"])
    t.new_optimiser()


def _lora(t: Training) -> None:
    _fine_tuning(t)
    parts = ("query", "key", "value", "output")
    targets = [f"decoder.blocks.*.attention.{part}" for part in parts]
    add_lora(t.model, rank=4, alpha=8.0, dropout=0.0, targets=targets, seed=t.run.seed)
    t.declared = declare(pretrained=True, frozen=[r"^(?!.*lora_).*$"])
    t.new_optimiser()


def _spike(t: Training) -> None:
    """One strange batch, from which a healthy training recovers."""
    usual, vocab = t.batch_of, t.run.model.rows

    def batch(update: int) -> Batch:
        usual_batch = usual(update)
        if update != 60:
            return usual_batch
        ids = torch.randint(
            4, vocab, usual_batch.ids.shape, generator=torch.Generator().manual_seed(1)
        )
        labels = torch.full_like(ids, -100)
        labels[:, :-1] = ids[:, 1:]
        return replace(usual_batch, ids=ids, labels=labels)

    t.batch_of = batch


def _curriculum(t: Training) -> None:
    """Short rows first, then whole ones."""
    usual = t.batch_of

    def batch(update: int) -> Batch:
        usual_batch = usual(update)
        if update >= 50:
            return usual_batch
        half = usual_batch.ids.shape[1] // 2
        return Batch(usual_batch.ids[:, :half], usual_batch.labels[:, :half])

    t.batch_of = batch


def _epochs(t: Training) -> None:
    """A text so small that it is read several times, in other windows."""
    t.feed = replace(t.feed, pool=4000)


def _resumed(t: Training) -> None:
    """The optimiser is saved and loaded again, with its state."""

    def reload(t: Training) -> None:
        for torch_optimiser in t.optimisers:
            torch_optimiser.load_state_dict(torch_optimiser.state_dict())

    t.happens[70] = reload


def _zero_outputs(run: config.Run, arch: Arch) -> config.Run:
    return starts(run, outputs="zero")


def _outliers(t: Training) -> None:
    """Two features of the embedding are very large, as in many trained models."""
    weight = t.model.token_embedding.weight.detach().clone()
    weight[:, :2] += 1.0
    fill(t.model.token_embedding.weight, weight)


def pretrained(t: Training) -> dict[str, torch.Tensor]:
    """Weights that were trained before, by a healthy training of another seed."""
    if PRETRAINED is None:
        raise RuntimeError("no weights were trained before: call `pretrain.ready` first")
    return PRETRAINED[t.arch]


#: Set by `pretrain.ready`.
PRETRAINED: dict[str, dict[str, torch.Tensor]] | None = None

_EVERY = [
    Variant(name="plain", archs=_ALL),
    Variant(name="rate / 10", configure=lambda r, a: rate(r, 0.1), archs=_ALL),
    Variant(name="rate / 3", configure=lambda r, a: rate(r, 1 / 3), archs=_ALL),
    Variant(name="rate x 2", configure=lambda r, a: rate(r, 2.0), archs=_ALL),
    Variant(name="rate x 3", configure=lambda r, a: rate(r, 3.0)),
    Variant(name="batch / 4", configure=_batch(0.25), archs=_ALL),
    Variant(name="batch x 2", configure=_batch(2)),
    Variant(name="batch x 4", configure=lambda r, a: loop(_batch(4)(r, a), budget=_steps(60))),
    Variant(name="warm-up only", configure=_schedule(config.Constant(warm_up=0.9))),
    Variant(name="constant rate", configure=_schedule(config.Constant(warm_up=0.1)), archs=_ALL),
    Variant(
        name="plateau and decay",
        configure=_schedule(config.WarmUpStableDecay(warm_up=0.1, decay=0.3, final=0.0)),
        archs=_ALL,
    ),
    Variant(name="decay to zero", configure=_schedule(config.Linear(warm_up=0.05, final=0.0))),
    Variant(name="dropout", configure=lambda r, a: stack(r, dropout=0.15), archs=_ALL),
    Variant(name="tied the other way", configure=_tie),
    Variant(
        name="no positions, as said",
        configure=lambda r, a: stack(r, positions=config.NoPositions()),
        inject=lambda t: _declared(t, no_positions=True),
    ),
    Variant(name="narrow", configure=_narrow),
    Variant(name="other norm", configure=_norm),
    Variant(name="norms of queries and keys", configure=_qk_norm),
    Variant(name="sandwich", configure=lambda r, a: stack(r, residual=config.SandwichNorm())),
    Variant(name="norms of outputs", configure=lambda r, a: stack(r, residual=config.OutputNorm())),
    Variant(name="windows", configure=_windows),
    Variant(name="sgd", configure=_sgd),
    Variant(name="adam", configure=_adam),
    Variant(name="muon", configure=_muon),
    Variant(name="long rows", configure=_long),
    Variant(name="relu", configure=_relu),
    Variant(name="six layers", configure=lambda r, a: stack(r, n_layers=6)),
    Variant(name="bfloat16 autocast", configure=lambda r, a: loop(r, precision="bfloat16")),
    Variant(name="accumulated", configure=lambda r, a: loop(r, accumulation=4)),
    Variant(name="unclipped", configure=lambda r, a: loop(r, clip_norm=None), archs=_ALL),
    Variant(name="slow beta", configure=lambda r, a: optimiser(r, betas=(0.9, 0.999)), archs=_ALL),
    Variant(name="strong decay", configure=lambda r, a: optimiser(r, weight_decay=1.0)),
    Variant(name="outputs start at zero", configure=_zero_outputs),
    Variant(name="xavier", configure=lambda r, a: starts(r, weights=config.Xavier())),
    Variant(name="smoothed, as said", configure=_smooth, inject=lambda t: _ignored(t, "LOS005")),
    Variant(name="padded", form="padded"),
    Variant(name="packed", form="packed"),
    Variant(name="ended", form="ended", inject=_ended),
    Variant(name="one strange batch", inject=_spike),
    Variant(name="curriculum", inject=_curriculum),
    Variant(name="small text", inject=_epochs, archs=_ALL),
    Variant(name="resumed", inject=_resumed),
    Variant(name="large features", inject=_outliers),
    Variant(name="fine-tuning", configure=lambda r, a: rate(r, 0.2), inject=_fine_tuning),
    Variant(name="frozen, as said", configure=lambda r, a: rate(r, 0.2), inject=_frozen),
    Variant(name="adapters", inject=_lora),
]
VARIANTS = {variant.name: variant for variant in _EVERY}


def _steps(count: int) -> config.Steps:
    return config.Steps(count=count)


def _ignored(t: Training, *codes: str) -> None:
    t.ignore = codes
