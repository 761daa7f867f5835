"""A loop in the style of nanoGPT: windows drawn by hand, micro-steps, a rate set by hand."""

from __future__ import annotations

from contextlib import nullcontext

import torch

from benchmarks.diagnosis.elsewhere.parts import Parts, cross_entropy, nothing, shifted
from benchmarks.diagnosis.elsewhere.styles.style import (
    BUILT,
    IN_THE_LOOP,
    Seen,
    Setting,
    Style,
    seen,
)
from pellucid.vitals import watch


def train(setting: Setting) -> Seen:
    """Train on windows, with a loss and a rate of one's own."""
    loop = setting.loop()
    parts, batches = loop.parts, setting.batches()
    # the schedule has lowered `lr` already, for its first update
    full = [group["initial_lr"] for group in loop.optimizer.param_groups]
    share = loop.schedule.lr_lambdas[0]
    context = torch.autocast("cpu", parts.autocast) if parts.autocast else nullcontext()
    loop.model.train()
    with watch(loop.model, loop.optimizer, **setting.options) as w:
        for loop.update in range(parts.updates):
            for group, rate in zip(loop.optimizer.param_groups, full, strict=True):
                group["lr"] = rate * share(loop.update)
            for _ in range(parts.micro):
                with context:
                    loss = parts.loss(loop, next(batches))
                parts.back(loop, loss)
                w.step(loss)
            parts.clipped(loop)
            parts.stepped(loop)
            parts.cleared(loop)
            parts.between(loop)
    return seen(w)


STYLE = Style(
    name="nanogpt",
    split="tune",
    tasks={"lm": ("decoder",)},
    writes=(BUILT | IN_THE_LOOP | {"autocast"}) - {"advanced"},
    train=train,
    base=Parts(joined=shifted, loss=cross_entropy, advanced=nothing, micro=2),
    packed=True,
)
