"""The generators of each step, and what a checkpoint keeps of them."""

from __future__ import annotations

import random
from contextlib import suppress

import numpy as np
import pytest
import torch

from pellucid.training import generator_states, generators_kept, restore_generators, seed_step


def drawn() -> tuple[float, float, float]:
    return torch.rand(()).item(), random.random(), np.random.random()


def test_a_step_seeds_the_generators_of_torch_python_and_numpy() -> None:
    draws = []
    for seed, step in ((1, 2), (1, 2), (1, 3), (2, 2)):
        seed_step(seed, step)
        draws.append(drawn())
    same_seed, *others = draws[1:]
    assert same_seed == draws[0]
    assert all(a != b for other in others for a, b in zip(other, same_seed, strict=True))


def test_a_generator_without_a_state_stays_as_it_is() -> None:
    states = generator_states()[1]
    seed_step(1, 2)
    expected = drawn()
    seed_step(1, 2)
    restore_generators({}, {})
    assert drawn() == expected
    seed_step(1, 2)
    restore_generators({}, {"python": states["python"]})
    assert [a == b for a, b in zip(drawn(), expected, strict=True)] == [True, False, True]


def test_what_is_drawn_within_is_forgotten_even_after_an_error() -> None:
    seed_step(1, 2)
    expected = drawn()
    seed_step(1, 2)
    with suppress(ZeroDivisionError), generators_kept():
        drawn()
        raise ZeroDivisionError
    assert drawn() == expected


def test_devices_in_use_are_kept_and_those_that_are_here_are_restored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # two devices at the save, one at the resume
    states = [torch.tensor([10 + index], dtype=torch.uint8) for index in range(2)]
    restored: dict[int, torch.Tensor] = {}
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_rng_state_all", lambda: states)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(
        torch.cuda, "set_rng_state", lambda state, index: restored.update({index: state})
    )
    tensors, _ = generator_states()
    assert tensors.keys() == {"cpu", "cuda:0", "cuda:1"}
    restore_generators(tensors, {})
    assert restored == {0: states[0]}
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    assert generator_states()[0].keys() == {"cpu"}
