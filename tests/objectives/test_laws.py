"""The laws that every objective keeps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from pellucid.batches import IGNORED, TokenBatch
from pellucid.objectives import NextToken, Objective
from support.models import VARIANTS, build, random_ids
from support.objectives import CASES, MULTIPLE, Case, gradients, in_float32, label_batch

every_objective = pytest.mark.parametrize("name", CASES)


@every_objective
def test_accumulated_is_one_large_batch_however_the_targets_fall(name: str) -> None:
    case = CASES[name]
    batch = case.batch()
    large_batch = gradients(case, [batch])
    # the first part has other numbers of supervised tokens than the second
    parts = gradients(case, [batch.part(slice(0, 1)), batch.part(slice(1, 4))])
    torch.testing.assert_close(parts, large_batch, rtol=1e-10, atol=1e-12)


@every_objective
def test_parts_of_the_loss_add_up_too(name: str) -> None:
    case = CASES[name]
    objective, model, batch = case.objective(), case.model(), case.batch()
    all_parts = objective(model, batch).parts
    halves = [objective(model, batch.part(rows)).parts for rows in (slice(0, 1), slice(1, 4))]
    assert "loss_nats" in all_parts
    assert not any(part.requires_grad for part in all_parts.values())
    torch.testing.assert_close({k: halves[0][k] + halves[1][k] for k in all_parts}, dict(all_parts))


@every_objective
def test_every_objective_is_one(name: str) -> None:
    assert isinstance(CASES[name].objective(), Objective)


def keep_states(model: Any) -> list[Tensor]:
    """The hidden states that a model will give, with their gradients."""
    states: list[Tensor] = []
    hidden_states = model.hidden_states

    def keep(ids: Tensor, **more: Any) -> Tensor:
        hidden = hidden_states(ids, **more)
        if hidden.requires_grad:
            hidden.retain_grad()
            states.append(hidden)
        return hidden

    model.hidden_states = keep
    return states


OF_TOKENS = [name for name in CASES if name not in ("classes", "yes or no")]


@pytest.mark.parametrize("name", OF_TOKENS)
def test_positions_without_a_target_have_exactly_no_gradient(name: str) -> None:
    case = CASES[name]
    batch: Any = case.batch()
    model = case.model()
    states = keep_states(model)
    case.objective()(model, batch).total.backward()
    targets = [v for k, v in batch.named_tensors().items() if k.rpartition(".")[2] == "targets"]
    assert len(states) == len(targets)
    for hidden, row_targets in zip(states, targets, strict=True):
        assert hidden.grad is not None
        assert (hidden.grad[row_targets == IGNORED] == 0).all()
        if name not in ("hinge",):  # a pair whose margin is 1 has no gradient at all
            assert (hidden.grad[row_targets != IGNORED].abs().sum(-1) > 0).all()


def test_a_text_without_a_label_has_exactly_no_gradient() -> None:
    case = CASES["classes"]
    batch: Any = replace(case.batch(), labels=torch.tensor([0, IGNORED, 1, 2]), n_supervised=3)
    single_result = gradients(case, [batch.part(slice(1, 2))])
    assert single_result[0] == 0
    assert all((grad == 0).all() for grad in single_result[1])


@every_objective
def test_bfloat16_products_give_nearly_the_same(name: str) -> None:
    case = CASES[name]
    model, batch = case.model().float(), in_float32(case.batch())
    objective = case.objective()
    for other in ("teacher", "reference"):
        other_model = getattr(objective, other, None)
        if other == "teacher" and other_model is not None:
            other_model.float()
        if other == "reference" and other_model is not None:
            with other_model(model) as open_model:
                open_model.float()
    with torch.no_grad():
        wide = objective(model, batch)
    with torch.autocast("cpu", torch.bfloat16):
        narrow = objective(model, batch)
    narrow.total.backward()
    assert narrow.total.dtype == torch.float32
    torch.testing.assert_close(narrow.parts["loss_nats"], wide.parts["loss_nats"], rtol=0.1, atol=0)
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)


@pytest.mark.parametrize("variant", ["rotary", "learned", "alibi", "tied and scaled"])
def test_one_packed_row_is_the_sum_of_its_examples_alone(variant: str) -> None:
    ids = random_ids(1, 12)
    targets = ids.roll(-1, 1)
    targets[0, [0, 1, 4, 5, 6, 11]] = IGNORED  # prompts, and the last of each
    documents = torch.tensor([[0] * 5 + [1] * 4 + [2] * 3])
    batch = TokenBatch(ids=ids, targets=targets, n_supervised=6, documents=documents)
    examples = [
        TokenBatch(ids=ids[:, a:b], targets=targets[:, a:b], n_supervised=6)
        for a, b in ((0, 5), (5, 9), (9, 12))
    ]
    case = Case(NextToken, lambda: build(VARIANTS[variant]), lambda: batch)
    packed_result, single_results = gradients(case, [batch]), gradients(case, examples)
    torch.testing.assert_close(packed_result, single_results, rtol=1e-10, atol=1e-12)


def test_yes_or_no_is_a_mean_over_classes_and_one_is_over_texts() -> None:
    case = CASES["yes or no"]
    loss = case.objective()(case.model(), label_batch(MULTIPLE * 0 + 0.5)).total
    assert loss > 0
    model = case.model()
    torch.nn.init.zeros_(model.classes.weight)
    torch.nn.init.zeros_(model.classes.bias)
    guess = case.objective()(model, case.batch())
    assert guess.total.item() == pytest.approx(torch.tensor(2.0).log().item())
