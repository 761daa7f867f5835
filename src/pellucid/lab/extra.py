"""The libraries of the extra `lab`: scipy for statistics, optuna for tuning."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from pellucid.errors import ConfigError


def import_lab(module: str) -> ModuleType:
    """A module of a library that comes with the extra `lab`.

    It is imported when it is needed: most of pellucid works without it.

    Args:
        module: its name, such as "scipy.stats".

    Raises:
        ConfigError: the library is not installed; says how to install it.
    """
    try:
        return import_module(module)
    except ImportError as error:
        library = module.partition(".")[0]
        raise ConfigError(
            f"this needs {library}, which cannot be imported ({error}): install pellucid "
            'with its extra, pip install "pellucid[lab]", in a checkout pip install ".[lab]"'
        ) from None


def require_lab(*modules: str) -> None:
    """Refuse work that would need these modules at its end.

    Args:
        *modules: their names.

    Raises:
        ConfigError: as `import_lab`.
    """
    for module in modules:
        import_lab(module)
