"""The laws in JAX, where it is installed: the same numbers and gradients, compiled or not."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import numpy as np
import pytest

from pellucid import maths
from support.equations import Arrays, Row
from support.nightly import sampled
from support.table import ROWS

jax = pytest.importorskip("jax")


@pytest.fixture(autouse=True)
def _in_float64() -> Generator[None]:
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


def results(value: Any) -> list[np.ndarray]:
    return [np.asarray(part) for part in (value if isinstance(value, tuple) else (value,))]


def both(row: Row, name: str, arrays: Arrays, options: dict[str, Any]) -> Any:
    function = row.call(getattr(maths, name), options)
    return function, results(function(*arrays)), [jax.numpy.asarray(array) for array in arrays]


@pytest.mark.parametrize("name", sampled(ROWS))
def test_jax_gives_the_same_as_numpy_compiled_too(name: str) -> None:
    function, numpy_parts, jax_arrays = both(
        ROWS[name], name, ROWS[name].arrays, ROWS[name].options
    )
    for jax_value in (function(*jax_arrays), jax.jit(function)(*jax_arrays)):
        for numpy_part, jax_part in zip(numpy_parts, results(jax_value), strict=True):
            np.testing.assert_allclose(jax_part, numpy_part, rtol=1e-11, atol=1e-12)


#: The first extreme of each function always runs, the others nightly. `test_laws.py`
#: has all of them on the other libraries.
EXTREMES = [
    pytest.param(name, arrays, marks=pytest.mark.nightly if n else ())
    for name, row in ROWS.items()
    for n, arrays in enumerate(row.extremes)
]


@pytest.mark.parametrize(("name", "arrays"), EXTREMES)
def test_extremes_give_the_same_in_jax(name: str, arrays: Arrays) -> None:
    row = ROWS[name]
    options = row.options if row.extreme_options is None else row.extreme_options
    function, numpy_parts, jax_arrays = both(row, name, arrays, options)
    for numpy_part, jax_part in zip(numpy_parts, results(function(*jax_arrays)), strict=True):
        np.testing.assert_allclose(jax_part, numpy_part, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("name", sampled(name for name, row in ROWS.items() if row.hand))
def test_hand_gradient_is_that_of_jax(name: str) -> None:
    row = ROWS[name]
    function, numpy_parts, jax_arrays = both(row, name, row.arrays, row.options)
    weights = np.random.default_rng(1).normal(size=numpy_parts[0].shape)
    hands = row.hand(*row.arrays, weights) if row.hand else ()
    hands = hands if isinstance(hands, tuple) else (hands,)

    def total(*arrays: Any) -> Any:
        outputs = function(*arrays)
        return (weights * (outputs[0] if isinstance(outputs, tuple) else outputs)).sum()

    if len(numpy_parts) > 1:
        pytest.skip("its hand gradient is of several results")
    for index, hand in enumerate(hands):
        jax_gradients = jax.grad(total, argnums=index)(*jax_arrays)
        np.testing.assert_allclose(hand, jax_gradients, rtol=1e-10, atol=1e-11)


@pytest.mark.filterwarnings("error")
def test_extremes_stay_in_float32_where_jax_has_nothing_wider() -> None:
    jax.config.update("jax_enable_x64", False)
    x = jax.numpy.asarray([1e12, 2e12, 3e12])
    normed = maths.layer_norm(x, jax.numpy.ones(3), jax.numpy.zeros(3), eps=1e-5)
    np.testing.assert_allclose(normed, [-(1.5**0.5), 0, 1.5**0.5], atol=1e-5)
