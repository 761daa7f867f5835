"""The interface of `cross_entropy.c`, called by several threads.

The results do not depend on the number of threads.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import c_float, c_int32, c_int64, c_void_p
from pathlib import Path
from typing import Literal, get_args

from pellucid.native.compile import library
from pellucid.native.parallel import Threads, in_parts, prepared

_SOURCE = Path(__file__).with_name("cross_entropy.c")


class Settings(ctypes.Structure):
    """The settings that all rows share; with `learning` 0, C computes no gradient."""

    #: without slots, a misspelt field would become an attribute that C never sees
    __slots__ = ()
    _fields_ = [
        ("vocab", c_int64),
        ("ignored", c_int64),
        ("smoothing", c_float),
        ("z_loss", c_float),
        ("divisor", c_float),
        ("learning", c_int32),
    ]


class Rows(ctypes.Structure):
    """The addresses of the first row's logits, target and results; `bias` may be None."""

    #: without slots, a misspelt field would become an attribute that C never sees
    __slots__ = ()
    _fields_ = [
        ("logits", c_void_p),
        ("bias", c_void_p),
        ("targets", c_void_p),
        ("losses", c_void_p),
        ("log_z", c_void_p),
        ("hits", c_void_p),
        ("extra", c_void_p),
        ("how", Settings),
    ]


#: The type of the logits.
Kind = Literal["float32", "bfloat16"]
KINDS: tuple[Kind, ...] = get_args(Kind)


def kind_of(dtype: object) -> Kind | None:
    """The kind of a dtype of torch or another library, by its name; None if C has no such code."""
    name = str(dtype).rpartition(".")[2]
    return next((kind for kind in KINDS if kind == name), None)


#: A C function that turns logits into p - y in place.
Errors = Callable[[Kind, Rows, int, Threads], None]


def errors() -> Errors | None:
    """A function of (kind, rows, count, threads): from logits to errors; None without C."""
    loaded = library(_SOURCE)
    if loaded is None:
        return None
    functions = {kind: prepared(getattr(loaded, f"pellucid_errors_{kind}")) for kind in KINDS}

    def run(kind: Kind, rows: Rows, count: int, threads: Threads) -> None:
        in_parts(functions[kind], rows, count, threads)

    return run
