"""The interface of `few_bits.c`: matrices of 8 or 4 bits from and to float32 and bfloat16."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import c_float, c_int32, c_int64, c_void_p
from functools import cache
from pathlib import Path
from typing import Any

from pellucid.native.compile import library
from pellucid.native.parallel import Threads, in_parts, prepared

_SOURCE = Path(__file__).with_name("few_bits.c")
#: Fewer rows than this take less time than to share them.
_LEAST_ROWS = 32


class Matrix(ctypes.Structure):
    """A matrix in few bits, and the place of its rows in float32 or bfloat16."""

    #: without slots, a misspelt field would become an attribute that C never sees
    __slots__ = ()
    _fields_ = [
        *((name, c_void_p) for name in ("values", "scales", "wide")),
        *((name, c_int64) for name in ("rows", "columns")),
        *((name, c_int32) for name in ("four_bits", "half")),
        ("shares", c_void_p),
        ("n_shares", c_int32),
    ]


@cache
def _function(loaded: ctypes.CDLL, name: str) -> Any:
    return prepared(getattr(loaded, name))


def widen(matrix: Matrix, threads: Threads) -> bool:
    """Write the numbers of a matrix to its place; False without C."""
    loaded = library(_SOURCE)
    if loaded is None:
        return False
    function = _function(loaded, "pellucid_widen")
    in_parts(function, matrix, matrix.rows, threads, least=_LEAST_ROWS)
    return True


def to_int4(matrix: Matrix, shares: Sequence[float], threads: Threads) -> bool:
    """Fit 4 bits to float32 rows; False without C.

    Args:
        matrix: its rows, and room for values and scales.
        shares: tried scales, as shares of the one that reaches the largest number of a group.
        threads: who computes.
    """
    loaded = library(_SOURCE)
    if loaded is None:
        return False
    tried = (c_float * len(shares))(*shares)
    matrix.shares, matrix.n_shares = ctypes.addressof(tried), len(shares)
    function = _function(loaded, "pellucid_to_int4")
    in_parts(function, matrix, -(-matrix.rows // 16), threads, least=_LEAST_ROWS // 16)
    return True
