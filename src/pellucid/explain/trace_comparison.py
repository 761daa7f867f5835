"""Two traces compared: the pairs of places that belong together, and their differences.

Two places are a pair if both models have read the same ids there, or, with different vocabularies,
the same characters of one text. Two texts in one vocabulary are paired at the stretches that both
have, and at their ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property
from itertools import pairwise
from typing import Any

from pellucid.catalogue import message
from pellucid.explain.outputs import distribution_at
from pellucid.explain.trace_types import Trace
from pellucid.maths.divergences import kl_divergence
from pellucid.reader import parse_json_table
from pellucid.tokenizers import Tokenizer


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedText:
    """Characters that both read, and their cost in each, in nats."""

    text: str
    first: float
    second: float


class Comparison:
    """The comparison of two traces."""

    def __init__(self, first: Trace, second: Trace) -> None:
        self.first, self.second = first, second
        self.same_ids = first.sentence.ids == second.sentence.ids and (
            first.sentence.source_ids == second.sentence.source_ids
        )

    @cached_property
    def same_words(self) -> bool:
        """Whether an id is the same word in both."""
        first, second = self.first, self.second
        rows = [trace.model.token_embedding.num_embeddings for trace in (first, second)]
        if rows[0] != rows[1]:
            return False
        tokenizers = [
            None if trace.run is None else trace.run.tokenizer for trace in (first, second)
        ]
        if tokenizers[0] is None or tokenizers[1] is None:
            return True  # bare ids: whoever passed them says what they are
        return tokenizers[0] is tokenizers[1] or _words(tokenizers[0]) == _words(tokenizers[1])

    @cached_property
    def why_not(self) -> str | None:
        """Why no probability can be compared; None if some can."""
        first, second = self.first, self.second
        for trace in (first, second):
            if not trace.model.has_head:
                return message("trace_comparison.one-of-the-two-gives")
        if first.predicts != second.predicts:
            return message("trace_comparison.one-of-the-two-predicts")
        if not self.same_words:
            return message("trace_comparison.the-vocabularies-differ-so-probabilities") + (
                message("trace_comparison.the-cost-of-the-same") if self.shared_texts else ""
            )
        return None

    @cached_property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """Pairs of places: (in the first, in the second), in order."""
        first, second = self.first, self.second
        if self.same_ids and self.same_words:
            return tuple((place, place) for place in range(len(first.ids)))
        if self.same_words:
            matcher = SequenceMatcher(None, first.sentence.ids, second.sentence.ids, autojunk=False)
            blocks = matcher.get_matching_blocks()
            pairs = {(a + n, b + n) for a, b, size in blocks for n in range(size)}
            return tuple(sorted(pairs | {(len(first.ids) - 1, len(second.ids) - 1)}))
        ends = [_ends(trace) for trace in (first, second)]
        if None in ends or first.sentence.text != second.sentence.text:
            return ()
        first_places, second_places = (
            {end: n for n, end in enumerate(trace_ends or ())} for trace_ends in ends
        )
        return tuple(
            (first_places[end], second_places[end])
            for end in sorted(first_places.keys() & second_places.keys())
        )

    def paired_token(self, token: int) -> int | None:
        """The place in the second that belongs to a place in the first; None if there is none."""
        return dict(self.pairs).get(token % len(self.first.ids))

    def divergences(self, token: int, place: int) -> tuple[float, float]:
        """KL(first | second) and KL(second | first) of the predictions at a pair, in nats."""
        p, q = distribution_at(self.first, token), distribution_at(self.second, place)
        return float(kl_divergence(p, q)), float(kl_divergence(q, p))

    @cached_property
    def shared_texts(self) -> tuple[SharedText, ...]:
        """The cost of the same characters, if both predict each token of one text."""
        first, second = self.first, self.second
        if not self.pairs or not (first.predicts and second.predicts) or self.same_words:
            return ()
        costs = [trace["surprisal"].double() for trace in (first, second)]
        ends = _ends(first) or ()
        return tuple(
            SharedText(
                text=first.sentence.text[ends[a] : ends[b]],
                first=float(costs[0][a:b].sum()),
                second=float(costs[1][u:v].sum()),
            )
            for (a, u), (b, v) in pairwise(self.pairs)
        )


def _words(tokenizer: Tokenizer) -> Any:
    table = parse_json_table(tokenizer.to_json(), message("word.the-tokenizer"))
    return table["model"].get("vocab"), [
        (token["id"], token["content"]) for token in table["added_tokens"]
    ]


def _ends(trace: Trace) -> tuple[int, ...] | None:
    """How many characters of the text precede each place; None if that is unknown."""
    tokenizer = None if trace.run is None else trace.run.tokenizer
    if tokenizer is None or trace.sentence.kind != "decoder":
        return None
    spans = tokenizer.spans(trace.sentence.text)
    if len(spans) + 1 != len(trace.ids):
        return None
    return (0, *(end for _, end in spans))
