"""All that can be seen of a model and of chance: what a check has to leave as it was."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch
from torch import nn


def everything(model: nn.Module) -> dict[str, Any]:
    """All that can be seen of a model."""
    facts: dict[str, Any] = {"modes": [m.training for m in model.modules()]}
    for name, parameter in model.named_parameters():
        facts[name] = parameter.detach().clone()
        facts[f"{name} place"] = parameter.data_ptr()
        facts[f"{name} version"] = parameter._version
        facts[f"{name} asked"] = parameter.requires_grad
        facts[f"{name} gradient"] = None if parameter.grad is None else parameter.grad.clone()
        facts[f"{name} gradient place"] = id(parameter.grad)
    for name, buffer in model.named_buffers():
        facts[f"buffer {name}"] = buffer.clone()
        facts[f"buffer {name} place"] = id(buffer)
    return facts


def generators() -> list[Any]:
    return [random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state()]


def same(before: Any, after: Any) -> bool:
    if isinstance(before, torch.Tensor):
        return torch.equal(before, after)
    return bool(before == after)
