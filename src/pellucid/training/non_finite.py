"""Finding the first value that was not finite, by repeating an update."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from pellucid.checkpoints import save_tensors, write_folder
from pellucid.disk import free_name
from pellucid.json_text import json_text
from pellucid.typed import eagerly, named_modules

#: In the order of computing.
_KINDS = ("weight", "output of module", "loss", "gradient", "norm of the gradient")


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


def first_culprit(model: nn.Module, culprits: Sequence[Culprit]) -> Culprit:
    """The first of the culprits that several ranks found in their parts of one update.

    Args:
        model: has the order of the places.
        culprits: one of each rank.
    """
    weights = [name for name, _ in model.named_parameters()]
    # gradients come in the opposite order
    places = {"weight": weights, "gradient": weights[::-1]}
    places["output of module"] = list(named_modules(model))

    def order(culprit: Culprit) -> tuple[int, int]:
        names = places.get(culprit.kind, [culprit.place])
        return _KINDS.index(culprit.kind), names.index(culprit.place)

    return min(culprits, key=order)


def _watch(name: str, broken: list[str]) -> Callable[[nn.Module, Any, Any], None]:
    def hook(module: nn.Module, inputs: Any, output: Any) -> None:
        if isinstance(output, Tensor) and not _finite(output):
            broken.append(name)

    return hook


def _finite(tensor: Tensor) -> bool:
    return bool(torch.isfinite(tensor).all())


def set_aside(
    target: Path, groups: Mapping[str, Mapping[str, Tensor]], step: int, culprit: Culprit
) -> Path:
    """Write tensors and a report of the culprit to a folder; it replaces only one of this kind.

    Args:
        target: the folder.
        groups: tensors by name, by the name of their file.
        step: how many updates are done.
        culprit: the first value that was not finite.

    Returns:
        The folder, with another name if something else was in the way.
    """
    files = (*(f"{name}.safetensors" for name in groups), "report.json")

    def write(folder: Path) -> None:
        for name, tensors in groups.items():
            save_tensors(folder / f"{name}.safetensors", tensors)
        report = {"step": step, "what": culprit.kind, "where": culprit.place}
        (folder / "report.json").write_text(json_text(report, indent=1), encoding="utf-8")

    is_ours = target.is_dir() and {entry.name for entry in target.iterdir()} == set(files)
    target = target if is_ours else free_name(target)
    write_folder(target, files, write, replace=is_ours)
    return target


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
