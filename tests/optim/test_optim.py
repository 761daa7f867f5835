"""Optimisers against the equations of `maths`; the gate; the groups; the schedules."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import get_args

import pytest
import torch

from pellucid import config, maths
from pellucid.errors import CheckpointError
from pellucid.maths.optimisers import Polynomials, newton_schulz
from pellucid.optim import AdamW, assemble_optimiser, assemble_schedule, gate, group
from pellucid.optim.muon import fused_newton_schulz
from pellucid.optim.remembered import check_state
from support.models import BASE, build

ADAMW = config.AdamW(learning_rate=0.1, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.3)
ADAM = config.Adam(learning_rate=0.1, betas=(0.9, 0.95), eps=1e-8, l2=0.3)
SGD = config.SGD(learning_rate=0.1, momentum=0.9, l2=0.3)
MUON = config.Muon(
    learning_rate=0.1, momentum=0.9, weight_decay=0.3, newton_schulz_steps=5, rest=ADAMW
)
EVERY: dict[str, config.Optimiser] = {"AdamW": ADAMW, "Adam": ADAM, "SGD": SGD, "Muon": MUON}
every_optimiser = pytest.mark.parametrize("name", EVERY)


def parameters() -> dict[str, torch.nn.Parameter]:
    generator = torch.Generator().manual_seed(0)
    shapes = {"blocks.0.up.weight": (6, 4), "token_embedding.weight": (9, 4), "gain": (4,)}
    return {
        name: torch.nn.Parameter(torch.randn(shape, generator=generator))
        for name, shape in shapes.items()
    }


def open_gate(gradients: list[torch.Tensor], clip_norm: float | None = None):  # type: ignore[no-untyped-def]
    return gate(gradients, torch.tensor(1.0), clip_norm=clip_norm, blocked=torch.zeros(()))


def set_gradients(named: dict[str, torch.nn.Parameter], seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    for parameter in named.values():
        parameter.grad = torch.randn(parameter.shape, generator=generator)


def test_adamw_equals_the_equation_over_steps() -> None:
    by_name = parameters()
    optimiser = assemble_optimiser(ADAMW, by_name.items())
    state = {n: (p.detach().clone(), p * 0, p * 0) for n, p in by_name.items()}
    for step in range(1, 5):
        set_gradients(by_name, step)
        for name, (w, m, v) in state.items():
            decay = 0.0 if name == "gain" else 0.3
            state[name] = maths.adamw_step(
                w, by_name[name].grad, m, v, step=step, learning_rate=0.05, beta1=0.9, beta2=0.95,
                eps=1e-8, weight_decay=decay,
            )  # fmt: skip
        optimiser.step(open_gate(optimiser.gradients()), factor=0.5)
    for name, (w, _, _) in state.items():
        torch.testing.assert_close(by_name[name].detach(), w.detach(), rtol=1e-5, atol=1e-6)


def test_adam_couples_its_penalty_and_adamw_does_not() -> None:
    ratios = {}
    for kind in (ADAM, ADAMW):
        by_name = parameters()
        before = by_name["token_embedding.weight"].detach().clone()
        optimiser = assemble_optimiser(kind, by_name.items())
        for parameter in by_name.values():
            parameter.grad = torch.zeros_like(parameter)
        optimiser.step(open_gate(optimiser.gradients()), factor=1.0)
        ratios[type(kind)] = (by_name["token_embedding.weight"] / before).detach()
    torch.testing.assert_close(ratios[config.AdamW], torch.full((9, 4), 1 - 0.1 * 0.3))
    # through the adaptive denominator the penalty alone moves every weight by the learning rate
    assert ratios[config.Adam].std() > 0.05


@pytest.mark.parametrize("orthogonal", get_args(config.Orthogonal))
def test_muon_moves_matrices_by_orthogonal_steps_and_the_rest_by_adamw(
    orthogonal: config.Orthogonal,
) -> None:
    by_name = parameters()
    before = {name: p.detach().clone() for name, p in by_name.items()}
    optimiser = assemble_optimiser(MUON, by_name.items(), orthogonal=orthogonal)
    set_gradients(by_name, 1)
    gradient = by_name["blocks.0.up.weight"].grad
    assert gradient is not None
    # Muon calls the bare formula; the door would compute bfloat16 in float32
    narrow = (gradient * 1.9).to(getattr(torch, orthogonal.removeprefix("fused ")))
    compute = fused_newton_schulz if orthogonal.startswith("fused") else newton_schulz
    direction = compute(narrow[None], steps=5)[0].float()
    optimiser.step(open_gate(optimiser.gradients()), factor=1.0)
    rate = 0.1 * math.sqrt(6 / 4)
    torch.testing.assert_close(
        by_name["blocks.0.up.weight"].detach(),
        before["blocks.0.up.weight"] * (1 - 0.1 * 0.3) - rate * direction,
    )
    other = parameters()
    plain = assemble_optimiser(ADAMW, other.items())
    set_gradients(other, 1)
    plain.step(open_gate(plain.gradients()), factor=1.0)
    # the gate of the first saw another norm, but neither was clipped
    torch.testing.assert_close(by_name["token_embedding.weight"], other["token_embedding.weight"])


@pytest.mark.parametrize("shape", [(60, 40), (40, 60), (50, 50)])
@pytest.mark.parametrize("polynomials", get_args(Polynomials))
def test_fused_newton_schulz_is_the_equation_and_errs_less(
    shape: tuple[int, int], polynomials: Polynomials
) -> None:
    matrices = torch.randn(
        3, *shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1)
    )
    exact = newton_schulz(matrices, steps=5, polynomials=polynomials)
    fused = fused_newton_schulz(matrices, steps=5, polynomials=polynomials)
    torch.testing.assert_close(fused, exact)
    rounded = matrices.bfloat16()
    errors = [
        (compute(rounded, steps=5, polynomials=polynomials).double() - exact).norm()
        for compute in (fused_newton_schulz, newton_schulz)
    ]
    assert errors[0] < errors[1]


@pytest.mark.parametrize("polynomials", get_args(Polynomials))
def test_a_matrix_of_one_direction_stays_bounded_in_bfloat16(polynomials: Polynomials) -> None:
    # its one singular value is its whole norm, which rounding can lift above 1
    generator = torch.Generator().manual_seed(2)
    columns, rows = (torch.randn(40, 1, side, generator=generator) for side in (48, 64))
    outer = (columns.mT @ rows).bfloat16()
    for steps in range(1, 9):
        after = fused_newton_schulz(outer, steps=steps, polynomials=polynomials).double()
        assert float(torch.linalg.matrix_norm(after, ord=2).max()) < 2.1, steps


@pytest.mark.parametrize("shape", [(6, 4), (4, 6)])
def test_fused_newton_schulz_multiplies_along_the_longer_side(
    monkeypatch: pytest.MonkeyPatch, shape: tuple[int, int]
) -> None:
    sizes: list[torch.Size] = []
    compute = torch.baddbmm

    def record(added: torch.Tensor, *factors: torch.Tensor, **weights: float) -> torch.Tensor:
        sizes.append(added.shape)
        return compute(added, *factors, **weights)

    monkeypatch.setattr(torch, "baddbmm", record)
    fused_newton_schulz(torch.randn(9, *shape), steps=1)
    assert sizes == [(9, 4, 4), (9, 4, 6)]


def test_muon_remembers_earlier_gradients_by_its_momentum() -> None:
    by_name = parameters()
    optimiser = assemble_optimiser(MUON, by_name.items())
    gradients = []
    for step in range(3):
        set_gradients(by_name, step)
        gradients.append(by_name["blocks.0.up.weight"].grad)
        optimiser.step(open_gate(optimiser.gradients()), factor=1.0)
    first, second, third = gradients
    momentum = optimiser.state_tensors()["blocks.0.up.weight::momentum"]
    torch.testing.assert_close(momentum, 0.81 * first + 0.9 * second + third)


@every_optimiser
def test_clipping_is_the_same_as_shrinking_the_gradients_first(name: str) -> None:
    ends = []
    for fold in (True, False):
        by_name = parameters()
        optimiser = assemble_optimiser(EVERY[name], by_name.items())
        for step in range(3):
            set_gradients(by_name, step)
            if not fold:
                torch.nn.utils.clip_grad_norm_(by_name.values(), 0.5)
            clip = 0.5 if fold else None
            optimiser.step(open_gate(optimiser.gradients(), clip), factor=1.0)
        ends.append([p.detach() for p in by_name.values()])
    # Muon orthogonalises in bfloat16, where a last bit of the scale shows
    tolerance = 2e-2 if name == "Muon" else 1e-5
    torch.testing.assert_close(ends[0], ends[1], rtol=tolerance, atol=tolerance)


def test_muon_remembers_clipped_gradients() -> None:
    by_name = parameters()
    optimiser = assemble_optimiser(MUON, by_name.items())
    set_gradients(by_name, 0)
    gradients = optimiser.gradients()
    norm = torch.stack([gradient.norm() for gradient in gradients]).norm()
    optimiser.step(open_gate(gradients, 0.5), factor=1.0)
    momentum = optimiser.state_tensors()["blocks.0.up.weight::momentum"]
    # its steps forget the scale of a gradient, so that the weights would not show it
    torch.testing.assert_close(momentum, by_name["blocks.0.up.weight"].grad * (0.5 / norm))


@pytest.mark.parametrize(
    ("clip_norm", "divisor"), [(2.0, 2.5), (5.0, 1.0), (9.0, 1.0), (None, 1.0)]
)
def test_gradients_above_the_threshold_are_divided_and_others_are_not(
    clip_norm: float | None, divisor: float
) -> None:
    opened = open_gate([torch.tensor([3.0]), torch.tensor([-4.0])], clip_norm)
    assert opened.norm == 5
    assert opened.divisor == divisor


def test_the_norm_of_half_precision_gradients_is_summed_in_float32() -> None:
    # of 64 + 1 squares bfloat16 would lose the last one
    gradients = [torch.full((64, 64), 0.125, dtype=torch.bfloat16), torch.ones(1).bfloat16()]
    assert open_gate(gradients).norm.dtype == torch.float32
    assert open_gate(gradients).norm.item() == pytest.approx(65**0.5)


def test_the_learning_rate_is_that_of_the_matrices() -> None:
    by_name = parameters()
    muon = config.Muon(
        learning_rate=0.2, momentum=0.9, weight_decay=0.3, newton_schulz_steps=5, rest=ADAMW
    )
    assert assemble_optimiser(muon, by_name.items()).learning_rate == 0.2
    optimiser = assemble_optimiser(ADAMW, by_name.items())
    set_gradients(by_name, 0)
    optimiser.step(open_gate(optimiser.gradients()), factor=0.25)
    assert optimiser.learning_rate == pytest.approx(0.025)


WRONG_STATES: dict[str, tuple[str, str, torch.Tensor]] = {
    "a missing moment": ("gain::exp_avg", "has exp_avg, step, expected", torch.zeros(0)),
    "a parameter of another model": ("tail::step", "names 'tail'", torch.zeros(())),
    "another shape": ("gain::exp_avg", r"is \(5,\)", torch.zeros(5)),
    "another type": ("gain::exp_avg", "of torch.float64", torch.zeros(4, dtype=torch.float64)),
    "a count with an axis": ("gain::step", r"is \(4,\)", torch.zeros(4)),
    "a count of another type": ("gain::step", "of torch.int64", torch.zeros((), dtype=torch.int64)),
}


@pytest.mark.parametrize("case", WRONG_STATES)
def test_a_state_that_the_optimiser_would_not_save_is_refused(case: str) -> None:
    by_name = parameters()
    optimiser = assemble_optimiser(ADAMW, by_name.items())
    set_gradients(by_name, 0)
    optimiser.step(open_gate(optimiser.gradients()), factor=1.0)
    saved = optimiser.state_tensors()
    key, message, tensor = WRONG_STATES[case]
    if case == "a missing moment":
        del saved["gain::exp_avg_sq"]
    else:
        saved[key] = tensor
    with pytest.raises(CheckpointError, match=message):
        optimiser.load_state_tensors(saved)


def test_the_count_of_updates_is_float32_beside_moments_in_the_type_of_the_weights() -> None:
    half = torch.nn.Parameter(torch.ones(4, dtype=torch.bfloat16))
    count = torch.tensor(3.0)
    moments = {key: torch.ones(4, dtype=torch.bfloat16) for key in ("exp_avg", "exp_avg_sq")}
    part = AdamW([half])
    check_state("gain", {"step": count, **moments}, part, half)
    with pytest.raises(CheckpointError, match=r"gain::step .* expected .* of torch\.float32"):
        check_state("gain", {"step": count.bfloat16(), **moments}, part, half)


def test_the_state_of_a_foreign_optimiser_is_unknown() -> None:
    gain = torch.nn.Parameter(torch.ones(4))
    with pytest.raises(TypeError, match="the state of RMSprop is unknown"):
        check_state("gain", {}, torch.optim.RMSprop([gain]), gain)


@every_optimiser
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_update_that_is_not_finite_is_skipped_and_so_are_all_after_it(
    name: str, bad: float
) -> None:
    by_name = parameters()
    optimiser = assemble_optimiser(EVERY[name], by_name.items())
    set_gradients(by_name, 0)
    optimiser.step(open_gate(optimiser.gradients()), factor=1.0)
    weights = {n: p.detach().clone() for n, p in by_name.items()}
    memory = {n: t.clone() for n, t in optimiser.state_tensors().items()}
    blocked = torch.zeros(())
    for step in (1, 2):
        set_gradients(by_name, step)
        if step == 1:
            by_name["gain"].grad[0] = bad  # type: ignore[index]
        opened = gate(optimiser.gradients(), torch.tensor(1.0), clip_norm=1.0, blocked=blocked)
        blocked = opened.blocked
        optimiser.step(opened, factor=1.0)
    assert blocked == 1
    assert all(torch.equal(p, weights[n]) for n, p in by_name.items())
    assert all(torch.equal(t, memory[n]) for n, t in optimiser.state_tensors().items())


def test_a_loss_that_is_not_finite_blocks_too() -> None:
    opened = gate([torch.ones(3)], torch.tensor(math.nan), clip_norm=None, blocked=torch.zeros(()))
    assert opened.blocked == 1


@every_optimiser
def test_memory_comes_back_whole(name: str) -> None:
    ends = []
    for interrupted in (False, True):
        by_name = parameters()
        optimiser = assemble_optimiser(EVERY[name], by_name.items())
        for step in range(4):
            if interrupted and step == 2:
                saved = {n: t.clone() for n, t in optimiser.state_tensors().items()}
                optimiser = assemble_optimiser(EVERY[name], by_name.items())
                optimiser.load_state_tensors(saved)
            set_gradients(by_name, step)
            optimiser.step(open_gate(optimiser.gradients()), factor=1.0)
        ends.append([p.detach().clone() for p in by_name.values()])
    assert all(torch.equal(a, b) for a, b in zip(*ends, strict=True))


def test_groups_cover_every_parameter_once_by_name_and_shape() -> None:
    model = build(BASE)
    groups = group(model.named_parameters())
    assert [part.count for part in groups.every] == [
        sum(parameter.numel() for parameter in part.parameters.values()) for part in groups.every
    ]
    assert sum(part.count for part in groups.every) > len(groups.hidden.parameters)
    names = [name for part in groups.every for name in part.parameters]
    assert sorted(names) == sorted(name for name, _ in model.named_parameters())
    assert set(groups.embeddings.parameters) == {"token_embedding.weight", "head.weight"}
    assert all(p.ndim == 2 for p in groups.hidden.parameters.values())
    assert all(p.ndim == 1 for p in groups.vectors.parameters.values())
    assert [part.decays for part in groups.every] == [True, True, False]


def test_frozen_parameters_are_left_out() -> None:
    by_name = parameters()
    by_name["gain"].requires_grad_(False)
    assert not group(by_name.items()).vectors.parameters


SCHEDULES: dict[str, tuple[config.Schedule, Callable[[int], float]]] = {
    "constant": (config.Constant(warm_up=0.1), lambda n: maths.constant(n, warm_up=10)),
    "linear": (
        config.Linear(warm_up=0.1, final=0.2),
        lambda n: maths.linear(n, warm_up=10, total=101, final=0.2),
    ),
    "cosine": (
        config.Cosine(warm_up=0.1, final=0.2),
        lambda n: maths.cosine(n, warm_up=10, total=101, final=0.2),
    ),
    "stable": (
        config.WarmUpStableDecay(warm_up=0.1, decay=0.3, final=0.0),
        lambda n: maths.warm_up_stable_decay(n, warm_up=10, decay=30, total=101, final=0.0),
    ),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_shares_become_steps_and_no_update_is_wasted_on_rate_zero(name: str) -> None:
    schedule, equation = SCHEDULES[name]
    factor = assemble_schedule(schedule, total=100)
    assert [factor(step) for step in range(100)] == [equation(step + 1) for step in range(100)]
    assert factor(0) == pytest.approx(0.1)
    assert factor(99) > getattr(schedule, "final", 0.0)


def test_a_decay_that_rounds_to_no_update_lasts_one() -> None:
    schedule = config.WarmUpStableDecay(warm_up=0.0, decay=0.01, final=0.0)
    factor = assemble_schedule(schedule, total=10)
    # it begins at the last update, and would reach `final` one update later
    assert [factor(step) for step in range(10)] == [1.0] * 10
