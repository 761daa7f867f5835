"""Small runs that were never trained, and the weights of an exported file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pellucid import config
from pellucid.model import Transformer, assemble
from pellucid.presets import PRESETS, find
from pellucid.runs.import_run import write_run
from pellucid.tokenizers import Tokenizer, train_bytes

#: Rows of the vocabulary of bytes, and some that no token has.
ROWS = 262


def smaller(stack: config.Stack | None) -> config.Stack | None:
    """The stack with two layers."""
    return None if stack is None else replace(stack, n_layers=2)


def small_preset(name: str, **changes: Any) -> config.Transformer:
    """The model of a preset with two layers and a small vocabulary."""
    model = PRESETS[name].model
    changes = {"vocab_size": ROWS, "context_length": 40, **changes}
    stacks = {"encoder": smaller(model.encoder), "decoder": smaller(model.decoder)}
    return replace(model, **{**stacks, **changes})


def weights(model: config.Transformer, seed: int = 3) -> dict[str, Tensor]:
    """Weights that leave no part of the model without an effect."""
    generator = torch.Generator().manual_seed(seed)
    return {
        name: tensor + 0.1 * torch.randn(tensor.shape, generator=generator)
        for name, tensor in assemble(model, seed=seed).state_dict().items()
        if tensor.is_floating_point()
    }


def untrained(
    place: Path,
    model: config.Transformer,
    *,
    tokenizer: Tokenizer | None = None,
    objective: config.Objective | None = None,
    template: str | None = None,
) -> Path:
    """The folder of a run with random weights."""
    tokenizer = tokenizer or train_bytes()
    nano = find("nano")
    run = replace(nano, model=model, objective=objective or nano.objective)
    write_run(place, run, weights(model), tokenizer, "random", template=template)
    return place


def filled(model: config.Transformer, tensors: dict[str, Tensor]) -> Transformer:
    """The model with these weights."""
    built = assemble(model, seed=0)
    missing, unexpected = built.load_state_dict(tensors, strict=False)
    assert not unexpected
    assert all(name.startswith("pooler.") for name in missing), missing
    return built.eval()
