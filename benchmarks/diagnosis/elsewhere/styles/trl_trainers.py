"""The trainers of TRL, with the callback: SFT and DPO for tuning, rewards and GRPO held out."""

from __future__ import annotations

import tempfile
from functools import partial
from typing import Any

from benchmarks.diagnosis.elsewhere.parts import ROWS, Loop, Parts
from benchmarks.diagnosis.elsewhere.styles.preferences import BETA, NEW_TOKENS, TUNING
from benchmarks.diagnosis.elsewhere.styles.style import BUILT, Seen, Setting, Style
from benchmarks.diagnosis.elsewhere.styles.trainer import between, callback, quiet, seen_by

_WRITES = BUILT | {"micro", "between", "reference", "rewarded", "options"}


def _train(setting: Setting, prefix: str) -> Seen:
    import trl

    from datasets import Dataset, disable_progress_bars

    disable_progress_bars()
    loop, parts = setting.loop(), setting.parts
    with tempfile.TemporaryDirectory() as folder:
        told = {
            "output_dir": folder,
            "per_device_train_batch_size": ROWS,
            "gradient_accumulation_steps": parts.micro,
            "max_steps": parts.updates,
            "bf16": False,
            "gradient_checkpointing": False,
            "seed": setting.seed,
            **quiet(),
            **parts.options,
        }
        ours = callback(setting)
        if parts.options.get("beta") and prefix == "GRPO":  # it loads its reference by name
            start = f"{folder}/start"
            policy: Any = loop.model
            policy.save_pretrained(start)
            policy.config.name_or_path = start
        trainer = getattr(trl, f"{prefix}Trainer")(
            model=setting.model,
            args=getattr(trl, f"{prefix}Config")(**told),
            train_dataset=Dataset.from_list([_columns(row, setting.task) for row in setting.rows]),
            processing_class=setting.tokenizer,
            optimizers=(loop.optimizer, loop.schedule),
            callbacks=[ours, between(loop)],
            **_of_its_own(loop, prefix),
        )
        trainer.train()
    return seen_by(ours)


def _of_its_own(loop: Loop, prefix: str) -> dict[str, Any]:
    """The arguments that one of the trainers alone has."""
    match prefix:
        case "DPO":
            return {"ref_model": loop.kept["reference"]}
        case "GRPO":

            def reward(completion_ids: list[list[int]], **_: Any) -> list[float]:
                return loop.parts.rewarded(completion_ids)

            return {"reward_funcs": reward}
        case _:
            return {}


def _columns(row: dict[str, Any], task: str) -> dict[str, str]:
    """The columns that a trainer looks for."""
    if task == "grpo":
        return {"prompt": row["text"][:20]}
    prompt, chosen, rejected = row["text"]
    if task == "sft":
        return {"prompt": prompt, "completion": " " + chosen}
    return {"prompt": prompt, "chosen": " " + chosen, "rejected": " " + rejected}


def _style(prefix: str, split: Any, task: str, kinds: Any, **fields: Any) -> Style:
    return Style(
        name=f"{prefix}Trainer",
        split=split,
        tasks={task: kinds},
        writes=_WRITES,
        train=partial(_train, prefix=prefix),
        base=Parts(**fields),
    )


SFT = _style("SFT", "tune", "sft", ("decoder",), options={"max_length": 48}, updates=60)
DPO = _style(
    "DPO",
    "tune",
    "dpo",
    ("decoder",),
    options={"max_length": 48, "beta": BETA},
    optimizer=TUNING,
    updates=60,
)
REWARD = _style("Reward", "test", "reward", ("decoder",), options={"max_length": 48}, updates=60)
GRPO = _style(
    "GRPO",
    "test",
    "grpo",
    ("decoder",),
    options={"num_generations": 8, "max_completion_length": NEW_TOKENS, "beta": 0.0},
    optimizer=TUNING,
    updates=40,
)
