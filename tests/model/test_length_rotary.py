"""Rotary positions whose angles depend on the length of the text."""

from __future__ import annotations

import math

import pytest
import torch

from pellucid import config
from pellucid.errors import ConfigError, PellucidError
from pellucid.generation import Reader
from pellucid.maths.positions.rotary import rotary_frequencies
from pellucid.maths.positions.rotary_scaling import dynamic_ntk_frequencies
from pellucid.model import LengthRotary, look
from support.models import build, random_ids, with_stack

SCALINGS = {
    "longrope": config.LongRoPE(
        short=(1.0, 1.2), long=(2.0, 5.0), original_context_length=8, attention_factor=1.3
    ),
    "dynamic": config.DynamicNTK(factor=2.0, original_context_length=8),
}
MODELS = {
    name: build(with_stack(positions=config.Rotary(base=100.0, scaling=scaling)))
    for name, scaling in SCALINGS.items()
}
every_model = pytest.mark.parametrize("name", MODELS)
EXACT = {"rtol": 0.0, "atol": 1e-12}


@every_model
def test_a_longer_text_has_other_angles_at_all_of_its_tokens(name: str) -> None:
    model, ids = MODELS[name], random_ids(1, 12)
    assert not torch.allclose(model(ids)[:, 1:8], model(ids[:, :8])[:, 1:])
    torch.testing.assert_close(model(ids[:, :8])[:, :5], model(ids[:, :5]), **EXACT)


def test_the_tables_are_those_of_the_equations() -> None:
    plain = rotary_frequencies(torch.arange(2, dtype=torch.float64), n_rotated=4, base=100.0)
    dynamic = MODELS["dynamic"].stack.positions
    assert isinstance(dynamic, LengthRotary)
    for length in (3, 8, 9, 13):
        theta = dynamic_ntk_frequencies(plain, factor=2.0, length=length, original_length=8)
        torch.testing.assert_close(
            dynamic.tables(length)[0][5, :2], (5 * theta).cos(), rtol=0, atol=1e-6
        )
    longrope = MODELS["longrope"].stack.positions
    assert isinstance(longrope, LengthRotary)
    for length, factors in ((8, (1.0, 1.2)), (9, (2.0, 5.0)), (16, (2.0, 5.0))):
        expected = [1.3 * math.sin(5 * float(t) / f) for t, f in zip(plain, factors, strict=True)]
        assert longrope.tables(length)[1][5, :2].tolist() == pytest.approx(expected, abs=1e-6)


@every_model
def test_padding_and_neighbours_change_nothing(name: str) -> None:
    model, ids = MODELS[name], random_ids(2, 12)
    padding = torch.ones(2, 12, dtype=torch.bool)
    padding[1, 6:] = False
    batched = model(ids, padding=padding)
    torch.testing.assert_close(batched[:1], model(ids[:1]), **EXACT)
    torch.testing.assert_close(batched[1:, :6], model(ids[1:, :6]), **EXACT)


@every_model
def test_each_document_has_the_angles_of_its_own_length(name: str) -> None:
    model, ids = MODELS[name], random_ids(1, 14)
    documents = torch.tensor([[0] * 4 + [1] * 10])
    packed = model(ids, documents=documents)
    torch.testing.assert_close(packed[:, :4], model(ids[:, :4]), **EXACT)
    torch.testing.assert_close(packed[:, 4:], model(ids[:, 4:]), **EXACT)


@every_model
def test_generation_reads_the_text_again_when_its_angles_change(name: str) -> None:
    model, ids = MODELS[name], random_ids(2, 20)
    cached, uncached = Reader(model), Reader(model, cached=False)
    for length in range(4, 21):  # past the switch, and past the context
        text = ids[:, :length]
        torch.testing.assert_close(cached.next_logits(text), uncached.next_logits(text))


@every_model
def test_going_on_from_keys_with_other_angles_is_refused(name: str) -> None:
    model, ids = MODELS[name], random_ids(1, 12)
    caches = model.new_caches()
    parts = [model(part, caches) for part in (ids[:, :5], ids[:, 5:8])]
    torch.testing.assert_close(torch.cat(parts, dim=1), model(ids[:, :8]), **EXACT)
    with pytest.raises(PellucidError, match=r"from 8 to 9 tokens.*with new caches"):
        model(ids[:, 8:9], caches)


def test_only_a_longer_text_makes_longrope_read_again() -> None:
    positions = MODELS["longrope"].stack.positions
    view = look(12, torch.device("cpu"), causal=True)
    assert view.text_lengths(12) == 12
    assert positions.changes(8, 9)
    assert not positions.changes(9, 15)


def test_factors_must_fit_the_rotated_features() -> None:
    with pytest.raises(ConfigError, match="each pair of rotated features, 2, was 1"):
        with_stack(
            positions=config.Rotary(
                base=100.0,
                scaling=config.LongRoPE(
                    short=(1.0,), long=(1.0,), original_context_length=8, attention_factor=1.0
                ),
            )
        )
    with pytest.raises(ConfigError, match="as many factors, was 1 and 2"):
        config.LongRoPE(
            short=(1.0,), long=(1.0, 2.0), original_context_length=8, attention_factor=1.0
        )
