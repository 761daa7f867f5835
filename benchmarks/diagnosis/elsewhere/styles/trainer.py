"""`transformers.Trainer`, with the pieces that its users write: a collator, `compute_loss`, ..."""

from __future__ import annotations

import tempfile
from typing import Any

from benchmarks.diagnosis.elsewhere.parts import ROWS, Loop, Parts
from benchmarks.diagnosis.elsewhere.styles.style import (
    BUILT,
    CLASSES,
    LANGUAGE,
    Seen,
    Setting,
    Style,
)

_PLAIN = Parts()


def train(setting: Setting) -> Seen:
    """Train with a `Trainer` and the callback."""
    import transformers as hf

    loop, parts = setting.loop(), setting.parts

    class Ours(hf.Trainer):
        def compute_loss(self, model: Any, inputs: Any, *args: Any, **named: Any) -> Any:
            if parts.loss is _PLAIN.loss:
                return super().compute_loss(model, inputs, *args, **named)
            return parts.loss(loop, inputs)

    with tempfile.TemporaryDirectory() as folder:
        told = {
            "output_dir": folder,
            "per_device_train_batch_size": ROWS,
            "gradient_accumulation_steps": parts.micro,
            "max_steps": parts.updates,
            **quiet(),
            **parts.options,
        }
        ours = callback(setting)
        trainer = Ours(
            model=setting.model,
            args=hf.TrainingArguments(**told),
            train_dataset=setting.rows,
            data_collator=lambda rows: parts.joined(rows, setting.task),
            optimizers=(loop.optimizer, loop.schedule),
            callbacks=[ours, between(loop)],
        )
        trainer.train()
    return seen_by(ours)


def quiet() -> dict[str, Any]:
    """Arguments that keep a trainer from writing, and its loss in the log of every tenth update."""
    return {
        "use_cpu": True,
        "report_to": "none",
        "save_strategy": "no",
        "disable_tqdm": True,
        "logging_steps": 10,
        "log_level": "error",
        "remove_unused_columns": False,
    }


def callback(setting: Setting) -> Any:
    """The callback of ours, as its page says to use it."""
    from pellucid.diagnosis.huggingface import DiagnosisCallback

    return DiagnosisCallback(show=False, **setting.options)


def between(loop: Loop) -> Any:
    """A callback of theirs, which does what comes between two updates."""
    import transformers as hf

    class Between(hf.TrainerCallback):
        def on_pre_optimizer_step(self, *_: Any, **named: Any) -> None:
            if loop.parts.clipped is not _PLAIN.clipped:
                loop.parts.clipped(loop)

        def on_step_end(self, *_: Any, **named: Any) -> None:
            loop.parts.between(loop)
            loop.update += 1

    return Between()


def seen_by(callback: Any) -> Seen:
    """What the callback has found."""
    if callback.watch is None:
        raise RuntimeError(f"the callback did not watch: {callback.guard.off}")
    cost = callback.watch.cost
    return Seen(callback.findings, cost.seconds, cost.training_seconds, cost.n_readings)


STYLE = Style(
    name="trainer",
    split="tune",
    tasks=LANGUAGE | CLASSES,
    writes=BUILT | {"joined", "loss", "micro", "clipped", "between", "options"},
    train=train,
)
