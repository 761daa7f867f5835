"""Healthy trainings of every preset's architecture are silent."""

from __future__ import annotations

import pytest

from pellucid.presets import PRESETS
from pellucid.training import Logged, Vitals
from pellucid.vitals import watcher
from support.twins import RATES, WITHOUT_HEAD, twin_job
from support.watched import run_job

#: Each once: most sizes of a family have the same small twin.
FAMILIES = (
    "nano",
    "nano-docs",
    "micro",
    "small",
    "nano-encoder",
    "nano-pair",
    "transformer-base",
    "transformer-big",
    "bert-base",
    "gpt2",
    "t5-small",
    "t5-1.1-small",
    "pythia-70m",
    "llama2-7b",
    "llama3-8b",
    "llama3.2-1b",
    "qwen2-0.5b",
    "qwen3-0.6b",
    "gemma2-2b",
    "olmo2-1b",
    "nano-experts",
    "nano-characters",
)


def silent(name: str, steps: int, seed: int = 1) -> None:
    events = run_job(twin_job(name, steps=steps, seed=seed), [watcher(max_overhead=None)])
    told = [event for event in events if isinstance(event, Vitals)]
    found = {
        (id, word, step, value)
        for event in told
        for id, _, value, word, step, _ in event.signs
        if word != "calm"
    }
    assert found == set()
    assert [word for _, word in told[-1].rows] == ["calm"] * 5
    assert len(told[-1].signs) + 5 < 50
    losses = [event.loss for event in events if isinstance(event, Logged)]
    assert losses[-1] < losses[0] - 0.3  # healthy: it learns


@pytest.mark.parametrize("name", ["bert-base", "t5-small", "gemma2-2b"])
def test_small_twins_of_a_few_presets_are_silent(name: str) -> None:
    silent(name, 40)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("name", FAMILIES)
def test_small_twins_of_all_presets_are_silent(name: str, seed: int) -> None:
    silent(name, 150, seed)


def test_every_preset_is_one_of_those() -> None:
    twins = {repr(twin_job(name, steps=1).model) for name in FAMILIES}
    for name in PRESETS.keys() - WITHOUT_HEAD:
        assert repr(twin_job(name, steps=1).model) in twins, name
    assert set(RATES) <= set(PRESETS)
