"""`pellucid explain --audit`: every number recomputed from its operands, and counted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor, nn

from pellucid import runs
from pellucid.cli import main
from pellucid.runs import Run


def test_every_number_agrees_and_is_counted_by_kind(trained: Path, stdout_of: Any) -> None:
    answer = json.loads(stdout_of("explain", trained, "the fox", "--audit", "--json"))
    assert answer["agrees"]
    assert answer["agreeing"] == answer["numbers"] == sum(k["numbers"] for k in answer["kinds"])
    kinds = {kind["address"] for kind in answer["kinds"]}
    assert {"loss", "logits", "L*.H*.weights", "L*.feed_forward", "L*.residual.grad"} <= kinds
    assert {end["address"] for end in answer["ends"]} == {"ids", "loss.grad"}
    text = stdout_of("explain", trained, "the fox", "--audit")
    assert f"{answer['agreeing']:,} of {answer['numbers']:,} numbers agree" in text
    assert "L*.H*.weights" in text


def test_the_next_update_is_audited_too(trained: Path, stdout_of: Any) -> None:
    answer = json.loads(stdout_of("explain", trained, "the fox", "--audit-update", "--json"))
    assert answer["agrees"]
    kinds = {kind["address"] for kind in answer["kinds"]}
    weight = "decoder.blocks.*.attention.query.weight"
    stepped = {f"{weight}.{part}" for part in ("grad_norm", "m", "iterate0", "gram4", "next")}
    assert {"loss", "token_embedding.weight.v", *stepped} <= kinds
    assert f"{weight}.m_before" in {end["address"] for end in answer["ends"]}


def test_a_scaled_head_and_an_edit_are_in_the_audit(trained: Path, stdout_of: Any) -> None:
    flags = ("--ablate", "L0.H0=0.5", "--edit", "L0.feed_forward[1]*=2", "--audit", "--json")
    answer = json.loads(stdout_of("explain", trained, "the fox", *flags))
    assert answer["agrees"]
    reasons = {end["address"]: end["reason"] for end in answer["ends"]}
    assert reasons["L*.feed_forward"] == "an edit changed it"
    assert reasons["embedding.grad"] == "an edit changed numbers that it comes through"


def test_a_number_that_does_not_follow_is_named_and_the_command_fails(
    trained: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    load = runs.load

    def load_wrong(*args: Any, **options: Any) -> Run:
        run = load(*args, **options)
        assert run.model.decoder is not None

        def spoil(_: nn.Module, inputs: Any, output: Tensor) -> Tensor:
            output = output.clone()
            output[:, 1, 2] += 1e-2
            return output

        run.model.decoder.blocks[0].get_submodule("feed_forward").register_forward_hook(spoil)
        return run

    monkeypatch.setattr(runs, "load", load_wrong)
    assert main(["explain", str(trained), "the fox", "--audit"]) == 4
    text = capsys.readouterr().out
    assert "≠ differs" in text
    first = next(line for line in text.splitlines() if line.startswith("≠"))
    assert first.startswith("≠ L0.feed_forward[1, 2]: the model has")


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (("--chapter", "scores"), "--audit shows no chapter and no page"),
        (("--all",), "--audit shows no chapter and no page"),
        (("--against", "other"), "leave --against out"),
    ],
)
def test_what_an_audit_cannot_show_is_refused(
    flags: tuple[str, ...], reason: str, trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", str(trained), "the fox", "--audit", *flags]) == 2
    assert reason in " ".join(capsys.readouterr().err.split())
