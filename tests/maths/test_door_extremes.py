"""Narrow types, huge and tiny values: every public equation against its formula in float64.

The reference is the formula itself, in float64, of the very numbers that went in, rounded to the
type that came out.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid import maths
from pellucid.maths.door.kinds import Floats
from support.door import (
    answer,
    array_arguments,
    array_kind,
    as_torch,
    call,
    declared,
    example,
    for_all,
    is_refusal,
    results,
)
from support.table import ROWS

EPS = {torch.float16: 2.0**-10, torch.bfloat16: 2.0**-7, torch.float32: 2.0**-23}
#: float16 ends at 65504 and at 6e-8.
SCALES = {
    torch.float16: (1.0, 1e4, 1e-3),
    torch.bfloat16: (1.0, 1e4, 1e30, 1e-30),
    torch.float32: (1e4, 1e30, 1e-30),
}
#: Examples of every run; the nightly run has all of them.
FEW_EXAMPLES = (
    (torch.float16, 1.0),
    (torch.float16, 1e4),
    (torch.bfloat16, 1.0),
    (torch.bfloat16, 1e30),
    (torch.float32, 1e-30),
)


def check_against_float64(name: str, arrays: dict[str, torch.Tensor], **options: Any) -> None:
    """The result equals float64's, to the rounding of the type; refused only if that is, too."""
    narrow = answer(name, **arrays, **options)
    wide = {key: x.double() if x.is_floating_point() else x for key, x in arrays.items()}
    if is_refusal(narrow):
        wide_answer = answer(name, **wide, **options)
        assert is_refusal(wide_answer) or _overflows(wide_answer, arrays), (narrow, arrays)
        return
    largest = max([1.0, *(_largest(x) for x in wide.values())])
    body = getattr(maths, name).__wrapped__
    reference = results(body(**{**example(name), **wide, **options}))
    shaken = {key: _shaken(x) if x.is_floating_point() else x for key, x in wide.items()}
    conditioned = results(body(**{**example(name), **shaken, **options}))
    dtypes = [x.dtype for x in arrays.values() if x.is_floating_point()]
    result_dtype = dtypes[0] if dtypes else None
    for narrow_result, exact, conditioned_result in zip(
        results(narrow), reference, conditioned, strict=True
    ):
        if not exact.is_floating_point():
            assert torch.equal(narrow_result, exact)
            continue
        assert narrow_result.dtype == result_dtype
        expected = exact.to(result_dtype).double()
        wide_result, finite = narrow_result.double(), torch.isfinite(expected)
        # near its end float32 may be past it already
        is_overflowing = torch.isfinite(exact) & (exact.abs() > 1e36)
        assert torch.equal(torch.isfinite(wide_result)[~is_overflowing], finite[~is_overflowing]), (
            narrow_result,
            exact,
        )
        finite = finite & ~is_overflowing
        if not finite.any():
            continue
        # of the whole result: what a narrow type cannot hold is a number in float32, and rounds
        size = exact[exact.isfinite() & ~is_overflowing].abs().max().clamp(min=min(largest, 1e6))
        unknown = EPS[torch.float32] * size + (conditioned_result - exact).abs().nan_to_num(0.0)
        bound = 2 * EPS[result_dtype] * expected.abs() + 64 * unknown
        assert ((wide_result - expected).abs() <= bound)[finite].all(), (narrow_result, exact)


def _largest(x: torch.Tensor) -> float:
    return float(x.abs().nan_to_num(posinf=0.0).max()) if x.numel() and x.is_floating_point() else 0


def _overflows(value: Any, arrays: dict[str, torch.Tensor]) -> bool:
    """Whether a result has numbers past the end of a type: there they may meet as inf - inf."""
    end = min(torch.finfo(x.dtype).max for x in arrays.values() if x.is_floating_point())
    return any(_largest(x) > end for x in results(value))


def _shaken(x: torch.Tensor) -> torch.Tensor:
    """Numbers moved as float32 rounds: what the result changes by is not known in float32."""
    signs = torch.rand(x.shape, generator=torch.Generator().manual_seed(0), dtype=x.dtype) - 0.5
    return x * (1 + signs.sign() * EPS[torch.float32])


def scaled(name: str, dtype: torch.dtype, scales: list[float]) -> dict[str, torch.Tensor]:
    """The example in a type, each of its arrays times a scale where it may have any size."""
    arrays: dict[str, torch.Tensor] = {}
    for (key, x), scale in zip(array_arguments(name).items(), scales, strict=False):
        kind = array_kind(name, key)
        free = isinstance(kind, Floats) and not kind.probabilities and not kind.whole_too
        arrays[key] = as_torch(x * scale if free else x, dtype)
    return arrays


def check_extremes(name: str, dtype: torch.dtype) -> None:
    """The extreme arguments of the table, in a type."""
    row = ROWS[name]
    for extremes in row.extremes:
        first = len(extremes) - len(row.named)
        arrays = dict(zip(declared(name).positional, extremes[:first], strict=False))
        arrays |= dict(zip(row.named, extremes[first:], strict=True))
        tensors = {key: as_torch(x, dtype) for key, x in arrays.items()}
        check_against_float64(name, tensors, **(row.extreme_options or {}))


@for_all(ROWS)
def test_extremes_of_the_table_are_those_of_float64_in_float16(name: str) -> None:
    check_extremes(name, torch.float16)


@pytest.mark.nightly
@for_all(ROWS)
def test_extremes_of_the_table_are_those_of_float64_in_every_other_type(name: str) -> None:
    check_extremes(name, torch.bfloat16)
    check_extremes(name, torch.float32)


def check_scale(name: str, place: int, dtype: torch.dtype, scale: float) -> None:
    """The argument at a place at a scale, the others as they are."""
    scales = [scale if place == other else 1.0 for other in range(len(array_arguments(name)))]
    check_against_float64(name, scaled(name, dtype, scales))


@for_all(ROWS)
def test_the_first_argument_may_be_huge_or_tiny(name: str) -> None:
    for dtype, scale in FEW_EXAMPLES:
        check_scale(name, 0, dtype, scale)


@pytest.mark.nightly
@for_all(ROWS)
def test_every_argument_may_be_huge_or_tiny_by_itself(name: str) -> None:
    for dtype, scales in SCALES.items():
        for scale in scales:
            for place in range(len(array_arguments(name))):
                check_scale(name, place, dtype, scale)


@pytest.mark.nightly
@settings(max_examples=2000, derandomize=True)
@given(
    name=st.sampled_from(sorted(ROWS)),
    dtype=st.sampled_from(sorted(SCALES, key=str)),
    data=st.data(),
)
def test_all_arguments_may_be_huge_or_tiny_together(
    name: str, dtype: torch.dtype, data: st.DataObject
) -> None:
    size = len(array_arguments(name))
    scales = data.draw(st.lists(st.sampled_from(SCALES[dtype]), min_size=size, max_size=size))
    check_against_float64(name, scaled(name, dtype, scales))


HALVES = (torch.float16, torch.bfloat16)


@pytest.mark.parametrize("dtype", HALVES)
def test_a_layer_norm_of_large_halves_is_no_zero(dtype: torch.dtype) -> None:
    x = (torch.arange(8.0) * 1000).to(dtype)
    y = maths.layer_norm(x, torch.ones(8, dtype=dtype), torch.zeros(8, dtype=dtype), eps=1e-5)
    expected = torch.nn.functional.layer_norm(x.double(), (8,), eps=1e-5)
    torch.testing.assert_close(y, expected.to(dtype))


@pytest.mark.parametrize("dtype", [*HALVES, torch.float32, torch.float64])
def test_the_slope_of_gelu_is_one_far_out_and_zero_far_down(dtype: torch.dtype) -> None:
    x = torch.tensor([-6e4, -20.0, 0.0, 20.0, 6e4], dtype=dtype)
    slopes = maths.gelu_tanh_grad(x, torch.ones_like(x))
    torch.testing.assert_close(slopes, torch.tensor([0, 0, 0.5, 1, 1], dtype=dtype))


def test_no_temperature_is_too_low_for_a_softmax() -> None:
    for temperature in (1e-300, 1e-30, 1e-3):
        shares = maths.softmax([1e4, 0.0, -np.inf], temperature=temperature)
        np.testing.assert_array_equal(shares, [1.0, 0.0, 0.0])
        logs = maths.log_softmax(torch.tensor([7.0, 7.0]).half(), temperature=temperature)
        torch.testing.assert_close(logs, torch.full((2,), -np.log(2)).half())


def test_every_half_type_gives_back_itself_and_a_mix_what_the_library_makes_of_it() -> None:
    gain, bias = torch.ones(4), torch.zeros(4)
    for dtype in (*HALVES, torch.float8_e4m3fn):
        x = torch.arange(4.0).to(dtype)
        assert maths.relu(x).dtype == dtype
        assert maths.layer_norm(x, gain, bias, eps=1e-5).dtype == torch.float32
    mixed = maths.swiglu(torch.ones(2).half(), torch.ones(2).bfloat16())
    assert mixed.dtype == torch.float32
    assert call("softmax", x=np.ones(3, np.float32)).dtype == np.float32
