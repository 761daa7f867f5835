"""Fixes of a loop's model: first weights, frozen weights, dropout, modes, and number formats."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

import torch
from torch import nn

from pellucid.diagnosis.fixes.loop.change import LoopChange, LoopFix
from pellucid.diagnosis.fixes.loop.optimiser import groups_of
from pellucid.diagnosis.loop import Loop

#: A larger eps may exceed the variance; a smaller one vanishes in float32.
_LARGEST_EPS, _SMALLEST_EPS, _USUAL_EPS = 1e-4, 1e-9, 1e-5
_EPS_NAMES = ("eps", "variance_epsilon", "epsilon")


def _matrices(model: nn.Module) -> Iterator[tuple[nn.Module, nn.Parameter]]:
    """Each matrix of a layer or an embedding, once."""
    known_ids: set[int] = set()
    for module in model.modules():
        weight = getattr(module, "weight", None)
        if isinstance(weight, nn.Parameter) and weight.ndim == 2 and id(weight) not in known_ids:
            known_ids.add(id(weight))
            yield module, weight


def _width(model: nn.Module) -> int | None:
    """The features of an embedding, or None."""
    widths = [m.embedding_dim for m in model.modules() if isinstance(m, nn.Embedding)]
    return max(widths, default=None)


def _draw(std: Callable[[nn.Parameter], float], *, only_embeddings: bool = False) -> Any:
    def prepare(loop: Loop) -> None:
        with torch.no_grad():
            for module, weight in _matrices(loop.model):
                if only_embeddings and not isinstance(module, nn.Embedding):
                    continue
                weight.normal_(std=std(weight))
                bias = getattr(module, "bias", None)
                if isinstance(bias, nn.Parameter):
                    bias.zero_()

    return prepare


def _small_init(*, only_embeddings: bool = False) -> LoopFix:
    def fix(loop: Loop, steps: int) -> LoopChange | None:
        width = _width(loop.model)
        if width is None:
            return None
        std = math.sqrt(2 / (5 * width))
        modules = "nn.Embedding" if only_embeddings else "nn.Linear | nn.Embedding"
        return LoopChange(
            code=f"nn.init.normal_(module.weight, std={std:.3g})  # of each {modules}",
            prepare=_draw(lambda weight: std, only_embeddings=only_embeddings),
        )

    return fix


def _fan_init(std: Callable[[nn.Parameter], float], code: str) -> LoopFix:
    return lambda loop, steps: LoopChange(code=code, prepare=_draw(std))


def _thaw(loop: Loop, steps: int) -> LoopChange | None:
    if all(parameter.requires_grad for parameter in loop.model.parameters()):
        return None

    def prepare(loop: Loop) -> None:
        loop.model.requires_grad_(True)
        _hold(loop)

    return LoopChange(
        code="model.requires_grad_(True)  # before the optimiser is built", prepare=prepare
    )


def _hold(loop: Loop) -> None:
    """Let the optimiser hold all trained weights of the model, and no others."""
    trained = {id(p): p for p in loop.model.parameters() if p.requires_grad}
    first = next(groups_of(loop))
    for group in groups_of(loop):
        group_weights = cast("list[nn.Parameter]", group["params"])
        group_weights[:] = [trained.pop(id(p)) for p in group_weights if id(p) in trained]
    first["params"].extend(trained.values())


def _hold_weights(loop: Loop, steps: int) -> LoopChange | None:
    group_weights = {id(p) for group in groups_of(loop) for p in group["params"]}
    trained = {id(p) for p in loop.model.parameters() if p.requires_grad}
    if trained == group_weights:
        return None
    return LoopChange(
        code="the optimiser over model.parameters() of the model that is trained", prepare=_hold
    )


def _dropouts(model: nn.Module, limit: float) -> Iterator[tuple[nn.Module, str]]:
    """Modules with a dropout above a limit, and the name of it."""
    for module in model.modules():
        for name, value in vars(module).items():
            is_dropout = "drop" in name or (name == "p" and isinstance(module, nn.Dropout))
            if is_dropout and isinstance(value, float) and value > limit:
                yield module, name


def _lower_dropout(limit: float, target: float) -> LoopFix:
    def prepare(loop: Loop) -> None:
        for module, name in list(_dropouts(loop.model, limit)):
            setattr(module, name, target)

    def fix(loop: Loop, steps: int) -> LoopChange | None:
        if next(_dropouts(loop.model, limit), None) is None:
            return None
        return LoopChange(code=f"a dropout of {target} in the model's config", prepare=prepare)

    return fix


def _epsilons(model: nn.Module) -> Iterator[tuple[nn.Module, str]]:
    for module in model.modules():
        for name in _EPS_NAMES:
            eps = vars(module).get(name)
            if isinstance(eps, float) and not _SMALLEST_EPS <= eps <= _LARGEST_EPS:
                yield module, name


def _norm_eps(loop: Loop, steps: int) -> LoopChange | None:
    if next(_epsilons(loop.model), None) is None:
        return None

    def prepare(loop: Loop) -> None:
        for module, name in list(_epsilons(loop.model)):
            setattr(module, name, _USUAL_EPS)

    return LoopChange(code=f"eps={_USUAL_EPS} in every norm", prepare=prepare)


def _float32(loop: Loop, steps: int) -> LoopChange | None:
    device = next(loop.model.parameters()).device.type
    return LoopChange(
        code="model.float(), and no autocast around its calls",
        prepare=lambda loop: loop.model.float(),
        forward=lambda: torch.autocast(device, enabled=False),
    )


def _train_mode(loop: Loop, steps: int) -> LoopChange | None:
    def enter(module: nn.Module, args: Any) -> None:
        if torch.is_grad_enabled() and not module.training:
            module.train()

    return LoopChange(
        code="model.train()  # before the updates, and again after each evaluation",
        prepare=lambda loop: loop.model.register_forward_pre_hook(enter),
    )


def _tie_weights(loop: Loop, steps: int) -> LoopChange | None:
    ends = [getattr(loop.model, f"get_{end}_embeddings", None) for end in ("input", "output")]
    if any(end is None for end in ends):
        return None
    embedding, head = (cast("Any", end)() for end in ends)
    if (
        head is None
        or head.weight is embedding.weight
        or head.weight.shape != embedding.weight.shape
    ):
        return None

    def prepare(loop: Loop) -> None:
        model: Any = loop.model
        model.get_output_embeddings().weight = model.get_input_embeddings().weight
        _hold(loop)

    return LoopChange(code="model.lm_head.weight = model.embedding.weight", prepare=prepare)


WEIGHT_FIXES: Mapping[str, LoopFix] = {
    "small_init": _small_init(),
    "small_embedding": _small_init(only_embeddings=True),
    "xavier": _fan_init(
        lambda weight: math.sqrt(2 / sum(weight.shape)),
        "nn.init.xavier_normal_(module.weight)  # of each layer and embedding",
    ),
    "he": _fan_init(
        lambda weight: math.sqrt(2 / weight.shape[1]),
        "nn.init.kaiming_normal_(module.weight)  # of each layer and embedding",
    ),
    "thaw": _thaw,
    "hold_weights": _hold_weights,
    "dropout": _lower_dropout(0.3, 0.1),
    "no_dropout": _lower_dropout(0.0, 0.0),
    "norm_eps": _norm_eps,
    "float32": _float32,
    "train_mode": _train_mode,
    "tie_weights": _tie_weights,
}
