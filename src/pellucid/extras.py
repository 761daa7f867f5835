"""Libraries that an extra of pellucid brings. They are imported when they are needed.

Must not know: what a library does.
"""

from __future__ import annotations

from importlib import import_module
from operator import attrgetter
from typing import Any

from pellucid.errors import LibraryError


def import_extra(extra: str, module: str, *others: str, newest: str = "") -> Any:
    """A module of a library that comes with an extra.

    Args:
        extra: the extra, such as "lab".
        module: the name of the module, such as "scipy.stats".
        *others: modules that must be there too.
        newest: a name in the module that older versions lack, if we use one.

    Raises:
        LibraryError: one of them cannot be imported, or the library is too old; says what to
            install.
    """
    try:
        for name in others:
            import_module(name)
        imported = import_module(module)
    except ImportError as error:
        library = (error.name or module).partition(".")[0]
        raise _refusal(
            f"the library {library}, which cannot be imported ({error})", extra
        ) from None
    try:
        attrgetter(newest or "__name__")(imported)
    except AttributeError as error:
        library = module.partition(".")[0]
        raise _refusal(f"a newer version of the library {library} ({error})", extra) from None
    return imported


def _refusal(need: str, extra: str) -> LibraryError:
    return LibraryError(
        f'this needs {need}: install pellucid with its extra, pip install -U "pellucid[{extra}]", '
        f'in a checkout pip install -U ".[{extra}]"'
    )
