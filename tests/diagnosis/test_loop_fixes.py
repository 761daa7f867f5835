"""Each fix of a loop changes what it names, for the step or the call, and nothing else."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pellucid.diagnosis import Loop
from pellucid.diagnosis.fixes.loop import LOOP_FIXES
from pellucid.diagnosis.fixes.loop.change import applied, changed_calls, changed_forward

STEPS = 100


class Net(nn.Module):
    """An embedding, a norm, attention without a mask, and a head; it keeps its last call."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(8, 4)
        self.norm = nn.LayerNorm(4, eps=1e-2)
        self.dropout = nn.Dropout(0.9)
        self.head = nn.Linear(4, 8)
        self.seen: dict[str, Any] = {}

    def forward(self, input_ids: Tensor, **named: Tensor) -> Tensor:
        self.seen = {**named, "training": self.training, "mixed": torch.is_autocast_enabled("cpu")}
        x = self.norm(self.embedding(input_ids))
        return self.head(x + F.scaled_dot_product_attention(x, x, x))


def loop(optimizer: Any = torch.optim.AdamW, **options: Any) -> Loop:
    model = Net()
    options = {"lr": 0.1} | options
    return Loop(
        model=model,
        optimizer=optimizer(model.parameters(), **options),
        batches=[],
        measure=lambda model: 0.0,
        update=lambda loop, batch: None,
        pad_id=0,
    )


def groups_at_the_step(one: Loop, name: str, n: int = 1) -> list[dict[str, Any]]:
    """The groups that the optimiser sees in its n-th step with a fix."""
    change = LOOP_FIXES[name](one, STEPS)
    assert change is not None
    optimizer: Any = one.optimizer
    seen: list[dict[str, Any]] = []
    own = [dict(group) for group in optimizer.param_groups]
    with applied(one, change):
        optimizer.register_step_pre_hook(
            lambda o, args, kwargs: seen.__setitem__(slice(None), [dict(g) for g in o.param_groups])
        )
        for _ in range(n):
            for parameter in one.model.parameters():
                parameter.grad = torch.full_like(parameter, 10.0)
            optimizer.step()
    assert [group["lr"] for group in optimizer.param_groups] == [group["lr"] for group in own]
    return seen


@pytest.mark.parametrize(
    ("name", "options", "key", "value"),
    [
        ("rate_tenth", {}, "lr", 0.01),
        ("rate_tenfold", {}, "lr", 1.0),
        ("rate_usual", {}, "lr", 1e-3),
        ("warm_up_longer", {}, "lr", 0.1 / 30),
        ("steady_rate", {}, "lr", 0.01),
        ("held_rate", {}, "lr", 0.01),
        ("eps", {"eps": 0.1}, "eps", 1e-8),
        ("betas", {"betas": (0.5, 0.6)}, "betas", (0.9, 0.95)),
        ("beta2", {"betas": (0.9, 0.999)}, "betas", (0.9, 0.95)),
        ("decay", {"weight_decay": 30.0}, "weight_decay", 0.1),
        ("no_decay", {"weight_decay": 30.0}, "weight_decay", 0.0),
        ("other_direction", {"maximize": True}, "maximize", False),
    ],
)
def test_groups_are_other_ones_for_the_step(
    name: str, options: dict[str, Any], key: str, value: Any
) -> None:
    assert groups_at_the_step(loop(**options), name)[0][key] == pytest.approx(value)


def test_decay_leaves_gains_and_biases_alone_and_l2_becomes_decoupled() -> None:
    matrices, vectors = groups_at_the_step(loop(weight_decay=0.5), "decay_groups")
    assert {p.ndim for p in matrices["params"]} == {2}
    assert {p.ndim for p in vectors["params"]} == {1}
    assert (matrices["weight_decay"], vectors["weight_decay"]) == (0.5, 0.0)
    coupled = loop(torch.optim.Adam, weight_decay=0.5)
    assert groups_at_the_step(coupled, "decoupled_decay")[0]["decoupled_weight_decay"] is True
    momentum = loop(torch.optim.SGD, momentum=0.99)
    assert groups_at_the_step(momentum, "momentum")[0]["momentum"] == 0.9


@pytest.mark.parametrize(
    "name", ["eps", "betas", "decay", "other_direction", "momentum", "hold_weights", "tie_weights"]
)
def test_a_fix_that_would_change_nothing_is_none(name: str) -> None:
    usual = loop(betas=(0.9, 0.95), weight_decay=0.1)
    change = LOOP_FIXES[name](usual, STEPS)
    assert change is None or change.moves_targets


def test_gradients_are_clipped_or_given_back_the_length_that_a_clip_took() -> None:
    for name, length in (("clip", 1.0), ("clip_looser", 1.0)):
        one = loop(torch.optim.SGD)
        change = LOOP_FIXES[name](one, STEPS)
        assert change is not None
        optimizer: Any = one.optimizer
        with applied(one, change):
            norms: list[float] = []
            (one.model(torch.arange(8)[None]).square().sum() * 100).backward()
            if name == "clip_looser":
                nn.utils.clip_grad_norm_(one.model.parameters(), 1e-7)
            optimizer.register_step_pre_hook(lambda *_, to=norms, one=one: to.append(norm(one)))
            optimizer.step()
        assert norms == [pytest.approx(length, rel=1e-3)]


def norm(one: Loop) -> float:
    grads = [p.grad.norm() for p in one.model.parameters() if p.grad is not None]
    return float(torch.stack(grads).norm())


def test_an_optimiser_holds_all_weights_and_no_strangers() -> None:
    one = loop()
    optimizer: Any = one.optimizer
    stranger = nn.Parameter(torch.zeros(1))
    optimizer.param_groups[0]["params"][1:] = [stranger]
    change = LOOP_FIXES["hold_weights"](one, STEPS)
    assert change is not None
    with applied(one, change):
        assert {id(p) for p in optimizer.param_groups[0]["params"]} == {
            id(p) for p in one.model.parameters()
        }
    one.model.embedding.requires_grad_(False)
    thaw = LOOP_FIXES["thaw"](one, STEPS)
    assert thaw is not None
    with applied(one, thaw):
        assert all(p.requires_grad for p in one.model.parameters())


def test_weights_norms_and_dropout_are_changed_before_the_first_update() -> None:
    one = loop()
    with torch.no_grad():
        one.model.embedding.weight.mul_(100)
    for name in ("small_init", "norm_eps", "dropout", "clear_gradients"):
        change = LOOP_FIXES[name](one, STEPS)
        assert change is not None
        with applied(one, change):
            pass
    model: Any = one.model
    assert float(model.embedding.weight.detach().std()) == pytest.approx((2 / 20) ** 0.5, rel=0.5)
    assert (model.norm.eps, model.dropout.p) == (1e-5, 0.1)


def called(name: str, ids: Tensor, *, mixed: bool = False, **named: Tensor) -> tuple[Tensor, Any]:
    """The output of the model with a fix, and what it saw."""
    torch.manual_seed(1)
    one = loop()
    one.model.eval()
    change = LOOP_FIXES[name](one, STEPS)
    assert change is not None
    with ExitStack() as stack:
        for context in (applied, changed_calls, changed_forward):
            stack.enter_context(context(one, change))
        stack.enter_context(torch.autocast("cpu", enabled=mixed))
        output = one.model(input_ids=ids, **named)
    model: Any = one.model
    return output, model.seen


def test_calls_get_other_positions_masks_modes_and_formats() -> None:
    ids = torch.tensor([[3, 4, 0], [5, 6, 7]])
    assert "position_ids" not in called("drop_positions", ids, position_ids=ids * 0)[1]
    mask = called("padding_mask", ids, attention_mask=ids * 0)[1]["attention_mask"]
    assert mask.tolist() == [[1, 1, 0], [1, 1, 1]]
    turned = called("turned_mask", ids, attention_mask=torch.tensor([[0, 0, 1], [0, 0, 0]]))
    assert turned[1]["attention_mask"].tolist() == [[1, 1, 0], [1, 1, 1]]
    assert called("train_mode", ids)[1]["training"] is True
    output, seen = called("float32", ids, mixed=True)
    assert seen["mixed"] is False
    assert output.dtype == torch.float32


def test_with_the_causal_mask_a_token_does_not_see_the_next() -> None:
    first = called("causal_mask", torch.tensor([[3, 4, 5]]))[0]
    second = called("causal_mask", torch.tensor([[3, 4, 6]]))[0]
    assert torch.equal(first[:, :2], second[:, :2])
    assert not torch.equal(
        called("drop_positions", torch.tensor([[3, 4, 5]]))[0][:, :2],
        called("drop_positions", torch.tensor([[3, 4, 6]]))[0][:, :2],
    )


def test_labels_are_moved_in_dicts_and_in_pairs() -> None:
    ids = torch.tensor([[3, 4, 0]])
    for name, labels in (
        ("shift_labels", [[4, 0, -100]]),
        ("labels_back", [[-100, 3, 4]]),
        ("ignore_padding", [[3, 4, -100]]),
    ):
        change = LOOP_FIXES[name](loop(), STEPS)
        assert change is not None
        assert change.batch is not None
        assert change.moves_targets
        assert change.batch({"input_ids": ids, "labels": ids})["labels"].tolist() == labels
        assert change.batch((ids, ids))[1].tolist() == labels
