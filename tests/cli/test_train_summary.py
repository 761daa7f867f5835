"""What the end of a run says."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from pellucid.cli.output.train_summary import describe_vitals


def ended(word: str) -> Any:
    facts = {"vitals": {"softmax": word, "KL": "calm"}}
    return SimpleNamespace(worst_words={"softmax": word, "KL": "calm"}, facts=facts, vitals_cost="")


def test_a_sick_run_ends_with_the_commands_that_say_why() -> None:
    text = "\n".join(describe_vitals(ended("sick"), "runs/a"))
    assert "softmax is sick" in text
    assert "pellucid diagnose runs/a\n" in text
    assert "pellucid vitals runs/a --why" in text


def test_a_calm_run_ends_with_no_call_to_a_diagnosis() -> None:
    text = "\n".join(describe_vitals(ended("calm"), "runs/a"))
    assert "calm throughout" in text
    assert "diagnose" not in text
