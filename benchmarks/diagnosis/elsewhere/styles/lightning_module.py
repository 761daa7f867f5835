"""A LightningModule and Lightning's trainer, with the callback."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

from benchmarks.diagnosis.elsewhere.parts import Parts, nothing
from benchmarks.diagnosis.elsewhere.styles.style import (
    BUILT,
    CLASSES,
    IN_THE_LOOP,
    LANGUAGE,
    Seen,
    Setting,
    Style,
)
from benchmarks.diagnosis.elsewhere.styles.trainer import seen_by


def train(setting: Setting) -> Seen:
    """Train with `training_step`, `configure_optimizers` and the hooks that people override."""
    import lightning
    from torch.utils.data import DataLoader

    from pellucid.diagnosis.lightning import DiagnosisCallback

    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    loop, parts = setting.loop(), setting.parts

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = setting.model

        def training_step(self, batch: Any, index: int) -> Any:
            return parts.loss(loop, batch)

        def configure_optimizers(self) -> Any:
            schedule = {"scheduler": loop.schedule, "interval": "step"}
            return {"optimizer": loop.optimizer, "lr_scheduler": schedule}

        def on_before_optimizer_step(self, optimizer: Any) -> None:
            if parts.clipped is not nothing:
                parts.clipped(loop)

        def optimizer_zero_grad(self, *arguments: Any) -> None:
            parts.cleared(loop)

        def on_train_batch_end(self, outputs: Any, batch: Any, index: int) -> None:
            if (index + 1) % parts.micro == 0:
                parts.between(loop)
                loop.update += 1

    callback = DiagnosisCallback(show=False, **setting.options)
    trainer = lightning.Trainer(
        accelerator="cpu",
        max_steps=parts.updates,
        accumulate_grad_batches=parts.micro,
        precision="bf16-mixed" if parts.autocast else "32-true",
        gradient_clip_val=1.0 if parts.clipped is nothing else None,
        callbacks=[callback],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        **parts.options,
    )
    trainer.fit(Module(), DataLoader(list(setting.batches()), batch_size=None))
    return seen_by(callback)


STYLE = Style(
    name="lightning",
    split="test",
    tasks=LANGUAGE | CLASSES,
    writes=(BUILT | IN_THE_LOOP | {"autocast"}) - {"back", "stepped", "advanced"},
    train=train,
    base=replace(Parts(), clipped=nothing),
)
