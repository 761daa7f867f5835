"""Whether `torch.compile` works here, tried and not believed.

Comes in: a device. Goes out: nothing, or the reason why not. It does not know models.
"""

from __future__ import annotations

import logging
from typing import Any, cast

import torch
from torch import Tensor

from pellucid.model import Transformer

_log = logging.getLogger(__name__)


def compiler_problem(device: torch.device) -> str | None:
    """Compile and run a function of one line; the first line of the error if that fails."""

    def probe(x: Tensor) -> Tensor:
        return (x * 2).relu().sum()

    try:
        cast("Any", torch).compile(probe)(torch.ones(8, device=device))
    except Exception as error:  # whatever a missing compiler raises, eager is the answer
        _log.info("torch.compile does not work here", exc_info=True)
        return f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"
    return None


def compile_blocks(model: Transformer) -> None:
    """Compile each block in place: alike blocks share one compilation.

    Hooks on a block are called; those on modules inside it only within
    `pellucid.typed.eagerly`.
    """
    for stack in (model.encoder, model.decoder):
        for block in () if stack is None else stack.blocks:
            cast("Any", block).compile()
