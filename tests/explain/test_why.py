"""Why this word: every part adds up, every replacement is real, and every path ends somewhere."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import pellucid
from pellucid import config
from pellucid.errors import PellucidError
from pellucid.explain import find_paths, grow_tree, measure
from pellucid.explain.why.measure import _effect
from pellucid.explain.why.path_types import Branch
from pellucid.explain.why.replace import Replacement, measure_differences, part_vectors
from pellucid.model import Transformer
from support.models import BASE, VARIANTS, build, with_stack
from support.nightly import sampled
from support.traced import MODELS, traced

CLASSES = {
    "classes of the mean": replace(
        BASE,
        head=config.ClassificationHead(
            classes=("a", "b", "c"), pooling="mean", bias=True, dropout=0.0
        ),
    ),
    "classes of a pooler": replace(
        MODELS["encoder bert"],
        head=config.ClassificationHead(
            classes=("a", "b"),
            pooling="first",
            bias=True,
            dropout=0.0,
            transform=config.HeadTransform(activation="sigmoid", norm=None),
        ),
    ),
    "batch norm": with_stack(norm=config.BatchNorm(eps=1e-5, momentum=0.1)),
    "instance norm": with_stack(norm=config.InstanceNorm(eps=1e-5)),
}
HEADLESS = {"preset minilm-l6"}
TABLE = {name: model for name, model in (MODELS | CLASSES).items() if name not in HEADLESS}
#: models with heads whose output is no sum of weighted values
WITHOUT_SOURCES = {
    "shaw with values",
    "encoder shaw",
    "positions that take turns",
    "memory",
    "memory with a bias on scores",
}


def close(one: float, other: float) -> bool:
    """Equal but for rounding in float64."""
    return one == pytest.approx(other, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("name", sampled(TABLE, every=12))
def test_parts_layers_sources_paths_and_tree_all_add_up(name: str) -> None:
    trace = traced(build(TABLE[name]))
    attribution = trace.why()
    difference = attribution.rivals.difference
    assert close(attribution.total, difference)
    assert close(sum(layer.share for layer in attribution.layers), difference)
    heads = {part.name: part for part in attribution.parts if part.kind == "head"}
    order = [(part.side, part.layer, part.cross, part.head) for part in heads.values()]
    assert order == sorted(order)
    rows = attribution.source_rows()
    assert rows.keys() == heads.keys()
    for head, part in heads.items():
        assert close(sum(rows[head]) + part.no_source, part.share)
        # linear attention divides by a sum that is a little larger than the features' sum
        assert abs(part.no_source) < 1e-5 or name in WITHOUT_SOURCES
    assert close(find_paths(trace, attribution).total, difference)
    check_branch(grow_tree(trace, attribution))
    identity = [
        Replacement(part=part, vectors=part_vectors(trace, part), places=range(len(trace.ids)))
        for part in attribution.parts
        if part.kind != "constant"
    ]
    for measured in measure_differences(trace, attribution.rivals, [Replacement(), *identity]):
        assert close(measured, difference)


def check_branch(branch: Branch) -> None:
    """Its children add up to it, and theirs to them."""
    if branch.children:
        assert close(sum(child.share for child in branch.children), branch.share)
    for child in branch.children:
        check_branch(child)


@pytest.mark.parametrize("name", ["preset gpt2", "preset gemma2-2b", "preset bert-base", "experts"])
def test_in_float32_too_the_parts_add_up_within_the_tolerance(name: str) -> None:
    attribution = traced(build(MODELS[name], double=False)).why()
    assert attribution.adds_up
    assert attribution.tolerance < 1e-2
    shifted = replace(
        attribution,
        parts=(*attribution.parts, replace(attribution.parts[0], share=2 * attribution.tolerance)),
    )
    assert not shifted.adds_up


@torch.no_grad()
def test_shares_are_what_the_equations_say() -> None:
    model = build(VARIANTS["biases"])
    model.decoder.blocks[1].attention.output.bias.normal_()
    trace = traced(model)
    attribution = trace.why(3, 5, token=4)
    state = trace["L2.residual"][4]
    norm = model.decoder.final_norm
    u = (model.head.weight[3] - model.head.weight[5]) * norm.gain
    u = (u - u.mean()) / (state.var(correction=0) + norm.eps).sqrt()
    shares = {part.name: part.share for part in attribution.parts}
    output = model.decoder.blocks[1].attention.output
    head = output.weight[:, 8:12] @ trace["L1.H2.out"][4]
    assert close(shares["L1.H2"], float(u @ head))
    assert close(shares["L1.attention.output.bias"], float(u @ output.bias))
    assert close(shares["L0.feed_forward"], float(u @ trace["L0.feed_forward"][4]))
    value = trace["L1.H2.weights"][4, 2] * (output.weight[:, 8:12] @ trace["L1.H2.v"][2])
    assert close(attribution.source_rows()["L1.H2"][2], float(u @ value))
    unit = max(attribution.units, key=lambda unit: abs(unit.share))
    assert unit.value == pytest.approx(float(trace[unit.name]))
    column = model.decoder.blocks[int(unit.name[1])].feed_forward.down.weight
    number = int(unit.name.rpartition(", ")[2][:-1])
    assert close(unit.share, float(u @ column[:, number]) * unit.value)


def test_words_are_the_likeliest_and_its_runner_up_unless_they_are_named() -> None:
    trace = traced(build(BASE))
    ranked = trace["logits"][-1].argsort(descending=True).tolist()
    assert trace.why().rivals.ids == (ranked[0], ranked[1])
    assert trace.why(ranked[4]).rivals.ids == (ranked[4], ranked[0])
    assert trace.why(ranked[0]).rivals.ids == (ranked[0], ranked[1])
    other_place = trace.why(token=2).rivals
    assert (other_place.token, other_place.ids[0]) == (2, int(trace["logits"][2].argmax()))


def test_what_cannot_be_asked_is_refused_in_words() -> None:
    trace = traced(build(BASE))
    for arguments, message in (
        ((3, 3), "both words"),
        ((99,), "no logit 99"),
        (("cat",), "is no number"),
        ((1, 2, 40), "no token 40"),
    ):
        with pytest.raises(PellucidError, match=message):
            trace.why(*arguments)
    with pytest.raises(PellucidError, match="no head"):
        traced(build(MODELS["preset minilm-l6"])).why()


def test_a_soft_cap_is_after_the_sum_and_both_differences_are_told() -> None:
    trace = traced(build(VARIANTS["busy head"]))
    attribution, cap = trace.why(), trace.model.soft_cap
    assert attribution.rivals.after_cap == pytest.approx(
        float(torch.tanh(torch.tensor(attribution.rivals.uncapped) / cap).diff()) * -cap
    )
    assert any("cap" in held_scales for held_scales in attribution.held_scales)


# measured


def test_a_head_set_to_zero_or_its_mean_is_the_trace_without_it() -> None:
    trace = traced(build(VARIANTS["biases"]))
    attribution = trace.why()
    for part in measure(trace, attribution).parts:
        if ".H" not in part.name:
            continue
        for effect, scale in zip(part.effects, (0.0, "mean"), strict=False):
            word, other = attribution.rivals.ids
            logits = trace.with_heads({part.name: scale})["logits"][-1]
            change = float(logits[word] - logits[other]) - attribution.rivals.difference
            assert close(effect.measured, change), (part.name, effect.method)


def test_a_patch_brings_the_parts_output_from_the_contrast() -> None:
    trace = traced(build(BASE))
    attribution = trace.why()
    measurement = measure(trace, attribution)
    shuffled = [int(piece) for piece in measurement.patched_pieces]
    assert sorted(shuffled) == sorted(trace.ids.tolist())
    assert shuffled != trace.ids.tolist()
    other = pellucid.trace(trace.model, ids=shuffled)
    word, rival = attribution.rivals.ids
    assert close(
        measurement.contrast_difference,
        float(other["logits"][-1, word] - other["logits"][-1, rival]),
    )
    part = next(part for part in measurement.parts if "feed_forward" in part.name)
    layer = trace.model.decoder.blocks[int(part.name[1])].feed_forward
    vectors = other[part.name][None]
    handle = layer.register_forward_hook(lambda *_: vectors)
    with torch.no_grad():
        logits = trace.model(trace.ids[None])[0, -1]
    handle.remove()
    patched = float(logits[word] - logits[rival])
    assert close(part.effects[3].measured, patched - attribution.rivals.difference)


def test_the_last_feed_forward_acts_as_its_share_says_if_no_norm_follows() -> None:
    """Without a final norm nothing reacts to the last part: measured = attributed."""
    trace = traced(build(with_stack(final_norm=False)))
    for part in measure(trace, trace.why()).parts:
        if part.name in ("L1.feed_forward",):
            assert not part.disagrees
            for effect in part.effects:
                assert close(effect.measured, effect.attributed)
            return
    raise AssertionError("the last feed-forward is not among the largest")


@pytest.mark.parametrize(
    ("attributed", "measured", "verdict"),
    [(1.0, 1.9, "agrees"), (1.0, 2.1, "factor"), (1.0, -0.5, "sign"), (0.01, -0.01, "small")],
)
def test_where_measured_and_attributed_disagree_is_said(
    attributed: float, measured: float, verdict: str
) -> None:
    effect = _effect("zero", attributed, measured, 1.0)
    assert effect.verdict == verdict


# paths


def test_an_edge_is_a_weight_times_what_the_value_adds() -> None:
    """In the last layer an edge into the last token is a reading of the head itself."""
    trace = traced(build(BASE))
    attribution = trace.why()
    rows = attribution.source_rows()
    last = [edge for edge in find_paths(trace, attribution).edges if edge.layer == 1]
    assert last
    for edge in last:
        assert edge.query == len(trace.ids) - 1
        assert close(edge.share, rows[edge.head][edge.key])
        assert edge.weight == pytest.approx(
            float(trace[f"{edge.head}.weights"][edge.query, edge.key])
        )


def test_in_attention_alone_the_difference_comes_from_embeddings() -> None:
    """Two layers without feed-forwards: the product of the held matrices is the difference."""
    trace = traced(attention_only())
    paths = find_paths(trace, trace.why())
    assert sum(map(sum, paths.feed_forwards.values())) == 0
    assert close(sum(paths.tokens["decoder"]) + paths.constants, trace.why().rivals.difference)
    assert {leaf.kind for leaf in paths.leaves} == {"embedding"}


def attention_only() -> Transformer:
    """Two layers whose feed-forwards write nothing."""
    model = build(BASE)
    for block in model.decoder.blocks:
        block.feed_forward.down.weight.data.zero_()
        block.feed_forward.down.bias.data.zero_()
    return model
