"""Mistakes with pairs of answers, references and rewards."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.diagnosis.elsewhere.families import Family, build
from benchmarks.diagnosis.elsewhere.faults.fault import Faults
from benchmarks.diagnosis.elsewhere.parts import Batch, Loop, Parts, adamw, share_of_common
from benchmarks.diagnosis.elsewhere.styles.preferences import dpo_loss, policy_loss, reward_loss
from benchmarks.diagnosis.elsewhere.texts import Example

FAULTS = Faults()
PAIRS = ("dpo", "reward")


def _prepared(parts: Parts, change: Any) -> Parts:
    return replace(parts, prepared=lambda rows: [row | change(row) for row in rows])


@FAULTS.add("chosen and rejected swapped", tasks=PAIRS)
def _(parts: Parts, family: Family) -> Parts:
    def change(row: Example) -> Example:
        prompt, chosen, rejected = row["text"]
        return {
            "chosen": row["rejected"],
            "rejected": row["chosen"],
            "text": (prompt, rejected, chosen),
        }

    return _prepared(parts, change)


@FAULTS.add("the same answer twice", tasks=PAIRS)
def _(parts: Parts, family: Family) -> Parts:
    def change(row: Example) -> Example:
        prompt, chosen, _ = row["text"]
        return {"rejected": row["chosen"], "text": (prompt, chosen, chosen)}

    return _prepared(parts, change)


@FAULTS.add("the reference is the model", tasks=("dpo",))
def _(parts: Parts, family: Family) -> Parts:
    if "beta" in parts.options:  # TRL refuses one object as both; its own option makes them one
        synced = {"sync_ref_model": True, "ref_model_sync_steps": 1, "ref_model_mixup_alpha": 1.0}
        return replace(parts, options=parts.options | synced)
    return replace(parts, reference=lambda model: model)


@FAULTS.add("the reference is another model", tasks=("dpo",))
def _(parts: Parts, family: Family) -> Parts:
    # not yet loaded: its first weights
    return replace(parts, reference=lambda model: build(family, "lm", 99).requires_grad_(False))


@FAULTS.add("beta far too large", tasks=("dpo",))
def _(parts: Parts, family: Family) -> Parts:
    if "beta" in parts.options:
        return replace(parts, options=parts.options | {"beta": 100.0})
    return replace(parts, loss=partial(dpo_loss, beta=100.0))


@FAULTS.add("beta far too small", tasks=("dpo",))
def _(parts: Parts, family: Family) -> Parts:
    if "beta" in parts.options:
        return replace(parts, options=parts.options | {"beta": 1e-6})
    return replace(parts, loss=partial(dpo_loss, beta=1e-6))


@FAULTS.add("rewards compared the wrong way round", tasks=("reward",))
def _(parts: Parts, family: Family) -> Parts:
    if parts.loss is not reward_loss:  # TRL compares them itself
        return parts

    def loss(loop: Loop, batch: Batch) -> Tensor:
        flipped = {name: torch.cat(part.chunk(2)[::-1]) for name, part in batch.items()}
        return reward_loss(loop, flipped)

    return replace(parts, loss=loss)


@FAULTS.add("answers cut off before they begin", tasks=("sft", "dpo", "reward"))
def _(parts: Parts, family: Family) -> Parts:
    if "max_length" in parts.options:
        return replace(parts, options=parts.options | {"max_length": 10})
    return _prepared(parts, lambda row: {name: row[name][:1] for name in ("chosen", "rejected")})


@FAULTS.add("answers of other prompts", tasks=("sft",))
def _(parts: Parts, family: Family) -> Parts:
    def prepared(rows: list[Example]) -> list[Example]:
        # one column was sorted, the other was not
        answers = sorted(row["text"][1] for row in rows)
        return [
            row | {"text": (row["text"][0], answer, "")}
            for row, answer in zip(rows, answers, strict=True)
        ]

    return replace(parts, prepared=prepared)


@FAULTS.add("answers in capitals", tasks=("sft",))
def _(parts: Parts, family: Family) -> Parts:
    # cleaned up for training, and not for use
    return _prepared(
        parts, lambda row: {"text": (row["text"][0], row["text"][1].upper(), row["text"][2])}
    )


@FAULTS.add("prompts without their template", tasks=("sft",))
def _(parts: Parts, family: Family) -> Parts:
    return _prepared(
        parts,
        lambda row: {"text": (f"### Q: {row['text'][0]} ### A:" * 2, *row["text"][1:])},
    )


@FAULTS.add("every answer is worth the same", tasks=("grpo",))
def _(parts: Parts, family: Family) -> Parts:
    # a parser that finds no answer anywhere
    return replace(parts, rewarded=lambda answers: [0.0] * len(answers))


@FAULTS.add("reward with the wrong sign", tasks=("grpo",))
def _(parts: Parts, family: Family) -> Parts:
    return replace(parts, rewarded=lambda answers: [-r for r in share_of_common(answers)])


@FAULTS.add("reward for one token alone", tasks=("grpo",))
def _(parts: Parts, family: Family) -> Parts:
    def rewarded(answers: list[list[int]]) -> list[float]:
        # a format is paid for, and it is no answer
        return [float(sum(token == 260 for token in answer)) for answer in answers]

    return replace(parts, rewarded=rewarded)


@FAULTS.add("random rewards", tasks=("grpo",))
def _(parts: Parts, family: Family) -> Parts:
    return replace(parts, rewarded=lambda answers: torch.rand(len(answers)).tolist())


@FAULTS.add("all answers alike", tasks=("grpo",))
def _(parts: Parts, family: Family) -> Parts:
    if parts.loss is policy_loss:
        return replace(parts, loss=partial(policy_loss, temperature=0.01))
    return replace(parts, options=parts.options | {"temperature": 0.01})


@FAULTS.add("answers of one token", tasks=("grpo",))
def _(parts: Parts, family: Family) -> Parts:
    if parts.loss is policy_loss:
        return replace(parts, rewarded=lambda answers: share_of_common([a[:1] for a in answers]))
    return replace(parts, options=parts.options | {"max_completion_length": 1})


@FAULTS.add("held back by its reference", tasks=("grpo",))
def _(parts: Parts, family: Family) -> Parts:
    if parts.loss is policy_loss:
        return parts
    return replace(parts, options=parts.options | {"beta": 50.0})


@FAULTS.add("policy's rate too high", tasks=("grpo", "dpo"))
def _(parts: Parts, family: Family) -> Parts:
    return replace(parts, optimizer=partial(adamw, lr=0.05))


@FAULTS.add("advantage with the wrong sign", tasks=("grpo",))
def _(parts: Parts, family: Family) -> Parts:
    if parts.loss is not policy_loss:
        return parts
    return replace(parts, loss=partial(policy_loss, sign=-1.0))


@FAULTS.add("rewards of a model whose head is frozen", tasks=("reward",))
def _(parts: Parts, family: Family) -> Parts:
    def tuned(model: nn.Module) -> None:
        for name, weight in model.named_parameters():
            if "score" in name or "classif" in name:
                nn.init.zeros_(weight.data)
                weight.requires_grad_(False)

    return replace(parts, tuned=tuned)
