"""Several optimisers: each one's gradients are read at its own step, and all make one update."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import SGD, Optimizer

from pellucid.vitals import Watch, watch
from pellucid.vitals.taps.gradients import Gradients
from support.foreign import ids_of, loss_of, made

STEPS = 6
Train = Callable[[nn.Module], tuple[list[Optimizer], Callable[[int], None]]]


def together(model: nn.Module) -> tuple[list[Optimizer], Callable[[int], None]]:
    optimiser = SGD(model.parameters(), lr=0.05)

    def update(step: int) -> None:
        loss_of(model, ids_of(step)).backward()
        optimiser.step()
        optimiser.zero_grad()

    return [optimiser], update


def in_backward(model: nn.Module) -> tuple[list[Optimizer], Callable[[int], None]]:
    """An optimiser for each weight, which steps and clears within the backward pass."""
    optimisers: list[Optimizer] = []
    for weight in model.parameters():
        optimiser = SGD([weight], lr=0.05)

        def step_and_clear(_: Tensor, optimiser: Optimizer = optimiser) -> None:
            optimiser.step()
            optimiser.zero_grad()

        weight.register_post_accumulate_grad_hook(step_and_clear)
        optimisers.append(optimiser)
    return optimisers, lambda step: loss_of(model, ids_of(step)).backward()


def halves(model: nn.Module) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    weights = list(model.parameters())
    return weights[::2], weights[1::2]


def in_turn(model: nn.Module) -> tuple[list[Optimizer], Callable[[int], None]]:
    """Two halves, each with a loss of its own, and all gradients cleared after each step."""
    optimisers: list[Optimizer] = [SGD(half, lr=0.05) for half in halves(model)]

    def update(step: int) -> None:
        for number, optimiser in enumerate(optimisers):
            loss_of(model, ids_of(10 * step + number)).backward()
            optimiser.step()
            model.zero_grad()

    return optimisers, update


def made_alike() -> nn.Module:
    torch.manual_seed(0)
    return made()


def watched(train: Train) -> Watch:
    model = made_alike()
    optimisers, update = train(model)
    with watch(model, optimisers, max_overhead=None) as w:
        for step in range(STEPS):
            update(step)
    assert w.guard.off == {}
    return w


def norms(w: Watch) -> dict[int, float]:
    return {point.step: point.value for point in w.judge.record.norms.points}


def value(w: Watch, sign: str) -> float:
    return {sign.id: sign for sign in w.signs}[sign].value


def test_optimisers_that_step_within_the_backward_pass_have_the_signs_of_one() -> None:
    one, many = watched(together), watched(in_backward)
    assert one.updates == many.updates == STEPS
    assert norms(one) == pytest.approx(norms(many), rel=1e-5)
    for sign in ("gradient.missing", "gradient.depth_ratio", "gradient.zeros", "update.ratio"):
        assert value(many, sign) == pytest.approx(value(one, sign), rel=1e-5), sign


class Dividing(Optimizer):
    """Divides gradients by `grad_scale`, as fused optimisers do under mixed precision."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model.parameters(), {"lr": 0.05})
        self.grad_scale = torch.tensor(4.0)

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for weight in self.param_groups[0]["params"]:
            weight.sub_(0.05 * weight.grad / self.grad_scale)


def test_gradients_are_those_that_a_step_uses_after_it_has_divided_them() -> None:
    def dividing(model: nn.Module) -> tuple[list[Optimizer], Callable[[int], None]]:
        optimiser = Dividing(model)

        def update(step: int) -> None:
            loss_of(model, ids_of(step)).backward()
            optimiser.step()
            optimiser.zero_grad()

        return [optimiser], update

    assert norms(watched(dividing))[1] == pytest.approx(norms(watched(together))[1] / 4, rel=1e-5)


def test_gradients_that_are_cleared_between_two_optimisers_are_not_missing() -> None:
    w = watched(in_turn)
    assert w.updates == STEPS
    assert value(w, "gradient.missing") == 0
    assert value(w, "update.ratio") > 0


def often(model: nn.Module) -> tuple[list[Optimizer], Callable[[int], None]]:
    """The first half steps three times for each step of the second."""
    first, second = (SGD(half, lr=0.05) for half in halves(model))

    def update(step: int) -> None:
        for number in range(3):
            model.zero_grad()
            loss_of(model, ids_of(10 * step + number)).backward()
            first.step()
        second.step()

    return [second, first], update


def test_an_optimiser_that_steps_more_often_makes_more_updates() -> None:
    w = watched(often)
    assert w.updates == 3 * STEPS
    assert value(w, "gradient.missing") == 0


def test_a_weight_without_a_gradient_at_its_own_step_is_missing() -> None:
    def lacking(model: nn.Module) -> tuple[list[Optimizer], Callable[[int], None]]:
        optimisers, _ = in_turn(model)

        def update(step: int) -> None:
            for optimiser in optimisers:
                loss_of(model, ids_of(step)).backward()
                for weight in halves(model)[1]:
                    weight.grad = None
                optimiser.step()
                model.zero_grad()

        return optimisers, update

    model = made()
    share = len(halves(model)[1]) / len(list(model.parameters()))
    assert value(watched(lacking), "gradient.missing") == pytest.approx(share)


class TwoWays(nn.Module):
    """A block with a projection that a call without global tokens leaves out."""

    def __init__(self, *, reads_weights: bool) -> None:
        super().__init__()
        self.local, self.other = nn.Linear(4, 4), nn.Linear(4, 4)
        self.reads_weights = reads_weights

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.local.weight) if self.reads_weights else self.local(x)


@pytest.mark.parametrize(("reads_weights", "takes_part"), [(False, False), (True, True)])
def test_a_projection_beside_one_that_is_called_is_left_out_on_purpose(
    reads_weights: bool, takes_part: bool
) -> None:
    model = nn.ModuleDict({"block": TwoWays(reads_weights=reads_weights)})
    no_blocks = SimpleNamespace(model=model, parameters={}, sharing={}, block_of=lambda name: None)
    gradients = Gradients(cast("Any", no_blocks), [])
    called = {"block"} | ({"block.local"} if not reads_weights else set[str]())
    gradients.called_modules = frozenset(called)
    assert gradients._takes_part("block.other.weight") == takes_part  # pyright: ignore[reportPrivateUsage]
    assert gradients._takes_part("block.local.weight")  # pyright: ignore[reportPrivateUsage]


def test_gradients_are_those_of_their_update_though_weights_cannot_be_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expected = norms(watched(together))

    def fail(*_: object) -> None:
        raise RuntimeError("weights cannot be looked at")

    monkeypatch.setattr("pellucid.vitals.update_sizes.Updates.begin", fail)
    model = made()
    optimisers, update = together(model)
    with watch(model, optimisers, max_overhead=None) as w:
        for step in range(STEPS):
            update(step)
    assert set(w.guard.off) == {"updates of weights"}
    assert len(expected) > 1
    assert norms(w) == pytest.approx(expected)


def still(model: nn.Module) -> tuple[list[Optimizer], Callable[[int], None]]:
    """Weights that stay, and no dropout: gradients depend on batches alone."""
    optimisers, update = in_turn(model.eval())
    for optimiser in optimisers:
        optimiser.param_groups[0]["lr"] = 0
    return optimisers, update


def growing(model: nn.Module) -> tuple[list[Optimizer], Callable[[int], None]]:
    """The second optimiser takes up a weight after the first look."""
    optimisers, update = still(model)
    late = optimisers[1].param_groups[0]["params"].pop()

    def grow_and_update(step: int) -> None:
        if step == 2:
            optimisers[1].add_param_group({"params": [late], "lr": 0})
        update(step)

    return optimisers, grow_and_update


def test_weights_that_an_optimiser_takes_up_later_have_gradients_of_its_steps() -> None:
    whole, grown = norms(watched(still)), norms(watched(growing))
    assert grown[1] != pytest.approx(whole[1], rel=1e-5)  # the first optimiser's stood for it
    assert grown[5] == pytest.approx(whole[5], rel=1e-5)


class Sides(nn.Module):
    """Two matrices, of which the second has no part in the output, as an expert without tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.used = nn.Linear(4, 4)
        self.idle = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.used(x) + 0 * self.idle(x)


def test_a_matrix_without_a_gradient_is_not_the_one_that_moves_least() -> None:
    torch.manual_seed(0)
    model = Sides()
    optimiser = torch.optim.RMSprop(model.parameters(), lr=1e-2)
    with watch(model, optimiser, max_overhead=None) as w:
        for _ in range(STEPS):
            model(torch.randn(8, 4)).square().mean().backward()
            optimiser.step()
            optimiser.zero_grad()
    assert value(w, "update.ratio_low") > 0
