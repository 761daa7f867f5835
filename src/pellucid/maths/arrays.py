"""The one door to the array libraries: which namespace an array belongs to."""

from __future__ import annotations

from typing import Any

import array_api_compat

#: An array of any library that follows the Python array API standard.
Array = Any


def namespace(*arrays: Array) -> Any:
    """The array API namespace common to `arrays`.

    Raises:
        TypeError: the arrays belong to different libraries, or one of them is not an array.
    """
    return array_api_compat.array_namespace(*arrays)  # pyright: ignore[reportUnknownMemberType]


def device_of(x: Array) -> Any:
    """The device that x is on; None where a compiler traces it and does not say."""
    return getattr(x, "device", None)
