"""A loop in plain torch: for each batch forward, backward, clip, step, clear."""

from __future__ import annotations

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


def train(setting: Setting) -> Seen:
    """Train with the loss that the model returns."""
    loop = setting.loop()
    parts, model = loop.parts, loop.model
    model.train()
    with watch(model, loop.optimizer, **setting.options) as w:
        for at, batch in enumerate(setting.batches()):
            loss = parts.loss(loop, batch)
            parts.back(loop, loss)
            w.step(loss)
            if (at + 1) % parts.micro:
                continue
            parts.clipped(loop)
            parts.stepped(loop)
            parts.advanced(loop)
            parts.cleared(loop)
            parts.between(loop)
            loop.update += 1
    return seen(w)


STYLE = Style(
    name="plain",
    split="tune",
    tasks=LANGUAGE | CLASSES,
    writes=BUILT | IN_THE_LOOP,
    train=train,
)
