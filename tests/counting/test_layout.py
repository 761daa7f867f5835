"""The memory of one of many devices, and the layouts that are refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from pellucid.counting import Layout, check_tensor, parameter_count, peak_memory, weight_groups
from pellucid.counting.activations import Pass, activations
from pellucid.counting.conditions import Conditions
from pellucid.errors import ConfigError
from pellucid.presets import find

RUN = find("llama3-8b")
EIGHT = replace(RUN, training=replace(RUN.training, batch_size=128, accumulation=1))


def rows_of(**layout: Any) -> dict[str, int]:
    conditions = Conditions(precision="bfloat16", on_gpu=True, layout=Layout(**layout))
    return {row.part: row.n_bytes for row in peak_memory(EIGHT, conditions).rows}


def test_shards_hold_equal_parts_of_weights_gradients_and_moments() -> None:
    unsharded, sharded = rows_of(devices=8), rows_of(devices=8, shard="full")
    for part in ("weights", "gradients", "optimiser"):
        assert sharded[part] == -(-unsharded[part] // 8)
    assert rows_of(devices=16, node=8, shard="node")["weights"] == sharded["weights"]


def test_sixteen_bytes_a_weight_are_divided_by_shards_and_tensor_ranks() -> None:
    rows = rows_of(devices=8, shard="full", tensor=4)
    state = rows["weights"] + rows["gradients"] + rows["optimiser"]
    assert state == pytest.approx(16 * parameter_count(RUN.model) / 8, rel=1e-6)


def test_offloaded_state_is_not_on_the_device() -> None:
    rows = rows_of(devices=8, shard="full", offload=True)
    assert rows["weights"] == rows["gradients"] == rows["optimiser"] == 0


def test_groups_have_every_weight_once() -> None:
    groups = weight_groups(RUN.model)
    assert groups.blocks + groups.root == parameter_count(RUN.model)
    assert groups.root > 2 * RUN.model.rows * RUN.model.d_model  # the embedding and the head


def test_recomputation_keeps_what_it_says() -> None:
    size, model = Pass(1, 100, 100), RUN.model
    kept_bytes = {
        recompute: activations(model, size, precision="bfloat16", recompute=recompute)[0].n_bytes
        for recompute in ("none", "selective", "alternate", "full")
    }
    d_model, heads, d_ff, layers = 4096, 4096 + 1024, 14336, 32
    products = 2 * heads + 2 * d_model + 2 * d_ff  # q, k, v, sums of values; out and down; gate, up
    assert kept_bytes["full"] == 100 * 4 * (layers + 1) * d_model
    assert kept_bytes["selective"] == kept_bytes["full"] + 100 * 2 * layers * products
    assert kept_bytes["selective"] - kept_bytes["alternate"] == 100 * 2 * layers * (
        1024 + d_model + d_ff
    )
    assert kept_bytes["none"] > kept_bytes["selective"]


def test_a_kernel_of_a_gpu_keeps_no_weights_of_attention_for_dropout() -> None:
    model, size = find("gpt2").model, Pass(1, 1024, 1024)
    fused, flash = (
        activations(model, size, precision="bfloat16", kernel=kernel)[0].n_bytes
        for kernel in ("fused", "flash")
    )
    assert fused - flash == 2 * 12 * 3 * 12 * 1024 * 1024  # layers, three copies, heads, T x T


def test_whole_logits_take_what_their_copies_take() -> None:
    tokens, rows = 16 * 8192, RUN.model.rows
    cases = (("whole", False, 12), ("whole", True, 10), ("fused", False, 4), ("fused", True, 4))
    for logits, compiled, n_bytes in cases:
        conditions = Conditions(
            precision="bfloat16",
            on_gpu=True,
            layout=Layout(devices=8),
            logits=cast("Any", logits),
            compiled=compiled,
        )
        parts = {row.part: row.n_bytes for row in peak_memory(EIGHT, conditions).rows}
        assert parts["loss"] == n_bytes * tokens * rows


@pytest.mark.parametrize(
    ("layout", "words"),
    [
        ({"devices": 8, "tensor": 3}, "tensor must divide the number of devices, was 3 of 8"),
        ({"devices": 12}, "12 devices do not fill nodes of 8"),
        ({"devices": 16, "tensor": 16}, "at most the devices of a node, was 16 of 8"),
        ({"devices": 0}, "devices must be at least 1, was 0"),
    ],
)
def test_a_mesh_that_does_not_match_is_refused(layout: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Layout(**layout)


def test_heads_that_do_not_divide_are_refused_with_the_sizes_that_do() -> None:
    check_tensor(RUN.model, 8)
    with pytest.raises(ConfigError, match=r"n_kv_heads, was 16 of 8: take one of 1, 2, 4, 8"):
        check_tensor(RUN.model, 16)
