"""What a user says of a model, so that what is meant is not taken for a mistake.

Comes in: words. Goes out: a frozen `Declared`. It does not know any probe.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """What is so by design; None is "not said", and is then read off the model where possible.

    `frozen` are patterns of parameter names that are not to move. `window` is how many tokens back
    the last output can see through all layers. `shift` is how far labels stand from the inputs as
    they are handed over: 1 where labels[t] is the token after ids[t], 0 where the model moves them
    itself, as Hugging Face's do. `pretrained` weights are expected to know the data.
    """

    frozen: tuple[str, ...] = ()
    no_positions: bool = False
    causal: bool | None = None
    rotary: bool | None = None
    window: int | None = None
    pretrained: bool | None = None
    tied: bool | None = None
    shift: int | None = None

    def is_frozen(self, name: str) -> bool:
        """Whether the parameter of this name is declared not to move."""
        return any(re.search(pattern, name) for pattern in self.frozen)


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
) -> Declared:
    """What is so by design: see `Declared`."""
    return Declared(
        frozen=tuple(frozen),
        no_positions=no_positions,
        causal=causal,
        rotary=rotary,
        window=window,
        pretrained=pretrained,
        tied=tied,
        shift=shift,
    )
