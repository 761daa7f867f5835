"""The numbers of a sentence for the page, from a trace."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple, cast

import torch
from torch import Tensor

from pellucid.catalogue import message
from pellucid.errors import PellucidError
from pellucid.explain import Trace, trace
from pellucid.explain.backward_segments import is_large
from pellucid.explain.chapter_types import Place
from pellucid.explain.forward_pass import Side
from pellucid.explain.inspection import Inspection, Request, inspect
from pellucid.explain.trace_comparison import Comparison
from pellucid.explain.trace_types import Progress
from pellucid.runs import Run
from pellucid.typed import length, to_list
from pellucid.web.requests import Scale

#: Most tokens that attention is drawn from.
_MOST_READ = 6


class Attention(NamedTuple):
    """A stack's attention to its own text or, if it `crosses`, to an encoder's."""

    stack: str
    crosses: bool = False


class SentenceView:
    """A trace with the numbers for the page; its chapters compare it with `versus`."""

    def __init__(self, trace: Trace, versus: Trace | None = None) -> None:
        self.trace, self.versus = trace, versus
        attentions = [Attention(side) for side in trace.sides]
        attentions += [Attention("decoder", crosses=True)] if len(attentions) == 2 else []
        self._heads = {attention: self._count_heads(attention) for attention in attentions}
        self._lengths: dict[str, Sequence[float]] = {}
        self._reads: dict[tuple[Attention, int], list[list[list[float]]] | None] = {}

    @property
    def pieces(self) -> Sequence[str]:
        """The tokens as text, special ones by name."""
        return self.trace.sentence.pieces

    @property
    def ids(self) -> Sequence[int]:
        """The tokens' ids."""
        return self.trace.sentence.ids

    @property
    def spare(self) -> Sequence[str]:
        """The pieces of the encoder's text; empty without an encoder-decoder."""
        return self.trace.sentence.source_pieces

    @property
    def heads(self) -> Mapping[Attention, Sequence[int]]:
        """How many heads each layer has, by attention; 0 if a layer has no weights to show."""
        return self._heads

    @property
    def notes(self) -> Sequence[str]:
        """Notes on how the sentence is read."""
        return self.trace.sentence.notes

    def weights(self, attention: Attention, layer: int) -> Tensor | None:
        """(heads, queries, keys) after the softmax; None if the layer has no weights."""
        count = self._heads[attention][layer]
        head_weights = [
            self.trace[f"{_head_address(attention, layer, n)}.weights"] for n in range(count)
        ]
        return torch.stack(head_weights) if head_weights else None

    def norms(self, stack: str) -> Tensor:
        """(layers + 1, tokens): lengths of the residual stream before each layer and at the end."""
        states = self.trace.stack_pass(cast("Side", stack)).states
        return torch.stack([state[0].float().square().sum(-1).sqrt() for state in states])

    def read_most(self, attention: Attention, layer: int) -> list[list[list[float]]] | None:
        """By token: the places from which all heads of a layer take most, each with its share."""
        key = (attention, layer)
        if key not in self._reads:
            weights = self.weights(attention, layer)
            if weights is None:
                self._reads[key] = None
            else:
                shares, places = weights.float().mean(0).topk(min(_MOST_READ, weights.shape[-1]))
                rows = zip(to_list(places), to_list(shares), strict=True)
                self._reads[key] = [
                    [[place, share] for place, share in zip(*row, strict=True) if share > 0]
                    for row in rows
                ]
        return self._reads[key]

    def length(self, address: str, token: int) -> float | None:
        """The length of the vector at a token; the largest of scores; None without such a row."""
        if address not in self._lengths:
            rows = self.trace[address].float()
            finite = rows.masked_fill(~rows.isfinite(), -math.inf)
            is_map = address.endswith((".scores", ".weights", "logits"))
            lengths = finite.amax(-1) if is_map else rows.square().sum(-1).sqrt()
            self._lengths[address] = to_list(lengths.reshape(-1))
        lengths = self._lengths[address]
        return lengths[token] if token < len(lengths) else lengths[-1] if lengths else None

    def surprisals(self) -> Sequence[float | None]:
        """-log2 p of each token after its context; None for a token without a prediction."""
        if not self.trace.predicts or len(self.ids) < 2:
            return [None] * len(self.ids)
        return [None, *(float(nats) / math.log(2) for nats in self.trace["surprisal"])]

    def logits(self, token: int) -> Tensor | None:
        """(vocabulary,) at a token; None for a model without a language head."""
        return self.trace.logits_at(token).float() if self.trace.model.has_head else None

    def lens(self, token: int) -> Tensor | None:
        """(layers + 1, vocabulary): the logits if the model ended after each layer."""
        model = self.trace.model
        if not model.has_head:
            return None
        stack_pass = self.trace.stack_pass(self.trace.side)
        with torch.no_grad():
            # the whole text goes through the norm, because some norms are over all of it
            states = [
                model.readable(stack_pass.stack.final_norm(state)) for state in stack_pass.states
            ]
            return model.logits(torch.stack([state[0, token] for state in states])).float()

    def token_text(self, token_id: int) -> str:
        """A token of the vocabulary as text; an unused row as its number."""
        spelling = self.trace.spelling
        return f"#{token_id}" if spelling is None else spelling.any_piece(token_id)

    @property
    def has_loss(self) -> bool:
        """Whether there is a loss, so that a backward pass is possible."""
        return "loss" in self.trace.addresses()

    @property
    def large(self) -> bool:
        """Whether the backward pass takes more than a moment."""
        return is_large(self.trace)

    @property
    def has_gradients(self) -> bool:
        """Whether the backward pass is done."""
        return self.trace.has_gradients

    def run_backward(self, progress: Progress) -> None:
        """Run the backward pass; `progress` is called with segments done, and their number."""
        self.trace.backward(progress)

    def gradients(self, stack: str) -> Sequence[float]:
        """The lengths of the stream's gradient before each layer and at the end."""
        gradients = self.trace.backward()
        return [length(grad) for grad in gradients.stream(cast("Side", stack))]

    def parameters(self) -> Mapping[str, Sequence[int]]:
        """Shapes of all weights with a gradient, by name."""
        norms = self.trace.backward().norms
        parameters = self.trace.model.named_parameters()
        return {name: tuple(weight.shape) for name, weight in parameters if name in norms}

    def match_token(self, token: int, other: SentenceView) -> int | str:
        """The index of a token in `other`, or why their probabilities cannot be compared."""
        comparison = Comparison(self.trace, other.trace)
        place = comparison.paired_token(token)
        if comparison.why_not is not None or place is None:
            return comparison.why_not or message("no-match")
        return place

    def inspect(self, place: Place, *chapters: str) -> Inspection:
        """Chapters at a place.

        Raises:
            PellucidError: There is no such chapter or place.
        """
        request = Request(trace=self.trace, chapters=chapters, place=place, versus=self.versus)
        return inspect(request)

    def _count_heads(self, attention: Attention) -> tuple[int, ...]:
        """Heads with a map, by layer; unknown attention has none."""
        addresses = self.trace.addresses()
        counts: list[int] = []
        for layer in range(self.trace.n_layers(cast("Side", attention.stack))):
            n = 0
            while f"{_head_address(attention, layer, n)}.weights" in addresses:
                n += 1
            counts.append(n)
        return tuple(counts)


def open_view(
    run: Run, sentence: str | Sequence[int], scales: Sequence[Scale], versus: SentenceView | None
) -> SentenceView:
    """Trace a sentence.

    Args:
        run: The run whose model reads it.
        sentence: Its text, or its token ids.
        scales: Factors of some heads.
        versus: A view for its chapters to compare with.

    Raises:
        PellucidError: The sentence cannot be read, or there is no such head.
    """
    sentence_trace = trace(run, sentence)
    if scales:
        sentence_trace = sentence_trace.with_heads(
            {_scaled_head(scale): scale.factor for scale in scales}
        )
    return SentenceView(sentence_trace, None if versus is None else versus.trace)


def _scaled_head(scale: Scale) -> str:
    if scale.stack not in ("decoder", "encoder"):
        raise PellucidError(message("bad-stack"))
    return _head_address(Attention(scale.stack, scale.cross), scale.layer, scale.head)


def _head_address(attention: Attention, layer: int, head: int) -> str:
    """The address of a head."""
    letter = "E" if attention.stack == "encoder" else "L"
    return f"{letter}{layer}.H{head}" + (".cross" if attention.crosses else "")
