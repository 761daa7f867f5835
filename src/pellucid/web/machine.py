"""The machine as a tree of parts: stack, layer, attention, head, step; and its numbers at a token.

Which parts there are follows from the addresses of the trace, their order from what blocks state
about themselves. A part's number is the length of the vector that it gives at the token.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, assert_never

from torch import nn

from pellucid.explain.addresses.syntax import stack_letter
from pellucid.explain.forward_pass import Side
from pellucid.model.facts import BlockFacts, UnknownFacts, block_facts
from pellucid.web.json_payload import Plain
from pellucid.web.sentence_view import Attention, SentenceView

#: The steps of a head, in their order, and the chapter of each.
_STEPS = {
    "q": "qkv",
    "k": "qkv",
    "v": "qkv",
    "scores": "scores",
    "weights": "softmax",
    "out": "softmax",
}
_SUBLAYERS = ("attention", "cross_attention", "feed_forward")


def machine(sentence: SentenceView, side: Side, token: int) -> Plain:
    """The parts of a stack in the order of the flow.

    Args:
        sentence: The view.
        side: The stack.
        token: The index of the token, in the text that the stack reads.
    """
    return {"stack": side, "parts": list(_Machine(sentence, side, token).parts())}


class _Machine:
    """One stack at one token."""

    def __init__(self, sentence: SentenceView, side: Side, token: int) -> None:
        self._sentence, self._token = sentence, token
        self._side: Side = side
        self._addresses = sentence.trace.addresses()
        trace = sentence.trace
        self._prefix = "" if side == trace.side else "encoder."
        self._stack = trace.stack_pass(side).stack

    def parts(self) -> Iterator[Plain]:
        """The parts of the stack."""
        model = self._sentence.trace.model
        yield self._part("embedding", "embedding", "embedding", model.token_embedding)
        positions = self._stack.embedding_positions or self._stack.positions
        yield from self._optional("positions", "positions", positions)
        yield from self._optional("input_norm", "embedding", self._stack.input_norm)
        yield from self._optional("input_projection", "embedding", self._stack.input_projection)
        for layer in range(len(self._stack.blocks)):
            yield self._layer(layer)
        yield from self._optional("final_norm", "lens", self._stack.final_norm)
        if self._side == self._sentence.trace.side:
            chapters = {"logits": "probabilities", "class_logits": "loss", "loss": "loss"}
            for name, chapter in chapters.items():
                head = model.head if name == "logits" else model.classifier
                yield from self._optional(name, chapter, None if name == "loss" else head)

    def _optional(self, name: str, chapter: str, module: nn.Module | None) -> Iterator[Plain]:
        if f"{self._prefix}{name}" in self._addresses:
            yield self._part(name, name, chapter, module)

    def _part(
        self, name: str, kind: str, chapter: str, module: nn.Module | None, **fields: Any
    ) -> Plain:
        """A part, whose vectors are at an address of the stack."""
        address = name if re.match(r"[LE]\d", name) else f"{self._prefix}{name}"
        weights = 0 if module is None else sum(weight.numel() for weight in module.parameters())
        part: Plain = {"id": address, "kind": kind, "chapter": chapter, "parts": []}
        return part | {"weights": weights, "value": self._value(address)} | fields

    def _value(self, address: str) -> float | None:
        """The number of a part in five digits; None if the trace has none."""
        if address not in self._addresses:
            return None
        value = self._sentence.length(address, self._token)
        return None if value is None else float(f"{value:.5g}")

    def _layer(self, number: int) -> Plain:
        block, name = self._stack.blocks[number], f"{stack_letter(self._side)}{number}"
        facts = block_facts(block)
        parts: list[Plain] = []
        for sublayer in _SUBLAYERS:
            if f"{name}.{sublayer}" in self._addresses:
                parts += self._sublayer(block, number, sublayer, facts)
        is_parallel = isinstance(facts, BlockFacts) and facts.order == "parallel"
        layer = self._part(name, "layer", "residual", block, parts=parts, parallel=is_parallel)
        return layer | {"value": self._value(f"{stack_letter(self._side)}{number + 1}.residual")}

    def _sublayer(
        self, block: nn.Module, number: int, sublayer: str, facts: BlockFacts | UnknownFacts
    ) -> list[Plain]:
        """A sublayer with its norms where they act, and the sum that it joins."""
        name, crosses = f"{stack_letter(self._side)}{number}", sublayer == "cross_attention"
        part = self._part(
            f"{name}.{sublayer}",
            sublayer,
            "feed-forward" if sublayer == "feed_forward" else "heads",
            block.get_submodule(sublayer),
        )
        if sublayer == "feed_forward":
            part["parts"] = self._units(name)
        else:
            part |= self._heads(name, number, crosses=crosses)
        norms = [
            self._part(address, "norm", "norm", block.get_submodule(path))
            for path in (f"{sublayer}_norm{end}" for end in ("", ".before", ".after"))
            if (address := f"{name}.{path}") in self._addresses
        ]
        residual = facts.residual if isinstance(facts, BlockFacts) else facts
        if isinstance(residual, UnknownFacts):
            return [part]  # where its norms and sums are is not known
        adds: list[Plain] = [{"kind": "adds", "id": f"{name}.{sublayer} adds", "parts": []}]
        if residual.carried == 0:
            adds = []  # nothing bypasses the layer
        match residual.norm:
            case "input":
                return [*norms, part, *adds]
            case "sum":
                return [part, *adds, *norms]
            case "output":
                return [part, *norms, *adds]
            case "sandwich":
                return [*norms[:1], part, *norms[1:], *adds]
            case _:
                assert_never(residual.norm)

    def _units(self, name: str) -> list[Plain]:
        """The experts of a feed-forward layer, or its own steps."""
        layer = f"{name}.feed_forward"
        experts = [a for a in self._addresses if re.fullmatch(rf"{layer}\.experts\.\d+", a)]
        steps = [f"{layer}.{step}" for step in ("gate", "up", "units")]
        kind = "expert" if experts else "step"
        return [
            self._part(address, kind, "feed-forward", None)
            for address in experts or steps
            if address in self._addresses
        ]

    def _heads(self, name: str, number: int, *, crosses: bool) -> Plain:
        """The heads of an attention, and from which tokens they take most together."""
        heads: list[Plain] = []
        suffix = ".cross" if crosses else ""
        while f"{name}.H{len(heads)}{suffix}.out" in self._addresses:
            head = f"{name}.H{len(heads)}{suffix}"
            steps = [
                [step, chapter, self._value(f"{head}.{step}")]
                for step, chapter in _STEPS.items()
                if f"{head}.{step}" in self._addresses
            ]
            heads.append(self._part(head, "head", "softmax", None, steps=steps))
            heads[-1]["value"] = self._value(f"{head}.out")
        reads = self._sentence.read_most(Attention(self._side, crosses), number)
        return {"parts": heads, "reads": [] if reads is None else reads[self._token]}
