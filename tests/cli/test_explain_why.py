"""`pellucid explain --why`: the words of the command, the lists of `--json`, refusals in words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import pellucid


def test_json_has_both_lists_the_measured_effects_and_the_paths(
    trained: Path, stdout_of: Any
) -> None:
    answer = json.loads(stdout_of("explain", trained, "the fox", "--why", "--json"))
    for name in ("parts", "layers"):
        total = sum(part["share"] for part in answer[name])
        assert total == pytest.approx(answer["difference"], abs=answer["tolerance"])
    trace = pellucid.trace(pellucid.load(trained), "the fox")
    n_heads = sum(name.endswith(".weights") and ".H" in name for name in trace.addresses())
    kinds = [part["kind"] for part in answer["parts"]]
    assert kinds.count("head") == n_heads
    assert kinds.count("feed-forward") == trace.n_layers("decoder")
    assert [effect["method"] for effect in answer["measured"]["parts"][0]["effects"]] == [
        "zero",
        "mean",
        "resample",
        "patch",
    ]
    assert answer["measured"]["resampled_from"] == "held-out text of the run"
    assert answer["paths"]["total"] == pytest.approx(answer["difference"], abs=answer["tolerance"])
    assert answer["adds_up"]


def test_the_words_and_the_contrast_are_those_of_the_command(trained: Path, stdout_of: Any) -> None:
    flags = ("--why", "e", "--rather-than", "a", "--contrast", "the box", "--token", 3)
    answer = json.loads(stdout_of("explain", trained, "the fox", *flags, "--json"))
    assert (answer["word"].strip(), answer["rather_than"].strip()) == ("e", "a")
    assert answer["token"] == 3
    assert answer["measured"]["patched_from"] == "'the box'"
    text = stdout_of("explain", trained, "the fox", *flags)
    assert text.startswith("1 · Why this word   token ")
    assert "'the box'" in text


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--rather-than", "a"), "belongs to --why"),
        (("--why", "--all"), "a chapter of its own"),
        (("--over-training",), "belongs to --why"),
        (("--why", "--over-training", "--edit", "L0.H0=0"), "each checkpoint as it is"),
        (("--why", "the fox jumps"), "is no single token"),
        (("--why", "--contrast", "a"), "aligned by position"),
    ],
)
def test_flags_that_do_not_fit_are_refused(
    flags: tuple[str, ...], message: str, trained: Path, refused: Any
) -> None:
    assert message in refused("explain", trained, "the fox", *flags)


def test_over_training_asks_the_same_at_each_checkpoint(trained: Path, stdout_of: Any) -> None:
    run = pellucid.load(trained)
    steps = pellucid.runs.RunFolder(trained).shelf.steps()
    course = json.loads(
        stdout_of("explain", trained, "the fox", "--why", "--over-training", "--json")
    )
    assert course["steps"] == steps
    attribution = pellucid.trace(run, "the fox").why()
    assert course["differences"][-1] == pytest.approx(attribution.rivals.difference, abs=1e-6)
    first = pellucid.load(trained / "checkpoints" / f"step-{steps[0]}")
    answer = pellucid.trace(first, "the fox").why(*attribution.rivals.ids)
    assert course["differences"][0] == pytest.approx(answer.rivals.difference, abs=1e-6)
    shares = {part.name: part.share for part in answer.parts}
    for name, row in course["shares"].items():
        assert row[0] == pytest.approx(shares[name], abs=1e-6)
    assert "at each checkpoint" in stdout_of(
        "explain", trained, "the fox", "--why", "--over-training"
    )


def test_name_heads_lists_every_head_with_its_scores(trained: Path, stdout_of: Any) -> None:
    result = json.loads(stdout_of("explain", trained, "x", "--name-heads", "--json"))
    trace = pellucid.trace(pellucid.load(trained), "the fox")
    heads = {name.removesuffix(".out") for name in trace.addresses() if name.endswith(".out")}
    assert {head["head"] for head in result["heads"]} == heads
    text = stdout_of("explain", trained, "x", "--name-heads")
    assert "held-out text of the run" in text
