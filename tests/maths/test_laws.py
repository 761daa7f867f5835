"""The three laws of `pellucid.maths`, over every public function.

A hand gradient is what autograd and central differences say; NumPy, torch and array-api-strict
agree; nothing breaks at the extremes. A public function without a row here fails.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import array_api_strict
import numpy as np
import pytest
import torch

from pellucid import maths
from support.equations import Arrays
from support.table import NUMBERS, ROWS


def results(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def to_numpy(value: Any) -> list[np.ndarray]:
    scalars_too = (np.asarray(x) if isinstance(x, np.generic) else x for x in results(value))
    return [np.from_dlpack(array) for array in scalars_too]


def gradient_by_differences(
    function: Callable[..., Any], arrays: Arrays, weights: Any, index: int, *, simplex: bool
) -> Any:
    """d sum(weights * function) / d the array at `index`, by central differences.

    On the simplex what an entry gains its row's last one loses.
    """

    def total(array: np.ndarray) -> float:
        outputs = results(function(*arrays[:index], array, *arrays[index + 1 :]))
        return sum(float((w * y).sum()) for w, y in zip(weights, outputs, strict=True))

    array, step = arrays[index], 1e-6
    gradient = np.empty_like(array)
    for place in np.ndindex(array.shape):
        difference = np.zeros_like(array)
        difference[place] += step
        if simplex:
            difference[(*place[:-1], -1)] -= step
        gradient[place] = (total(array + difference) - total(array - difference)) / (2 * step)
    return gradient


def gradient_by_autograd(
    function: Callable[..., Any], arrays: Arrays, weights: Any, index: int
) -> Any:
    """The same by torch."""
    tensors = [torch.from_numpy(array.copy()) for array in arrays]
    tensors[index].requires_grad_()
    outputs = results(function(*tensors))
    sums = [(torch.from_numpy(w) * y).sum() for w, y in zip(weights, outputs, strict=True)]
    return torch.autograd.grad(sum(sums), tensors[index])[0].numpy()


def test_every_public_function_has_a_row() -> None:
    assert set(ROWS) | set(NUMBERS) == set(maths.__all__)


def test_every_hand_gradient_belongs_to_a_function_that_is_held_against_autograd() -> None:
    gradients = {name.removesuffix("_grad") for name in maths.__all__ if name.endswith("_grad")}
    assert gradients <= {name for name, row in ROWS.items() if row.hand}


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.smooth])
def test_hand_gradient_is_autograd_is_central_differences(name: str) -> None:
    row = ROWS[name]
    function = row.call(getattr(maths, name), row.options)
    outputs = results(function(*row.arrays))
    weights = [np.random.default_rng(1).normal(size=y.shape) for y in outputs]
    hands = () if row.hand is None else results(row.hand(*row.arrays, weights[0]))
    for index in range(max(len(hands), 1)):
        autograd = gradient_by_autograd(function, row.arrays, weights, index)
        simplex = index in row.simplex
        differences = gradient_by_differences(function, row.arrays, weights, index, simplex=simplex)
        compared = autograd - autograd[..., -1:] if simplex else autograd
        np.testing.assert_allclose(compared, differences, rtol=1e-6, atol=1e-7)
        if hands:
            np.testing.assert_allclose(hands[index], autograd, rtol=1e-12, atol=1e-13)


def in_every_library(
    name: str, arrays: Arrays, options: dict[str, Any]
) -> dict[str, list[np.ndarray]]:
    function = ROWS[name].call(getattr(maths, name), options)
    libraries: dict[str, Callable[[np.ndarray], Any]] = {
        "numpy": np.asarray,
        "torch": torch.from_numpy,
        "array_api_strict": array_api_strict.asarray,
    }
    return {
        library: to_numpy(function(*map(convert, arrays))) for library, convert in libraries.items()
    }


@pytest.mark.parametrize("name", ROWS)
def test_every_array_library_gives_the_same(name: str) -> None:
    answers = in_every_library(name, ROWS[name].arrays, ROWS[name].options)
    for library in ("torch", "array_api_strict"):
        for numpy_result, library_result in zip(answers["numpy"], answers[library], strict=True):
            np.testing.assert_allclose(
                library_result, numpy_result, rtol=1e-12, atol=1e-13, err_msg=library
            )


@pytest.mark.parametrize(
    ("name", "arrays"),
    [(name, arrays) for name, row in ROWS.items() for arrays in row.extremes],
)
def test_extreme_inputs_give_numbers_without_a_warning(name: str, arrays: Arrays) -> None:
    row = ROWS[name]
    answers = in_every_library(
        name, arrays, row.options if row.extreme_options is None else row.extreme_options
    )
    for library, values in answers.items():
        for numpy_result, library_result in zip(answers["numpy"], values, strict=True):
            assert not np.isnan(library_result).any(), f"{library}: {library_result}"
            np.testing.assert_allclose(
                library_result, numpy_result, rtol=1e-12, atol=1e-12, err_msg=library
            )


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "logsumexp", "cross_entropy"])
def test_gradients_that_flow_through_masks_are_numbers(name: str) -> None:
    row = ROWS[name]
    for arrays in row.extremes:
        if np.isneginf(arrays[0]).all(-1).any():
            continue
        function = getattr(maths, name)
        (first, *other_tensors) = (torch.from_numpy(array) for array in arrays)
        first = first.clone().requires_grad_()
        outputs = function(
            first,
            *other_tensors,
            **(row.options if row.extreme_options is None else row.extreme_options),
        )
        outputs[torch.isfinite(outputs)].sum().backward()
        assert not first.grad.isnan().any()


@pytest.mark.parametrize("name", NUMBERS)
def test_function_of_numbers_is_what_the_formula_says_by_hand(name: str) -> None:
    arguments, expected = NUMBERS[name]
    values = results(getattr(maths, name)(**arguments))
    for value, by_hand in zip(values, results(expected), strict=True):
        assert math.isclose(value, by_hand, rel_tol=1e-12)


@pytest.mark.parametrize("name", ROWS)
def test_float32_stays_float32(name: str) -> None:
    row = ROWS[name]
    narrow = [a.astype(np.float32) if a.dtype == np.float64 else a for a in row.arrays]
    function = row.call(getattr(maths, name), row.options)
    for wide, value in zip(results(function(*row.arrays)), results(function(*narrow)), strict=True):
        assert value.dtype == (np.float32 if wide.dtype == np.float64 else wide.dtype)


@pytest.mark.parametrize("name", ROWS)
def test_bfloat16_stays_bfloat16_and_gives_numbers(name: str) -> None:
    row = ROWS[name]
    function = row.call(getattr(maths, name), row.options)
    tensors = [torch.from_numpy(array) for array in row.arrays]
    narrow = [x.bfloat16() if x.is_floating_point() else x for x in tensors]
    for wide, value in zip(results(function(*tensors)), results(function(*narrow)), strict=True):
        assert value.dtype == (torch.bfloat16 if wide.is_floating_point() else wide.dtype)
        assert not value.isnan().any()
