"""Entries: the docstrings of equations, divided into their sections."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from pellucid import maths
from pellucid.textbook.concept import Concept, home_of
from pellucid.textbook.examples import Computed, compute

#: Topics in reading order, each with its modules.
_CHAPTERS: dict[str, tuple[str, ...]] = {
    "softmax": ("softmax", "logistic", "saturation"),
    "cross-entropy": ("cross_entropy", "binary_cross_entropy", "likelihood", "output_head"),
    "divergences": ("divergences", "distillation", "gaussian_kl"),
    "norms": ("norms", "batch_norm", "weight_norms"),
    "attention": (
        "attention.attention",
        "attention.self_attention",
        "attention.masks",
        "attention.attention_vitals",
        "attention.latent_attention",
        "attention.linear_attention",
    ),
    "positions": (
        "positions.sinusoids",
        "positions.rotary",
        "positions.rotary_scaling",
        "positions.relative_positions",
        "positions.disentangled",
    ),
    "activations": ("activations", "gated_activations", "error_function"),
    "blocks": (
        "layers.feed_forward",
        "layers.block",
        "residuals",
        "layers.lora",
        "layers.quantization",
    ),
    "experts": ("experts.routing", "experts.balancing"),
    "penalties": ("penalties",),
    "initialisation": ("initialisation",),
    "optimisers": ("optimisers", "clipping", "schedules"),
    "sampling": ("sampling",),
    "preference and policy": ("dpo", "policy_gradient"),
    "classification": ("classification",),
    "memory": ("scans", "neural_memory"),
    "tokens": ("counting.tokens",),
    "counts": ("counting.model_size",),
}
_SECTION = re.compile(r"^(Args|Units|Gradient|Fails|Raises|Source|See also|Example):$", re.M)
_FORMULA = re.compile(r"=|<-|->|softmax\(|sqrt|sum_|\^|p_i|sign\(|max_| / |w_i")


@dataclass(frozen=True, slots=True)
class Entry:
    """One equation, in the words of its docstring.

    Attributes:
        name: of the function in `pellucid.maths`.
        topic: the module that holds it.
        signature: of the function.
        summary: the first sentence.
        formula: the equation.
        notes: what else the docstring says.
        shapes: of the arguments and the result.
        units: of the result.
        gradient: by hand, if it is used.
        fails: where rounding or few numbers lead astray.
        raises: what it refuses.
        source: the publication.
        see_also: related equations.
        expressions: examples, in Python.
        concept: the term that the equation belongs to.
    """

    name: str
    topic: str
    signature: str
    summary: str
    formula: str
    notes: str
    shapes: str
    units: str
    gradient: str
    fails: str
    raises: str
    source: str
    see_also: str
    expressions: tuple[str, ...]
    concept: Concept | None

    def examples(self) -> tuple[Computed, ...]:
        """Its examples, computed now."""
        return tuple(map(compute, self.expressions))


def topics() -> dict[str, tuple[str, ...]]:
    """The names of all equations by topic, without gradients: their equations show them."""
    return {
        topic: tuple(
            name
            for module in modules
            for name in _in_order(module)
            if not name.endswith(("_grad", "_grads"))
        )
        for topic, modules in _CHAPTERS.items()
    }


def _in_order(module: str) -> list[str]:
    """The public equations of a module, in the order of its file."""
    members = vars(import_module(f"pellucid.maths.{module}"))
    return [
        name
        for name, member in members.items()
        if name in maths.__all__ and member.__module__ == f"pellucid.maths.{module}"
    ]


def entry(name: str, concept: Concept | None = None) -> Entry:
    """The entry of the equation called `name`, with the concept that it was looked up by."""
    function: Any = getattr(maths, name)
    head, sections = _parts(inspect.getdoc(function) or "")
    summary, *body = head.split("\n\n")
    # short entries have their formula in the first line, before a colon
    formula_line = body.pop(0) if body and _FORMULA.search(body[0]) else ""
    formula = formula_line or summary.split(":")[0]
    module = inspect.unwrap(function).__module__.removeprefix("pellucid.maths.")
    (topic,) = (topic for topic, modules in _CHAPTERS.items() if module in modules)
    return Entry(
        name=name,
        topic=topic,
        signature=f"{name}{_arguments(function)}",
        summary=" ".join(summary.split()),
        formula=formula,
        notes="\n\n".join(body),
        shapes=sections.get("Args", ""),
        units=sections.get("Units", ""),
        gradient=_gradient(name, sections.get("Gradient", "")),
        fails=sections.get("Fails", ""),
        raises=sections.get("Raises", ""),
        source=sections.get("Source", ""),
        see_also=sections.get("See also", ""),
        expressions=_expressions(sections.get("Example", "")),
        concept=concept or home_of(name),
    )


def _parts(docstring: str) -> tuple[str, dict[str, str]]:
    """The text before the first section, and the sections."""
    head, *pieces = _SECTION.split(docstring)
    names, texts = pieces[::2], pieces[1::2]
    return head.strip(), {
        name: inspect.cleandoc("\n" + text).strip("\n")
        for name, text in zip(names, texts, strict=True)
    }


def _arguments(function: Any) -> str:
    names: list[str] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in names:
            names.append("*")
        names.append(
            parameter.name
            if parameter.default is parameter.empty
            else f"{parameter.name}={parameter.default}"
        )
    return f"({', '.join(names)})"


def _gradient(name: str, section: str) -> str:
    """The section, below the formulas of the functions that it names."""
    names = [
        function_name
        for function_name in re.findall(r"`(\w+_grads?)`", section) or [f"{name}_grad"]
        if function_name in maths.__all__
    ]
    formulas = [
        "\n".join(_parts(inspect.getdoc(getattr(maths, function_name)) or "")[0].split("\n\n")[1:2])
        for function_name in names
    ]
    return "\n".join(text for text in (*formulas, section or ", ".join(names)) if text)


def _expressions(text: str) -> tuple[str, ...]:
    """One expression a line; an indented line continues the one before."""
    joined = re.sub(r"\n +", " ", text)
    return tuple(line for line in joined.splitlines() if line)
