"""What a user says of a model, so that what is meant is not taken for a mistake."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from pellucid.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectations:
    """What is so by design; None is "not said", and is then read off the model where possible.

    `frozen` are regular expressions: a parameter in whose name one matches anywhere is not to move.
    `window` is how many tokens back the last output can see through all layers. `shift` is how far
    labels stand from the inputs as they are handed over: 1 where labels[t] is the token after
    ids[t], 0 where the model moves them itself, as Hugging Face's do. `pretrained` weights are
    expected to know the data.
    """

    frozen: tuple[str, ...] = ()
    no_positions: bool = False
    causal: bool | None = None
    rotary: bool | None = None
    window: int | None = None
    pretrained: bool | None = None
    tied: bool | None = None
    shift: int | None = None

    def __post_init__(self) -> None:
        for pattern in _listed(self.frozen):
            try:
                re.compile(pattern)
            except re.error as error:
                words = pattern.strip("*")
                plain = f": write {words!r}" if words and words == re.escape(words) else ""
                raise ConfigError(
                    f"frozen: {pattern!r} is no regular expression ({error}). A parameter is meant "
                    f"if the expression matches anywhere in its name{plain}"
                ) from None

    def is_frozen(self, name: str) -> bool:
        """Whether the parameter of this name is declared not to move."""
        return any(re.search(pattern, name) for pattern in self.frozen)


def _listed(frozen: Any) -> Sequence[str]:
    """Patterns as they are to be: several, and each a text."""
    is_list = isinstance(frozen, tuple | list)
    if not is_list or not all(
        isinstance(pattern, str) for pattern in cast("Sequence[Any]", frozen)
    ):
        raise ConfigError(
            f"frozen must be a list of patterns of parameter names, was {frozen!r}: write "
            'frozen=["embed"]'
        )
    return cast("Sequence[str]", frozen)


def declare(
    *,
    frozen: Sequence[str] = (),
    no_positions: bool = False,
    causal: bool | None = None,
    rotary: bool | None = None,
    window: int | None = None,
    pretrained: bool | None = None,
    tied: bool | None = None,
    shift: int | None = None,
) -> Expectations:
    """What is so by design: see `Expectations`.

    Raises:
        ConfigError: a pattern of `frozen` is no regular expression.
    """
    return Expectations(
        frozen=tuple(_listed(frozen)),
        no_positions=no_positions,
        causal=causal,
        rotary=rotary,
        window=window,
        pretrained=pretrained,
        tied=tied,
        shift=shift,
    )
