"""Finding the first value that was not finite, by repeating an update."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from pellucid.typed import eagerly, named_modules


@dataclass(frozen=True, slots=True)
class Culprit:
    """The first place that was not finite: a weight, a module's output, the loss, a gradient."""

    kind: str
    place: str


def find_culprit(model: nn.Module, repeat: Callable[[], Tensor]) -> Culprit:
    """Repeat an update, and find the first value that is not finite, in the order of computing.

    The order is: weights, outputs of modules, the loss, gradients of parameters. `repeat` runs
    forward and backward, and returns the loss.
    """
    for name, parameter in model.named_parameters():
        if not _finite(parameter):
            return Culprit("weight", name)
    broken: list[str] = []
    hooks = [
        module.register_forward_hook(_watch(name, broken))
        for name, module in named_modules(model).items()
        if name
    ]
    try:
        # hooks of modules inside a compiled block are called only if it runs uncompiled
        with eagerly():
            loss = repeat()
    finally:
        for hook in hooks:
            hook.remove()
    if broken:
        return Culprit("output of module", broken[0])
    if not _finite(loss):
        return Culprit("loss", "objective")
    # parameters come in the order of the forward pass: the last ones get their gradient first
    for name, parameter in reversed(list(model.named_parameters())):
        if parameter.grad is not None and not _finite(parameter.grad):
            return Culprit("gradient", name)
    return Culprit("norm of the gradient", "all parameters together")


def _watch(name: str, broken: list[str]) -> Callable[[nn.Module, Any, Any], None]:
    def hook(module: nn.Module, inputs: Any, output: Any) -> None:
        if isinstance(output, Tensor) and not _finite(output):
            broken.append(name)

    return hook


def _finite(tensor: Tensor) -> bool:
    return bool(torch.isfinite(tensor).all())


def refusal(step: int, culprit: Culprit, folder: Path) -> str:
    """The message of a run that stops on a value that is not finite.

    Args:
        step: how many updates are done.
        culprit: the first value that was not finite.
        folder: where the state was saved.
    """
    return (
        f"update {step + 1} met a value that is not finite: {culprit.kind} of {culprit.place}. The "
        f"update was skipped and the run stopped; weights, optimiser and batch were set aside in "
        f"{folder}, and earlier checkpoints are whole. A lower learning rate, more warm-up, or "
        "--set training.precision=float32 are what usually helps"
    )
