"""How well a trained model does its true task on text that it has not seen; lower is better.

Comes in: a model and held-out examples. Goes out: a number. It does not know how the model was
trained: inputs are right, whatever the loop fed, and a decoder sees nothing but the past.
"""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as F

from benchmarks.diagnosis.elsewhere.parts import Loop, Parts, joined, share_of_common
from benchmarks.diagnosis.elsewhere.styles.preferences import (
    answer_log_p,
    dpo_loss,
    pairs,
    prompts,
    reward_loss,
    sampled,
)
from benchmarks.diagnosis.elsewhere.texts import Example

#: A decoder's next token is asked for behind so many tokens.
_PREFIXES = (6, 11, 16, 21, 26)
_ROWS = 96
#: A run is harmed if it is worse than its healthy twin, of the same seed, by more than this: in
#: nats; of a policy, in shares of the answers' tokens that are rewarded.
MARGIN = 0.05


def score(model: nn.Module, task: str, held_out: list[Example], start: nn.Module | None) -> float:
    """The loss of the true task; infinite if it is no number.

    Args:
        model: what was trained.
        task: what it was to learn.
        held_out: examples that it has not seen.
        start: the model as it was before it was tuned on preferences.
    """
    model.float().eval()
    rows = held_out[:_ROWS]
    with torch.no_grad(), torch.random.fork_rng():
        torch.manual_seed(0)
        value = _value(model, task, rows, start)
    return value if math.isfinite(value) else math.inf


def _value(model: nn.Module, task: str, rows: list[Example], start: nn.Module | None) -> float:
    match task:
        case "lm":
            return _next_token(model, rows)
        case "sft":
            batch = pairs(rows, task)
            chosen = answer_log_p(model, batch).chunk(2)[0]
            return -float(chosen.sum() / batch["answers"].chunk(2)[0].sum())
        case "reward":
            loop = Loop(Parts(), model, None, None, task)
            return float(reward_loss(loop, pairs(rows, task)))
        case "dpo":
            # preferred, and still able to write what it prefers
            loop = Loop(Parts(), model, None, None, task, kept={"reference": start})
            return float(dpo_loss(loop, pairs(rows, task))) + _value(model, "sft", rows, None)
        case "grpo":
            batch = prompts(rows, task)
            answers = sampled(model, batch["ids"])[:, batch["ids"].shape[1] :]
            rewards = share_of_common(answers.tolist())
            return -sum(rewards) / len(rewards)
        case _:
            return float(model(**joined(rows, task)).loss)


def _next_token(model: nn.Module, rows: list[Example]) -> float:
    """The loss of single tokens behind prefixes that are cut off before them."""
    total, count = 0.0, 0
    for length in _PREFIXES:
        fitting = [row["ids"] for row in rows if len(row["ids"]) > length]
        ids = torch.tensor([row[: length + 1] for row in fitting])
        logits = model(input_ids=ids[:, :-1]).logits[:, -1].float()
        total += float(F.cross_entropy(logits, ids[:, -1], reduction="sum"))
        count += len(fitting)
    return total / count


def harmed(score: float, twin: float) -> bool:
    """Whether a fault did harm."""
    return score > twin + MARGIN
