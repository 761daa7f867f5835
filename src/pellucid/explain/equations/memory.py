"""A neural memory of one head: how it is written, what it keeps and what a token reads.

The model computes a chunk at once and never forms the memory after each token. The trace forms it,
step by step, with the equation of the layer; what a token reads from it is the model's own number.
"""

from __future__ import annotations

import torch

from pellucid.catalogue import message
from pellucid.explain.addresses.shapes import attention_facts_at
from pellucid.explain.addresses.site import Site
from pellucid.explain.equations.equation import (
    Equation,
    block_path,
    dot,
    head_name,
    layer_name,
    sigmoid,
    stretch,
)
from pellucid.explain.equations.linear import product
from pellucid.explain.equations.norms import normalise
from pellucid.explain.formulas.nodes import Constant, Formula, Index, Masked, Places, Read, Series
from pellucid.explain.trace_types import Trace
from pellucid.model import NeuralMemory
from pellucid.model.facts import NeuralMemoryFacts
from pellucid.model.neural_memory import HeadGate
from pellucid.model.neural_memory_update import through_text


def facts_at(trace: Trace, site: Site) -> NeuralMemoryFacts:
    """The facts of the layer's memory."""
    facts = attention_facts_at(trace, site)
    assert isinstance(facts, NeuralMemoryFacts)
    return facts


def gate_logits(trace: Trace, site: Site) -> Equation:
    """The logits of a gate of all heads: W x + b."""
    path = f"{block_path(site)}.{site.part}"
    reads = f"{layer_name(site)}.attention.in"
    formula, _ = product(trace, f"{path}.linear", lambda axis: Read(reads, ("t", axis), "x"))
    name = site.part.rpartition(".")[2]
    return Equation(
        formula=formula + Read(f"{path}.bias", ("f",), "b"),
        axes=("t", "f"),
        title=lambda env: message(
            "equations.logit-of-the-of-head", name=name, f=env["f"], t=env["t"]
        ),
        text="W · x + b",
        source=(HeadGate.forward, "return (wide(self.linear(x))"),
    )


def gate(trace: Trace, site: Site) -> Equation:
    """The share of the memory in the head's output."""
    return Equation(
        formula=sigmoid(_gate(site, "mixing", "q")),
        axes=("q",),
        title=lambda env: message("equations.share-of-the-memory-of", head=site.head, q=env["q"]),
        text="1 / (1 + exp(-x))",
        source=(NeuralMemory.forward, "torch.sigmoid(self.mixing(x))"),
    )


def _gate(site: Site, name: str, time: str) -> Read:
    return Read(f"{layer_name(site)}.attention.{name}", (time, site.head), name)


def memory(trace: Trace, site: Site) -> Equation | str:
    """What the layer gets from the memory: the norm of the vector that it reads."""
    width = facts_at(trace, site).d_head
    result = normalise(
        trace,
        f"{block_path(site)}.attention.memory_norm",
        lambda time, feature: Read(f"{head_name(site)}.memory_read", (time, feature), "x"),
        numbers=torch.arange(width),
        width=width,
        axis="d",
        time="q",
    )
    if result is None:
        return "pellucid has no formula for this norm"
    return Equation(
        formula=result[0],
        axes=("q", "d"),
        title=lambda env: message(
            "equations.feature-of-the-memory-of", d=env["d"], head=site.head, q=env["q"]
        ),
        text=result[1],
        source=(NeuralMemory.forward, "self.memory_norm(self._read_memory"),
    )


def _part(site: Site, name: str, time: Index, axis: str, width: int) -> Read:
    address = f"{layer_name(site)}.attention.memory_{name}"
    return Read(address, (time, stretch(axis, width, site.head * width)), name[0])


def _unit(site: Site, name: str, time: Index, axis: str, width: int) -> Formula:
    """A query or key of the memory, at length 1."""
    squares = dot("n", width, *(_part(site, name, time, "n", width) for _ in range(2)))
    return _part(site, name, time, axis, width) / squares.apply("sqrt")


def read(trace: Trace, site: Site) -> Equation:
    """M q: the memory after the token's own step, times its query."""
    facts = facts_at(trace, site)
    width = facts.d_head
    state: Formula = Read(f"{head_name(site)}.memory_state", ("q", "d", "j"), "M")
    if facts.frozen:
        state = _first(site, width, "d", "j")
    return Equation(
        formula=dot("j", width, state, _unit(site, "query", "q", "j", width)),
        axes=("q", "d"),
        title=lambda env: message("equations.feature-of-what-token-reads", d=env["d"], q=env["q"]),
        text="M · q / |q|",
        source=(NeuralMemory._read_memory, "through_text("),  # pyright: ignore[reportPrivateUsage]
    )


def _first(site: Site, width: int, row: str, column: str) -> Read:
    """M_0 of a head."""
    path = f"{block_path(site)}.attention.memory.weight"
    return Read(path, (stretch(row, width, site.head * width), column), "M_0")


def _earlier(site: Site, trace: Trace, part: str, places: torch.Tensor, column: str) -> Formula:
    """The memory or its momentum at a place of each token; at -1 the first one."""
    width = facts_at(trace, site).d_head
    index = Places(places.clamp(min=0), ("t",))
    before = Read(f"{head_name(site)}.{part}", (index, "i", column), part)
    is_later = Constant((places >= 0).double(), ("t",), "mask")
    if part == "memory_momentum":
        return Masked(is_later, before)
    is_first = Constant((places < 0).double(), ("t",), "mask")
    return Series((Masked(is_later, before), Masked(is_first, _first(site, width, "i", column))))


def state(trace: Trace, site: Site) -> Equation:
    """M_t = (1 - alpha) M_(t-1) + S_t."""
    n = trace.stack_pass(site.side).ids.shape[1]
    before = _earlier(site, trace, "memory_state", torch.arange(n) - 1, "j")
    retained = 1.0 - sigmoid(_gate(site, "forgetting", "t"))
    momentum = Read(f"{head_name(site)}.memory_momentum", ("t", "i", "j"), "S")
    return _square(message("word.the-memory"), retained * before + momentum, "(1 - α) M before + S")


def momentum(trace: Trace, site: Site) -> Equation:
    """S_t = eta S_(t-1) - theta 2 (M k - v) k^T, with M from before the token's chunk."""
    facts, n = facts_at(trace, site), trace.stack_pass(site.side).ids.shape[1]
    width, tokens = facts.d_head, torch.arange(n)
    chunk_start = tokens // facts.chunk * facts.chunk - 1
    read = dot(
        "m",
        width,
        _earlier(site, trace, "memory_state", chunk_start, "m"),
        _unit(site, "key", "t", "m", width),
    )
    error = read - _part(site, "value", "t", "i", width)
    step = sigmoid(_gate(site, "learning_rate", "t")) * 2.0 * error
    before = _earlier(site, trace, "memory_momentum", tokens - 1, "j")
    formula = sigmoid(_gate(site, "persistence", "t")) * before - step * _unit(
        site, "key", "t", "j", width
    )
    return _square(
        message("equations.the-momentum-of-the-memory"), formula, "η S before - θ 2 (M k - v) k"
    )


def _square(name: str, formula: Formula, text: str) -> Equation:
    return Equation(
        formula=formula,
        axes=("t", "i", "j"),
        title=lambda env: message(
            "equations.row-column-of-after-token", i=env["i"], j=env["j"], name=name, t=env["t"]
        ),
        text=text,
        source=(through_text, "read, state = _read_and_write("),
    )
