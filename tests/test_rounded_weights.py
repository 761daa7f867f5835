"""Weights in bfloat16 that learn: the exact float32 number is never lost, or right on average."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import get_args

import pytest
import torch

from pellucid import config
from pellucid.config import Rounding
from pellucid.errors import ConfigError
from pellucid.model import learn_in_bfloat16
from pellucid.optim import assemble_optimiser, gate
from pellucid.presets import PRESETS
from pellucid.rounded_weights import (
    ExactTensors,
    is_rounded,
    join,
    read_exact,
    round_parameter,
    round_stochastically,
    split,
    write_exact,
)
from pellucid.runs.plan import plan_run
from pellucid.runs.shard import check_division
from pellucid.vitals.model_parts import study
from pellucid.vitals.step_signs import STEP_SIGNS, Step
from support.models import BASE, build
from support.tiny import ADAMW as ADAMW_FLAGS
from support.tiny import train_tiny

ADAMW = config.AdamW(learning_rate=1e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.3)
MUON = config.Muon(
    learning_rate=1e-3, momentum=0.9, weight_decay=0.3, newton_schulz_steps=5, rest=ADAMW
)
NANO = PRESETS["nano"]
RUN = replace(
    NANO, training=replace(NANO.training, precision="bfloat16", weights="bfloat16_remainder")
)
roundings = pytest.mark.parametrize("rounding", get_args(Rounding))


def test_both_halves_are_the_float32_number_bit_for_bit() -> None:
    generator = torch.Generator().manual_seed(0)
    sizes = 10.0 ** torch.randint(-44, 38, (50_000,), generator=generator)
    edges = [0.0, -0.0, 1.0, -1.0, 3.3e38, -3.3e38, 1e-45, -1e-45, 1.00390625]
    exact = torch.cat([torch.randn(50_000, generator=generator) * sizes, torch.tensor(edges)])
    rounded, remainder = split(exact)
    assert torch.equal(join(rounded, remainder).view(torch.int32), exact.view(torch.int32))
    # the nearest: no further off than what torch rounds to
    distance = (rounded.double() - exact.double()).abs()
    assert torch.equal(distance, (exact.bfloat16().double() - exact.double()).abs())


def test_rounding_at_random_is_right_on_average_and_keeps_what_bfloat16_has() -> None:
    torch.manual_seed(0)
    for number in (1 + 0.3 / 128, -1 - 0.3 / 128):
        rounded = round_stochastically(torch.full((100_000,), number)).float()
        assert set(rounded.abs().tolist()) == {1.0, 1 + 1 / 128}
        assert rounded.mean().item() == pytest.approx(number, abs=5e-5)
    exact = torch.randn(1000).bfloat16().float()
    assert torch.equal(round_stochastically(exact).float(), exact)


def steps_of(
    optimiser: config.Optimiser, prepare: Callable[[torch.nn.Parameter], None], n: int = 6
) -> tuple[torch.nn.Parameter, dict[str, torch.Tensor]]:
    """A matrix after some updates by gradients that bfloat16 has, and the optimiser's memory."""
    torch.manual_seed(0)
    parameter = torch.nn.Parameter(torch.randn(32, 16))
    prepare(parameter)
    built_optimiser = assemble_optimiser(
        optimiser, [("blocks.0.up.weight", parameter)], orthogonal="float32"
    )
    for _ in range(n):
        parameter.grad = torch.randn(32, 16).bfloat16().to(parameter.dtype)
        opened = gate([parameter.grad], torch.zeros(()), clip_norm=None, blocked=torch.zeros(()))
        built_optimiser.step(opened, 1.0)
    return parameter, built_optimiser.state_tensors()


@pytest.mark.parametrize("optimiser", [ADAMW, MUON], ids=["AdamW", "Muon"])
def test_with_remainders_an_optimiser_computes_the_bits_of_float32(
    optimiser: config.Optimiser,
) -> None:
    wide, memory = steps_of(optimiser, lambda parameter: None)
    rounded, rounded_memory = steps_of(optimiser, partial(round_parameter, rounding="remainder"))
    assert rounded.dtype == torch.bfloat16
    assert torch.equal(read_exact(rounded), wide)
    assert memory.keys() == rounded_memory.keys()
    assert all(torch.equal(memory[key], rounded_memory[key]) for key in memory)


@pytest.mark.parametrize("optimiser", [ADAMW, MUON], ids=["AdamW", "Muon"])
def test_updates_too_small_for_bfloat16_still_move_weights(optimiser: config.Optimiser) -> None:
    # an update of 1e-6 is a few thousandths of the distance between two bfloat16 near 1
    tiny = replace(optimiser, learning_rate=1e-6, weight_decay=0.0)
    if isinstance(tiny, config.Muon):
        tiny = replace(tiny, learning_rate=1e-5)
    mean_steps: dict[str, float] = {}
    for rounding in get_args(Rounding):
        ones_parameter = torch.nn.Parameter(torch.ones(256, 256))
        round_parameter(ones_parameter, rounding)
        built_optimiser = assemble_optimiser(
            tiny, [("blocks.0.up.weight", ones_parameter)], orthogonal="float32"
        )
        torch.manual_seed(0)
        for _ in range(10):
            ones_parameter.grad = torch.eye(256, dtype=torch.bfloat16)
            zero = torch.zeros(())
            built_optimiser.step(
                gate([ones_parameter.grad], zero, clip_norm=None, blocked=zero), 1.0
            )
        mean_steps[rounding] = 1 - read_exact(ones_parameter).diagonal().mean().item()
    assert mean_steps["remainder"] == pytest.approx(1e-5 if optimiser is ADAMW else 1e-4, rel=0.4)
    assert mean_steps["stochastic"] == pytest.approx(mean_steps["remainder"], rel=1.0, abs=2e-4)


@roundings
@pytest.mark.parametrize("optimiser", [ADAMW, MUON], ids=["AdamW", "Muon"])
def test_a_gradient_that_is_not_finite_moves_nothing(
    optimiser: config.Optimiser, rounding: Rounding
) -> None:
    parameter, _ = steps_of(optimiser, partial(round_parameter, rounding=rounding), n=1)
    built_optimiser = assemble_optimiser(optimiser, [("blocks.0.up.weight", parameter)])
    before = read_exact(parameter).clone()
    parameter.grad = torch.full_like(parameter, torch.nan)
    built_optimiser.step(
        gate([parameter.grad], torch.zeros(()), clip_norm=1.0, blocked=torch.zeros(())), 1.0
    )
    assert torch.equal(read_exact(parameter), before)


@roundings
def test_a_checkpoint_holds_float32_and_observers_read_it(rounding: Rounding) -> None:
    model = build(BASE).float()
    wide = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    learn_in_bfloat16(model, rounding)
    exact = ExactTensors(model)
    assert exact.keys() == wide.keys()
    for name, tensor in exact.items():
        assert tensor.dtype == torch.float32
        if rounding == "remainder" or name not in exact.rounded:
            assert torch.equal(tensor, wide[name])
    anatomy = study(model)
    name, parameter = next(iter(exact.rounded.items()))
    assert torch.equal(anatomy.read(parameter), exact[name])
    # an update that the rounded weights do not show is not lost
    zeros = torch.zeros(4)
    step = Step(parameter, zeros, torch.ones(4), zeros, None, {}, anatomy.read)
    assert STEP_SIGNS["update.lost"](step) is None
    write_exact(parameter, exact[name] * 2)
    assert is_rounded(parameter)
    assert parameter.dtype == torch.bfloat16


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param(["training.weights=bfloat16_remainder"], id="remainder, Muon"),
        pytest.param(
            ["training.weights=bfloat16_stochastic", *ADAMW_FLAGS],
            id="stochastic, AdamW",
            marks=pytest.mark.nightly,
        ),
    ],
)
def test_rounded_weights_resume_bit_for_bit(tmp_path: Path, settings: list[str]) -> None:
    from pellucid import runs
    from pellucid.checkpoints import load
    from pellucid.runs import RunFolder

    all_settings = ["training.precision=bfloat16", "training.accumulation=1", *settings]
    folder = tmp_path / "run"
    train_tiny(folder, steps=8, settings=all_settings)
    straight = load(RunFolder(folder).shelf.latest())
    weights = {name: tensor.clone() for name, tensor in straight.model.items()}
    memory = {name: tensor.clone() for name, tensor in straight.optimiser.items()}
    runs.resume(folder / "checkpoints" / "step-4", show=False)
    resumed = load(RunFolder(folder).shelf.latest())
    assert all(torch.equal(tensor, resumed.model[name]) for name, tensor in weights.items())
    assert all(torch.equal(tensor, resumed.optimiser[name]) for name, tensor in memory.items())
    assert all(tensor.dtype == torch.float32 for tensor in weights.values())


def test_what_cannot_train_rounded_weights_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="ranks would sum gradients in bfloat16"):
        check_division(RUN, 2)
    check_division(RUN, 1)
    monkeypatch.setattr("pellucid.runs.plan.find_precision", lambda name, device: "float32")
    with pytest.raises(ConfigError, match="no instructions for products in bfloat16"):
        plan_run(RUN, torch.device("cpu"), compiler=None)
