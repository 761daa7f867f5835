"""An equation: the formula of all numbers at an address, and what a receipt of one of them says."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from pellucid.catalogue import message
from pellucid.explain.addresses.site import Site
from pellucid.explain.addresses.syntax import stack_letter
from pellucid.explain.backward_segments import backward_segment
from pellucid.explain.formulas.nodes import (
    Constant,
    Formula,
    Largest,
    Mask,
    Places,
    Read,
    Total,
)
from pellucid.explain.forward_pass import Side
from pellucid.explain.trace_types import Trace

#: Rounding of one operation, with room for the few operations behind a number.
TOLERANCES = {"float64": 1e-9, "float32": 1e-5, "float16": 4e-3, "bfloat16": 3e-2}
#: The folder that the package lies in.
_ROOT = Path(__file__).resolve().parents[3]
#: An object of the code, and a text in the line of it that computes the number.
Source = tuple[Any, str]
#: Where torch computes the gradients that receipts are compared with.
AUTOGRAD: Source = (backward_segment, "grads = gradients(")
#: The place of each axis.
Env = Mapping[str, int]
#: A text, or how it is made of the place.
Text = str | Callable[[Env], str]


#: The axes of a state: tokens and features.
AXES = ("t", "f")


@dataclass(frozen=True, slots=True, kw_only=True)
class Equation:
    """All numbers of an address: `axes` names the axes of its tensor in the formula.

    `title` says what a number is, `text` writes the formula, `source` is the line that computes it.
    Sums smaller than `least` are judged as if they were that large: 0 for gradients and steps. A
    kernel rounds all gradients of an address together, so those are `judged_by_largest` of them.
    """

    formula: Formula
    axes: tuple[str, ...]
    title: Text
    text: Text
    source: Source
    least: float = 1.0
    judged_by_largest: bool = False
    #: a longer way to the numbers, whose rounding they have: the model never forms some operands
    rounding: Formula | None = None
    #: of the numbers, if the model's weights have another
    dtype: str = ""


def format_text(text: Text, env: Env) -> str:
    """The text of a place."""
    return text if isinstance(text, str) else text(env)


def layer_name(site: Site) -> str:
    """Such as L2."""
    return f"{stack_letter(site.side)}{site.layer}"


def head_name(site: Site) -> str:
    """Such as L2.H1, or L2.H1.cross."""
    return f"{layer_name(site)}.H{site.head}" + (".cross" if site.cross else "")


def block_path(site: Site) -> str:
    """The name of the block in the model."""
    return f"{site.side}.blocks.{site.layer}"


def stack_prefix(trace: Trace, side: Side) -> str:
    """The beginning of the addresses before a stack's first block."""
    return "" if side == trace.side else "encoder."


def stretch(axis: str, size: int, first: int = 0) -> Places:
    """A slice of an axis: its places from `first` on."""
    return Places(torch.arange(first, first + size), (axis,))


def steps(axis: str, size: int, name: str = "") -> Constant:
    """0, 1, 2, ... along an axis."""
    return Constant(torch.arange(size).double(), (axis,), name or axis)


def copy(address: str, axes: tuple[str, ...], source: Source) -> Equation:
    """The number is the one at another address."""
    return Equation(
        formula=Read(address, axes, address),
        axes=axes,
        title=message("equations.the-number-at-handed-on", address=address),
        text=address,
        source=source,
    )


def dot(axis: str, size: int, first: Formula, second: Formula) -> Total:
    """The dot product along an axis."""
    return Total(axis, size, first * second)


def softmax(
    x: Formula,
    of_axis: Callable[[str], Formula],
    size: int,
    mask: Mask | None = None,
    sink: Formula | None = None,
) -> Formula:
    """exp(x - max) over its sum; a sink is one more term of it.

    Args:
        x: of the numerator.
        of_axis: makes x over an axis of another name.
        size: of that axis.
        mask: over the axis "m", which terms count.
        sink: the x of one more term.
    """
    top = Largest("m", size, of_axis("m"), mask, sink)
    total: Formula = Total("m", size, (of_axis("m") - top).apply("exp"), mask)
    if sink is not None:
        total = total + (sink - top).apply("exp")
    return (x - top).apply("exp") / total


def sigmoid(x: Formula) -> Formula:
    """1 / (1 + exp(-x))."""
    return 1.0 / (1.0 + (-x).apply("exp"))


def label(pieces: tuple[str, ...], token: int) -> str:
    """A token, quoted, with its place: 'cat' (3)."""
    return f"{pieces[token]!r} ({token})"


def read_stream(address: str, name: str = "") -> Read:
    """The states at an address."""
    return Read(address, AXES, name or address)


@functools.cache
def source_line(code_object: Any, line: str) -> str:
    """The file and the number of the line where an object of the code holds a text.

    The file is named from the folder of its package: "torch/nn/..." for a part of torch itself.

    Raises:
        LookupError: it holds no such line.
    """
    code_object = inspect.unwrap(code_object)
    lines, first = inspect.getsourcelines(code_object)
    file = Path(inspect.getsourcefile(code_object) or "").resolve()
    root = _ROOT
    if not file.is_relative_to(root):
        module: str = code_object.__module__
        root = file.parents[module.count(".")]
    for offset, text in enumerate(lines):
        if line in text:
            return f"{file.relative_to(root).as_posix()}:{first + offset}"
    raise LookupError(f"{file}: no line {line!r}")
