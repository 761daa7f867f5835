"""Claims about adapters: the rank that LoRA needs."""

from __future__ import annotations

import torch

from pellucid import config
from pellucid.course.experiments.picture import Curves, curve
from pellucid.course.experiments.record import (
    Experiment,
    Question,
    Reading,
    Setting,
    Source,
    lower_bound,
)
from pellucid.course.experiments.small_models import (
    BYTES,
    bundled_text,
    loss_of,
    small_model,
    text_batches,
    train,
    train_on_text,
)
from pellucid.model import assemble, assemble_trained
from pellucid.typed import to_list


def _lora_rank(setting: Setting) -> Reading:
    steps = 80 if setting.quick else 300
    training, held_out = bundled_text()
    upper = [torch.tensor(list(bytes(to_list(part)).upper())) for part in (training, held_out)]
    architecture = small_model(vocab_size=BYTES, context_length=32)
    start = train_on_text(architecture, length=32, setting=setting, steps=2 * steps).model
    test = text_batches(upper[1], rows=64, length=32, seed=0)(0)
    before = loss_of(start, test)
    ranks = (1, 4, 16, 0)
    losses: dict[int, float] = {}
    for rank in ranks:
        model = assemble(architecture, seed=setting.seed)
        model.load_state_dict(start.state_dict())
        if rank:
            adapter = config.LoRA(
                rank=rank, alpha=2.0 * rank, dropout=0.0,
                targets=("query", "key", "value", "output", "up", "down"),
            )  # fmt: skip
            assemble_trained(model, adapter, seed=setting.seed)
        batches = text_batches(upper[0], rows=8, length=32, seed=setting.seed + 100)
        losses[rank] = loss_of(train(model, batches, setting=setting, steps=steps).model, test)
    gains = {rank: (before - losses[rank]) / (before - losses[0]) for rank in ranks}
    return Reading(
        numbers={
            "share of full training's gain, rank 1": gains[1],
            "share of full training's gain, rank 4": gains[4],
            "share of full training's gain, rank 16": gains[16],
        },
        picture=Curves(
            title="A model of ordinary text learns text in capitals; 1 is training every weight",
            x_label="rank",
            y_label="share of the gain",
            curves=(curve("LoRA", ranks[:3], [gains[rank] for rank in ranks[:3]]),),
            log_x=True,
        ),
    )


EXPERIMENTS = (
    Experiment(
        name="lora-rank",
        title="The rank that LoRA needs",
        description="Teach a trained model to write in capitals, by LoRA of rank 1, 4 and 16, and "
        "by training every weight.",
        question=Question(
            text="What share of the gain of full training does LoRA of rank 4 reach?",
            choices=("90% or more", "about half", "almost nothing"),
        ),
        claim="A very small rank is enough: rank 4 does about as well as training every weight.",
        source=Source(
            authors="Hu et al.",
            year=2021,
            title="LoRA: Low-Rank Adaptation of Large Language Models",
            place="section 7.2",
        ),
        concepts=("adamw_step", "trained.rank", "trained.alpha"),
        checks=(lower_bound("share of full training's gain, rank 4", 0.9),),
        measure=_lora_rank,
        seeds=5,
        quick_seeds=3,
    ),
)
