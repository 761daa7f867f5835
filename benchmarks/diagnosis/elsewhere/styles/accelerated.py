"""A loop with Accelerate: `prepare`, `accumulate`, `accelerator.backward`."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.diagnosis.elsewhere.parts import Loop, Parts
from benchmarks.diagnosis.elsewhere.styles.style import (
    BUILT,
    CLASSES,
    IN_THE_LOOP,
    LANGUAGE,
    Seen,
    Setting,
    Style,
    seen,
)
from pellucid.vitals import watch


def _clipped(loop: Loop) -> None:
    loop.kept["accelerator"].clip_grad_norm_(loop.model.parameters(), 1.0)


def _advanced(loop: Loop) -> None:
    loop.schedule.step()


def train(setting: Setting) -> Seen:
    """Train on epochs of a DataLoader, all of it prepared."""
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState, GradientState
    from torch.utils.data import DataLoader

    AcceleratorState._reset_state(reset_partial_state=True)
    GradientState._reset_state()
    loop, parts = setting.loop(), setting.parts
    mixed = "bf16" if parts.autocast else "no"
    accelerator = Accelerator(
        cpu=True, gradient_accumulation_steps=parts.micro, mixed_precision=mixed
    )
    loop.kept["accelerator"] = accelerator
    loader = DataLoader(list(setting.batches()), batch_size=None)
    loop.model, loop.optimizer, loader, loop.schedule = accelerator.prepare(
        loop.model, loop.optimizer, loader, loop.schedule
    )
    loop.model.train()
    with watch(loop.model, loop.optimizer, **setting.options) as w:
        for batch in loader:
            with accelerator.accumulate(loop.model):
                loss = parts.loss(loop, batch)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    parts.clipped(loop)
                parts.stepped(loop)
                parts.advanced(loop)
                parts.cleared(loop)
            w.step(loss)
            if accelerator.sync_gradients:
                parts.between(loop)
                loop.update += 1
    return seen(w)


STYLE = Style(
    name="accelerate",
    split="test",
    tasks=LANGUAGE | CLASSES,
    writes=(BUILT | IN_THE_LOOP | {"autocast"}) - {"back"},
    train=train,
    base=replace(Parts(), clipped=_clipped, advanced=_advanced),
)
