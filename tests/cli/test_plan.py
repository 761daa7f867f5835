"""`pellucid plan`: a config, a preset or a run; one layout, or proposals; refusals in a line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


def test_a_plan_has_its_numbers_and_their_parts(json_of: Any) -> None:
    words = ("plan", "gpt2", "--devices", 8, "--device-kind", "h100", "--shard", "full")
    facts = json_of(*words, "--set", "training.batch_size=512", "--set", "training.accumulation=8")
    assert facts["memory_per_device"] == sum(row["bytes"] for row in facts["memory"])
    assert facts["step_seconds"] == pytest.approx(sum(row["seconds"] for row in facts["time"]))
    assert facts["tokens_per_second"] * facts["step_seconds"] == pytest.approx(512 * 1024)
    assert {row["part"] for row in facts["memory"]} >= {"weights", "activations", "gathered"}
    assert [row["name"] for row in facts["collectives"]] == [
        "all-gather of weights",
        "reduce-scatter of gradients",
    ]
    assert all(row["formula"] for row in (*facts["memory"], *facts["time"], *facts["collectives"]))
    assert 0 < facts["mfu"] < facts["mfu_full_attention"] < 1
    assert facts["cost"]["dollars_per_hour"] == 24.0
    assert facts["assumptions"]


def test_people_see_the_same_numbers(stdout_of: Any, json_of: Any) -> None:
    words = ("plan", "gpt2", "--devices", 1, "--device-kind", "a100-80gb")
    text, facts = stdout_of(*words), json_of(*words)
    assert f"{facts['tokens_per_second']:,.0f} on all devices" in text
    assert f"{facts['memory_per_device'] / 2**30:.1f} GiB" in text


def test_a_file_and_a_run_are_planned_too(json_of: Any, trained: Path, tmp_path: Path) -> None:
    file = tmp_path / "my.toml"
    file.write_text('base = "gpt2"\n[training]\nbatch_size = 16\naccumulation = 1\n', "utf-8")
    device = ("--devices", 1, "--device-kind", "cpu")
    assert json_of("plan", file, *device)["step_tokens"] == 16 * 1024
    assert json_of("plan", trained, *device)["step_seconds"] > 0


def test_without_devices_layouts_are_proposed(json_of: Any, stdout_of: Any) -> None:
    words = ("plan", "pythia-160m", "--device-kind", "a100-40gb")
    proposals = json_of(*words)["proposals"]
    prices = [round(plan["cost"]["dollars_per_billion_tokens"], 2) for plan in proposals]
    assert len(proposals) > 1
    assert prices == sorted(prices)
    assert "best first" in stdout_of(*words)


H100 = ("--device-kind", "h100")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("gpt2",), "--device-kind is missing: name one of h100, h200"),
        (("gpt2", "--device-kind", "h101"), "unknown kind; did you mean 'h100'"),
        (("gpt2", *H100, "--devices", 12), "12 devices do not fill nodes of 8"),
        (("gpt2", *H100, "--devices", 8, "--tensor", 3), "tensor must divide the number of dev"),
        (
            ("gpt2", *H100, "--devices", 64),
            "480 rows cannot be cut into 64 equal parts that 64 ranks share",
        ),
        (("gpt2", *H100, "--devices", 8, "--tensor", 8), "must divide n_heads, was 8 of 12"),
        (("gpt2", *H100, "--shard", "full"), "--shard: without --devices pellucid chooses"),
        (("gpt2", *H100, "--devices", 8, "--assume", "logits"), "expected NAME=VALUE"),
        (("gpt2", *H100, "--devices", 8, "--assume", "logits=half"), "choices: chunks, whole"),
        (("gpt2", *H100, "--devices", 8, "--assume", "logit=whole"), "did you mean 'logits'"),
        (("gpt3", *H100), "gpt3"),
        (("missing.toml", *H100), "missing.toml"),
        (("gpt2", "--device-kind", "missing.toml"), "missing.toml"),
    ],
)
def test_bad_input_is_refused_in_one_paragraph(
    refused: Any, words: tuple[object, ...], message: str
) -> None:
    assert message in refused("plan", *words)
