"""The public door, over every public equation: shapes, types, values, and narrow types.

Whatever is changed in the example of a row, the answer is a value or a `MathsError` that names the
equation and the argument; never another error, and never a number that was not meant.
"""

from __future__ import annotations

import inspect
import math
from typing import Any

import array_api_strict
import numpy as np
import pytest
import torch

from pellucid import maths
from pellucid.errors import MathsError
from pellucid.maths.door.arguments import read_arguments
from pellucid.maths.door.kinds import (
    POSITIVE,
    Floats,
    Number,
    Range,
    Truths,
    Wholes,
    describe,
    floats,
    reals,
    wholes,
)
from pellucid.maths.door.parse_argument import from_python, read_number
from support.door import (
    NAMES,
    answer,
    array_arguments,
    array_kind,
    as_torch,
    call,
    declared,
    example,
    for_all,
    is_refusal,
    is_shared,
    results,
)
from support.table import ROWS


@for_all(NAMES)
def test_a_public_name_is_its_formula_behind_the_door(name: str) -> None:
    function = getattr(maths, name)
    body = function.__wrapped__
    assert body is getattr(inspect.getmodule(body), name)
    assert inspect.signature(function) == inspect.signature(body)
    assert function.__doc__ == body.__doc__
    assert set(declared(name).kinds) == set(inspect.signature(body).parameters)


@for_all(ROWS)
def test_lists_tuples_and_numbers_give_what_arrays_of_float64_give(name: str) -> None:
    for form in (lambda x: x.tolist(), lambda x: tuple(x.tolist()) if x.ndim else x.item()):
        lists = {key: form(x) for key, x in array_arguments(name).items()}
        for from_lists, from_arrays in zip(
            results(call(name, **lists)), results(call(name)), strict=True
        ):
            assert from_lists.dtype == from_arrays.dtype
            np.testing.assert_array_equal(from_lists, from_arrays)


@for_all(ROWS)
def test_a_list_becomes_an_array_like_those_it_comes_with(name: str) -> None:
    tensors = {key: as_torch(x, torch.float32) for key, x in array_arguments(name).items()}
    for argument, x in array_arguments(name).items():
        if len(tensors) == 1:
            continue
        mixed = {**tensors, argument: x.tolist()}
        others = [tensors[key] for key in tensors if key != argument]
        floating = any(tensor.is_floating_point() for tensor in others)
        for from_list, from_array in zip(
            results(call(name, **mixed)), results(call(name, **tensors)), strict=True
        ):
            assert isinstance(from_list, torch.Tensor)
            assert not floating or from_list.dtype == from_array.dtype
            torch.testing.assert_close(
                from_list.double(), from_array.double(), rtol=1e-4, atol=1e-5
            )


#: Values that are neither arrays of numbers nor numbers.
STRANGE: tuple[Any, ...] = (
    "1.0",
    b"1",
    None,
    object(),
    {"x": 1.0},
    {1.0},
    1 + 2j,
    ["1.0"],
    [None, 1.0],
    [[1.0], [1.0, 2.0]],
    [object()],
    np.array(["a"]),
    np.array([object()]),
    np.array([1 + 2j]),
    np.array(["2020-01-01"], dtype="datetime64[D]"),
    np.ma.masked_array([1.0], [True]),
    lambda: 1.0,
)


@for_all(NAMES)
def test_what_is_no_number_is_refused_by_the_name_of_the_argument(name: str) -> None:
    for argument, kind in declared(name).kinds.items():
        for strange in STRANGE:
            if strange is None and declared(name).defaults.get(argument, 0) is None:
                continue
            refusal = answer(name, **{argument: strange})
            assert is_refusal(refusal), (argument, kind, strange, refusal)
            assert argument in str(refusal), str(refusal)


@for_all(NAMES)
def test_a_number_of_another_kind_or_out_of_range_is_refused(name: str) -> None:
    for argument, kind in declared(name).kinds.items():
        if not isinstance(kind, Number):
            continue
        values = [True, math.nan, [1.0], np.array([1.0, 2.0]), "0.5"]
        values += [2.5, -1, 2.0] if kind.integer else []
        values += [] if kind.infinite else [math.inf, -math.inf]
        for value in values:
            refusal = answer(name, **{argument: value})
            assert is_refusal(refusal), (argument, value, refusal)
            assert argument in str(refusal), str(refusal)
        for value in (0, -1.0, 1e-300, 1e300, 10**400, -(10**400), np.float64(0.5), np.int64(3)):
            if kind.integer and isinstance(value, int) and value > 10**9:
                continue
            for result in results(answer(name, **{argument: value})):
                assert is_refusal(result) or not np.isnan(np.asarray(result, float)).any()


@for_all(ROWS)
def test_a_shape_that_departs_from_the_declared_axes_is_refused(name: str) -> None:
    for argument, x in array_arguments(name).items():
        kind = array_kind(name, argument)
        if kind.broadcasts:
            continue
        wrong = [x[None], np.stack((x, x))]
        if kind.axes.leading and not is_shared(name, argument, "..."):
            wrong = []
        if kind.axes.trailing:
            wrong.append(np.zeros((1,) * (len(kind.axes.trailing) - 1), x.dtype))
        for place, axis in enumerate(reversed(kind.axes.trailing), 1):
            if is_shared(name, argument, axis.name):
                wrong.append(np.repeat(x, 2, axis=-place))
                wrong += [] if axis.or_one or x.shape[-place] == 1 else [x.take([0], axis=-place)]
        for changed_array in wrong:
            refusal = answer(name, **{argument: changed_array})
            assert is_refusal(refusal), (argument, kind.axes, changed_array.shape)
            assert "shape" in str(refusal) or "as many" in str(refusal)


@for_all(ROWS)
def test_a_mask_or_bias_broadcasts_to_its_axes_and_to_no_others(name: str) -> None:
    for argument, x in array_arguments(name).items():
        if array_kind(name, argument).broadcasts:
            for from_broadcast, from_full in zip(
                results(call(name, **{argument: x[..., :1]})), results(call(name)), strict=True
            ):
                assert from_broadcast.shape == from_full.shape
            for changed_array in (np.repeat(x, 2, axis=-1), np.stack([x] * 7), x[(None,) * 5]):
                assert is_refusal(answer(name, **{argument: changed_array})), (
                    argument,
                    changed_array.shape,
                )


@for_all(ROWS)
def test_an_empty_or_turned_array_never_ends_in_another_error(name: str) -> None:
    for argument, x in array_arguments(name).items():
        shapes = [x.T, x.reshape(-1), np.zeros((0,), x.dtype), np.zeros((), x.dtype)]
        shapes += [np.take(x, [], axis=axis) for axis in range(x.ndim)]
        for changed_array in shapes:
            for result in results(answer(name, **{argument: changed_array})):
                assert is_refusal(result) or not np.isnan(result).any(), (
                    argument,
                    changed_array.shape,
                )


def wrong_types(kind: Floats | Wholes | Truths, x: np.ndarray) -> list[np.ndarray]:
    """The array in types that are not meant."""
    wrong = [x.astype(complex), x.astype(object), x.astype(str)]
    wrong += [] if isinstance(kind, Truths) else [x > 0]
    wrong += [] if isinstance(kind, Wholes) else [np.ones(x.shape, np.int64)]
    wrong += [] if isinstance(kind, Floats) else [x.astype(np.float64)]
    return wrong


@for_all(ROWS)
def test_an_array_of_another_type_or_library_is_refused(name: str) -> None:
    arrays = array_arguments(name)
    for argument, x in arrays.items():
        kind = array_kind(name, argument)
        for changed_array in wrong_types(kind, x):
            if isinstance(kind, Floats) and kind.whole_too and changed_array.dtype == np.int64:
                continue
            refusal = answer(name, **{argument: changed_array})
            assert is_refusal(refusal), (argument, changed_array.dtype)
            assert argument in str(refusal)
        for other in (torch.from_numpy(x.copy()), array_api_strict.asarray(x)):
            if len(arrays) > 1:
                refusal = answer(name, **{argument: other})
                assert is_refusal(refusal), argument
                assert "one library" in str(refusal)


@for_all(ROWS)
def test_nan_and_infinity_are_refused_or_mean_something(name: str) -> None:
    for argument, x in array_arguments(name).items():
        kind = array_kind(name, argument)
        if not isinstance(kind, Floats) or not x.size:
            continue
        for value in (math.nan, math.inf, -math.inf, -1.0):
            changed_array = x.copy()
            changed_array[(0,) * x.ndim] = value
            answers = results(answer(name, **{argument: changed_array}))
            if is_refusal(answers[0]):
                assert argument in str(answers[0]) or "result holds nan" in str(answers[0])
                continue
            if math.isnan(value):
                assert kind.nan
                assert any(np.isnan(result).any() for result in answers)
            else:
                assert math.isfinite(value) or kind.lowest or kind.highest
                assert not any(np.isnan(result).any() for result in answers)


HALVES = (torch.float16, torch.bfloat16)


@for_all([name for name, row in ROWS.items() if row.smooth])
def test_a_gradient_flows_through_the_door_in_half_precision(name: str) -> None:
    for dtype in HALVES:
        tensors = {key: as_torch(x, dtype) for key, x in array_arguments(name).items()}
        floating = [x.requires_grad_() for x in tensors.values() if x.is_floating_point()]
        outputs = [y.sum() for y in results(call(name, **tensors)) if y.is_floating_point()]
        assert all(output.dtype == dtype for output in outputs)
        gradients = torch.autograd.grad(sum(outputs), floating, allow_unused=True)
        assert any(gradient is not None for gradient in gradients)
        for x, gradient in zip(floating, gradients, strict=True):
            assert gradient is None or (gradient.dtype == dtype and gradient.shape == x.shape)


@for_all(ROWS)
def test_float16_of_numpy_is_computed_in_float32_and_given_back(name: str) -> None:
    narrow = {
        key: x.astype(np.float16) if x.dtype == np.float64 else x
        for key, x in array_arguments(name).items()
    }
    wide = {key: x.astype(np.float32) if x.dtype == np.float16 else x for key, x in narrow.items()}
    body = getattr(maths, name).__wrapped__
    expected = results(body(**{**example(name), **wide}))
    for half_result, single_result in zip(results(call(name, **narrow)), expected, strict=True):
        assert half_result.dtype == (
            np.float16 if single_result.dtype == np.float32 else single_result.dtype
        )
        np.testing.assert_array_equal(half_result, single_result.astype(half_result.dtype))


@for_all(ROWS)
def test_bytes_in_the_other_order_give_what_those_of_this_machine_give(name: str) -> None:
    swapped = {key: x.astype(x.dtype.newbyteorder()) for key, x in array_arguments(name).items()}
    for swapped_result, native_result in zip(
        results(call(name, **swapped)), results(call(name)), strict=True
    ):
        assert swapped_result.dtype == native_result.dtype
        np.testing.assert_array_equal(swapped_result, native_result)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@for_all(ROWS)
def test_nested_tensors_and_long_doubles_end_in_words_or_in_numbers(name: str) -> None:
    for argument, x in array_arguments(name).items():
        long = answer(name, **{argument: x.astype(np.longdouble) if x.dtype.kind == "f" else x})
        assert all(is_refusal(result) or not np.isnan(result).any() for result in results(long))
        if x.ndim > 1:
            tensors = {key: torch.from_numpy(y.copy()) for key, y in array_arguments(name).items()}
            nested = torch.nested.as_nested_tensor(list(tensors[argument]))
            refusal = answer(name, **{**tensors, argument: nested})
            assert is_refusal(refusal), (argument, refusal)
            assert f"{argument} is a nested tensor" in str(refusal)


def test_turns_beyond_any_angle_are_refused() -> None:
    with pytest.raises(MathsError, match="beta_fast is 1e\\+308 turns"):
        maths.yarn_frequencies(
            [1.0, 0.1], factor=8.0, original_length=64, base=1e4, beta_fast=1e308, beta_slow=1.0
        )


def test_python_says_itself_that_an_argument_is_missing_or_unknown() -> None:
    for wrong in (
        lambda: maths.softmax(),
        lambda: maths.softmax([1.0], [2.0]),
        lambda: maths.softmax([1.0], x=[2.0]),
        lambda: maths.softmax([1.0], heat=2.0),
    ):
        with pytest.raises(TypeError, match="argument"):
            wrong()


def test_a_number_that_carries_a_gradient_is_not_taken_for_a_plain_one() -> None:
    temperature = torch.tensor(2.0, requires_grad=True)
    with pytest.raises(MathsError, match="temperature carries a gradient"):
        maths.softmax(torch.ones(3), temperature=temperature)
    half = maths.softmax(torch.ones(2), temperature=temperature.detach())
    torch.testing.assert_close(half, torch.full((2,), 0.5))


def test_a_number_without_a_value_is_passed_on_as_it_is() -> None:
    x = torch.tensor(2.0, device="meta")
    assert read_number("x", x, POSITIVE) is x


def test_lists_of_whole_numbers_stay_whole_where_reals_may_be_whole() -> None:
    assert from_python("x", [1, 2], reals("...")).dtype.kind == "i"
    assert from_python("x", [1, 2], floats("...")).dtype == np.float64
    assert from_python("x", [1.0, 2.0], reals("...")).dtype == np.float64


def test_a_range_is_described_by_each_of_its_bounds() -> None:
    assert describe(Range(le=1)) == "at most 1"
    assert describe(Range(gt=0, le=1)) == "greater than 0 and at most 1"
    assert describe(Range(ge=0, lt=1)) == "at least 0 and less than 1"
    assert describe(Range(ge=0, le=1)) == "between 0 and 1"


def test_a_refusal_asks_for_a_whole_number_where_one_is_needed() -> None:
    with pytest.raises(MathsError, match="k is 'x'; it must be a whole number"):
        maths.keep_top_k([1.0, 2.0], "x")
    with pytest.raises(MathsError, match="temperature is 'x'; it must be a number"):
        maths.softmax([1.0, 2.0], temperature="x")


def test_every_row_of_a_distribution_must_sum_to_one() -> None:
    with pytest.raises(MathsError, match=r"p sums to 0\.5"):
        maths.entropy([[1.0, 0.0], [0.25, 0.25]])


def test_a_list_that_holds_a_text_or_an_object_is_refused() -> None:
    for value in (["1", "2"], [1.0, None]):
        with pytest.raises(MathsError, match="a list must hold numbers alone"):
            from_python("x", value, floats("..."))


@pytest.mark.parametrize(
    ("given", "computed"),
    [(np.uint8, np.int32), (np.int16, np.int32), (np.int32, np.int32), (np.uint32, np.int64)],
)
def test_whole_numbers_come_in_a_type_that_cannot_overflow(given: type, computed: type) -> None:
    values = {"positions": np.asarray([3, 200], dtype=given)}
    arguments = read_arguments(values, {"positions": wholes("time")}, {}).arguments
    assert arguments["positions"].dtype == computed
