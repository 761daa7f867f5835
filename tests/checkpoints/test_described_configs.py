"""What a family reads from a `config.json`, it writes again: random configurations of each."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from pellucid import config
from pellucid.checkpoints.huggingface import FAMILIES
from pellucid.checkpoints.huggingface.attributes import Read, Table, read_attributes
from pellucid.checkpoints.huggingface.config_tree import shortest_pattern
from pellucid.checkpoints.huggingface.mapping import DirectoryContents, Unfit
from pellucid.errors import CheckpointError, PellucidError
from support.conformance import COMMON, draw
from support.published import ATTRIBUTES

DRAWS = 6


def read(name: str, architecture: str, attributes: Table) -> config.Transformer:
    family = FAMILIES[name]
    read_values = read_attributes(attributes, family.rules, family=name)
    return family.read(read_values, DirectoryContents(architecture, frozenset()))


def rates(name: str, number: int) -> Iterator[tuple[str, float]]:
    """Other numbers for the attributes that no size, switch or option of a draw is."""
    chance = random.Random(f"rates {name} {number}")
    for key, rule in FAMILIES[name].rules.items():
        is_number = isinstance(rule, Read) and rule.kind is float and rule.default is not None
        if is_number and key not in COMMON:
            yield key, chance.choice((0.0625, 0.125, 0.25))


def returns(name: str, architecture: str, attributes: Table) -> bool:
    """Whether a configuration is one of the family; then its written form reads the same."""
    try:
        model = read(name, architecture, attributes)
        attributes_again = FAMILIES[name].describe(model)
    except (PellucidError, Unfit):  # a width that is odd, say, or no layer with experts
        return False
    assert read(name, architecture, attributes_again) == model, attributes
    return True


@pytest.mark.parametrize("name", FAMILIES)
def test_what_is_read_is_written_again(name: str) -> None:
    draws = [draw(name, number) for number in range(DRAWS)]
    for random_config in draws:
        if "rope_scaling" in random_config.attributes:  # or an older spelling says it a second time
            random_config.attributes.pop("rope_parameters", None)
    assert (
        sum(
            returns(name, random_config.architecture, random_config.attributes)
            for random_config in draws
        )
        > 0
    )


@pytest.mark.parametrize("name", FAMILIES)
def test_every_number_of_an_attribute_is_written_again(name: str) -> None:
    random_config = draw(name, 0)
    for key, value in rates(name, 0):
        returns(name, random_config.architecture, {**random_config.attributes, key: value})


@pytest.mark.parametrize("terms", [[], ["c2p"], ["c2p", "p2c"]])
def test_a_deberta_without_distances_is_written_with_the_terms_of_its_scale(
    terms: list[str],
) -> None:
    attributes = {**ATTRIBUTES["deberta-v2"], "relative_attention": False, "pos_att_type": terms}
    model = read("deberta-v2", "DebertaV2Model", attributes)
    assert FAMILIES["deberta-v2"].describe(model)["pos_att_type"] == terms


YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8}


def rotary_of(name: str, architecture: str, scaling: Table) -> config.Transformer:
    return read(name, architecture, {**ATTRIBUTES[name], "rope_scaling": scaling})


def test_the_scale_that_yarn_gives_to_latent_attention_is_written_as_its_factor() -> None:
    scaling = {**YARN, "mscale": 0.7, "mscale_all_dim": 0.9}
    model = rotary_of("deepseek_v3", "DeepseekV3ForCausalLM", scaling)
    written_scaling = FAMILIES["deepseek_v3"].describe(model)["rope_scaling"]
    assert written_scaling["mscale_all_dim"] == pytest.approx(0.9, rel=1e-12)


def test_layers_with_a_window_keep_their_plain_rotation() -> None:
    model = rotary_of("olmo3", "Olmo3ForCausalLM", YARN)
    assert model.decoder is not None
    assert isinstance(model.decoder.positions, config.AlternatingPositions)
    in_window, without_window = model.decoder.positions.layers
    assert isinstance(in_window, config.Rotary)
    assert isinstance(without_window, config.Rotary)
    assert in_window.scaling is None
    assert isinstance(without_window.scaling, config.YaRN)
    assert without_window.scaling.factor == 4


def test_a_yarn_that_lengthens_nothing_scales_nothing() -> None:
    model = rotary_of("llama", "LlamaForCausalLM", {**YARN, "factor": 1.0})
    assert model.decoder is not None
    assert isinstance(model.decoder.positions, config.Rotary)
    assert isinstance(model.decoder.positions.scaling, config.YaRN)
    assert model.decoder.positions.scaling.attention_factor == 1


@pytest.mark.parametrize(
    ("buckets", "furthest", "n_buckets", "max_distance"),
    [(8, 20, 16, 20), (8, -1, 16, 32), (-1, 20, 40, None)],
)
def test_a_deberta_has_buckets_or_a_vector_for_every_distance(
    buckets: int, furthest: int, n_buckets: int, max_distance: int | None
) -> None:
    attributes = ATTRIBUTES["deberta-v2"] | {
        "position_buckets": buckets,
        "max_relative_positions": furthest,
    }
    model = read("deberta-v2", "DebertaV2Model", attributes)
    assert model.encoder is not None
    positions = model.encoder.positions
    assert isinstance(positions, config.Disentangled)
    assert (positions.n_buckets, positions.max_distance) == (n_buckets, max_distance)


def test_a_pooler_of_another_width_is_refused_where_a_head_reads_it() -> None:
    attributes = ATTRIBUTES["deberta-v2"] | {"pooler_hidden_size": 8}
    read("deberta-v2", "DebertaV2ForMaskedLM", attributes)
    with pytest.raises(CheckpointError, match="pooler_hidden_size = 8 is not handled"):
        read("deberta-v2", "DebertaV2ForSequenceClassification", attributes)


@pytest.mark.parametrize(
    ("layers", "first", "repeated"),
    [
        ("aaa", "", "a"),
        ("abab", "", "ab"),
        ("xaaa", "x", "a"),
        ("xyabab", "xy", "ab"),
        ("abc", "", "abc"),
    ],
)
def test_layers_are_their_shortest_pattern(layers: str, first: str, repeated: str) -> None:
    assert shortest_pattern(layers) == (list(first), list(repeated))
