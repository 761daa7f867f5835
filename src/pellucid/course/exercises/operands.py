"""Operands for any equation: its example's shapes, filled with numbers of the reader's model.

A parameter's name says which number of a model it can be. Parameters without such a name keep the
value of the example in the equation's docstring.
"""

from __future__ import annotations

import ast
import inspect
import math
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from pellucid import maths
from pellucid.course.exercises.derived import DERIVED, Derived
from pellucid.course.exercises.leaves import plain, rounded, shape_of
from pellucid.course.exercises.types import Operands
from pellucid.errors import MathsError, PellucidError
from pellucid.maths.door.equation import DECLARED
from pellucid.maths.door.kinds import Either, Floats, Kind, Number, Wholes
from pellucid.textbook import compute, entry

if TYPE_CHECKING:
    from pellucid.course.exercises.model_numbers import ModelNumbers

#: What an operand can be in a model, by its name.
_ROLES = {
    **dict.fromkeys(("x", "gate", "up", "context", "latents", "shared_keys"), "residual"),
    **dict.fromkeys(("outputs", "mean", "other_mean"), "residual"),
    **dict.fromkeys(("logits", "target_logits"), "logits"),
    **dict.fromkeys(("w", "weight", "query", "key", "value", "output", "matrix"), "weight"),
    **dict.fromkeys(("grad", "upstream", "m", "velocity", "average", "gradients"), "gradient"),
    **dict.fromkeys(("jacobian", "jacobians"), "weight"),
    "scores": "logits",
    **dict.fromkeys(("q", "position_q"), "query"),
    **dict.fromkeys(("k", "position_k"), "key"),
    **dict.fromkeys(("log_p", "old_log_p", "chosen", "rejected"), "log_p"),
    **dict.fromkeys(("reference_chosen", "reference_rejected"), "log_p"),
    "v": "value",
}
#: Operands of equations whose gradient has a parameter that no example has.
_SETTINGS: dict[str, Operands] = {
    "embedding_grad": {"vocab_size": 3},
}


@dataclass(frozen=True, slots=True)
class Filled:
    """Operands, and the origin of the model's numbers among them, in words."""

    operands: Operands
    origins: dict[str, str]


def fill(equation: str, numbers: ModelNumbers, variant: int = 0) -> Filled:
    """Operands of an equation with numbers of the model.

    Args:
        equation: its name in `pellucid.maths`.
        numbers: the model's.
        variant: another number gives operands of other places.
    """
    example = example_operands(equation)
    kinds = DECLARED[inspect.unwrap(getattr(maths, equation))].kinds
    facts = numbers.facts(example)
    operands, origins = dict(example), dict[str, str]()
    for place, (name, value) in enumerate(example.items()):
        kind, start = kinds[name], 3 * variant + place
        if name in facts and isinstance(kind, Number | Either):
            number, origins[name] = facts[name]
            operands[name] = number + variant
        elif name in DERIVED and np.ndim(value) < 2 and isinstance(kind, Floats | Wholes):
            derived = DERIVED[name]
            parts = _derive(derived, numbers, np.size(value), start, whole=isinstance(kind, Wholes))
            if parts:
                operands[name] = parts if np.ndim(value) else parts[0]
                origins[name] = derived.origin
        elif (role := _role(name, value, kind, numbers)) is not None:
            shape = np.shape(value)
            if role == "probabilities":
                operands[name] = numbers.distribution(shape, start)
            else:
                operands[name] = numbers.take(role, shape, start)
            origins[name] = numbers.origin(role)
    if _has_value(equation, operands):
        return Filled(operands, origins)
    return Filled(example, {})  # such numbers have no meaning for this equation


def _role(name: str, value: Any, kind: Kind, numbers: ModelNumbers) -> str | None:
    if not isinstance(kind, Floats):
        return None
    if kind.sums_to_one or (name in ("p", "q") and _sums_to_one(value)):
        role = "probabilities"
    elif kind.probabilities and name in ("p", "confidence"):
        role = "token_p"
    elif kind.probabilities or kind.range.ge is not None or kind.range.gt is not None:
        return None
    elif name == "x" and kind.lowest:
        role = "logits"
    else:
        role = _ROLES.get(name)
    pool = "logits" if role == "probabilities" else role
    return role if pool is not None and numbers.has_role(pool) else None


def _derive(
    derived: Derived, numbers: ModelNumbers, count: int, start: int, *, whole: bool
) -> list[float] | list[int]:
    """Numbers that follow from the model; none if this model has no such numbers."""
    try:
        values = np.asarray(derived.take(numbers, count, start)).ravel().tolist()
    except PellucidError:
        return []
    return [round(number) for number in values] if whole else [rounded(x) for x in values]


def _sums_to_one(value: Any) -> bool:
    return np.ndim(value) > 0 and bool(np.allclose(np.sum(value, axis=-1), 1))


def _has_value(equation: str, operands: Operands) -> bool:
    try:
        getattr(maths, equation)(**operands)
    except MathsError:
        return False
    return True


@cache
def _from_examples(equation: str) -> Operands:
    """The operands of the first call of an equation in its own examples."""
    for expression in entry(equation).expressions:
        for node in ast.walk(ast.parse(expression, mode="eval")):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id == equation
            ):
                return _bound(equation, node)
    return {}


def _bound(equation: str, call: ast.Call) -> Operands:
    values = [plain(compute(ast.unparse(argument)).value) for argument in call.args]
    keywords = {
        str(word.arg): plain(compute(ast.unparse(word.value)).value) for word in call.keywords
    }
    signature = inspect.signature(getattr(maths, equation))
    return dict(signature.bind(*values, **keywords).arguments)


@cache
def example_operands(equation: str) -> Operands:
    """The operands of an equation's example; a gradient has the operands of its equation.

    Raises:
        MathsError: the equation has no example, and is no gradient of one that has.
    """
    if operands := _from_examples(equation):
        return operands
    parameters = inspect.signature(getattr(maths, equation)).parameters
    if not parameters:
        return {}
    forward = _forward(equation)
    operands = {**_from_examples(forward), **_SETTINGS.get(equation, {})}
    for name, parameter in parameters.items():
        if name not in operands and parameter.default is parameter.empty:
            # the gradient that comes from above has the shape of the equation's result
            result = getattr(maths, forward)(**_from_examples(forward))
            shape = shape_of(result[0] if isinstance(result, tuple) else result)
            count = math.prod(shape)
            operands[name] = (np.arange(1.0, count + 1) / count).reshape(shape).tolist()
    return {name: operands[name] for name in parameters if name in operands}


def _forward(gradient: str) -> str:
    name = gradient.removesuffix("s").removesuffix("_grad")
    for candidate in (name, f"{name}_loss"):
        if candidate in maths.__all__:
            return candidate
    raise MathsError(f"{gradient} has no example: write one in its docstring")
