"""Healthy ways to train with odd loops: batches, averages, frozen parts, memory.

Comes in: pieces of a loop. Goes out: pieces of a loop, all of them right. It knows no fault.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.diagnosis.elsewhere.families import Family
from benchmarks.diagnosis.elsewhere.faults.fault import ROWS, TOKENS, Faults
from benchmarks.diagnosis.elsewhere.parts import UPDATES, Batch, Loop, Parts
from benchmarks.diagnosis.elsewhere.texts import Example

ODD = Faults(healthy=True)


@ODD.add("rows by two")
def _(parts: Parts, family: Family) -> Parts:
    def drawn(rows: list[Example], update: int, draws: torch.Generator) -> list[int]:
        return torch.randint(len(rows), (2,), generator=draws).tolist()

    return replace(parts, drawn=drawn)


@ODD.add("rows by twenty-four")
def _(parts: Parts, family: Family) -> Parts:
    def drawn(rows: list[Example], update: int, draws: torch.Generator) -> list[int]:
        return torch.randint(len(rows), (24,), generator=draws).tolist()

    return replace(parts, drawn=drawn)


@ODD.add("short texts first", tasks=ROWS)
def _(parts: Parts, family: Family) -> Parts:
    def drawn(rows: list[Example], update: int, draws: torch.Generator) -> list[int]:
        order = sorted(range(len(rows)), key=lambda i: len(rows[i]["ids"]))
        reach = max(64, int(len(rows) * (update + 1) / UPDATES))
        return [order[i] for i in torch.randint(min(reach, len(rows)), (8,), generator=draws)]

    return replace(parts, drawn=drawn)


@ODD.add("in order, epoch by epoch")
def _(parts: Parts, family: Family) -> Parts:
    def drawn(rows: list[Example], update: int, draws: torch.Generator) -> list[int]:
        return [(update * 8 + i) % min(len(rows), 400) for i in range(8)]

    return replace(parts, drawn=drawn)


@ODD.add("four parts an update")
def _(parts: Parts, family: Family) -> Parts:
    return replace(parts, micro=4)


@ODD.add(
    "positions frozen by choice", fits=lambda family: family.name in ("gpt2", "bert", "roberta")
)
def _(parts: Parts, family: Family) -> Parts:
    def tuned(model: nn.Module) -> None:
        for name, weight in model.named_parameters():
            weight.requires_grad_("position" not in name and "wpe" not in name)

    return replace(parts, tuned=tuned)


@ODD.add("a twentieth of the labels wrong", tasks=ROWS)
def _(parts: Parts, family: Family) -> Parts:
    def joined(rows: list[Example], task: str) -> Batch:
        batch = parts.joined(rows, task)
        name = "y" if "y" in batch else "labels"
        labels = batch[name]
        wrong = (torch.rand(labels.shape) < 0.05) & (labels >= 0)
        mixed = labels.flatten()[torch.randperm(labels.numel())].view_as(labels)
        return batch | {name: torch.where(wrong & (mixed >= 0), mixed, labels)}

    return replace(parts, joined=joined)


@ODD.add("an average kept aside")
def _(parts: Parts, family: Family) -> Parts:
    @torch.no_grad()
    def between(loop: Loop) -> None:
        mean = loop.kept.setdefault("mean", [p.clone() for p in loop.model.parameters()])
        for kept, weight in zip(mean, loop.model.parameters(), strict=True):
            kept.lerp_(weight, 0.05)

    return replace(parts, between=between)


@ODD.add("an average swapped in for evaluation")
def _(parts: Parts, family: Family) -> Parts:
    @torch.no_grad()
    def between(loop: Loop) -> None:
        weights = list(loop.model.parameters())
        mean = loop.kept.setdefault("mean", [p.clone() for p in weights])
        for kept, weight in zip(mean, weights, strict=True):
            kept.lerp_(weight, 0.05)
        if loop.update % 50 == 49:
            before = [p.clone() for p in weights]
            for source in (mean, before):  # swapped in, evaluated, and swapped back
                for weight, kept in zip(weights, source, strict=True):
                    weight.copy_(kept)

    return replace(parts, between=between)


@ODD.add("slow weights ahead of fast ones")
def _(parts: Parts, family: Family) -> Parts:
    @torch.no_grad()
    def between(loop: Loop) -> None:
        weights = list(loop.model.parameters())
        slow = loop.kept.setdefault("slow", [p.clone() for p in weights])
        if loop.update % 5 == 4:
            for kept, weight in zip(slow, weights, strict=True):
                kept.lerp_(weight, 0.7)
                weight.copy_(kept)

    return replace(parts, between=between)


@ODD.add("adapters alone are trained", tasks=("sft", "dpo"), fits=lambda family: family.attends)
def _(parts: Parts, family: Family) -> Parts:
    def tuned(model: nn.Module) -> None:
        import peft

        low_rank = peft.LoraConfig(r=8, lora_alpha=32, target_modules="all-linear")
        peft.inject_adapter_in_model(low_rank, model)

    return replace(parts, tuned=tuned)


@ODD.add("the embedding is frozen by choice", tasks=("sft", "dpo", "grpo"))
def _(parts: Parts, family: Family) -> Parts:
    def tuned(model: Any) -> None:
        model.get_input_embeddings().requires_grad_(False)

    return replace(parts, tuned=tuned)


@ODD.add("log Z held near 0", tasks=("lm",), own=True)
def _(parts: Parts, family: Family) -> Parts:
    def loss(loop: Loop, batch: Batch) -> Tensor:
        logits = loop.model(batch["x"]).logits
        drift = logits.logsumexp(-1).square().mean()
        return (
            nn.functional.cross_entropy(logits.flatten(0, 1), batch["y"].flatten()) + 1e-4 * drift
        )

    return replace(parts, loss=loss)


@ODD.add("evaluated now and then")
def _(parts: Parts, family: Family) -> Parts:
    def between(loop: Loop) -> None:
        if loop.update % 50 == 49:
            loop.model.eval()
            loop.model.train()

    return replace(parts, between=between)


@ODD.add("half the tokens paid for", tasks=("lm",), own=False)
def _(parts: Parts, family: Family) -> Parts:
    def joined(rows: list[Example], task: str) -> Batch:
        batch = parts.joined(rows, task)
        labels = batch["labels"].clone()
        labels[:, : labels.shape[1] // 2] = -100
        return batch | {"labels": labels}

    return replace(parts, joined=joined)


@ODD.add("filled up on the left", tasks=("lm",), own=False, fits=lambda family: family.attends)
def _(parts: Parts, family: Family) -> Parts:
    def joined(rows: list[Example], task: str) -> Batch:
        return {
            name: part.flip(1)
            for name, part in parts.joined(
                [row | {"ids": row["ids"][::-1]} for row in rows], task
            ).items()
        }

    return replace(parts, joined=joined)


@ODD.add("a little label smoothing", tasks=("lm",), own=True)
def _(parts: Parts, family: Family) -> Parts:
    def loss(loop: Loop, batch: Batch) -> Tensor:
        logits = loop.model(batch["x"]).logits
        return nn.functional.cross_entropy(
            logits.flatten(0, 1), batch["y"].flatten(), label_smoothing=0.1
        )

    return replace(parts, loss=loss)


@ODD.add("scores of attention in eager mode", fits=lambda family: family.attends)
def _(parts: Parts, family: Family) -> Parts:
    return replace(parts, config=parts.config | {"attn_implementation": "eager"})


@ODD.add("recomputed in the backward pass", fits=lambda family: family.attends)
def _(parts: Parts, family: Family) -> Parts:
    def tuned(model: Any) -> None:
        model.gradient_checkpointing_enable({"use_reentrant": False})

    return replace(parts, tuned=tuned)


@ODD.add("logs every update", tasks=TOKENS)
def _(parts: Parts, family: Family) -> Parts:
    return replace(parts, options=parts.options | {"logging_steps": 1})
