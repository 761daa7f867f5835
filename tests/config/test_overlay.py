"""A base, what a file says on top of it, and what `--set` says on top of both."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pellucid import config
from pellucid.config import parse_toml, run_from_table
from pellucid.config.codec import assignment
from pellucid.errors import ConfigError
from pellucid.presets import find

GPT2 = find("gpt2")


def run_of(text: str, *assignments: str) -> config.Run:
    return run_from_table(parse_toml(text, "file"), find, assignments)


def with_stack(**changes: object) -> config.Run:
    decoder = replace(GPT2.model.decoder, **changes)
    return replace(GPT2, model=replace(GPT2.model, decoder=decoder))


def test_file_with_a_base_says_only_what_differs() -> None:
    run = run_of('base = "gpt2"\nseed = 7\n[model]\nd_model = 64\n')
    assert run == replace(GPT2, seed=7, model=replace(GPT2.model, d_model=64))


def test_set_has_the_last_word_and_the_last_set_the_very_last() -> None:
    run = run_of('base = "gpt2"\nseed = 7\n', "seed=8", "seed=9")
    assert run == replace(GPT2, seed=9)


def test_set_reaches_every_depth_and_leaves_the_neighbours() -> None:
    run = run_of('base = "gpt2"', "model.decoder.norm.eps=1e-6")
    assert run == with_stack(norm=replace(GPT2.model.decoder.norm, eps=1e-6))


def test_another_kind_drops_the_numbers_of_the_base() -> None:
    run = run_of('base = "gpt2"', "model.decoder.norm={kind='RMSNorm', eps=1e-7}")
    assert run == with_stack(norm=config.RMSNorm(eps=1e-7))
    # `eps` of the base's LayerNorm is not taken for the RMSNorm's
    with pytest.raises(ConfigError, match="missing 'eps'; RMSNorm has: eps"):
        run_of('base = "gpt2"', "model.decoder.norm.kind='RMSNorm'")


def test_the_same_kind_keeps_the_numbers_of_the_base() -> None:
    for norm_setting in ("model.decoder.norm=LayerNorm", "model.decoder.norm={kind='LayerNorm'}"):
        assert run_of('base = "gpt2"', norm_setting) == GPT2


def test_another_kind_can_be_filled_in_by_further_sets() -> None:
    run = run_of(
        'base = "gpt2"', "model.decoder.norm.kind='RMSNorm'", "model.decoder.norm.eps=1e-7"
    )
    assert run == with_stack(norm=config.RMSNorm(eps=1e-7))


@pytest.mark.parametrize("value", ["NoPositions", '"NoPositions"', "{kind='NoPositions'}"])
def test_kind_without_numbers_may_be_its_bare_name(value: str) -> None:
    run = run_of('base = "gpt2"', f"model.decoder.positions={value}")
    assert run == with_stack(positions=config.NoPositions())


def test_none_takes_away_what_the_base_has() -> None:
    run = run_of('base = "gpt2"', "training.clip_norm=none")
    assert run == replace(GPT2, training=replace(GPT2.training, clip_norm=None))


def test_none_is_refused_where_something_has_to_stand() -> None:
    with pytest.raises(ConfigError, match=r"model\.d_model: expected a whole number, was 'none'"):
        run_of('base = "gpt2"', "model.d_model=none")


def test_optional_part_can_be_added_and_taken_away_again() -> None:
    added = "model.decoder.attention.qk_norm={kind='RMSNorm', eps=1e-6}"
    run = run_of('base = "gpt2"', added)
    assert run.model.decoder.attention.qk_norm == config.RMSNorm(eps=1e-6)
    assert run_of('base = "gpt2"', added, "model.decoder.attention.qk_norm=none") == GPT2


def test_reading_a_run_does_not_change_the_preset_or_the_table() -> None:
    table = {"base": "gpt2", "model": {"d_model": 64}}
    run_from_table(table, find, ["model.d_model=32"])
    assert table == {"base": "gpt2", "model": {"d_model": 64}}
    assert find("gpt2").model.d_model == 768


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a=3", 3),
        ("a=1e-6", 1e-6),
        ("a=true", True),
        ("a=[1, 2]", [1, 2]),
        ("a=word", "word"),
        ("a='3'", "3"),
        ("a=", ""),
        ("a=x=y", "x=y"),
        ("a = two words ", "two words"),
    ],
)
def test_value_of_a_set_is_toml_or_else_a_text(text: str, value: object) -> None:
    assert assignment(text) == {"a": value}
