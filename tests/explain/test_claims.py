"""Each claim of a chapter about a part is there where a measurement finds it, and nowhere else.

Something is changed (a token, the input of a part, a query), and the model is run again: what moves
decides whether the sentence has to be there. Every architecture of the table takes part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch

from pellucid.catalogue import Message
from pellucid.explain import Trace
from pellucid.explain import trace as trace_model
from pellucid.explain.chapter_types import Place
from pellucid.explain.chapters import build_chapter
from pellucid.typed import to_list
from support.models import VARIANTS, build
from support.traced import traced

#: Long enough that the windows of the table hide something.
TIME = 12
LAST = TIME - 1


def parts(text: object) -> Iterator[Message]:
    """A message and the messages in it."""
    if isinstance(text, Message):
        yield text
        for value in text.values.values():
            yield from parts(value)


def messages_of(trace: Trace, chapter: str) -> dict[str, Message]:
    """By key, the messages of a chapter's sentence and notes."""
    built = build_chapter(trace, chapter, Place())
    return {part.key: part for text in (built.sentence, *built.notes) for part in parts(text)}


def same(first: torch.Tensor, second: torch.Tensor, tolerance: float = 1e-4) -> bool:
    return bool(torch.allclose(first, second, rtol=tolerance, atol=tolerance))


def swapped(trace: Trace) -> Trace:
    """The first two tokens change places; both are others than the last one."""
    order = torch.tensor([1, 0, *range(2, TIME)])
    return trace_model(trace.model, ids=trace.ids[order])


def adds_a_vector(trace: Trace) -> bool:
    """Whether a token's input depends on its position."""
    return not same(swapped(trace)["L0.attention.in"][0], trace["L0.attention.in"][1])


def turns_queries(trace: Trace) -> bool:
    """Whether the same input has another query in another place."""
    after = swapped(trace)
    is_input_changed = not same(after["L0.attention.in"][0], trace["L0.attention.in"][1])
    return not is_input_changed and not same(after["L0.H0.q"][0], trace["L0.H0.q"][1])


def products(trace: Trace) -> torch.Tensor:
    """The product of each query with each key."""
    return trace["L0.H0.q"] @ trace["L0.H0.k"].mT


def is_linear(trace: Trace) -> bool:
    """Whether the shares of a query are in proportion to its products, as no softmax has them."""
    visible = trace["L0.H0.mask"].broadcast_to(TIME, TIME)
    shares = torch.where(visible, products(trace), 0)
    total = trace["L0.H0.weights"].sum(-1, keepdim=True)
    return same(trace["L0.H0.weights"], shares / shares.sum(-1, keepdim=True) * total, 1e-6)


def is_capped(trace: Trace) -> bool:
    """Whether scores, before any bias, grow more slowly than the products."""
    if "L0.H0.scores" not in trace.addresses():
        return False
    has_bias = "L0.H0.bias" in trace.addresses()
    scores = trace["L0.H0.scores"] - (trace["L0.H0.bias"] if has_bias else 0)
    slopes = (scores / products(trace)).abs()
    order = products(trace).abs().flatten().argsort()
    return float(slopes.flatten()[order[-1]]) < 0.999 * float(slopes.flatten()[order[0]])


def leaves_something(trace: Trace) -> bool:
    """Whether shares of a softmax add up to less than 1."""
    return not is_linear(trace) and bool((trace["L0.H0.weights"].sum(-1) < 0.9999).any())


def shares_keys(trace: Trace) -> bool:
    return "L0.H1.k" in trace.addresses() and same(trace["L0.H0.k"], trace["L0.H1.k"])


def is_tied(trace: Trace) -> bool:
    """Whether the row of a word that is not in the text makes the word's logit."""
    absent = next(i for i in range(23) if i not in to_list(trace.ids))
    edited = trace.edit(f"token_embedding.weight[{absent}]*=2")
    return not same(edited["logits"][:, absent], trace["logits"][:, absent])


def units_are_alone(trace: Trace) -> bool:
    """Whether the units of one token read nothing that another token's attention wrote."""
    if "L0.feed_forward.units" not in trace.addresses():
        return False
    edited = trace.edit("L0.attention[0]+=1")
    return same(edited["L0.feed_forward"][LAST], trace["L0.feed_forward"][LAST])


def is_a_sum(trace: Trace) -> bool:
    """Whether a layer leaves any stream as it is where its parts write nothing."""
    silent = trace.edit("L1.residual*=2", "L1.attention=0", "L1.feed_forward=0")
    return same(silent["L2.residual"][LAST], 2 * trace["L1.residual"][LAST])


def ends_with_a_norm(trace: Trace) -> bool:
    return not torch.equal(trace["final_norm"], trace["L2.residual"])


def sees_a_window(trace: Trace) -> bool:
    """Whether another first token changes nothing of what the last query finds."""
    ids = trace.ids.clone()
    ids[0] = (ids[0] + 1) % 23
    other = trace_model(trace.model, ids=ids)
    return bool(torch.equal(other["L0.H0.weights"][LAST], trace["L0.H0.weights"][LAST]))


def is_gated(trace: Trace) -> bool:
    """Whether a head's output is no sum of values, and the output of an independent head."""
    name = "L0.H0.output_gate"
    if name not in trace.addresses():
        return False
    mixed = trace["L0.H0.weights"] @ trace["L0.H0.v"]
    return same(trace["L0.H0.out"], trace[name] * mixed) and not same(trace["L0.H0.out"], mixed)


def adds_to_values(trace: Trace) -> bool:
    """Whether a head's output is more than the sum of values, and without a gate or a memory."""
    if {"L0.H0.output_gate", "L0.H0.memory"} & set(trace.addresses()):
        return False
    return not same(trace["L0.H0.out"], trace["L0.H0.weights"] @ trace["L0.H0.v"])


def is_biased(trace: Trace) -> bool:
    """Whether scores are more than products in proportion, or than their cap."""
    if "L0.H0.scores" not in trace.addresses() or is_capped(trace):
        return False
    raw, scores = products(trace), trace["L0.H0.scores"]
    return not same(scores * raw[LAST, LAST], raw * scores[LAST, LAST], 1e-3)


#: Chapter, key, and the measurement: the chapter has the key exactly if it is true.
CLAIMS: dict[tuple[str, str], Callable[[Trace], bool]] = {
    ("embedding", "embedding.tied-the-head-that-makes"): is_tied,
    ("embedding", "embedding.not-tied-the-head-that"): lambda trace: not is_tied(trace),
    ("positions", "positions.a-vector-for-place-is"): adds_a_vector,
    ("positions", "positions.nothing-is-added-queries-and"): turns_queries,
    ("qkv", "qkv.grouped-heads-of-queries-share"): shares_keys,
    ("qkv", "qkv.linear-attention-q-and-k"): is_linear,
    ("scores", "attention_heads.linear-attention-has-no-scores"): is_linear,
    ("scores", "scores.a-soft-cap-keeps-scores"): is_capped,
    ("softmax", "softmax.linear-attention-has-no-softmax"): is_linear,
    ("softmax", "softmax.a-sink-takes-the-share"): leaves_something,
    ("softmax", "softmax.a-query-sees-keys-at"): sees_a_window,
    ("softmax", "softmax.a-gate-multiplies-this-output"): is_gated,
    ("softmax", "softmax.positions-add-a-vector-of"): adds_to_values,
    ("scores", "scores.positions-add-a-bias-to"): is_biased,
    ("lens", "lens.the-final-norm-and-the"): ends_with_a_norm,
    ("feed-forward", "feed_forward.units-each-look-for-a"): units_are_alone,
    ("residual", "residual.each-layer-reads-the-stream"): is_a_sum,
}


#: Two of each kind of part run always.
ALWAYS = (
    "learned", "two schemes of positions", "shaw with values", "linear", "sinks", "soft cap",
    "window", "experts", "gate of each feature", "tied and scaled", "post-norm", "deep norm",
)  # fmt: skip


def check(name: str) -> None:
    trace = traced(build(VARIANTS[name]), TIME)
    wrong = {
        key: f"it is said: {key in messages_of(trace, chapter)}; it is true: {measure(trace)}"
        for (chapter, key), measure in CLAIMS.items()
        if (key in messages_of(trace, chapter)) != measure(trace)
    }
    assert wrong == {}


@pytest.mark.parametrize("name", ALWAYS)
def test_a_claim_stands_exactly_where_it_is_true(name: str) -> None:
    check(name)


@pytest.mark.nightly
@pytest.mark.parametrize("name", VARIANTS)
def test_every_claim_stands_exactly_where_it_is_true(name: str) -> None:
    check(name)
