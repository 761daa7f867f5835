"""The outputs: what a head reads, logits, probabilities, surprisal and the loss; or classes."""

from __future__ import annotations

from typing import assert_never

import torch

from pellucid.catalogue import message
from pellucid.explain import outputs
from pellucid.explain.addresses.site import Site
from pellucid.explain.equations.equation import (
    Equation,
    Source,
    dot,
    softmax,
)
from pellucid.explain.equations.feed_forward import ACTIVATIONS
from pellucid.explain.equations.linear import product
from pellucid.explain.equations.norms import normalise
from pellucid.explain.equations.vocabulary import class_scores
from pellucid.explain.formulas.nodes import (
    Formula,
    Index,
    Read,
    Total,
    setting,
)
from pellucid.explain.losses.names import piece
from pellucid.explain.trace_types import Trace
from pellucid.model import HeadTransform, LanguageHead
from pellucid.model.facts import (
    ClassificationHeadFacts,
    HeadTransformFacts,
    IdentityFacts,
    LanguageHeadFacts,
    NoHeadFacts,
    UnknownFacts,
    head_facts,
    transform_facts,
)
from pellucid.model.output_head import ClassificationHead

_SOFTMAX_SOURCE: Source = (outputs.read_probabilities, 'torch.softmax(widen(trace["logits"])')


def head_dense(trace: Trace, site: Site) -> Equation:
    """The first step of the head's own transform."""
    formula, text = product(
        trace, "head_transform.dense", lambda axis: Read("final_norm", ("t", axis), "x")
    )
    return Equation(
        formula=formula,
        axes=("t", "f"),
        title=lambda env: message("equations.feature-of-the-head-dense", f=env["f"], t=env["t"]),
        text=text,
        source=(HeadTransform.forward, "x = self.dense(x)"),
    )


def hidden(trace: Trace, site: Site) -> Equation | str:
    """scale transform(x): the state as the head's matrix reads it."""
    facts = head_facts(trace.model.output_head)
    match facts:
        case LanguageHeadFacts(transform=transform, scale=scale):
            pass
        case ClassificationHeadFacts() | NoHeadFacts() | UnknownFacts():
            return "pellucid does not know this head"
        case _:
            assert_never(facts)
    match transform:
        case IdentityFacts():
            formula: Formula = Read("final_norm", ("t", "f"), "x")
            text = "x"
        case HeadTransformFacts():
            result = _transformed(trace, transform, "head_transform", "t")
            if result is None:
                return "pellucid has no formula for the head's transform"
            formula, text = result
        case UnknownFacts(reason=reason):
            return f"pellucid has no formula for the head's transform: {reason}"
        case _:
            assert_never(transform)
    if scale != 1.0:
        formula, text = formula * setting(scale, "scale"), f"({text}) × scale"
    return Equation(
        formula=formula,
        axes=("t", "f"),
        title=lambda env: message("equations.feature-of-the-state-that", f=env["f"], t=env["t"]),
        text=text,
        source=(LanguageHead.readable, "return states if self.scale"),
    )


def _transformed(
    trace: Trace, facts: HeadTransformFacts, path: str, time: str | None
) -> tuple[Formula, str] | None:
    """norm(activation(dense)), from the numbers of the dense layer."""
    if facts.activation is None:
        return None
    name, activate = "x", _unchanged
    if facts.activation != "identity":
        name, activate = ACTIVATIONS[facts.activation]

    def x(token: str, feature: Index) -> Formula:
        place = (feature,) if time is None else (token, feature)
        return activate(Read(f"{path}.{facts.dense}", place, "x"))

    result = normalise(
        trace, f"{path}.{facts.norm}", x, numbers=torch.arange(facts.width), width=facts.width
    )
    if result is None:
        return None
    return result[0], name if result[1] == "x" else f"{result[1]}; x = {name}"


def _unchanged(x: Formula) -> Formula:
    return x


def logits(trace: Trace, site: Site) -> Equation:
    """A row of the head times its input, with its bias and cap if it has them."""
    model = trace.model
    table = "token_embedding.weight" if model.head is None else "head.weight"
    width = model.head_weight.shape[1]
    formula: Formula = dot(
        "j", width, Read(table, ("v", "j"), "W"), Read("hidden", ("t", "j"), "h")
    )
    text = "W · h"
    if model.head_bias is not None:
        formula, text = formula + Read("head_bias", ("v",), "b"), f"{text} + b"
    if model.soft_cap is not None:
        cap = setting(model.soft_cap, "cap")
        formula, text = cap * (formula / cap).apply("tanh"), f"cap × tanh(({text}) / cap)"
    return Equation(
        formula=formula,
        axes=("t", "v"),
        title=lambda env: message(
            "equations.logit-of-after-token", word=piece(trace, env["v"]), t=env["t"]
        ),
        text=text,
        source=(LanguageHead.logits, "F.linear(hidden"),
    )


def probabilities(trace: Trace, site: Site) -> Equation:
    """exp(z - max) over its sum over the whole vocabulary."""

    def z(word: str) -> Formula:
        return Read("logits", ("t", word), "z")

    return Equation(
        formula=softmax(z("v"), z, trace.model.head_weight.shape[0]),
        axes=("t", "v"),
        title=lambda env: message(
            "equations.probability-of-after-token", word=piece(trace, env["v"]), t=env["t"]
        ),
        text="exp(z - max) / Σ exp(z - max)",
        source=_SOFTMAX_SOURCE,
    )


def _class_facts(trace: Trace) -> ClassificationHeadFacts:
    facts = head_facts(trace.model.output_head)
    assert isinstance(facts, ClassificationHeadFacts)
    return facts


def _pooled(trace: Trace, facts: ClassificationHeadFacts, feature: str) -> tuple[Formula, str]:
    """One vector for the text: the first state, the last, or the mean of all."""
    n = trace.stack_pass(trace.side).ids.shape[1]
    match facts.pooling:
        case "first":
            return Read("final_norm", (0, feature), "x"), "the first x"
        case "last":
            return Read("final_norm", (n - 1, feature), "x"), "the last x"
        case "mean":
            mean = Total("t", n, Read("final_norm", ("t", feature), "x")) / setting(n, "n")
            return mean, "Σ x / n"
        case _:
            assert_never(facts.pooling)


def pooler(trace: Trace, site: Site) -> Equation:
    """The dense layer on the pooled state, before its tanh."""
    facts = _class_facts(trace)
    formula, text = product(trace, "pooler", lambda axis: _pooled(trace, facts, axis)[0])
    return _vector(message("word.of-the-pooler"), formula, text, "model.pooler(pooled)")


def _after_pooling(trace: Trace, feature: str) -> tuple[Formula, str]:
    facts = _class_facts(trace)
    if facts.pooler:
        return Read("pooler", (feature,), "x").apply("tanh"), "tanh(x)"
    return _pooled(trace, facts, feature)


def classifier_dense(trace: Trace, site: Site) -> Equation:
    """The first step of the transform before the classes."""
    formula, text = product(
        trace, "classifier_transform.dense", lambda axis: _after_pooling(trace, axis)[0]
    )
    return _vector(
        message("equations.of-the-dense-layer"), formula, text, "model.classifier_transform(pooled)"
    )


def class_state(trace: Trace, site: Site) -> Equation | str:
    """The vector that the matrix of the classes reads."""
    facts = _class_facts(trace)
    transform = transform_facts(trace.model.classifier_transform or torch.nn.Identity())
    match transform:
        case IdentityFacts():
            formula, text = _after_pooling(trace, "f")
        case HeadTransformFacts():
            result = _transformed(trace, transform, "classifier_transform", None)
            if result is None:
                return "pellucid has no formula for the transform of this head"
            formula, text = result
        case UnknownFacts(reason=reason):
            return f"pellucid has no formula for the transform of this head: {reason}"
        case _:
            assert_never(transform)
    line = "pooled = pool(states" if facts.pooling == "mean" else "return model.classifier("
    return _vector(message("equations.that-the-classes-are-read"), formula, text, line)


def _vector(name: str, formula: Formula, text: str, line: str) -> Equation:
    return Equation(
        formula=formula,
        axes=("f",),
        title=lambda env: message("equations.feature", f=env["f"], name=name),
        text=text,
        source=(ClassificationHead.forward, line),
    )


def class_logits(trace: Trace, site: Site) -> Equation:
    """A row of the matrix of the classes."""
    formula, text = product(trace, "classifier", lambda axis: Read("class_state", (axis,), "x"))
    return Equation(
        formula=formula,
        axes=("f",),
        title=lambda env: message("equations.logit-of-class", f=env["f"]),
        text=text,
        source=(ClassificationHead.forward, "return model.classifier("),
    )


def class_probabilities(trace: Trace, site: Site) -> Equation:
    """exp(z - max) over its sum over all classes."""
    return Equation(
        formula=class_scores(trace).share("f"),
        axes=("f",),
        title=lambda env: message("equations.probability-of-class", f=env["f"]),
        text="exp(z - max) / Σ exp(z - max)",
        source=(outputs.read_class_probabilities, "torch.softmax("),
    )
