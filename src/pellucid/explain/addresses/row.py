"""What one row of the table of addresses states."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from pellucid.explain.addresses.site import Site
from pellucid.explain.equations.equation import Equation
from pellucid.explain.trace_types import Gradients, Trace


def is_in_every_trace(trace: Trace, site: Site) -> bool:
    """Every trace has it."""
    return True


#: Reasons why an address has no gradient.
ONE_LOSS = "its gradient is fixed by the loss, and no layer has to be run for it"
IS_A_GRADIENT = "it is a gradient itself"
IS_AN_UPDATE = "the step is not differentiated"
#: Each returns None, or a reason, if this model has no such number.
Forward = Callable[[Trace, Site], Tensor | None]
Backward = Callable[[Gradients, Site], Tensor | None]
MakeEquation = Callable[[Trace, Site], Equation | str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """All that pellucid knows about one kind of address.

    `pattern` holds `{stack}`, `{layer}`, `{head}`, `{parameter}` or the name of a family of parts.
    `backward` and `receipt` are functions, or the reason why there is none: the receipt is the
    equation of all numbers at the address. `exists` says whether a trace lists the address,
    `has_gradient` whether it lists its gradient.
    """

    pattern: str
    axes: tuple[str, ...]
    doc: str
    forward: Forward
    backward: Backward | str
    receipt: MakeEquation | str
    exists: Callable[[Trace, Site], bool] = is_in_every_trace
    has_gradient: Callable[[Trace, Site], bool] = is_in_every_trace
