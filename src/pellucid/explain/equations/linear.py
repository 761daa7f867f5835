"""Linear layers: W x + b, with a LoRA update; and matrices that other parameters make."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, assert_never, cast

from torch import Tensor, nn
from torch.nn.utils import parametrize

from pellucid.catalogue import message
from pellucid.explain.addresses.site import Site
from pellucid.explain.equations.equation import (
    Equation,
    Source,
    Text,
    block_path,
    dot,
    layer_name,
)
from pellucid.explain.formulas.nodes import Formula, Index, Read, Total, setting
from pellucid.explain.part_facts import projection_input
from pellucid.explain.trace_types import Trace
from pellucid.model import LoRALinear
from pellucid.model.facts import LinearFacts, LoRAFacts, UnknownFacts, linear_facts
from pellucid.model.reparametrisation import spectral_norm, weight_norm
from pellucid.typed import named_modules

#: The line that projects, by the kind of attention; other kinds have one line for all three.
_PROJECTION_LINES = {
    ("MultiHeadAttention", "query"): "self.query(x)",
    ("MultiHeadAttention", "key"): "self.key(x)",
    ("MultiHeadAttention", "value"): "self.value(x)",
    ("MultiHeadAttention", "output_gate"): "self.output_gate(x)",
    ("LatentAttention", "query_latent"): "self.query_latent(x)",
    ("LatentAttention", "query"): "self.query(x)",
    ("LatentAttention", "latent"): "self.latent(x)",
    ("LatentAttention", "rotated_key"): "self.rotated_key(x)",
    ("LatentAttention", "key"): "self.key(latents)",
    ("LatentAttention", "value"): "self.value(latents)",
    ("CrossAttention", "query"): "self.query(",
    ("CrossAttention", "key"): "self.key(states)",
    ("CrossAttention", "value"): "self.value(states)",
    ("NeuralMemory", "memory_query"): "self.memory_query, x",
    ("NeuralMemory", "memory_key"): "self.memory_key, x",
    ("NeuralMemory", "memory_value"): "self.memory_value, x",
}
_JOINT_LINE = "(self.query, self.key"


def product(
    trace: Trace,
    layer: str,
    x: Callable[[str], Formula],
    row: Index = "f",
    *,
    parts: str = "",
) -> tuple[Formula, str]:
    """W x + b of a row of a linear layer, and its text.

    Args:
        trace: the sentence.
        layer: the name of the linear layer in the model.
        x: makes the input over an axis of features.
        row: of the matrix.
        parts: the address of the layer, if an update that acts has addresses of its own there:
            the formula reads them.
    """
    module = cast("nn.Linear", trace.model.get_submodule(layer))
    facts, weight = linear_facts(module), "weight"
    adapter: LoRAFacts | None = None
    match facts:
        case LoRAFacts(active=False, merged=True):
            weight = "unmerged_weight"
        case LoRAFacts(active=True, merged=False):
            adapter = facts
        case LoRAFacts() | LinearFacts() | UnknownFacts():
            pass
        case _:
            assert_never(facts)
    if parts and adapter is not None:
        base, update = (Read(f"{parts}.{part}", ("t", row), part) for part in ("base", "lora_up"))
        return base + setting(adapter.scale, "lora_scale") * update, "base + lora_scale × lora_up"
    result, text = base_product(module, layer, x("j"), row, weight)
    if adapter is not None:
        down = dot(
            "j", module.in_features, Read(f"{layer}.{adapter.down}", ("r", "j"), "down"), x("j")
        )
        update = Total("r", adapter.rank, Read(f"{layer}.{adapter.up}", (row, "r"), "up") * down)
        result = result + setting(adapter.scale, "lora_scale") * update
        text = f"{text} + lora_scale × up · (down · x)"
    return result, text


def base_product(
    module: nn.Linear, layer: str, x: Formula, row: Index = "f", weight: str = "weight"
) -> tuple[Formula, str]:
    """W x, + b if there is one, and its text.

    Args:
        module: the layer.
        layer: its name in the model.
        x: its input over the axis j.
        row: of the matrix.
        weight: the name of the matrix in the layer.
    """
    formula = dot("j", module.in_features, Read(f"{layer}.{weight}", (row, "j"), "W"), x)
    if cast("Tensor | None", module.bias) is None:
        return formula, "W · x"
    return formula + Read(f"{layer}.bias", (row,), "b"), "W · x + b"


def linear(
    trace: Trace,
    site: Site,
    *,
    layer: str,
    reads: str,
    title: Text,
    line: str,
    parts: str = "",
) -> Equation:
    """W[f] . x + b of a layer whose input is at an address.

    Args:
        trace: the sentence.
        site: of the output.
        layer: the name of the linear layer in the model.
        reads: the address of its input, (time, features).
        title: what a number is.
        line: a text in the line that calls the layer, in the module that holds it.
        parts: as for `product`.
    """
    formula, text = product(trace, layer, lambda axis: Read(reads, ("t", axis), "x"), parts=parts)
    holder = trace.model.get_submodule(layer.rpartition(".")[0])
    return Equation(
        formula=formula,
        axes=("t", "f"),
        title=title,
        text=text,
        source=(_find_class(type(holder), line), line),
    )


def projection(trace: Trace, site: Site) -> Equation | str:
    """A row of the matrix that makes queries, keys, values, gates or latents."""
    kind, _, name = site.part.partition(".")
    attention = trace.model.get_submodule(f"{block_path(site)}.{kind}")
    return linear(
        trace,
        site,
        layer=f"{block_path(site)}.{kind}.{name}",
        reads=projection_reads(trace, site),
        title=lambda env: message("equations.projected", f=env["f"], name=name),
        line=_PROJECTION_LINES.get((type(attention).__name__, name), _JOINT_LINE),
        parts=site.address,
    )


def projection_reads(trace: Trace, site: Site) -> str:
    """The address of what a projection reads."""
    kind, _, name = site.part.partition(".")
    if kind == "cross_attention" and name != "query":
        return "encoder.final_norm"
    attention = trace.model.get_submodule(f"{block_path(site)}.{kind}")
    return f"{layer_name(site)}.{kind}.{projection_input(attention, name)}"


def computed_weight(trace: Trace, site: Site) -> Equation | str:
    """A matrix made of other parameters: by weight norm, spectral norm, or a merged update."""
    layer, _, name = site.part.rpartition(".")
    module = trace.model.get_submodule(layer)
    if isinstance(module, LoRALinear) and module.facts().merged and name == "weight":
        return _merged_weight(layer, module.facts())
    parts = f"{layer}.parametrizations.weight"
    if not parametrize.is_parametrized(module, "weight"):
        return "it is learned: nothing is computed"
    rule = type(cast("Any", module).parametrizations.weight[0]).__name__
    n_rows, n_columns = cast("nn.Linear", module).weight.shape
    if rule == "_WeightNorm":
        v = f"{parts}.original1"
        length = dot("j", n_columns, Read(v, ("i", "j"), "v"), Read(v, ("i", "j"), "v"))
        formula = Read(f"{parts}.original0", ("i", 0), "g") * Read(v, ("i", "c"), "v")
        return Equation(
            formula=formula / length.apply("sqrt"),
            axes=("i", "c"),
            title=message("equations.a-weight-a-length-times"),
            text="g × v / |v|",
            source=(weight_norm, "parametrizations).weight_norm"),
        )
    if rule == "_SpectralNorm":
        w = f"{parts}.original"
        by_row = dot(
            "j", n_columns, Read(w, ("i'", "j"), "w"), Read(f"{parts}.0._v", ("j",), "right")
        )
        sigma = Total("i'", n_rows, Read(f"{parts}.0._u", ("i'",), "left") * by_row)
        return Equation(
            formula=Read(w, ("i", "c"), "w") / sigma,
            axes=("i", "c"),
            title=message("equations.a-weight-over-the-largest"),
            text="w / (left · W right)",
            source=(spectral_norm, "parametrizations).spectral_norm"),
        )
    return f"pellucid has no formula for {rule}"


def _merged_weight(layer: str, facts: LoRAFacts) -> Equation:
    """W + scale up down: the weight that a layer reads while its update is merged."""
    up, down = (
        Read(f"{layer}.{name}", index, name)
        for name, index in ((facts.up, ("i", "r")), (facts.down, ("r", "c")))
    )
    before = Read(f"{layer}.unmerged_weight", ("i", "c"), "W")
    return Equation(
        formula=before + setting(facts.scale, "lora_scale") * dot("r", facts.rank, up, down),
        axes=("i", "c"),
        title=message("equations.a-weight-with-its-low"),
        text="W + lora_scale × up · down",
        source=(LoRALinear.folded, "torch.addmm("),
    )


def computed_weights(trace: Trace) -> list[str]:
    """The names of all matrices that are functions of other parameters."""
    names: dict[int, str] = {}
    for name, module in named_modules(trace.model).items():
        is_merged = isinstance(module, LoRALinear) and module.facts().merged
        is_computed = is_merged or parametrize.is_parametrized(module, "weight")
        if isinstance(module, nn.Linear) and is_computed:
            names.setdefault(id(module), f"{name}.weight")
    return list(names.values())


@functools.cache
def _find_class(holder: type[nn.Module], line: str) -> Any:
    """The class that holds a line of source: this one, or one of its base classes."""
    for kind in holder.__mro__:
        if kind.__module__.startswith("pellucid") and line in inspect.getsource(kind):
            return kind
    raise LookupError(f"{holder.__name__} holds no line {line!r}")


def source_in(holder: nn.Module, line: str) -> Source:
    """The line of a module's class that holds a text."""
    return _find_class(type(holder), line), line
