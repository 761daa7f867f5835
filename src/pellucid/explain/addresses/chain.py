"""The equations of a trace by address; gradients have theirs from the forward formulas.

The gradient at an address is the sum over all numbers that read it. Their equations say how: only
the gradient of the logits has an equation of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple
from weakref import WeakKeyDictionary

from torch.nn.utils import parametrize

from pellucid.catalogue import message
from pellucid.errors import PellucidError
from pellucid.explain.addresses import lookup
from pellucid.explain.addresses.row import Address
from pellucid.explain.addresses.site import Site
from pellucid.explain.addresses.syntax import parse_address, unknown_address_error
from pellucid.explain.equations.equation import AUTOGRAD, Equation
from pellucid.explain.equations.errors import logits_gradient
from pellucid.explain.equations.linear import computed_weights
from pellucid.explain.equations.loss_terms import OTHER
from pellucid.explain.formulas.derive import pull_back
from pellucid.explain.formulas.nodes import (
    Formula,
    Read,
    Series,
    reads_of,
    rename_axes,
)
from pellucid.explain.trace_types import Trace
from pellucid.model.facts import SoftmaxAttentionFacts
from pellucid.typed import named_modules

_GRAD = ".grad"
_SCORES_GRADIENT = ".scores.grad"
#: Parts of a head that a group of heads has in common.
_SHARED_BY_A_GROUP = ("k", "k_plain", "k_turned", "v", "distance_keys")


class Consumer(NamedTuple):
    """A number that reads an address: its own address, row, site and equation."""

    address: str
    row: Address
    site: Site
    equation: Equation


@dataclass(slots=True)
class _Chain:
    """The equations of a trace, by address, and who reads each address."""

    equations: dict[str, Equation | str] = field(default_factory=dict[str, Equation | str])
    consumers: dict[str, list[Consumer]] | None = None
    #: the first name of each parameter, by every name of it
    parameters: dict[str, str] = field(default_factory=dict[str, str])


_chains: WeakKeyDictionary[Trace, _Chain] = WeakKeyDictionary()


def _chain(trace: Trace) -> _Chain:
    if trace not in _chains:
        _chains[trace] = _Chain()
    return _chains[trace]


def equation_of(trace: Trace, name: str) -> Equation | str:
    """The equation of an address without an index, or why it has none.

    Raises:
        PellucidError: there is no such address.
    """
    equations = _chain(trace).equations
    if name not in equations:
        equations[name] = _make_equation(trace, name)
    return equations[name]


def _make_equation(trace: Trace, name: str) -> Equation | str:
    edited = {edit.address for edit in trace.edits}
    if name in edited:
        return "an edit changed it"
    match = lookup.GRADIENT.match(name)
    if match is None or name == "loss.grad":
        return lookup.equation_at(trace, name)
    if trace.backward().gradient(name) is None:
        raise unknown_address_error(name, lookup.list_backward(trace.backward()))
    if edited:
        return "an edit changed numbers that it comes through"
    return _gradient(trace, match[1], match[2] or "")


def _list_consumers(trace: Trace) -> dict[str, list[Consumer]]:
    """Who reads each address of the forward pass; shared parameters have one name."""
    chain = _chain(trace)
    if chain.consumers is not None:
        return chain.consumers
    first: dict[int, str] = {}
    for name, parameter in trace.model.named_parameters(remove_duplicate=False):
        chain.parameters[name] = first.setdefault(id(parameter), name)
    chain.consumers = {}
    sites = list(lookup.list_sites(trace))
    for name in computed_weights(trace):
        stated = lookup.find(trace, name)
        assert stated is not None
        sites.append(stated)
    for row, site in sites:
        if _first_of_group(trace, site.address) != site.address:
            continue  # heads share it, and it is counted once
        stated = equation_of(trace, site.address)
        if isinstance(stated, str):
            continue
        consumer = Consumer(site.address, row, site, stated)
        for address in dict.fromkeys(leaf.address for leaf in reads_of(stated.formula)):
            name_there = _one_name(trace, address)
            chain.consumers.setdefault(name_there, []).append(consumer)
    return chain.consumers


def _one_name(trace: Trace, address: str) -> str:
    """One name for what has several: shared parameters, keys and values of a group of heads."""
    alias = _chain(trace).parameters.get(address)
    return alias or _first_of_group(trace, _shared_name(trace, address))


def _first_of_group(trace: Trace, address: str) -> str:
    """A key or value by the first head of its group: all of them share it."""
    parts = parse_address(address)
    if parts is None or parts.head is None or parts.part not in _SHARED_BY_A_GROUP:
        return address
    facts = trace.attention(parts.side, parts.layer, cross=parts.cross).facts
    if not isinstance(facts, SoftmaxAttentionFacts):
        return address
    size = facts.n_heads // facts.n_kv_heads
    return address.replace(f".H{parts.head}.", f".H{parts.head // size * size}.")


def _shared_name(trace: Trace, address: str) -> str:
    """The first name of a matrix that is computed from other parameters, and shared by layers."""
    layer, _, name = address.rpartition(".")
    if name != "weight" or ".blocks." not in layer:
        return address
    module = trace.model.get_submodule(layer)
    if not parametrize.is_parametrized(module, "weight"):
        return address
    names: dict[int, str] = {}
    for path, part in named_modules(trace.model).items():
        names.setdefault(id(part), path)
    return f"{names.get(id(module), layer)}.weight"


def _gradient(trace: Trace, target: str, path: str = "") -> Equation | str:
    """The equation of the gradient at an address; of a tied table along one path of two."""
    if target in ("logits", "class_logits"):
        return logits_gradient(trace)
    axes = tuple(f"g{number}" for number in range(trace[target].ndim))
    try:
        formula = _sum(_terms_of_texts(trace, target, axes, path))
        is_rough = any(leaf.address.endswith(_SCORES_GRADIENT) for leaf in reads_of(formula))
        rounding = (
            _sum(_terms_of_texts(trace, target, axes, path, past_scores=True)) if is_rough else None
        )
    except _InACircleError:
        return "a memory is read and written token by token, and so are its gradients"
    return Equation(
        formula=formula,
        axes=axes,
        title=message("equations.gradient-of-the-loss-by", target=target),
        text="Σ dL/dy × dy/dx",
        source=AUTOGRAD,
        judged_by_largest=True,
        rounding=rounding,
    )


def _sum(terms: list[Formula]) -> Formula:
    return terms[0] if len(terms) == 1 else Series(tuple(terms))


class _InACircleError(Exception):
    """The gradient of a number depends on itself at another token."""


def _terms_of_texts(
    trace: Trace, target: str, axes: tuple[str, ...], path: str, *, past_scores: bool = False
) -> list[Formula]:
    """The terms of a gradient; both answers of a preference move a parameter."""
    terms = _terms(trace, target, axes, (), path, past_scores=past_scores)
    if trace.companion is not None and target in _chain(trace).parameters:
        companion_terms = _terms(trace.companion, target, axes, (), path, past_scores=past_scores)
        terms += [rename_axes(term, {}, OTHER) for term in companion_terms]
    return terms


def _terms(
    trace: Trace,
    target: str,
    axes: tuple[str, ...],
    ancestors: tuple[str, ...],
    path: str = "",
    *,
    past_scores: bool = False,
) -> list[Formula]:
    """What each number that reads an address passes back to it.

    Args:
        trace: the sentence.
        target: the address.
        axes: names for its axes.
        ancestors: the addresses whose gradients these are terms of.
        path: "head" or "input" for one of the two paths of a tied table.
        past_scores: whether to go past scores: a fused kernel forms no gradient of them.
    """
    if target in ancestors:
        raise _InACircleError
    consumers = _list_consumers(trace)
    target, shape = _one_name(trace, target), tuple(trace[target].shape)
    terms: list[Formula] = []
    for consumer in consumers.get(target, ()):
        if path and (consumer.address == "logits") != (path == "head"):
            continue
        upstream = _upstream(trace, consumer, (*ancestors, target), past_scores=past_scores)
        if upstream is None:
            continue
        stated = consumer.equation
        sizes = dict(zip(stated.axes, trace[consumer.address].shape, strict=True))
        names = {leaf.address for leaf in reads_of(stated.formula)}
        for name in names:
            if _one_name(trace, name) == target:
                terms += pull_back(stated.formula, upstream, name, axes, sizes, shape)
    return terms


def _upstream(
    trace: Trace, consumer: Consumer, ancestors: tuple[str, ...], *, past_scores: bool
) -> Formula | None:
    """The gradient at a consumer over the axes of its equation; None if the loss ignores it."""
    name, stated = consumer.address, consumer.equation
    if name == "loss":
        return Read("loss.grad", (), "dL/dL")
    if _is_kept(trace, consumer) and not (past_scores and name.endswith(".scores")):
        return Read(f"{name}{_GRAD}", stated.axes, "dL/dy")
    marked = tuple(f"{axis}^{len(ancestors)}" for axis in stated.axes)
    terms = _terms(trace, name, marked, ancestors, past_scores=past_scores)
    if not terms:
        return None
    return rename_axes(_sum(terms), dict(zip(marked, stated.axes, strict=True)))


def _is_kept(trace: Trace, consumer: Consumer) -> bool:
    """Whether the backward pass keeps the gradient of a number."""
    row, site = consumer.row, consumer.site
    if isinstance(row.backward, str) or not row.has_gradient(trace, site):
        return False
    if site.address in _chain(trace).parameters or "." not in site.address:
        return True
    try:
        return trace.backward().gradient(f"{site.address}{_GRAD}") is not None
    except PellucidError:
        return False
