"""A fixed sample of a long table runs always; the rest of it runs nightly."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def sampled(rows: Iterable[Any], every: int = 3) -> list[Any]:
    """The rows as parameters of a test: one in `every` always runs; the others do nightly.

    A row that is a tuple gives the test several values.
    """
    return [
        pytest.param(
            *(row if isinstance(row, tuple) else (row,)),
            marks=pytest.mark.nightly if place % every else (),
        )
        for place, row in enumerate(rows)
    ]
