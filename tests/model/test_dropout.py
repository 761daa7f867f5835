"""Dropout: the dropped share, the scale of the rest, and the way back."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any, cast

import pytest
import torch
from torch import Tensor

from pellucid import config
from pellucid.model import BatchNorm, adapters, assemble, assemble_trained, rest_dropout
from pellucid.model.dropout import Dropout, dropout
from support.models import BASE, ENCODERS, PAIRS, VARIANTS, build, random_ids

SHAPE = (3, 1001, 7)  # not a multiple of the four numbers that share a draw
MODELS = {
    **VARIANTS,
    **{f"encoder, {name}": m for name, m in ENCODERS.items()},
    **{f"pair, {name}": m for name, m in PAIRS.items()},
}


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_share_of_p_is_zero_and_the_rest_is_divided_by_one_minus_p(
    p: float, dtype: torch.dtype
) -> None:
    torch.manual_seed(0)
    inputs = torch.randn(SHAPE).abs().add(1).to(dtype)
    dropped = dropout(inputs, p)
    assert (dropped.shape, dropped.dtype) == (inputs.shape, inputs.dtype)
    is_kept = dropped != 0
    n = is_kept.numel()
    assert abs(is_kept.float().mean().item() - (1 - p)) < 4 * (p * (1 - p) / n) ** 0.5
    rounding = 1e-4 if dtype == torch.float32 else 2**-7
    torch.testing.assert_close(
        dropped[is_kept].float(), inputs[is_kept].float() / (1 - p), rtol=rounding, atol=0
    )


def test_neighbours_are_drawn_independently() -> None:
    torch.manual_seed(0)
    is_kept = (dropout(torch.ones(400_000), 0.5) != 0).view(-1, 4)
    # each of the sixteen patterns of four numbers that share 64 bits
    patterns = (is_kept * torch.tensor([1, 2, 4, 8])).sum(1).bincount(minlength=16)
    expected, n = 1 / 16, len(is_kept)
    assert ((patterns / n - expected).abs() < 4 * (expected * (1 - expected) / n) ** 0.5).all()


def test_the_gradient_is_dropped_where_the_number_was() -> None:
    torch.manual_seed(0)
    inputs = torch.ones(SHAPE, requires_grad=True)
    dropped = dropout(inputs, 0.25)
    (gradient,) = torch.autograd.grad(dropped.sum(), inputs)
    torch.testing.assert_close(gradient, dropped.detach(), rtol=0, atol=0)


def test_draws_are_of_torchs_generator() -> None:
    inputs = torch.ones(SHAPE)
    torch.manual_seed(5)
    first, second = dropout(inputs, 0.5), dropout(inputs, 0.5)
    torch.manual_seed(5)
    torch.testing.assert_close(dropout(inputs, 0.5), first, rtol=0, atol=0)
    assert (first != second).any()


def test_nothing_and_all_may_be_dropped() -> None:
    inputs = torch.randn(SHAPE)
    assert dropout(inputs, 0.0) is inputs
    assert (dropout(inputs, 1.0) == 0).all()


def test_the_module_drops_in_training_alone() -> None:
    inputs, module = torch.randn(SHAPE), Dropout(0.5)
    assert (module(inputs) == 0).any()
    assert module.eval()(inputs) is inputs


def _with_dropout(part: Any) -> Any:
    """The config with dropout wherever it can have some."""
    if isinstance(part, tuple):
        return tuple(_with_dropout(item) for item in cast("tuple[Any, ...]", part))
    if not is_dataclass(part) or isinstance(part, type):
        return part
    changes = {
        field.name: 0.5 if "dropout" in field.name else _with_dropout(getattr(part, field.name))
        for field in fields(part)
    }
    return replace(part, **changes)


@pytest.mark.parametrize("name", MODELS)
def test_at_rest_a_model_that_trains_computes_as_in_evaluation(name: str) -> None:
    model = build(_with_dropout(MODELS[name]))
    ids = random_ids(2, 9)

    def logits() -> Tensor:
        torch.manual_seed(0)
        if model.encoder is not None and model.decoder is not None:
            return model(ids, encoded=model.encode(ids.flip(1)))
        return model(ids)

    model.train()
    with_dropout = logits()
    rest_dropout(model)
    logits_at_rest = logits()
    assert model.training
    assert (with_dropout != logits_at_rest).any()
    for module in model.modules():  # norms with statistics of the batch stay as they train
        if not isinstance(module, BatchNorm):
            module.training = False
    torch.testing.assert_close(logits_at_rest, logits(), rtol=0, atol=0)
    assert all(module.training for module in model.train().modules())


def test_at_rest_a_classifier_and_adapters_drop_nothing() -> None:
    head = config.ClassificationHead(classes=("a", "b"), pooling="mean", dropout=0.5, bias=True)
    model = assemble(replace(BASE, head=head), seed=1)
    adapted = config.LoRA(rank=2, alpha=4.0, dropout=0.5, targets=("*",))
    assemble_trained(model, adapted, seed=1)
    with torch.no_grad():
        for layer in adapters(model).values():
            layer.lora_up.normal_()
    ids = random_ids(2, 9)
    model.train()
    with_dropout = model(ids)
    rest_dropout(model)
    logits_at_rest = model(ids)
    torch.testing.assert_close(logits_at_rest, model.eval()(ids), rtol=0, atol=0)
    assert (with_dropout != logits_at_rest).any()
