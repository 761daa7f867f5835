"""The way back is torch's own: `loss.backward()` on a copy of the model is the witness."""

from __future__ import annotations

import copy
import weakref
from typing import Any, Literal

import pytest
import torch
from torch import Tensor, nn

import pellucid
from pellucid import config
from pellucid.explain import Trace, backward_segments, gradients, trace
from pellucid.explain.backward_segments import Segment, trainable_parameters, walk_backward
from pellucid.explain.chapter_types import Place
from pellucid.explain.chapters import CHAPTERS, build_chapter
from pellucid.maths import linear_head_grads
from pellucid.model import Transformer, assemble_trained
from support.models import BASE, ENCODERS, PAIRS, VARIANTS, build, with_stack
from support.plain_loss import plain_loss
from support.traced import MODELS, traced

#: of each kind of stack one; every model is gone through in `test_every_family`
NAMES = [
    "preset gpt2",
    "preset gemma2-2b",
    "preset t5-small",
    "grouped",
    "post-norm",
    "alibi",
    "bucketed",
    "shaw with values",
    "linear",
    "memory",
    "sinks",
    "parallel",
    "deep norm",
    "weight norm",
    "busy head",
    "tied and scaled",
    "pair original",
    "pair grouped, rotary, sandwich",
]


#: The chapters that need a loss to go back from.
WAY_BACK = [entry for entry in CHAPTERS if entry.part in ("backward", "update")]


def to_plain(found: Trace) -> Transformer:
    """A copy of the model on which the sentence's loss was sent back by torch alone."""
    model = copy.deepcopy(found.model)
    source = found.sentence.source_ids
    encoded = None if source is None else model.encode(torch.tensor([source]))
    plain_loss(model(found.ids[None], encoded=encoded)[0], found.ids).backward()
    return model


def grads(model: nn.Module) -> dict[str, Tensor]:
    """What torch left in `.grad`."""
    return {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("name", NAMES)
def test_norms_and_gradients_are_those_of_loss_backward(name: str) -> None:
    text_trace = traced(build(MODELS[name]))
    gradients, expected = text_trace.backward(), grads(to_plain(text_trace))
    assert gradients.norms.keys() == expected.keys()
    for parameter, grad in expected.items():
        assert gradients.norms[parameter] == pytest.approx(
            float(grad.norm()), rel=1e-9, abs=1e-15
        ), parameter
        torch.testing.assert_close(gradients[f"{parameter}.grad"], grad, rtol=1e-9, atol=1e-14)
    total_norm = torch.nn.utils.get_total_norm(expected.values())
    assert gradients.norm == pytest.approx(float(total_norm), rel=1e-12)
    shapes = gradients.addresses()
    assert {address: tuple(gradients[address].shape) for address in shapes} == shapes
    assert {"grad_norm", "error", "L0.residual.grad", "logits.grad"} <= shapes.keys()


@pytest.mark.parametrize("name", ["preset gpt2", "preset qwen3-0.6b", "alibi", "pair t5"])
def test_in_float32_too(name: str) -> None:
    text_trace = traced(build(MODELS[name], double=False))
    for parameter, grad in grads(to_plain(text_trace)).items():
        torch.testing.assert_close(text_trace[f"{parameter}.grad"], grad, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", ["rotary", "post-norm", "pair original"])
def test_what_reaches_states_and_parts_is_what_hooks_hear(name: str) -> None:
    text_trace = traced(build(MODELS[name]))
    model = copy.deepcopy(text_trace.model)
    record_block: dict[str, Tensor] = {}

    def keep(address: str) -> Any:
        def hook(_: Any, inputs: Any, output: Tensor) -> None:
            output.register_hook(lambda grad: record_block.__setitem__(address, grad[0]))

        return hook

    for number, block in enumerate(model.decoder.blocks):
        block.register_forward_hook(keep(f"L{number + 1}.residual"))
        block.attention.register_forward_hook(keep(f"L{number}.attention"))
        block.attention.query.register_forward_hook(keep(f"L{number}.attention.query"))
        block.feed_forward_norm.register_forward_hook(keep(f"L{number}.feed_forward_norm"))
    source = text_trace.sentence.source_ids
    encoded = None if source is None else model.encode(torch.tensor([source]))
    plain_loss(model(text_trace.ids[None], encoded=encoded)[0], text_trace.ids).backward()
    assert len(record_block) == 8
    for address, grad in record_block.items():
        torch.testing.assert_close(text_trace[f"{address}.grad"], grad, rtol=1e-9, atol=1e-15)


def test_scores_that_a_fused_kernel_never_forms_give_queries_the_gradient_they_have() -> None:
    text_trace = traced(build(VARIANTS["grouped"]))
    for head in range(4):
        head_address = f"L1.H{head}"
        query_grad = (
            text_trace[f"{head_address}.scores.grad"] @ text_trace[f"{head_address}.k"] / 4**0.5
        )
        torch.testing.assert_close(query_grad, text_trace[f"{head_address}.q.grad"])
    silent = text_trace.with_heads({(1, 2): 0.5})
    query_grad = silent["L1.H2.scores.grad"] @ silent["L1.H2.k"] / 4**0.5
    torch.testing.assert_close(query_grad, silent["L1.H2.q.grad"])


@pytest.mark.parametrize("scale", ["mean", 0.5])
def test_a_scaled_heads_weights_have_the_gradient_that_makes_its_values_theirs(
    scale: float | Literal["mean"],
) -> None:
    read = traced(build(BASE)).with_heads({(1, 2): scale})
    # out = w v before the scale, so dL/dv = w^T dL/dout, and dL/dw = dL/dout v^T of the same one
    wide = torch.linalg.pinv(read["L1.H2.weights"].T.double())
    before = wide @ read["L1.H2.v.grad"].double()
    expected = before @ read["L1.H2.v"].T.double()
    torch.testing.assert_close(read["L1.H2.weights.grad"].double(), expected, rtol=1e-3, atol=1e-6)
    chapter = build_chapter(read, "rules", Place(layer=1, head=2, token=4, other=2))
    assert len(chapter.receipts) > 3
    assert [receipt.title for receipt in chapter.receipts if not receipt.agrees] == []


def test_a_tied_table_is_reached_by_two_ways_and_differs_in_rows_that_were_read() -> None:
    text_trace = traced(build(VARIANTS["tied and scaled"]))
    x, ids = text_trace["hidden"][:-1], text_trace.ids
    zeros = torch.zeros(23, dtype=torch.float64)
    table = text_trace["token_embedding.weight"]
    _, as_head, _ = linear_head_grads(x, table, zeros, ids[1:])
    table_grad = text_trace["token_embedding.weight.grad"]
    torch.testing.assert_close(text_trace["token_embedding.weight.grad.head"], as_head)
    is_changed = (table_grad - as_head).abs().amax(-1) > 1e-12
    # nothing is predicted from the last token, and none after it saw it
    assert set(is_changed.nonzero().flatten().tolist()) == set(ids[:-1].tolist())
    sum_of_ways = (
        text_trace["token_embedding.weight.grad.head"]
        + text_trace["token_embedding.weight.grad.input"]
    )
    torch.testing.assert_close(sum_of_ways, table_grad)
    untied = traced(build(BASE))
    with pytest.raises(pellucid.PellucidError, match=r"token_embedding\.weight\.grad"):
        untied["token_embedding.weight.grad.head"]


def test_the_model_is_left_as_it_was() -> None:
    model = build(with_stack(dropout=0.5)).train()
    model.decoder.blocks[0].eval()
    old_grad = torch.ones(23, 16, dtype=torch.float64)
    model.head.weight.grad = old_grad
    modes = [module.training for module in model.modules()]
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    random = torch.get_rng_state()
    text_trace = traced(model)
    with torch.no_grad():
        text_trace["L1.H0.scores.grad"], text_trace["decoder.blocks.0.attention.query.weight.next"]
        text_trace["after_update.loss"]
        for entry in WAY_BACK:
            build_chapter(text_trace, entry.id, Place(layer=1))
    assert torch.equal(torch.get_rng_state(), random)
    assert [module.training for module in model.modules()] == modes
    assert all(torch.equal(before[name], now) for name, now in model.state_dict().items())
    assert model.head.weight.grad is old_grad
    assert torch.equal(old_grad, torch.ones_like(old_grad))
    assert [name for name, p in model.named_parameters() if p.grad is not None] == ["head.weight"]
    assert not any(module._forward_hooks for module in model.modules())
    assert not any(module._forward_pre_hooks for module in model.modules())
    assert not text_trace["L1.residual.grad"].requires_grad


@pytest.mark.parametrize("name", ["rotary", "tied and scaled"])
def test_the_gradients_of_one_layer_are_alive_at_a_time(name: str) -> None:
    text_trace = traced(build(MODELS[name]))
    shared = {"token_embedding.weight"}
    alive: list[tuple[str, weakref.ref[Tensor]]] = []
    alive_names: list[set[str]] = []

    def take(parameter: str, grad: Tensor) -> None:
        alive.append((parameter, weakref.ref(grad)))
        alive_names.append({name for name, grad in alive if grad() is not None})

    walk_backward([text_trace], take, lambda n_done, total: None)
    places = [Segment("decoder", place) for place in range(-1, 3)]
    owners = [set(trainable_parameters(text_trace, place)) for place in places]
    assert len(alive_names) == len(dict(text_trace.model.named_parameters()))
    assert all(
        any(alive_together - shared <= owner for owner in owners) for alive_together in alive_names
    )


def test_however_many_sentences_are_open_two_stretches_have_their_gradients_kept() -> None:
    for seed in range(4):
        text_trace = trace(build(BASE, seed=seed), ids=[1, 2, 3, 4])
        for number in range(2):
            text_trace[f"decoder.blocks.{number}.attention.query.weight.grad"]
    assert len(gradients.ModelGradients._open) == 2


def test_the_way_back_is_told_step_by_step_and_gone_once() -> None:
    text_trace = traced(build(PAIRS["original"]))
    progress: list[tuple[int, int]] = []
    assert not text_trace.has_gradients
    gradients = text_trace.backward(lambda n_done, total: progress.append((n_done, total)))
    assert progress == [(n_done, 8) for n_done in range(9)]
    assert text_trace.backward() is gradients
    assert text_trace.has_gradients


@pytest.mark.parametrize("why", ["An encoder sees every token", "One token alone"])
def test_what_has_no_loss_has_no_way_back(why: str) -> None:
    text_trace = (
        traced(build(ENCODERS["bert"])) if "encoder" in why else trace(build(BASE), ids=[3])
    )
    with pytest.raises(pellucid.PellucidError, match=why):
        text_trace.backward()
    for entry in WAY_BACK:
        chapter = build_chapter(text_trace, entry.id, Place())
        assert chapter.sentence.startswith("There is no loss to go back from.")
        assert (chapter.id, chapter.part, chapter.title) == (entry.id, entry.part, entry.title)


def test_what_is_frozen_has_no_gradient_and_says_so() -> None:
    model = build(BASE)
    lora = config.LoRA(rank=2, alpha=4.0, dropout=0.5, targets=("*.query",))
    assemble_trained(model, lora, seed=0)
    model.double()
    text_trace = traced(model)
    expected = grads(to_plain(text_trace))
    assert text_trace.backward().norms.keys() == expected.keys()
    assert all(".query.lora_" in name for name in expected)
    with pytest.raises(pellucid.PellucidError, match=r"is frozen \(requires_grad is off\)"):
        text_trace["decoder.blocks.0.attention.key.weight.grad"]
    chapter = build_chapter(text_trace, "update", Place())
    assert "decoder.blocks.0.attention.query.lora_down[0, 0]" in chapter.sentence
    model.requires_grad_(False)
    quiet = traced(model)
    assert quiet.backward().norms == {}
    assert quiet["L0.residual.grad"].abs().sum() > 0


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("L9.residual.grad", "there is no 'L9.residual.grad'"),
        ("L0.H0.mask.grad", "is not kept: a mask is true or false"),
        ("L0.H0.score.grad", r"did you mean L0.H0.scores.grad"),
        ("decoder.blocks.0.attention.query.weight.grad[99, 0]", "lies outside"),
        ("nothing.weight.next", "there is no"),
    ],
)
def test_an_address_that_there_is_not_is_refused_with_those_near(address: str, said: str) -> None:
    with pytest.raises(pellucid.PellucidError, match=said):
        traced(build(BASE))[address]


@pytest.mark.parametrize(
    ("place", "said"),
    [
        (Place(weight="attention.qery.weight"), "did you mean attention.query.weight"),
        (Place(row=99), "no row 99 of decoder.blocks.0.attention.query.weight: there are 16 rows"),
        (Place(column=-17), "no column -17"),
        (Place(weight="attention_norm.gain", column=1), "no column 1"),
    ],
)
def test_a_weight_that_there_is_not_is_refused_with_what_there_is(place: Place, said: str) -> None:
    with pytest.raises(pellucid.PellucidError, match=said):
        build_chapter(traced(build(BASE)), "nudge", place)


def test_a_measured_slope_is_the_gradient_and_a_wrong_gradient_differs() -> None:
    from dataclasses import replace

    text_trace = traced(build(BASE, double=False))
    for weight in ("attention.key.weight", "feed_forward.up.bias", "token_embedding.weight"):
        row = int(text_trace.ids[2]) if weight.startswith("token") else 3
        place = Place(layer=1, weight=weight, row=row, column=0 if weight.endswith("bias") else 5)
        slope = build_chapter(text_trace, "nudge", place).receipts[0]
        assert slope.agrees
        assert abs(slope.model) > 1e-4
        assert abs(slope.recomputed - slope.model) < 1e-4 * abs(slope.model)
        assert not replace(slope, model=1.01 * slope.model).agrees


def test_a_large_model_is_nudged_in_its_own_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    text_trace = traced(build(BASE, double=False))
    monkeypatch.setattr(backward_segments, "LARGE", 10)
    chapter = build_chapter(text_trace, "nudge", Place(layer=1, row=3, column=5))
    assert chapter.receipts[0].agrees
    assert "computed in float32" in chapter.notes[0]
    assert "lines" not in [picture.kind for picture in chapter.pictures]
