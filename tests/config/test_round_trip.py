"""Written configs can be read back: presets, and any config that the types allow."""

from __future__ import annotations

import dataclasses
import functools
import json
import types
import typing
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid import config
from pellucid.config import decode, encode, parse_toml, run_from_table, run_to_toml, to_toml
from pellucid.presets import PRESETS

FEW_EXAMPLES = settings(max_examples=40)

LEAVES: dict[Any, st.SearchStrategy[Any]] = {
    bool: st.booleans(),
    int: st.integers(258, 1000),
    float: st.floats(1e-9, 0.45),
    str: st.text(max_size=20).filter(lambda text: text != "none"),  # "none" removes a value
    type(None): st.none(),
}


@st.composite
def values_of(draw: st.DrawFn, kind: Any) -> Any:
    """Any value of a config type; the name of this strategy is short, unlike its parts' names."""
    return draw(parts_of(kind))


@functools.cache
def parts_of(kind: Any) -> st.SearchStrategy[Any]:
    """Any value of a config type, from its annotations alone."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return st.one_of(*map(values_of, arguments))
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin is tuple and arguments[-1] is Ellipsis:
        return st.lists(values_of(arguments[0]), min_size=1, max_size=3).map(tuple)
    if origin is tuple:
        return st.tuples(*map(values_of, arguments))
    if not dataclasses.is_dataclass(kind):
        return LEAVES[kind]
    fields = {name: values_of(hint) for name, hint in typing.get_type_hints(kind).items()}
    return st.builds(kind, **(fields | constrained(kind)))


def constrained(kind: Any) -> dict[str, st.SearchStrategy[Any]]:
    """The fields of a class whose values depend on each other, made to agree."""
    even = st.integers(1, 64).map(lambda half: 2 * half)
    one_attention = (config.MultiHead, config.LinearAttention, config.NeuralMemory)
    return {
        config.MultiHead: {
            "n_heads": st.sampled_from([4, 8]),
            "n_kv_heads": st.sampled_from([1, 2, 4]),
            "d_head": st.just(8),
            # the third goes with some norms only; variants of models have it
            "qk_norm_over": st.sampled_from(["each_head", "all_heads"]),
        },
        config.LinearAttention: {"d_head": st.just(8)},
        config.NeuralMemory: {"d_head": st.just(8)},
        config.Alternating: {
            "layers": st.tuples(*(st.one_of(*map(values_of, one_attention)).map(alike),) * 2),
            "first": st.just(()) | st.tuples(values_of(config.MultiHead).map(alike)),
        }
        if kind is config.Alternating
        else {},
        config.AlternatingFeedForward: {"layers": pairs_of(config.OneFeedForward)}
        if kind is config.AlternatingFeedForward
        else {},
        # all of them rotate, so that they go with linear attention too
        config.AlternatingPositions: {
            "layers": pairs_of(config.Rotary | config.NoPositions),
            "first": st.just(()) | st.tuples(values_of(config.Rotary)),
        }
        if kind is config.AlternatingPositions
        else {},
        # the third, "zero", goes with no reparametrisation; presets have it
        config.Initialisation: {"outputs": st.sampled_from(["plain", "depth_scaled"])},
        config.GroupNorm: {"n_groups": st.sampled_from([1, 2])},
        config.BatchNorm: {"momentum": st.floats(0.1, 1.0)},
        config.BucketedBias: {"n_buckets": even.map(lambda n: 2 + n), "max_distance": st.just(500)},
        config.Disentangled: {
            "n_buckets": even.map(lambda n: 2 + n),
            "max_distance": st.none() | st.just(500),
            "content_to_position": st.just(True),
        },
        config.YaRN: {"beta_slow": st.just(1.0), "beta_fast": st.floats(2, 40)},
        config.Llama3Scaling: {
            "low_frequency_factor": st.just(1.0),
            "high_frequency_factor": st.floats(2, 8),
        },
        config.DynamicNTK: {"factor": st.floats(1, 8)},
        config.LongRoPE: {name: st.just((1.0, 1.5, 2.0, 4.0)) for name in ("short", "long")},
        config.SpanCorruption: {"mean_span": st.floats(1, 8)},
        # what goes with one kind of loss only
        config.Classification: {"multi_label": st.just(False)},
        config.DPO: {"loss": st.just("sigmoid")},
        config.Conversations: {"messages": st.none()},
        # embeddings have one factor a projection needs a head that reads states of the same width
        config.Embedding: {"multiplier": st.none(), "projection": st.none()},
        # a norm without a gain has no parameters at all
        config.LayerNorm: {"gain": st.just(True)},
        config.RMSNorm: {"gain": st.just(True)},
        # without a bias nothing is fixed
        config.LanguageHead: {"fixed_bias": st.just(False), "multiplier": st.none()},
        # a decoder's first token has seen no other
        config.ClassificationHead: {
            "classes": st.none() | st.just(("ham", "spam")),
            "pooling": st.sampled_from(["mean", "last"]),
            # comes before a transform
            "input_dropout": st.just(0.0),
        },
        config.Experts: {
            "n_experts": st.just(8),
            "n_active": st.integers(1, 4),
            "shared_gate": st.just(False),
        },
        config.ExpertGroups: {"n_groups": st.sampled_from([2, 4]), "n_active": st.just(2)},
        config.Rotary: {"n_features": st.sampled_from([None, 8])},
        config.Training: {
            "batch_size": st.just(8),
            "accumulation": st.sampled_from([1, 4]),
            # a length that grows depends on the model's: it comes back below, separately
            "growth": st.none()
            | st.builds(config.GrowingBatch, first=st.just(4), until=st.floats(0.01, 0.99)),
            # depends on the budget
            "patience": st.none(),
            # others go with some optimisers only, and without an average
            "weights": st.just("float32"),
        },
        config.Source: {"paths": st.just(("text",)), "weight": st.floats(0.1, 1.0)},
        config.Mixture: {"sources": pairs_of(config.Source)} if kind is config.Mixture else {},
        # averaged weights are whole
        config.Parallelism: {"shard": st.just("none"), "offload": st.just(False)},
        config.Stack: {
            "cross_attention": st.none(),
            "attention": scoring(),
            # goes with one kind of attention only
            "positions": values_of(config.Positions).filter(
                lambda positions: not isinstance(positions, config.Disentangled)
            ),
            "embedding_positions": st.none(),
            "shared_layers": st.none(),
            "first_attention_norm": st.just(True),
        }
        if kind is config.Stack
        else {},
        config.Transformer: {"d_model": even, "context_length": st.integers(1, 2**24)}
        | (stacks() if kind is config.Transformer else {}),
    }.get(kind, {})


def pairs_of(kind: Any) -> st.SearchStrategy[Any]:
    """Two values of a kind, for layers that take turns."""
    return st.tuples(values_of(kind), values_of(kind))


def alike(layer: Any) -> Any:
    """A layer that can share any positions with any other."""
    changes = {"d_value": None} if isinstance(layer, config.MultiHead) else {}
    return dataclasses.replace(layer, n_heads=8, **changes)


def scoring() -> st.SearchStrategy[Any]:
    """Attention with at least one layer that has scores, so that it goes with any positions."""

    def has_scores(attention: config.Attention) -> bool:
        layers = attention.layers if isinstance(attention, config.Alternating) else (attention,)
        latent = any(isinstance(layer, config.LatentAttention) for layer in layers)  # not with Shaw
        return not latent and not all(isinstance(layer, config.LinearAttention) for layer in layers)

    return values_of(config.Attention).filter(has_scores)


def stacks() -> dict[str, st.SearchStrategy[Any]]:
    """A decoder alone, as most models are; tests of the model build the others."""
    return {"encoder": st.none(), "decoder": values_of(config.Stack)}


@FEW_EXAMPLES
@given(run=values_of(config.Run))
def test_any_run_survives_toml(run: config.Run) -> None:
    assert run_from_table(parse_toml(run_to_toml(run), "file"), no_base) == run


@FEW_EXAMPLES
@given(run=values_of(config.Run))
def test_any_run_survives_json(run: config.Run) -> None:
    assert decode(config.Run, json.loads(json.dumps(encode(run)))) == run


@FEW_EXAMPLES
@given(data=st.data())
def test_an_encoder_and_a_decoder_survive_toml(data: st.DataObject) -> None:
    # a memory is written from left to right, which an encoder has not
    encoder_attention = data.draw(values_of(config.MultiHead | config.LinearAttention))
    encoder = dataclasses.replace(
        data.draw(values_of(config.Stack)), attention=encoder_attention, positions=config.Learned()
    )
    decoder = data.draw(values_of(config.Stack))
    cross_attention = data.draw(values_of(config.MultiHead))
    crossed = dataclasses.replace(
        decoder,
        residual=config.PostNorm(),
        cross_attention=dataclasses.replace(
            cross_attention,
            qk_norm=None,
            window=None,
            clip=None,
            output_gate=None,
            scale_by_layer=False,
        ),
    )
    model = data.draw(values_of(config.Transformer))
    head = data.draw(values_of(config.LanguageHead | config.NoHead))
    pair = dataclasses.replace(model, encoder=encoder, decoder=crossed, head=head)
    assert decode(config.Transformer, parse_toml(to_toml(pair), "file")) == pair


@FEW_EXAMPLES
@given(plan=values_of(config.Plan))
def test_any_plan_survives_toml(plan: config.Plan) -> None:
    assert decode(config.Plan, parse_toml(to_toml(plan), "file")) == plan


UNIONS = [
    config.Norm,
    config.Positions,
    config.Optimiser,
    config.Growth,
    config.EmbeddingProjection | None,
]


@FEW_EXAMPLES
@given(data=st.data(), union=st.sampled_from(UNIONS))
def test_any_member_of_a_union_comes_back_as_itself(data: st.DataObject, union: Any) -> None:
    member = data.draw(values_of(union))
    assert decode(union, encode(member)) == member


def no_base(name: str) -> config.Run:
    raise AssertionError(f"a whole run names no base, but {name!r} was looked for")


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_survives_toml(name: str) -> None:
    text = run_to_toml(PRESETS[name])
    assert run_from_table(parse_toml(text, name), no_base) == PRESETS[name]
    assert "base" not in parse_toml(text, name)


@pytest.mark.parametrize("name", PRESETS)
def test_every_union_member_of_a_preset_is_tagged(name: str) -> None:
    """An untagged member could be taken for another one."""

    def tables(value: object) -> list[dict[str, object]]:
        if not isinstance(value, dict):
            return []
        return [value, *(table for item in value.values() for table in tables(item))]

    assert all("kind" in table for table in tables(encode(PRESETS[name])))


def test_config_values_cannot_be_changed() -> None:
    run = PRESETS["nano"]
    with pytest.raises(dataclasses.FrozenInstanceError):
        run.model.d_model = 7  # type: ignore[misc]


def test_whole_numbers_are_numbers_where_a_number_is_asked_for() -> None:
    norm = decode(config.RMSNorm, {"eps": 1})
    assert norm == config.RMSNorm(eps=1.0)
    assert type(norm.eps) is float
