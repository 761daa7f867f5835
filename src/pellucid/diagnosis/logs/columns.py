"""The names of columns in the logs of common tools."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal

Kind = Literal["loss", "held_out", "grad_norm", "rate"]

#: Usual names, the surest first; spaces and hyphens became underscores, and dots slashes.
_NAMES: Mapping[Kind, tuple[str, ...]] = {
    "loss": (
        "loss",
        "train/loss",
        "train/loss_nats",
        "train_loss",
        "training_loss",
        "train_loss_step",
        "train/loss_step",
        "loss_step",
        "lm_loss",
        "train/lm_loss",
        "lm_loss_training/lm_loss",
        "training/loss",
        "loss/train",
        "losses/train",
        "loss_metrics/global_avg_loss",
        "train/ce_loss",
        "train/crossentropyloss",
        "ce_loss",
        "cross_entropy",
        "nll_loss",
        "train_inner/loss",
        "train/total_loss",
        "total_loss",
        "train_loss_epoch",
        "train/loss_epoch",
        "loss_epoch",
    ),
    "held_out": (
        "eval_loss",
        "eval/loss",
        "val_loss",
        "val/loss",
        "valid_loss",
        "valid/loss",
        "validation_loss",
        "validation/loss",
        "held_out_loss",
        "held_out/loss_nats",
        "dev_loss",
        "dev/loss",
        "test_loss",
        "test/loss",
        "loss/val",
        "loss/valid",
        "loss/validation",
        "loss/eval",
        "loss/test",
        "losses/val",
        "val_loss_epoch",
        "val/loss_epoch",
        "lm_loss_validation/lm_loss_validation",
        "lm_loss_validation",
    ),
    "grad_norm": (
        "grad_norm",
        "train/grad_norm",
        "gradient_norm",
        "train/gradient_norm",
        "grad_norm/total",
        "gradient_norm/total",
        "optim/total_grad_norm",
        "grad_2/0_norm_total",
        "grad_2_norm_total",
        "global_grad_norm",
        "total_grad_norm",
        "total_norm",
        "grads/norm",
        "gnorm",
        "grad_norm/grad_norm",
        "norm",
    ),
    "rate": (
        "learning_rate",
        "train/learning_rate",
        "lr",
        "train/lr",
        "training/lr",
        "optim/learning_rate_group0",
        "learning_rate/learning_rate",
        "lr_group0",
        "lr/group0",
        "train/learning_rate/0",
        "optim/lr",
    ),
}
#: The names of columns that count rows, the surest first.
STEPS = (
    "step",
    "global_step",
    "train/global_step",
    "steps",
    "trainer/global_step",
    "iter",
    "iters",
    "iteration",
    "iterations",
    "it",
    "update",
    "updates",
    "num_updates",
    "train/step",
    "epoch",
)
#: Columns of objectives without targets, for which ln V means nothing.
_OF_PREFERENCES = re.compile(r"(^|/)(rewards?|kl|chosen|rejected)(/|_|$)")
_OF_A_RANGE = re.compile(r"__(min|max|step)$")
_OF_A_MONITOR = re.compile(r"^lr_[a-z0-9]+(/pg\d+)?$")


def plain(name: str) -> str:
    """A column's name in lower case, without the name of a run before it."""
    last = name.strip().rsplit(" - ", 1)[-1].strip().lower()
    return re.sub(r"[\s\-]+", "_", last).replace(".", "/")


def kind_of(name: str) -> tuple[Kind, int] | None:
    """The kind of a column and the rank of its name; None for any other column."""
    plain_name = plain(name)
    if _OF_A_RANGE.search(plain_name):
        return None
    for kind, names in _NAMES.items():
        if plain_name in names:
            return kind, names.index(plain_name)
    if _OF_A_MONITOR.match(plain_name):
        return "rate", len(_NAMES["rate"])
    return None


def steps_of(names: Sequence[str]) -> str | None:
    """The column that counts updates, or else the one that counts epochs."""
    by_plain_name = {plain(name): name for name in reversed(names)}
    return next((by_plain_name[name] for name in STEPS if name in by_plain_name), None)


def is_preference(names: Sequence[str]) -> bool:
    """Whether the columns show a training on preferences or rewards."""
    return any(_OF_PREFERENCES.search(plain(name)) for name in names)


def only_loss(names: Sequence[str]) -> str | None:
    """The only column with "loss" in its name, for logs without usual names."""
    excluded = ("scale", "aux", "balanc", "val", "eval", "test", "dev", "best", "z_loss")
    loss_names = [
        n for n in names if "loss" in plain(n) and not any(o in plain(n) for o in excluded)
    ]
    loss_names = [name for name in loss_names if not _OF_A_RANGE.search(plain(name))]
    return loss_names[0] if len(loss_names) == 1 else None
