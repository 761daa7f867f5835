"""Addresses of one trace: find the row of a name, list all names, read a number or its receipt."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from torch import Tensor

from pellucid.errors import PellucidError
from pellucid.explain import optimiser_step
from pellucid.explain.addresses.layer_table import FAMILIES
from pellucid.explain.addresses.row import Address
from pellucid.explain.addresses.shapes import axis_sizes, count_experts, count_heads
from pellucid.explain.addresses.site import Site
from pellucid.explain.addresses.syntax import (
    AddressParts,
    parse_address,
    stack_letter,
    unknown_address_error,
)
from pellucid.explain.addresses.table import ADDRESSES, BACKWARD, FORWARD
from pellucid.explain.equations.equation import Equation
from pellucid.explain.equations.loss_terms import OTHER
from pellucid.explain.experts import any_expert, expert_number
from pellucid.explain.forward_pass import Side
from pellucid.explain.optimiser_settings import choose_settings, parts_of
from pellucid.explain.trace_types import Gradients, Shape, Trace

#: The address of a gradient; a tied table has one for each of its two paths.
GRADIENT = re.compile(r"(.+)\.grad(?:\.(head|input))?\Z")
_STEPPED = re.compile(
    r"(.+)\.(?:(next|before_penalty|clipped_grad|m|v|m_before|v_before|look_ahead|direction"
    r"|grad_norm)|(iterate|gram)\d+)\Z"
)
_TIED = "token_embedding.weight"
AFTER_UPDATE = "after_update."


def _expand(pattern: str) -> tuple[str, ...]:
    """A pattern with each name of its families in their place."""
    placeholders = re.findall(r"\{(\w+)\}", pattern)
    families = [name for name in placeholders if name in FAMILIES]
    choices = itertools.product(*(FAMILIES[name] for name in families))
    return tuple(
        pattern.format(
            **{name: f"{{{name}}}" for name in placeholders}
            | dict(zip(families, parts, strict=True))
        )
        for parts in choices
    )


_ROWS: dict[str, Address] = {name: row for row in ADDRESSES for name in _expand(row.pattern)}


def _list_rows(scope: str) -> dict[str, Address]:
    """The rows whose pattern begins with a scope, by what follows it."""
    prefixed = {name.removeprefix(scope): row for name, row in _ROWS.items()}
    return {part: row for part, row in prefixed.items() if f"{scope}{part}" in _ROWS}


_HEAD_ROWS = _list_rows("{layer}.{head}.")
_LAYER_ROWS = {
    part: row for part, row in _list_rows("{layer}.").items() if not part.startswith("{head}")
}
_STACK_ROWS = _list_rows("{stack}")


def find(trace: Trace, name: str) -> tuple[Address, Site] | None:
    """The row of an address without an index, and where it applies; None if there is none."""
    parts = parse_address(name)
    if parts is not None:
        return _find_in_layer(trace, name, parts)
    side, part = trace.side, name
    if name.startswith("encoder.") and len(trace.sides) == 2:
        side, part = "encoder", name.removeprefix("encoder.")
    if part in _STACK_ROWS:
        return _STACK_ROWS[part], Site(address=name, part=part, side=side)
    for prefix in (AFTER_UPDATE, OTHER):
        if name.startswith(prefix):
            site = Site(address=name, part=name.removeprefix(prefix), side=trace.side)
            return _ROWS[f"{prefix}{{address}}"], site
    if name.startswith(f"{_TIED}.grad.") and name in _ROWS:
        return _ROWS[name], Site(address=name, part=_TIED, side=trace.side)
    if name in _ROWS:
        return _ROWS[name], Site(address=name, part=name, side=trace.side)
    return _find_weight(trace, name)


def _find_in_layer(trace: Trace, name: str, parts: AddressParts) -> tuple[Address, Site] | None:
    if parts.side not in trace.sides:
        return None
    site = Site(
        address=name,
        part=parts.part,
        side=parts.side,
        layer=parts.layer,
        head=parts.head or 0,
        cross=parts.cross,
    )
    n_layers = trace.n_layers(parts.side)
    is_stream = parts.head is None and parts.part == "residual"
    if parts.layer >= n_layers + is_stream:
        return None
    if parts.head is not None and parts.head >= count_heads(trace, site):
        return None
    expert = expert_number(parts.part)
    if expert is not None and expert >= count_experts(trace, site):
        return None
    row = (_LAYER_ROWS if parts.head is None else _HEAD_ROWS).get(any_expert(parts.part))
    return None if row is None else (row, site)


def _find_weight(trace: Trace, name: str) -> tuple[Address, Site] | None:
    match = _STEPPED.match(name)
    if match is not None and match[1] in dict(trace.model.named_parameters()):
        site = Site(address=name, part=match[1], side=trace.side)
        part = match[2] or f"{match[3]}{{step}}"
        return _ROWS[f"{{parameter}}.{part}"], site
    return _ROWS["{parameter}"], Site(address=name, part=name, side=trace.side)


def read(trace: Trace, address: str) -> Tensor | None:
    """The forward tensor at an address without an index, or its gradient if it ends with .grad.

    None if there is no such address.

    Raises:
        PellucidError: this model cannot have it; says why.
    """
    row_and_site = find(trace, address)
    tensor = None if row_and_site is None else row_and_site[0].forward(trace, row_and_site[1])
    if tensor is None and GRADIENT.match(address):
        return trace.backward().gradient(address)
    return tensor


def read_gradient(gradients: Gradients, address: str) -> Tensor | None:
    """The tensor at an address of the backward pass; None if there is no such address.

    Raises:
        PellucidError: the number exists, but pellucid keeps no gradient of it; says why.
    """
    trace = gradients.trace
    if address in _ROWS and _ROWS[address] in BACKWARD:
        row_and_site = find(trace, address)
        assert row_and_site is not None
        return row_and_site[0].forward(trace, row_and_site[1])
    match = GRADIENT.match(address)
    row_and_site = None if match is None or match[2] else find(trace, match[1])
    if row_and_site is None:
        return None
    row, site = row_and_site
    if isinstance(row.backward, str):
        if not row.exists(trace, site):
            return None
        raise PellucidError(f"{address} is not kept: {row.backward}")
    return row.backward(gradients, site)


def list_forward(trace: Trace) -> dict[str, Shape]:
    """Every address of the forward pass with its shape; nothing is computed for it."""
    return {site.address: axis_sizes(trace, site, row.axes) for row, site in list_sites(trace)}


def list_backward(gradients: Gradients) -> dict[str, Shape]:
    """Every address of the backward pass with its shape."""
    trace = gradients.trace
    shapes: dict[str, Shape] = {}
    for row in BACKWARD:
        site = Site(address=row.pattern, part=row.pattern, side=trace.side)
        if row.exists(trace, site):
            shapes[row.pattern] = axis_sizes(trace, site, row.axes)
    for row, site in list_sites(trace):
        if not isinstance(row.backward, str) and row.has_gradient(trace, site):
            shapes[f"{site.address}.grad"] = axis_sizes(trace, site, row.axes)
    weights = dict(trace.model.named_parameters())
    return shapes | {f"{name}.grad": tuple(weights[name].shape) for name in gradients.norms}


def list_update(trace: Trace) -> dict[str, Shape]:
    """Every address of the backward pass and of an optimiser step, with its shape."""
    after = {f"{AFTER_UPDATE}{name}": shape for name, shape in list_forward(trace).items()}
    return list_backward(trace.backward()) | list_step(trace) | after


def list_step(trace: Trace) -> dict[str, Shape]:
    """Every address of what an optimiser step makes of the parameters, with its shape."""
    weights = dict(trace.model.named_parameters())
    return {
        f"{name}.{part}": shape
        for name in trace.backward().norms
        for part, shape in _list_step(trace, name, tuple(weights[name].shape)).items()
    }


def list_near(trace: Trace, name: str) -> dict[str, Shape]:
    """The addresses of the pass that a name belongs to by its ending."""
    is_backward = ".grad" in name or _STEPPED.match(name) is not None
    return list_update(trace) if is_backward else trace.addresses()


def _list_step(trace: Trace, name: str, shape: Shape) -> dict[str, Shape]:
    """What a step of a parameter has, with its shape."""
    settings = choose_settings(trace, name)
    parts = parts_of(settings)
    shapes = dict.fromkeys((*parts, *(f"{p}_before" for p in parts if p in "mv")), shape)
    if settings.kind == "Muon":
        steps = optimiser_step.newton_schulz_steps(trace)
        shapes |= {f"iterate{step}": shape for step in range(steps + 1)}
        shapes |= {f"gram{step}": (min(shape), min(shape)) for step in range(steps)}
    return shapes | {"grad_norm": ()}


def equation_at(trace: Trace, name: str) -> Equation | str:
    """The equation of an address of the forward pass or of a step, or why it has none.

    Raises:
        PellucidError: there is no such address.
    """
    row_and_site = find(trace, name)
    if row_and_site is None or not row_and_site[0].exists(trace, row_and_site[1]):
        raise unknown_address_error(name, list_forward(trace))
    row, site = row_and_site
    return row.receipt if isinstance(row.receipt, str) else row.receipt(trace, site)


def list_sites(trace: Trace) -> Iterator[tuple[Address, Site]]:
    """Every row of the forward pass at every place where this model has it, in the order of it."""
    for side in trace.sides:
        prefix = "" if side == trace.side else "encoder."
        yield from _sites_of_stack(trace, side, prefix)
    for row in FORWARD:
        if "{" not in row.pattern:
            site = Site(address=row.pattern, part=row.pattern, side=trace.side)
            if row.exists(trace, site):
                yield row, site


def _sites_of_stack(trace: Trace, side: Side, prefix: str) -> Iterator[tuple[Address, Site]]:
    letter, n_layers = stack_letter(side), trace.n_layers(side)
    for part, row in _STACK_ROWS.items():
        if part == "final_norm":
            for layer in range(n_layers):
                yield from _sites_of_layer(trace, side, layer)
            address = f"{letter}{n_layers}.residual"
            last = Site(address=address, part="residual", side=side, layer=n_layers)
            yield _LAYER_ROWS["residual"], last
        site = Site(address=f"{prefix}{part}", part=part, side=side)
        if row.exists(trace, site):
            yield row, site


def _sites_of_layer(trace: Trace, side: Side, layer: int) -> Iterator[tuple[Address, Site]]:
    layer_name = f"{stack_letter(side)}{layer}"
    n_experts = count_experts(trace, Site(address=layer_name, part="", side=side, layer=layer))
    for pattern, row in _LAYER_ROWS.items():
        numbers = range(n_experts) if "{expert}" in pattern else (0,)
        for part in (pattern.replace("{expert}", str(number)) for number in numbers):
            site = Site(address=f"{layer_name}.{part}", part=part, side=side, layer=layer)
            if row.exists(trace, site):
                yield row, site
    for cross in (False, True) if side == "decoder" else (False,):
        first = Site(address=layer_name, part="", side=side, layer=layer, cross=cross)
        for head in range(count_heads(trace, first)):
            for part, row in _HEAD_ROWS.items():
                name = f"{layer_name}.H{head}.{'cross.' if cross else ''}{part}"
                site = Site(address=name, part=part, side=side, layer=layer, head=head, cross=cross)
                if row.exists(trace, site):
                    yield row, site
