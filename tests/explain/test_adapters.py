"""Layers with a low-rank update: each product has an address, and torch alone makes the same."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import pellucid
from pellucid import config
from pellucid.checkpoints import load_optimiser
from pellucid.explain import Trace, trace
from pellucid.explain.addresses.audit import audit
from pellucid.explain.addresses.recompute import check_address
from pellucid.explain.chapter_types import Chapter, Place, Table
from pellucid.explain.chapters import build_chapter
from pellucid.explain.optimiser_settings import read_memory
from pellucid.model import LoRALinear, Transformer, assemble_trained, merge, without_adapters
from pellucid.optim import assemble_optimiser, gate
from support.models import BASE, build
from support.plain_loss import plain_loss
from support.tiny import TINY, write_text
from support.traced import MODELS, traced

QUERY = "decoder.blocks.1.attention.query"
SCALE = 4.0 / 2


def adapted(name: str = "", targets: tuple[str, ...] = ("*",)) -> Transformer:
    """A small model with updates of rank 2 that are not 0."""
    model = build(MODELS[name] if name else BASE)
    lora = config.LoRA(rank=2, alpha=4.0, dropout=0.5, targets=targets)
    assemble_trained(model, lora, seed=0)
    generator = torch.Generator().manual_seed(1)
    for parameter_name, parameter in model.named_parameters():
        if parameter_name.endswith("lora_up"):
            parameter.data.normal_(generator=generator)
    return model.double()


def query_of(model: Transformer) -> LoRALinear:
    layer = model.get_submodule(QUERY)
    assert isinstance(layer, LoRALinear)
    return layer


def gradients_by_torch(found: Trace) -> dict[str, Tensor]:
    """What loss.backward() leaves in `.grad` of a copy of the model."""
    model = copy.deepcopy(found.model).eval()
    plain_loss(model(found.ids[None])[0], found.ids).backward()
    return {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


def rows_of(chapter: Chapter, title: str) -> dict[str, float]:
    """The numbers of the tables whose title begins so, by the names of their rows."""
    tables = [x for x in chapter.pictures if isinstance(x, Table) and x.title.startswith(title)]
    return {str(row[0]): float(row[1]) for table in tables for row in table.rows}


@pytest.mark.parametrize("name", ["preset qwen3-0.6b", "latent", "pair original", "experts"])
def test_the_chain_is_closed_through_every_adapted_layer(name: str) -> None:
    text_trace = traced(adapted(name))
    checked = audit(text_trace, backward=name != "pair original")
    assert checked.agrees, checked.differing
    kinds = {kind.address for kind in checked.kinds}
    parts = {part.partition(".")[2] for part in kinds if part.endswith(".lora_down")}
    assert {"attention.query.lora_down", "attention.output.lora_down"} <= parts
    assert ("cross_attention.key.lora_down" in parts) == (name == "pair original")
    assert ("feed_forward.down.lora_down" in parts) == (name != "experts")
    assert all(
        "nothing is computed" in reason or "gradient is" in reason for _, reason in checked.ends
    )


def test_the_products_and_their_gradients_are_those_of_torch() -> None:
    model = adapted()
    text_trace, layer = traced(model), query_of(model)
    x, g = text_trace["L1.attention.in"], text_trace["L1.attention.query.grad"]
    down, up = layer.lora_down.detach(), layer.lora_up.detach()
    base, down_x = F.linear(x, layer.weight.detach()), x @ down.T
    for part, expected in (
        ("base", base),
        ("lora_down", down_x),
        ("lora_up", down_x @ up.T),
        ("base.grad", g),
        ("lora_up.grad", SCALE * g),
        ("lora_down.grad", SCALE * g @ up),
    ):
        torch.testing.assert_close(text_trace[f"L1.attention.query.{part}"], expected)
    torch.testing.assert_close(text_trace["L1.attention.query"], base + SCALE * down_x @ up.T)
    expected_grads = gradients_by_torch(text_trace)
    for part in ("lora_down", "lora_up"):
        torch.testing.assert_close(
            text_trace[f"{QUERY}.{part}.grad"], expected_grads[f"{QUERY}.{part}"]
        )
    receipt = text_trace.receipt("L1.attention.query[4, 3]")
    assert [operand.address for operand in receipt.operands] == [
        "L1.attention.query.base[4, 3]",
        "L1.attention.query.lora_up[4, 3]",
    ]
    assert not query_of(model).__dict__.keys() & {"apply_base", "apply_down", "apply_up"}


def test_a_wrong_product_is_noticed_and_named() -> None:
    model = adapted()
    layer = query_of(model)
    right = layer.apply_up
    layer.__dict__["apply_up"] = lambda x: right(x) + 1e-3
    checked = audit(traced(model), backward=False)
    assert [x.address.partition("[")[0] for x in checked.differing] == [
        "L1.attention.query.lora_up"
    ]


def test_a_merged_update_is_in_the_weight_and_the_weight_has_a_receipt() -> None:
    model = adapted()
    folded, original = query_of(model).folded(), query_of(model).weight.detach().clone()
    merge(model)
    text_trace = traced(model)
    torch.testing.assert_close(text_trace[f"{QUERY}.weight"], folded)
    check = check_address(text_trace, f"{QUERY}.weight")
    assert check.agrees
    assert check.numbers == folded.numel()
    assert torch.equal(text_trace[f"{QUERY}.unmerged_weight"], original)
    assert audit(text_trace, backward=False).agrees
    assert not [address for address in text_trace.addresses() if "lora" in address]
    chapter = build_chapter(text_trace, "qkv", Place(layer=1, token=2))
    assert any("attention.query is merged" in note for note in chapter.notes)
    assert f"{QUERY}.weight[0, 0]" in [receipt.address for receipt in chapter.receipts]
    assert all(receipt.agrees for receipt in chapter.receipts)
    query_of(model).weight.data[2, 1] += 1e-3
    difference = check_address(text_trace, f"{QUERY}.weight").worst
    assert difference is not None
    assert difference.address == f"{QUERY}.weight[2, 1]"


@pytest.mark.parametrize("is_merged", [False, True])
def test_an_update_that_is_switched_off_is_not_shown(is_merged: bool) -> None:
    model = adapted()
    base = query_of(model).weight.detach().clone()
    if is_merged:
        merge(model)
    with without_adapters(model):
        text_trace = traced(model)
        torch.testing.assert_close(
            text_trace["L1.attention.query"], text_trace["L1.attention.in"] @ base.T
        )
        assert audit(text_trace, backward=False).agrees
        assert not [address for address in text_trace.addresses() if "lora" in address]
        chapter = build_chapter(text_trace, "qkv", Place(layer=1, token=2))
    assert any("attention.query is switched off" in note for note in chapter.notes)
    assert not rows_of(chapter, "LoRA")


@pytest.mark.parametrize(
    ("name", "part", "output"),
    [
        ("qkv", "attention.query", "attention.query"),
        ("feed-forward", "feed_forward.down", "feed_forward"),
    ],
)
def test_a_chapter_shows_the_parts_of_an_adapted_layer_and_their_sum(
    name: str, part: str, output: str
) -> None:
    text_trace = traced(adapted(targets=(f"*.{part}",)))
    chapter = build_chapter(text_trace, name, Place(layer=1, token=4, head=0, feature=3))
    rows = rows_of(chapter, f"LoRA on L1.{part}: feature 3")
    assert rows["base"] + rows["scale"] * rows["up (down x)"] == pytest.approx(rows["output"])
    assert rows["output"] == pytest.approx(float(text_trace[f"L1.{output}"][4, 3]), rel=1e-8)
    assert rows["term 0"] + rows["term 1"] == pytest.approx(rows["up (down x)"], rel=1e-8)
    assert rows["scale"] == SCALE
    assert all(receipt.agrees for receipt in chapter.receipts)
    ends = {receipt.address.partition("[")[0] for receipt in chapter.receipts}
    assert {f"L1.{part}.{end}" for end in ("base", "lora_down", "lora_up")} <= ends
    plain = build_chapter(traced(build(BASE)), name, Place(layer=1, token=4))
    assert not rows_of(plain, "LoRA")


def test_the_update_of_down_and_up_is_the_one_of_the_run(trained: Path, tmp_path: Path) -> None:
    pace = [setting for setting in TINY if setting.startswith("training.")]
    folder = tmp_path / "lora"
    pellucid.train(
        [write_text(tmp_path)],
        start=trained,
        out=folder,
        show=False,
        lora=2,
        steps=4,
        settings=pace,
    )
    run = pellucid.load(folder)
    text_trace = trace(run, "the fox")
    model = copy.deepcopy(run.model).eval()
    loss = plain_loss(model(text_trace.ids[None])[0], text_trace.ids)
    loss.backward()
    optimiser = assemble_optimiser(run.config.optimiser, model.named_parameters())
    optimiser.load_state_tensors(load_optimiser(run.checkpoint)[0])
    gated = gate(
        optimiser.gradients(),
        loss.detach(),
        clip_norm=run.config.training.clip_norm,
        blocked=torch.zeros(()),
    )
    optimiser.step(gated, read_memory(run).factor)
    expected = dict(model.named_parameters())
    for part in ("lora_down", "lora_up"):
        weight = f"{QUERY}.{part}"
        torch.testing.assert_close(text_trace[f"{weight}.next"], expected[weight].detach())
        assert not torch.equal(text_trace[f"{weight}.next"], text_trace[weight])
        place = Place(layer=1, token=3, weight=f"attention.query.{part}", row=1, column=1)
        chapter = build_chapter(text_trace, "update", place)
        assert f"{weight}[1, 1]" in chapter.sentence
        assert rows_of(chapter, "LoRA on L1.attention.query")["scale"] > 0
        assert all(receipt.agrees for receipt in chapter.receipts)
        ends = [receipt.address for receipt in chapter.receipts]
        assert f"{weight}.grad[1, 1]" in ends
        assert f"{weight}.next[1, 1]" in ends
        feature = 1 if part == "lora_up" else 0
        assert f"L1.attention.query[3, {feature}]" in ends


def test_a_new_update_says_why_down_gets_no_gradient() -> None:
    model = build(BASE)
    lora = config.LoRA(rank=2, alpha=4.0, dropout=0.0, targets=("*.query",))
    assemble_trained(model, lora, seed=0)
    text_trace = traced(model)
    assert not text_trace[f"{QUERY}.lora_down.grad"].any()
    chapter = build_chapter(
        text_trace, "update", Place(layer=1, weight="attention.query.lora_down")
    )
    assert any("nothing comes back to down" in note for note in chapter.notes)
    up = build_chapter(text_trace, "update", Place(layer=1, weight="attention.query.lora_up"))
    assert not any("nothing comes back to down" in note for note in up.notes)
