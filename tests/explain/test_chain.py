"""Every number of a trace follows from others, down to token ids and weights; none passes wrong."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import islice

import pytest
import torch

import pellucid
from pellucid import config
from pellucid.explain import Trace
from pellucid.explain.addresses import chain, lookup, recompute
from pellucid.explain.addresses.audit import audit
from pellucid.explain.equations.equation import Equation
from pellucid.explain.formulas.evaluation import Evaluation
from pellucid.explain.formulas.nodes import Places, reads_of
from pellucid.model import assemble_trained
from support.corrupted import corrupted, disagreeing, list_spots, names_it
from support.models import BASE, ENCODERS, PAIRS, VARIANTS, build
from support.nightly import sampled
from support.traced import MODELS, traced

#: Whose modules are all corrupted, each on its own; the other kinds are nightly.
CORRUPTED = ("latent",)
CLASSIFIERS = {
    "classes, last": config.ClassificationHead(
        classes=("a", "b", "c"), pooling="last", dropout=0.1, bias=True
    ),
    "classes, mean, transformed": config.ClassificationHead(
        classes=("a", "b"),
        pooling="mean",
        dropout=0.1,
        bias=False,
        transform=config.HeadTransform(
            activation="tanh", norm=config.LayerNorm(eps=1e-5, bias=True)
        ),
    ),
}


def classifier(name: str) -> config.Transformer:
    return replace(BASE, head=CLASSIFIERS[name])


def pooled_classifier() -> config.Transformer:
    head = config.ClassificationHead(classes=("a", "b"), pooling="first", dropout=0.0, bias=True)
    return replace(ENCODERS["bert"], head=head)


EVERY = {
    **MODELS,
    **{name: classifier(name) for name in CLASSIFIERS},
    "classes, pooled": pooled_classifier(),
}


def complaints(trace: Trace, *, backward: bool) -> list[str]:
    """What does not agree, and what has no receipt though something is computed for it."""
    problems: list[str] = []
    for check in trace.receipts(backward=backward):
        if check.worst is not None:
            problems.append(f"{check.worst}")
        elif check.reason is not None and "nothing is computed" not in check.reason:
            problems.append(f"{check.address}: {check.reason}")
    return problems


@pytest.mark.parametrize("name", sampled(EVERY, every=15))
def test_every_number_follows_from_its_operands(name: str) -> None:
    assert complaints(traced(build(EVERY[name])), backward=False) == []


@pytest.mark.parametrize("name", sampled(MODELS, every=40))
def test_so_does_every_gradient(name: str) -> None:
    problems = [
        line
        for line in complaints(traced(build(MODELS[name])), backward=True)
        if "every gradient is" not in line and "read and written token by token" not in line
    ]
    assert problems == []


@pytest.mark.parametrize("name", sampled(["busy head", "pair t5", "pair original"]))
def test_in_float32_too(name: str) -> None:
    assert audit(traced(build(MODELS[name], double=False))).agrees


def test_of_heads_that_are_scaled_and_of_matrices_with_an_update() -> None:
    text_trace = traced(build(VARIANTS["grouped"]))
    scaled = text_trace.with_heads({(1, 2): 0.0, (0, 1): "mean", (0, 0): 0.5})
    assert audit(scaled, backward=False).agrees
    adapted = build(BASE)
    lora = config.LoRA(rank=2, alpha=4.0, dropout=0.5, targets=("*.query", "*.up"))
    assemble_trained(adapted, lora, seed=0)
    adapted.double().eval().decoder.blocks[1].attention.query.lora_up.data.fill_(0.5)
    assert audit(traced(adapted), backward=False).agrees


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=() if n in CORRUPTED else (pytest.mark.nightly,)) for n in EVERY],
)
def test_one_wrong_number_of_any_module_is_noticed_and_the_module_is_named(name: str) -> None:
    model = build(EVERY[name])
    spots = list_spots(model, traced(model))
    assert len(spots) > 20
    for spot in spots:
        with corrupted(model, spot):
            first = next(disagreeing(traced(model)), None)
        assert first is not None, f"nobody noticed {spot}"
        assert names_it(first, spot), (first, spot)
    assert next(disagreeing(traced(model)), None) is None


#: One module of each kind of part, for every run of the tests; the nightly ones have them all.
PARTS = [
    ("memory", "decoder.blocks.1.attention.forgetting.linear"),
    ("memory", "decoder.blocks.0.attention.memory_key"),
    ("memory", "decoder.blocks.0.attention.memory_norm"),
    ("sinks", "decoder.blocks.1.attention.output"),
    ("post-norm", "decoder.blocks.1.dropout"),
    ("post-norm", "decoder.blocks.1"),
    ("sandwich", "decoder.blocks.0.feed_forward_norm.after"),
    ("parallel with one norm", "decoder.blocks.0"),
    ("deep norm", "decoder.blocks.0.attention_norm"),
    ("grouped experts and a shared one", "decoder.blocks.0.feed_forward.rule"),
    ("grouped experts and a shared one", "decoder.blocks.1.feed_forward.shared_gate"),
    ("group norm", "decoder.final_norm"),
    ("spectral norm", "decoder.blocks.0.feed_forward.up.parametrizations.weight"),
    ("disentangled with own projections", "decoder.blocks.1.attention.position_query"),
    ("busy head", "head_transform.norm"),
    ("learned", "decoder.positions embed"),
    ("shaw with values", "decoder.positions add_values"),
    ("alibi, rounded", "decoder.positions bias"),
    ("partial rotary", "decoder.positions rotate"),
    ("qk-norm after rotation", "decoder.blocks.1.attention.key_norm"),
    ("pair bart", "decoder.blocks.1.cross_attention.value"),
    ("classes, pooled", "pooler"),
    ("classes, mean, transformed", "classifier_transform.norm"),
]


@pytest.mark.parametrize(("name", "part"), PARTS)
def test_a_wrong_number_of_each_kind_of_part_is_noticed(name: str, part: str) -> None:
    model = build(EVERY[name])
    spot = next(
        s for s in list_spots(model, traced(model)) if f"{s.module} {s.method}".strip() == part
    )
    with corrupted(model, spot):
        first = next(disagreeing(traced(model)), None)
    assert first is not None
    assert names_it(first, spot), first


def test_a_receipt_has_a_value_a_formula_and_operands_that_are_addresses() -> None:
    text_trace = traced(build(BASE))
    receipt = text_trace.receipt("L1.H1.scores", 5, 3)
    assert receipt == text_trace.receipt("L1.H1.scores[5, 3]")
    assert receipt.value == float(text_trace["L1.H1.scores[5, 3]"])
    assert receipt.formula == "q · k × scale"
    assert [operand.address for operand in receipt.operands] == [
        f"L1.H1.{part}[{token}, {feature}]"
        for feature in range(4)
        for part, token in (("q", 5), ("k", 3))
    ]
    for address, value in receipt.operands:
        assert float(text_trace[address]) == value
    by_hand = sum(
        q.value * k.value
        for q, k in zip(receipt.operands[::2], receipt.operands[1::2], strict=True)
    )
    assert receipt.recomputed == pytest.approx(by_hand * 0.5, rel=1e-12)


def is_an_end(trace: Trace, address: str) -> bool:
    """Whether nothing is computed for it: ids, weights and buffers, the loss's own gradient."""
    return isinstance(chain.equation_of(trace, address), str)


def walk(trace: Trace, address: str, draw: random.Random) -> list[str]:
    """From a number to one of its operands, and so on to an end."""
    path = [address]
    while not is_an_end(trace, path[-1].partition("[")[0]):
        operands = trace.receipt(path[-1]).operands
        assert operands, f"{path[-1]} is made of nothing"
        path.append(draw.choice(operands).address)
        assert path[-1] not in path[:-1], f"in a circle: {path}"
        assert len(path) < 200
    return path


@pytest.mark.parametrize("name", ["pair grouped, rotary, sandwich", "memory"])
def test_operands_lead_from_the_loss_to_token_ids_and_weights(name: str) -> None:
    text_trace, draw = traced(build(MODELS[name])), random.Random(0)
    names = dict(text_trace.model.named_parameters())
    buffers = dict(text_trace.model.named_buffers())
    ends = {walk(text_trace, "loss", draw)[-1].partition("[")[0] for _ in range(12)}
    assert all(end in names or end in buffers or end.endswith("ids") for end in ends), ends


def reached(trace: Trace, address: str) -> set[str]:
    """All addresses that one leads to, without their places."""
    visited, waiting = set[str](), [address]
    while waiting:
        name = waiting.pop()
        if name in visited:
            continue
        visited.add(name)
        equation = chain.equation_of(trace, name)
        if isinstance(equation, Equation):
            waiting += [leaf.address for leaf in reads_of(equation.formula)]
            waiting += [
                step.address
                for leaf in reads_of(equation.formula)
                for step in leaf.index
                if isinstance(step, Places) and step.address
            ]
    return visited


@pytest.mark.parametrize("name", ["tied and scaled", "pair t5"])
def test_all_ways_from_the_loss_reach_every_id_and_weight(name: str) -> None:
    text_trace = traced(build(MODELS[name]))
    visited = reached(text_trace, "loss")
    names = {n for n, _ in text_trace.model.named_parameters()}
    assert names <= visited
    assert {"ids"} | ({"encoder.ids"} if "pair" in name else set()) <= visited


def test_operands_lead_from_a_weight_after_the_step_to_the_loss() -> None:
    text_trace = traced(build(BASE))
    weight = "decoder.blocks.0.attention.query.weight"
    visited = reached(text_trace, f"{weight}.next")
    assert {f"{weight}.grad", "logits.grad", "error", "loss.grad", "ids", weight} <= visited
    path = walk(text_trace, f"{weight}.grad[3, 2]", random.Random(3))
    assert len(path) > 3


@pytest.mark.parametrize("name", ["shared layers", "encoder deberta"])
def test_no_receipt_is_the_number_itself(name: str) -> None:
    text_trace = traced(build(MODELS[name]))
    for address in text_trace.addresses():
        equation = chain.equation_of(text_trace, address)
        if isinstance(equation, Equation):
            assert address not in {leaf.address for leaf in reads_of(equation.formula)}, address


@pytest.mark.parametrize("name", ["sinks", "experts", "linear"])
def test_one_receipt_and_all_at_once_have_the_same_equation(name: str) -> None:
    """The tree of one number comes to what the formula gives for the whole tensor."""
    text_trace = traced(build(MODELS[name]))
    for address, shape in islice(text_trace.addresses().items(), 0, None, 3):
        equation = chain.equation_of(text_trace, address)
        if isinstance(equation, str):
            continue
        numbers = Evaluation(text_trace.__getitem__).on_axes(equation.formula, equation.axes, shape)
        index = tuple(min(size - 1, place) for size, place in zip(shape, (4, 2, 1), strict=False))
        assert text_trace.receipt(address, *index).recomputed == pytest.approx(
            float(numbers.value[index]), rel=1e-12, abs=1e-12
        )


def test_a_gradient_that_is_derived_is_that_of_torch() -> None:
    """The derivative of each operator of a formula, against numbers of the backward pass."""
    text_trace = traced(build(MODELS["busy head"]))
    for address in islice(lookup.list_backward(text_trace.backward()), 0, None, 7):
        if address != "loss.grad":
            assert recompute.check_address(text_trace, address).agrees, address


def test_a_sentence_with_one_wrong_weight_after_the_trace_differs_at_that_layer() -> None:
    model = build(BASE)
    text_trace = traced(model)
    _ = text_trace["loss"]
    with torch.no_grad():
        model.decoder.final_norm.gain[3] += 0.5
    differing = audit(text_trace, backward=False).differing
    assert [difference.address.partition("[")[0] for difference in differing] == ["final_norm"]


def test_addresses_that_nothing_is_computed_for_say_so() -> None:
    text_trace = traced(build(PAIRS["original"]))
    for address in ("ids", "encoder.ids"):
        with pytest.raises(pellucid.PellucidError, match="it is what the model reads"):
            text_trace.receipt(address, 2)
