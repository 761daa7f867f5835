"""A user's own modules in the place of pellucid's: same weights, another computation."""

from __future__ import annotations

from collections.abc import Callable
from traceback import extract_tb
from typing import Any

from pellucid.errors import ConfigError
from pellucid.model import Transformer
from pellucid.tasks.rewards import import_module

#: Replaces modules of a model in place; weights keep their names and shapes.
Inject = Callable[[Transformer], object]
_EXPECTED = "expected MODULE:FUNCTION, a function that replaces modules of the model it is given"


def find_parts(name: str | Inject | None) -> Inject | None:
    """The function of this name; a function is returned as it is.

    Raises:
        ConfigError: nothing has this name.
    """
    if name is None or callable(name):
        return name
    module, colon, function = name.rpartition(":")
    if not colon or not function:
        raise ConfigError(f"--parts {name}: {_EXPECTED}")
    try:
        inject: Any = getattr(import_module(module), function)
    except ImportError as error:
        raise ConfigError(f"--parts {name}: {error}; {_EXPECTED}") from None
    except AttributeError:
        raise ConfigError(f"--parts {name}: {module} has no {function!r}; {_EXPECTED}") from None
    if not callable(inject):
        raise ConfigError(f"--parts {name}: is no function; {_EXPECTED}")
    return inject


def inject_parts(model: Transformer, inject: Inject) -> None:
    """Let a function replace modules of a model.

    Raises:
        ConfigError: the function failed; or the weights have other names or shapes afterwards, so
            that the run could not be opened again.
    """
    before = _shapes(model)
    try:
        inject(model)
    except Exception as error:
        *_, place = extract_tb(error.__traceback__)
        raise ConfigError(
            f"--parts failed with {type(error).__name__}: {error} (in {place.filename}, line "
            f"{place.lineno}): {_EXPECTED}"
        ) from error
    after = _shapes(model)
    changed = sorted(name for name in before | after if before.get(name) != after.get(name))
    if changed:
        raise ConfigError(
            f"--parts changed the weights {', '.join(changed[:5])}: a part has to keep the names "
            "and shapes of the weights of the module that it replaces"
        )


def _shapes(model: Transformer) -> dict[str, tuple[int, ...]]:
    return {name: tuple(weight.shape) for name, weight in model.state_dict().items()}
