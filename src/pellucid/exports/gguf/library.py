"""The library `gguf`, which writes the files; it is an extra."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from pellucid.errors import PellucidError


def gguf_library() -> Any:
    """The module `gguf`.

    Raises:
        PellucidError: it is missing; tells how to install it.
    """
    try:
        return import_module("gguf")
    except ImportError:
        raise PellucidError(
            "GGUF files need the library gguf, which is missing: pip install 'pellucid[gguf]'"
        ) from None
