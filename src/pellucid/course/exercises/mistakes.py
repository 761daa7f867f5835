"""Typical mistakes: what each of them would give for an exercise, to compare an answer with.

Most are an operand that was left out, exchanged, shifted or turned: the equation itself then gives
the wrong answer. The others change its result: a sign, a logarithm, a sum in place of a mean.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from pellucid import maths
from pellucid.course.exercises.leaves import agrees, plain, short_text
from pellucid.course.exercises.types import Exercise, Operands, evaluate
from pellucid.errors import MathsError
from pellucid.maths.door.equation import DECLARED
from pellucid.maths.door.kinds import Floats, Number, Wholes

Array = np.ndarray[Any, Any]


class Mistake(NamedTuple):
    """What went wrong, in words, the operand that it is about, and the answer that it gives."""

    text: str
    operand: str | None
    value: Any


def recognise(exercise: Exercise, answer: Any) -> Mistake | None:
    """The first typical mistake whose result is this answer; None if none is."""
    right = exercise.right
    for mistake in typical_mistakes(exercise):
        if agrees(answer, mistake.value) and not agrees(mistake.value, right):
            return mistake
    return None


def typical_mistakes(exercise: Exercise) -> Iterator[Mistake]:
    """Every mistake that an exercise allows, the surest first."""
    equation = exercise.equation
    if equation is not None:
        yield from _of_equation(equation, exercise.operands)
        for text, name, operands in _changed_operands(equation, exercise.operands):
            try:
                value = evaluate(equation, operands)
            except MathsError:
                continue
            yield Mistake(text, name, value)
    yield from _changed_results(exercise.right)


def _of_equation(equation: str, operands: Operands) -> Iterator[Mistake]:
    """Mistakes that belong to one equation, or to equations with a certain operand."""
    for text, name, other, parameters in _CONFUSIONS:
        if equation == name:
            values = {parameter: operands[operand] for parameter, operand in parameters.items()}
            yield Mistake(text, next(iter(parameters.values())), evaluate(other, values))
    if {"q", "k"} <= set(operands) and np.ndim(operands["q"]) > 1:
        width = np.shape(operands["q"])[-1]
        for text, factor in (
            (f"you did not divide the scores by sqrt(d_head) = sqrt({width})", math.sqrt(width)),
            (f"you divided the scores by d_head = {width}, not by its root", 1 / math.sqrt(width)),
        ):
            scaled = {**operands, "q": (np.asarray(operands["q"]) * factor).tolist()}
            yield Mistake(text, "q", evaluate(equation, scaled))
        if equation == "attention_weights":
            transposed = evaluate(equation, {**operands, "q": operands["k"], "k": operands["q"]})
            text = "you took the wrong axis: each query's shares, over the keys, sum to one"
            yield Mistake(text, "k", np.swapaxes(transposed, -1, -2).tolist())
    if equation in _VARIANCES:
        yield from _sample_variance(equation, operands)
    yield from _other_axis(equation, operands)
    if "step" in operands and "beta1" in operands:
        value = evaluate(equation, {**operands, "step": 10**9})
        yield Mistake("you left out the bias correction 1 - beta^step", "step", value)


def _sample_variance(equation: str, operands: Operands) -> Iterator[Mistake]:
    """A result with the variance over n - 1 numbers; its bias, if it has one, is not scaled."""
    name, axis = _VARIANCES[equation]
    n = np.shape(operands[name])[axis] // operands.get("n_groups", 1)
    bias = np.asarray(operands.get("bias", 0.0))
    if n > 1:
        value = np.asarray(evaluate(equation, operands)) - bias
        yield Mistake(
            f"you took the sample variance, over n - 1 = {n - 1}: take the population's, over "
            f"n = {n}",
            name,
            (value * math.sqrt((n - 1) / n) + bias).tolist(),
        )


def _other_axis(equation: str, operands: Operands) -> Iterator[Mistake]:
    """The equation along the other axis of x, without gain and bias of another length."""
    if np.ndim(operands.get("x", 0.0)) != 2:
        return
    transposed = {**operands, "x": np.swapaxes(operands["x"], -1, -2).tolist()}
    n_rows = np.shape(operands["x"])[0]
    transposed |= {name: [1.0] * n_rows for name in ("gain",) if name in operands}
    transposed |= {name: [0.0] * n_rows for name in ("bias",) if name in operands}
    with suppress(MathsError):
        value = np.asarray(getattr(maths, equation)(**transposed))
        if value.ndim == 2:
            yield Mistake("you took the wrong axis of x", "x", value.T.tolist())


#: Equations with a variance: the operand and the axis that it is over.
_VARIANCES = {
    "layer_norm": ("x", -1),
    "group_norm": ("x", -1),
    "batch_norm": ("x", -2),
    "instance_norm": ("x", -2),
    "grpo_advantages": ("rewards", -1),
}
#: An equation, another one that it is taken for, and the other's operands by
#: its parameters.
_CONFUSIONS = (
    (
        "you divided by the plain sum: softmax exponentiates first",
        "softmax",
        "sum_normalise",
        {"x": "x"},
    ),
    (
        "you exponentiated: this one divides by the plain sum",
        "sum_normalise",
        "softmax",
        {"x": "x"},
    ),
    ("this is softmax: its logarithm was asked for", "log_softmax", "softmax", {"x": "x"}),
    ("this is log softmax: the shares were asked for", "softmax", "log_softmax", {"x": "x"}),
    (
        "this is p: subtract 1 at the target, p - y",
        "cross_entropy_grad",
        "softmax",
        {"x": "logits"},
    ),
    (
        "you did not subtract the mean: layer norm centres, RMSNorm does not",
        "layer_norm",
        "rms_norm",
        {"x": "x", "gain": "gain", "eps": "eps"},
    ),
    (
        "this is KL(p || q): cross-entropy adds the entropy of p",
        "cross_entropy_between",
        "kl_divergence",
        {"p": "p", "q": "q"},
    ),
    (
        "this is the cross-entropy: KL subtracts the entropy of p",
        "kl_divergence",
        "cross_entropy_between",
        {"p": "p", "q": "q"},
    ),
    (
        "this is the entropy: it was to be divided by log n",
        "normalised_entropy",
        "entropy",
        {"p": "p"},
    ),
    ("this is a sigmoid: multiply it by x", "silu", "sigmoid", {"x": "x"}),
    ("this is the exact gelu: its tanh form was asked for", "gelu_tanh", "gelu", {"x": "x"}),
    ("this is the tanh form: the exact gelu was asked for", "gelu", "gelu_tanh", {"x": "x"}),
    ("you forgot the square", "relu_squared", "relu", {"x": "x"}),
)


def _changed_operands(equation: str, operands: Operands) -> Iterator[tuple[str, str, Operands]]:
    """A text, the operand's name, and operands with the mistake in them."""
    kinds = DECLARED[inspect.unwrap(getattr(maths, equation))].kinds
    indices_first = sorted(operands, key=lambda name: not isinstance(kinds[name], Wholes))
    for name in indices_first:
        kind, value = kinds[name], operands[name]
        if value is None or isinstance(value, bool | str):
            continue
        changes: Mapping[str, Callable[[Any], Any]] = {}
        if np.ndim(value) == 0 and isinstance(kind, Number):
            changes = _NUMBER_CHANGES
        elif isinstance(kind, Floats | Wholes) and np.size(value):
            counts = isinstance(kind, Wholes) or name in _PLACE_NAMES
            changes = _INDEX_CHANGES if counts else _ARRAY_CHANGES
        for text, change in changes.items():
            try:
                value_with_mistake = plain(change(value))
            except (ArithmeticError, ValueError):
                continue
            if value_with_mistake != value:
                yield text.format(name=name), name, {**operands, name: value_with_mistake}
    arrays = [name for name, value in operands.items() if isinstance(value, list)]
    for first, second in combinations(arrays, 2):
        if np.shape(operands[first]) == np.shape(operands[second]):
            swapped = {first: operands[second], second: operands[first]}
            yield f"you exchanged {first} and {second}", first, {**operands, **swapped}


_NUMBER_CHANGES: dict[str, Callable[[Any], Any]] = {
    "you left {name} out: this is the answer with {name} = 0": lambda x: type(x)(0),
    "you left {name} out: this is the answer with {name} = 1": lambda x: type(x)(1),
    "you are off by one: this is the answer with {name} one larger": lambda x: x + 1,
    "you are off by one: this is the answer with {name} one smaller": lambda x: x - 1,
    "you multiplied by {name} where you divide, or the reverse": lambda x: 1 / x,
    "you used {name} with the wrong sign": lambda x: -x,
    "you used the square of {name}": lambda x: x * x,
    "you used the root of {name}": lambda x: math.sqrt(x),
}
_ARRAY_CHANGES: dict[str, Callable[[Any], Any]] = {
    "you left {name} out: this is the answer with {name} = 0": lambda x: np.zeros(np.shape(x)),
    "you left {name} out: this is the answer with {name} = 1": lambda x: np.ones(np.shape(x)),
    "you used {name} with the wrong sign": lambda x: -np.asarray(x),
    "you took the wrong axis of {name}": lambda x: np.swapaxes(x, -1, -2),
    "you are off by one position in {name}": lambda x: np.roll(x, 1, axis=_time(x)),
    "you are off by one position in {name}, to the left": lambda x: np.roll(x, -1, axis=_time(x)),
}
#: Operands that count places, though they are floating numbers.
_PLACE_NAMES = ("positions", "query_positions", "key_positions", "distances", "pairs", "heads")
_INDEX_CHANGES: dict[str, Callable[[Any], Any]] = {
    "you are off by one in {name}: count from 0": lambda x: np.asarray(x) - 1,
    "you are off by one in {name}: it counts from 0": lambda x: np.asarray(x) + 1,
    "you are off by one position in {name}": lambda x: np.roll(x, 1),
    "you are off by one position in {name}, to the left": lambda x: np.roll(x, -1),
}


def _time(x: Any) -> int:
    return -2 if np.ndim(x) > 1 else -1


def _changed_results(right: Any) -> Iterator[Mistake]:
    """Mistakes in the last step, after a right result."""
    try:
        value = np.asarray(right, dtype=float)
    except (TypeError, ValueError):  # a choice, or parts of several shapes
        return
    if not value.size or not np.isfinite(value).all():
        return
    with np.errstate(all="ignore"):
        for text, change in _RESULT_CHANGES.items():
            value_with_mistake = change(value)
            if np.isfinite(value_with_mistake).all():
                yield Mistake(text, None, value_with_mistake.tolist())
        for n in sorted({n for n in (value.size, *value.shape) if n > 1}):
            yield Mistake(f"you took a sum: divide by {n} for the mean", None, (value * n).tolist())
            yield Mistake(f"you divided by {n}: no mean is taken here", None, (value / n).tolist())


_RESULT_CHANGES: dict[str, Callable[[Array], Array]] = {
    "the sign is wrong": lambda x: -x,
    "the axes are exchanged": lambda x: np.swapaxes(x, -1, -2) if x.ndim > 1 else -x,
    "you took the logarithm to base 2: this one is in nats, so take the natural one": lambda x: (
        x / math.log(2)
    ),
    "you took the natural logarithm: this one is in bits": lambda x: x * math.log(2),
    "you forgot to exponentiate": np.log,
    "you exponentiated once too often": np.exp,
    "you used 2 as the base: the loss is in nats, so take e": lambda x: 2 ** np.log(x),
    "you forgot the square root": lambda x: x * x,
    "you took a square root too much": np.sqrt,
    "you are off by one position": lambda x: np.roll(x, 1, axis=-1) if x.ndim else x,
    "you are off by one position, to the left": lambda x: np.roll(x, -1, axis=-1) if x.ndim else x,
    "you gave the rest: subtract your answer from 1": lambda x: 1 - x,
    "you gave percent: divide by 100": lambda x: 100 * x,
    "you forgot a factor of 2": lambda x: x / 2,
    "you have a factor of 2 too much": lambda x: x * 2,
    "you divided where you multiply, or the reverse": lambda x: 1 / x,
}


def operand_note(exercise: Exercise, name: str | None) -> str:
    """The right value of an operand, in words."""
    if name is None or name not in exercise.operands:
        return ""
    origin = exercise.origins.get(name)
    source = f" ({origin})" if origin else ""
    return f"{name} is {short_text(exercise.operands[name])}{source}"
