"""What is healthy is passed in silence: every family, every kind of part, encoders too."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from pellucid import config
from pellucid.diagnosis import check, declare, reduce_model
from pellucid.model import assemble
from pellucid.optim import assemble_optimiser
from pellucid.presets import FAMILIES, PRESETS
from support.faults import mean_loss, next_tokens, text
from support.models import ENCODERS, PAIRS, VARIANTS, build
from support.nightly import sampled

#: One preset of each family; the others are of the same parts, and slow together.
FIRST = [next(iter(presets)) for presets in FAMILIES.values()]
EVERY = [
    pytest.param(name, marks=() if name in FIRST else pytest.mark.slow, id=name) for name in PRESETS
]


@pytest.mark.parametrize("name", EVERY)
def test_small_twin_of_every_preset_is_passed_in_silence(name: str) -> None:
    model = assemble(replace(reduce_model(PRESETS[name].model), vocab_size=64), seed=0)
    decoder_alone = model.encoder is None
    ids = text()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    findings = check(
        model,
        ids if decoder_alone else None,
        next_tokens(ids) if decoder_alone else None,
        optimizer=optimizer,
        loss=mean_loss if decoder_alone else None,
        declared=declare(pretrained=False),
    )
    assert [each.text() for each in findings] == []


MODELS = {
    **VARIANTS,
    **{f"encoder, {name}": model for name, model in ENCODERS.items()},
    **{f"pair, {name}": model for name, model in PAIRS.items()},
}


@pytest.mark.parametrize("name", sampled(MODELS, every=5))
def test_every_kind_of_part_is_passed_in_silence(name: str) -> None:
    findings = check(build(MODELS[name], double=False))
    assert [each.text() for each in findings] == []


@pytest.mark.parametrize("name", ["rotary", "bert"])
def test_model_without_a_head_is_probed_by_its_states(name: str) -> None:
    model = replace({**VARIANTS, **ENCODERS}[name], head=config.NoHead())
    built = build(model, double=False)
    asked = declare(frozen=["head"])
    assert [each.text() for each in check(built, declared=asked)] == []


def test_twin_keeps_the_kinds_and_is_small() -> None:
    for name, run in PRESETS.items():
        twin = reduce_model(run.model)
        pairs = zip(twin.stacks, run.model.stacks, strict=True)
        for ours, theirs in pairs:
            assert type(ours.positions) is type(theirs.positions), name
            assert type(ours.feed_forward) is type(theirs.feed_forward)
            assert [type(a) for a in ours.pattern] == [type(a) for a in theirs.pattern]
        assert sum(p.numel() for p in assemble(twin, seed=0).parameters()) < 1_000_000


def test_model_with_the_optimiser_of_the_default_preset_is_passed_in_silence() -> None:
    # Muon has numbers of its own, which torch's copies of an optimiser leave behind
    model = assemble(replace(reduce_model(PRESETS["nano"].model), vocab_size=64), seed=0)
    optimizer = assemble_optimiser(PRESETS["nano"].optimiser, model.named_parameters())
    findings = check(model, text(), optimizer=optimizer, declared=declare(pretrained=False))
    assert [each.text() for each in findings] == []
