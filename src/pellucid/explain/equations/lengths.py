"""Lengths of gradients: of one parameter's, and of all together, which clipping reads."""

from __future__ import annotations

from pellucid.catalogue import message
from pellucid.explain.addresses.site import Site
from pellucid.explain.equations.equation import Equation, Source
from pellucid.explain.formulas.nodes import Formula, Read, Series, Total
from pellucid.explain.trace_types import Trace
from pellucid.typed import length

_SOURCE: Source = (length, "return float(norm(")


def one_gradient(trace: Trace, site: Site) -> Equation:
    """√(Σ g²) over all numbers of a parameter."""
    shape = dict(trace.model.named_parameters())[site.part].shape
    axes = parameter_axes(len(shape))
    g = Read(f"{site.part}.grad", axes, "g")
    total: Formula = g * g
    for axis, size in reversed(list(zip(axes, shape, strict=True))):
        total = Total(axis, size, total)
    return Equation(
        formula=total.apply("sqrt") if isinstance(total, Total) else g,
        axes=(),
        title=message("equations.length-of-the-gradient-of", part=site.part),
        text="√(Σ g²)",
        source=_SOURCE,
        least=0.0,
    )


def all_gradients(trace: Trace, site: Site) -> Equation:
    """√(Σ length²) over all parameters."""
    lengths = [Read(f"{name}.grad_norm", (), name) for name in trace.backward().norms]
    return Equation(
        formula=Series(tuple(norm * norm for norm in lengths)).apply("sqrt"),
        axes=(),
        title=message("equations.all-gradients-together"),
        text="√(Σ ‖g‖²)",
        source=_SOURCE,
        least=0.0,
    )


def parameter_axes(n_axes: int) -> tuple[str, ...]:
    """Names of the axes of a parameter."""
    return tuple(f"p{number}" for number in range(n_axes))
