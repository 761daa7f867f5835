"""What you intend of a model, so that no finding reports it as a mistake."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from pellucid.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectations:
    """What you intend. None means unknown: pellucid then reads it from the model if it can.

    Args:
        frozen: regular expressions; a parameter stays frozen if one matches anywhere in its name.
        no_positions: the model has no positions on purpose.
        causal: no output may depend on a later token.
        rotary: positions are rotary.
        window: how many tokens back the last output can see through all layers.
        pretrained: the weights should know the data.
        tied: embedding and head are one tensor.
        shift: 1 if labels[t] is the token after ids[t], 0 if the model shifts the labels, as
            Hugging Face's models do.

    Raises:
        ConfigError: a pattern of `frozen` is not a regular expression.
    """

    frozen: Sequence[str] = ()
    no_positions: bool = False
    causal: bool | None = None
    rotary: bool | None = None
    window: int | None = None
    pretrained: bool | None = None
    tied: bool | None = None
    shift: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "frozen", _check_patterns(self.frozen))
        for pattern in self.frozen:
            try:
                re.compile(pattern)
            except re.error as error:
                words = pattern.strip("*")
                plain = f": write {words!r}" if words and words == re.escape(words) else ""
                raise ConfigError(
                    f"frozen: {pattern!r} is not a regular expression ({error}). It may match "
                    f"anywhere in a parameter's name{plain}"
                ) from None

    def is_frozen(self, name: str) -> bool:
        """Whether you declared the parameter of this name as frozen."""
        return any(re.search(pattern, name) for pattern in self.frozen)


def _check_patterns(frozen: Any) -> tuple[str, ...]:
    """The patterns, if they are a list of texts."""
    patterns = tuple(cast("Sequence[Any]", frozen)) if isinstance(frozen, tuple | list) else (None,)
    if not all(isinstance(pattern, str) for pattern in patterns):
        raise ConfigError(
            f"frozen must be a list of patterns of parameter names, was {frozen!r}: write "
            'frozen=["embed"]'
        )
    return cast("tuple[str, ...]", patterns)


#: State what you intend: `declare(frozen=["embed"])`.
declare = Expectations
