"""Causes in trainings that take a second: each is named from what a watch saw of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from pellucid import config
from pellucid.batches import TokenBatch
from pellucid.diagnosis import Finding, diagnose, history_of_run, history_of_watch
from pellucid.model import Transformer, assemble
from pellucid.vitals import watch
from support.tiny import train_tiny
from support.watched import small, text, windows

IDS = text()


def decoder(**changes: Any) -> config.Transformer:
    """A tiny GPT with usual weights."""
    model = small(n_layers=2, **changes).model
    return started(model, 0.1, 0.02)


def started(model: config.Transformer, std: float, embedding: float) -> config.Transformer:
    start = config.Initialisation(
        weights=config.Normal(std=std), embedding_std=embedding, outputs="depth_scaled"
    )
    return replace(model, initialisation=start)


def attention(**changes: Any) -> config.Transformer:
    model = decoder()
    assert model.decoder is not None
    kept: Any = model.decoder.attention
    return replace(model, decoder=replace(model.decoder, attention=replace(kept, **changes)))


def cross_entropy(logits: Tensor, batch: TokenBatch) -> Tensor:
    return F.cross_entropy(logits.flatten(0, 1), batch.targets.flatten())


def rows(step: int) -> TokenBatch:
    return windows(IDS, 4, 32, step)


def shuffled(step: int) -> TokenBatch:
    batch, draws = rows(step), torch.Generator().manual_seed(step)
    mixed = batch.targets.flatten()[torch.randperm(batch.targets.numel(), generator=draws)]
    return replace(batch, targets=mixed.view_as(batch.targets))


def degenerate(step: int) -> TokenBatch:
    """From the twentieth update on, half of the rows say three tokens again and again."""
    batch = rows(step)
    ids = torch.cat([batch.ids, batch.targets[:, -1:]], 1)
    if step >= 20:
        ids[:2] = ids[:2, :3].repeat(1, ids.shape[1])[:, : ids.shape[1]]
    return replace(batch, ids=ids[:, :-1], targets=ids[:, 1:])


def mixture() -> config.Transformer:
    """A model with experts, balanced as they start."""
    return decoder(
        feed_forward=config.Experts(
            n_experts=8,
            n_active=2,
            expert=config.MLP(d_ff=16, activation="gelu", bias=False),
            router=config.Router(scores="softmax", normalised=True, bias=True),
        )
    )


def collapse(model: Transformer) -> None:
    """Send every token to the same two experts."""
    for name, parameter in model.named_parameters():
        if name.endswith("router.bias"):
            parameter.data[:2] += 20.0


def leave(model: Transformer) -> None:
    """Change nothing."""


@dataclass(frozen=True)
class Loop:
    """A training loop as people write it, and what may be wrong with it."""

    model: Callable[[], config.Transformer] = decoder
    rate: float = 2e-3
    warm: int = 10
    updates: int = 60
    clip: float | None = 1.0
    loss: Callable[[Tensor, TokenBatch], Tensor] = cross_entropy
    batch: Callable[[int], TokenBatch] = rows
    clears: bool = True
    anew: int | None = None
    steps: bool = True
    half: bool = False
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    sgd: bool = False
    harm: Callable[[Transformer], None] = leave

    def run(self) -> list[Finding]:
        """Train, watched; what is found."""
        torch.manual_seed(0)
        model = assemble(self.model(), seed=0)
        self.harm(model)
        named = list(model.parameters())[:: 2 if self.half else 1]
        adam: dict[str, Any] = {"betas": (0.9, 0.95), "weight_decay": 0.1, **self.options}
        optimizer: torch.optim.Optimizer = torch.optim.AdamW(named, lr=self.rate, **adam)
        if self.sgd:
            optimizer = torch.optim.SGD(named, lr=self.rate, momentum=0.9)
        with watch(model, optimizer, max_overhead=None, clip_norm=self.clip) as w:
            for step in range(self.updates):
                for group in optimizer.param_groups:
                    group["lr"] = self.rate * min(1.0, (step + 1) / max(1, self.warm))
                if step == self.anew:
                    optimizer.state.clear()
                batch = self.batch(step)
                loss = self.loss(model(batch.ids), batch)
                if self.clears:
                    model.zero_grad()
                loss.backward()
                if self.clip is not None:
                    torch.nn.utils.clip_grad_norm_(named, self.clip)
                if self.steps:
                    optimizer.step()
                w.step(loss)
                if not math.isfinite(loss.item()):
                    break
        return diagnose(history_of_watch(w))


@cache
def of_healthy() -> list[Finding]:
    """The twin of them all."""
    return Loop().run()


FAULTS: dict[str, tuple[str, Loop]] = {
    "no residual path": ("ARC001", Loop(lambda: decoder(residual=config.NoResidual()))),
    "dropout absurd": ("ARC010", Loop(lambda: decoder(dropout=0.9))),
    "eps of norms": (
        "ARC014",
        Loop(lambda: decoder(norm=config.LayerNorm(eps=10.0, bias=False))),
    ),
    "router collapsed": ("ARC015", Loop(mixture, harm=collapse)),
    "scores not scaled": ("ARC006", Loop(lambda: attention(scale=1.0))),
    "weights too large": ("INI004", Loop(lambda: started(decoder(), 1.0, 1.0))),
    "embedding too large": ("INI005", Loop(lambda: started(decoder(), 0.1, 1.0))),
    "weights too small": ("INI006", Loop(lambda: started(decoder(), 1e-4, 1e-4))),
    "rate too high": ("OPT005", Loop(rate=0.5)),
    "no warm-up": ("OPT006", Loop(rate=3e-2, warm=0)),
    "rate too low": ("OPT007", Loop(rate=1e-6)),
    "rate zero": ("OPT013", Loop(rate=0.0)),
    "eps too large": ("OPT009", Loop(options={"eps": 1e-2})),
    "decay too strong": ("OPT010", Loop(options={"weight_decay": 60.0})),
    "betas swapped": ("OPT016", Loop(options={"betas": (0.99, 0.5)})),
    "clipped short": ("OPT012", Loop(rate=0.1, clip=1e-3, sgd=True)),
    "never cleared": ("OPT014", Loop(clears=False)),
    "begun anew": ("OPT015", Loop(anew=30)),
    "never steps": ("OPT017", Loop(steps=False)),
    "half of the weights": ("OPT001", Loop(half=True)),
    "same batch": ("DAT001", Loop(batch=lambda step: rows(1))),
    "texts that repeat themselves": ("DAT012", Loop(batch=degenerate)),
    "labels shuffled": ("LOS003", Loop(batch=shuffled, updates=120)),
    "labels not moved": (
        "LOS001",
        Loop(rate=1e-2, loss=lambda z, b: F.cross_entropy(z.flatten(0, 1), b.ids.flatten())),
    ),
    "loss summed": ("LOS006", Loop(loss=lambda z, b: cross_entropy(z, b) * b.targets.numel())),
    "parts not divided": ("LOS007", Loop(loss=lambda z, b: 4 * cross_entropy(z, b))),
    "softmax twice": ("LOS008", Loop(loss=lambda z, b: cross_entropy(z.softmax(-1), b))),
    "sign turned": ("LOS009", Loop(loss=lambda z, b: -cross_entropy(z, b))),
    "not finite": (
        "NUM004",
        Loop(loss=lambda z, b: cross_entropy(z, b) * (math.nan if z.std() > 0 else 1)),
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_fault_of_a_real_training_is_named_first(name: str) -> None:
    code, loop = FAULTS[name]
    findings = loop.run()
    assert findings
    assert findings[0].code == code, [(each.code, each.confidence) for each in findings]
    assert code not in {each.code for each in of_healthy()}


ODD: dict[str, Loop] = {
    "as it should be": Loop(),
    "a tenth of the rate": Loop(rate=2e-4),
    "three times the rate": Loop(rate=6e-3),
    "no warm-up": Loop(warm=0),
    "no clip": Loop(clip=None),
    "dropout": Loop(lambda: decoder(dropout=0.2)),
    "no positions": Loop(lambda: decoder(positions=config.NoPositions())),
    "outputs at zero": Loop(lambda: small(n_layers=2).model),
    "norms of queries and keys": Loop(lambda: attention(qk_norm=config.RMSNorm(eps=1e-5))),
    "stopped early": Loop(updates=7),
    "slow SGD": Loop(rate=0.1, sgd=True),
}


@pytest.mark.parametrize("name", ODD)
def test_healthy_training_gets_no_warning(name: str) -> None:
    assert [each.text() for each in ODD[name].run() if each.severity != "note"] == []


def test_run_of_pellucid_is_diagnosed_from_its_folder(tmp_path: Path) -> None:
    train_tiny(tmp_path / "run", steps=12)
    history = history_of_run(tmp_path / "run")
    assert len(history.losses) == 12
    assert history.config is not None
    assert history.facts.residual is True
    assert [each.code for each in diagnose(history) if each.severity != "note"] == []
    train_tiny(tmp_path / "bad", steps=12, settings=["model.decoder.residual=NoResidual"])
    assert diagnose(history_of_run(tmp_path / "bad"))[0].code == "ARC001"


def test_diagnosis_leaves_the_model_as_it_was() -> None:
    model = assemble(decoder(), seed=0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    with watch(model, optimizer, max_overhead=None) as w:
        batch = rows(0)
        cross_entropy(model(batch.ids), batch).backward()
        optimizer.step()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    state = torch.get_rng_state()
    diagnose(history_of_watch(w))
    assert model.training
    assert torch.equal(state, torch.get_rng_state())
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
