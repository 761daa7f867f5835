"""What a plan says follows from what it was made from, in the right direction."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pellucid import config
from pellucid.config import run_from_table
from pellucid.counting import flops_per_token, peak_memory
from pellucid.errors import ConfigError
from pellucid.planning import Kind, Plan, find_kind, kinds, layout_of, plan_training
from pellucid.presets import find

LLAMA = run_from_table({"base": "llama3-8b"}, find, ["training.batch_size=512"])
ADAPTED = replace(
    LLAMA, trained=config.LoRA(rank=8, alpha=16.0, dropout=0.0, targets=("*.blocks.*",))
)
EAGER = replace(LLAMA, training=replace(LLAMA.training, compile="off"))


def plan(
    run: config.Run = LLAMA,
    kind: str | Kind = "h100",
    devices: int = 8,
    assume: tuple[str, ...] = (),
    **layout: Any,
) -> Plan:
    device = find_kind(kind) if isinstance(kind, str) else kind
    changes = {"shard": "full", **layout}
    return plan_training(run, device, layout_of(run, device, devices, **changes), assume=assume)


@pytest.mark.parametrize("layout", [{}, {"tensor": 2}, {"recompute": "full"}, {"shard": "none"}])
def test_the_parts_add_up(layout: dict[str, Any]) -> None:
    predicted = plan(**layout)
    assert sum(row.seconds for row in predicted.time_rows()) == pytest.approx(
        predicted.step_seconds
    )
    assert sum(row.n_bytes for row in predicted.memory_rows()) == predicted.memory_per_device
    tokens = 512 * 8192 / predicted.step_seconds
    assert predicted.tokens_per_second == pytest.approx(tokens)
    flops = sum(row.forward + row.backward for row in flops_per_token(LLAMA.model))
    assert predicted.mfu == pytest.approx(flops * tokens / 8 / 989.4e12)


def test_the_memory_is_that_of_the_one_model() -> None:
    predicted = plan(kind="cpu", devices=1, shard="none")
    estimate = peak_memory(predicted.setting.run, predicted.setting.conditions)
    assert predicted.memory_per_device == estimate.n_bytes


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        ({"devices": 16}, {"devices": 8}),
        ({}, {"recompute": "selective"}),
        ({"recompute": "selective"}, {"recompute": "full"}),
        ({"run": EAGER}, {"run": EAGER, "assume": ("logits=whole",)}),
        ({}, {"run": EAGER}),
        ({"run": ADAPTED}, {}),
        ({"run": replace(LLAMA, trained=config.LastLayers(count=4))}, {"run": ADAPTED}),
        ({"kind": "h200"}, {"kind": "h100"}),
        ({"kind": "b200"}, {"kind": "h200"}),
        ({}, {"tensor": 8}),
        ({}, {"offload": True}),
        ({"kind": replace(kinds()["h100"], link=4e12)}, {}),
        ({"devices": 16}, {"kind": replace(kinds()["h100"], network=1e9), "devices": 16}),
        ({}, {"kind": replace(kinds()["h100"], clock=0.8)}),
    ],
)
def test_what_should_be_faster_is_faster(better: dict[str, Any], worse: dict[str, Any]) -> None:
    assert plan(**better).tokens_per_second > plan(**worse).tokens_per_second


def test_recomputation_and_shards_save_memory() -> None:
    sizes = [plan(recompute=name).memory_per_device for name in ("none", "selective", "full")]
    assert sizes == sorted(sizes, reverse=True)
    assert plan(devices=64).memory_per_device < plan(devices=8).memory_per_device


def test_narrow_models_and_short_texts_reach_less_of_the_peak() -> None:
    sizes = [plan(find(name), shard="none").mfu for name in ("gpt2", "gpt2-medium", "gpt2-xl")]
    assert sizes == sorted(sizes)
    long = [
        plan(run_from_table({"base": "gpt2"}, find, [f"model.context_length={length}"])).mfu
        for length in (512, 4096)
    ]
    assert long[1] < long[0]  # attention takes more of it, at a smaller share of the peak


def test_bytes_of_collectives_are_those_of_rings() -> None:
    n, groups = 8, {row.name: row for row in plan().transport}
    weights = 2 * (2 * 6_979_321_856 + 1_050_939_392)  # bfloat16; blocks twice, the root once
    parts = LLAMA.training.accumulation // n
    assert parts == 64
    gathered = groups["all-gather of weights"].n_bytes
    assert gathered == pytest.approx(parts * (n - 1) / n * weights, rel=1e-3)
    scattered = groups["reduce-scatter of gradients"].n_bytes
    assert scattered == pytest.approx(parts * (n - 1) / n * 4 * 8_030_261_248, rel=1e-3)
    summed = {row.name: row for row in plan(shard="none").transport}["all-reduce of gradients"]
    assert summed.n_bytes == pytest.approx(2 * (n - 1) / n * 4 * 8_030_261_248, rel=1e-3)


def test_a_ring_over_nodes_has_the_latency_of_its_hops() -> None:
    quick = replace(kinds()["h100"], link=1e30, network=1e30)
    groups = {row.name: row for row in plan(kind=quick, devices=32).transport}
    hops = (31 - 3) * 3.4e-6 + 3 * 14e-6  # of 31 hops three lead to another node
    passes = LLAMA.training.accumulation // 32
    assert groups["all-gather of weights"].seconds == pytest.approx(passes * 2 * 33 * hops)
    assert groups["reduce-scatter of gradients"].seconds == pytest.approx(passes * 33 * hops)


def test_a_device_whose_memory_is_nearly_full_waits_for_its_transport() -> None:
    roomy = plan(kind="h200")
    full = roomy.memory_per_device + 1.5 * 2**30
    crowded = plan(kind=replace(kinds()["h200"], memory=full / 0.96))
    empty = plan(kind=replace(kinds()["h200"], memory=full / 0.94))
    assert empty.step_seconds == roomy.step_seconds
    waiting = {row.part: row.seconds for row in crowded.time_rows()}["waiting"]
    assert waiting == pytest.approx(sum(row.seconds for row in crowded.transport))
    assert "nothing is gathered ahead" in " ".join(crowded.assumptions())
    assert "gathered while the device computes" in " ".join(roomy.assumptions())


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            ["training.batch_size=9", "training.accumulation=1"],
            "9 rows cannot be cut into 8 equal parts that 8 ranks share",
        ),
        (
            ["training.batch_size=60", "training.accumulation=12"],
            "12 parts of a batch cannot be shared by 8 ranks",
        ),
    ],
)
def test_a_batch_that_cannot_be_cut_is_refused(settings: list[str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        plan(run_from_table({"base": "gpt2"}, find, settings))


@pytest.mark.parametrize("name", ["nano-encoder", "nano-pair", "nano-experts", "bert-base"])
def test_every_kind_of_model_has_a_plan(name: str) -> None:
    settings = ["training.batch_size=16", "training.accumulation=1"]
    predicted = plan(run_from_table({"base": name}, find, settings))
    assert predicted.tokens_per_second > 0
    assert 0 < predicted.mfu < 1
