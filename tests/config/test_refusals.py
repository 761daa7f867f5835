"""Every refusal names the key, the value and what can be done."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from pellucid import config
from pellucid.config import decode, parse_toml, run_from_table
from pellucid.errors import ConfigError
from pellucid.presets import PRESETS, find

#: Numbers that the refusals below speak of, whatever a preset says.
KNOWN = (
    "model.decoder.norm={kind='LayerNorm', eps=1e-5, bias=false}",
    "model.decoder.positions={kind='Rotary', base=1e4}",
    "model.decoder.attention.n_heads=3",
    "model.decoder.attention.n_kv_heads=3",
    "optimiser={kind='Muon', learning_rate=0.02, momentum=0.95, weight_decay=0, "
    "newton_schulz_steps=5, rest={kind='AdamW', learning_rate=3e-3, betas=[0.9, 0.95], "
    "eps=1e-8, weight_decay=0}}",
    "schedule={kind='Cosine', warm_up=0.1, final=0.1}",
    "training.budget={kind='Steps', count=600}",
    "training.batch_size=32",
    "training.accumulation=1",
)


def run_with(*assignments: str) -> config.Run:
    return run_from_table({"base": "gpt2"}, find, [*KNOWN, *assignments])


#: `--set`, and everything that its refusal has to say.
REFUSED: dict[str, tuple[str, ...]] = {
    # keys
    "model.decoder.norm.epz=1e-6": (
        "model.decoder.norm: unknown key 'epz'; did you mean 'eps'; LayerNorm has: eps, bias",
    ),
    # a key of a table further down, and a kind of one
    "learning_rate=1": ("unknown key 'learning_rate'; did you mean 'optimiser.learning_rate'",),
    "model.n_layers=1": ("model: unknown key 'n_layers'; did you mean 'decoder.n_layers'",),
    "model.heads=1": ("model: unknown key 'heads'; did you mean 'decoder.attention.n_heads'",),
    "optimiser.lr=1": ("optimiser: unknown key 'lr'; did you mean 'learning_rate'",),
    "training.steps=1": ("did you mean 'budget', of kind Steps",),
    "modle.d_model=3": ("unknown key 'modle'; did you mean 'model'; Run has: seed, text, model",),
    "optimiser.rest.learningrate=1": ("optimiser.rest: ", "did you mean 'learning_rate'"),
    "model.decoder.positions.zzz=1": ("unknown key 'zzz'; Rotary has: base",),
    # kinds
    "model.decoder.norm=RMSnorm": (
        "model.decoder.norm: unknown kind 'RMSnorm'; did you mean 'RMSNorm'; "
        "choices: LayerNorm, RMSNorm",
    ),
    'optimiser.kind="Adagrad"': ("optimiser: unknown kind 'Adagrad'", "AdamW, Adam, SGD, Muon"),
    "model.decoder.norm.kind=[1]": ("model.decoder.norm: unknown kind [1]", "LayerNorm, RMSNorm"),
    "model.decoder.norm=RMSNorm": ("model.decoder.norm: missing 'eps'; RMSNorm has: eps",),
    "model.decoder.norm=3": ("model.decoder.norm: expected a table, was 3",),
    'objective.kind="Masked"': ("objective: unknown kind 'Masked'", "NextToken, MLM"),
    # types
    "model.d_model=many": ("model.d_model: expected a whole number, was 'many'",),
    "model.d_model=64.0": ("model.d_model: expected a whole number, was 64.0",),
    "model.d_model=true": ("model.d_model: expected a whole number, was True",),
    "model.decoder.norm.eps=true": ("model.decoder.norm.eps: expected a number, was True",),
    "model.embedding.tied=1": ("model.embedding.tied: expected true or false, was 1",),
    "training.sentence=12": ("training.sentence: expected a text, was 12",),
    "model.decoder=3": ("model.decoder: expected a table, was 3",),
    "training.batch_size.x=3": ("training.batch_size: expected a whole number, was {'x': 3}",),
    "optimiser.rest.betas=0.9": ("optimiser.rest.betas: expected a list, was 0.9",),
    "optimiser.rest.betas=[0.9]": ("optimiser.rest.betas: expected 2 values, was [0.9]",),
    'optimiser.rest.betas=[0.9, "b"]': ("optimiser.rest.betas[1]: expected a number, was 'b'",),
    "training.precision=float16": (
        "training.precision: was 'float16'; did you mean 'bfloat16'; "
        "choices: auto, float32, bfloat16",
    ),
    # the run above has float32 products
    "training={weights='bfloat16_remainder', precision='float32'}": (
        'training.weights is "bfloat16_remainder", but training.precision is "float32"',
        "--set training.precision=bfloat16",
        "--set training.weights=float32",
    ),
    "training={weights='bfloat16_stochastic', batch_size=8, accumulation=2}": (
        'training.weights is "bfloat16_stochastic", but training.accumulation is 2',
        "--set training.accumulation=1",
    ),
    "training={weights='bfloat16_remainder', ema_decay=0.9}": ("averages the rounded weights",),
    "training.compile=true": ("training.compile: was True", "choices: auto, on, all, off"),
    # ranges
    "model.decoder.norm.eps=0": ("model.decoder.norm: eps must be greater than 0, was 0.0",),
    "model.decoder.norm.eps=nan": ("model.decoder.norm.eps: expected a finite number", "was nan"),
    "optimiser.rest.learning_rate=inf": ("optimiser.rest.learning_rate", "finite", "was inf"),
    "training.budget={kind='Minutes', count=inf}": ("training.budget.count", "finite"),
    "model.d_model=0": ("model: d_model must be at least 1, was 0",),
    "model.vocab_size=1": ("model: vocab_size must be at least 2, was 1",),
    "model.decoder.dropout=1": ("dropout must be at least 0 and less than 1, was 1.0",),
    "optimiser.rest.betas=[0.9, 1.0]": ("betas must be at least 0 and less than 1, was 1.0",),
    "optimiser.newton_schulz_steps=0": ("optimiser: newton_schulz_steps", "at least 1, was 0"),
    "optimiser.rest.weight_decay=-1": ("weight_decay must be at least 0, was -1.0",),
    "training.budget.count=0": ("training.budget: count must be at least 1, was 0",),
    "training.clip_norm=0": ("training: clip_norm must be greater than 0, was 0.0",),
    "training.keep_checkpoints=0": ("keep_checkpoints must be at least 1, was 0",),
    "text.held_out=0.6": ("text: held_out", "at most 0.5, was 0.6"),
    "text.held_out=0": ("held_out must be greater than 0 and at most 0.5, was 0.0",),
    "text.tokenizer.vocab_size=257": ("text.tokenizer: vocab_size", "at least 258, was 257"),
    "text.corpus={kind='Files', paths=[]}": ("text.corpus: paths must name at least one",),
    "seed=-1": ("seed must be between 0 and 2^63 - 1, was -1",),
    "schedule.final=1": ("schedule: final must be at least 0 and less than 1, was 1.0",),
    # one number against another
    "model.decoder.attention.n_kv_heads=2": (
        "model.decoder.attention: n_heads must be a multiple of n_kv_heads, was 3 and 2",
    ),
    "model.decoder.attention.d_head=7": (
        "model.decoder: Rotary rotates pairs of features, so attention.d_head must be even, was 7",
    ),
    "training.accumulation=5": (
        "training: batch_size must be a multiple of accumulation, was 32 and 5",
    ),
    "schedule={kind='WarmUpStableDecay', warm_up=0.5, decay=0.6, final=0}": (
        "schedule: decay must be at most 1 - warm_up = 0.5, was 0.6",
    ),
    "training.growth={kind='GrowingBatch', first=3, until=0.3}": (
        "training.growth.first doubles until it is training.batch_size, 32: "
        "it can be 16, 8, 4, 2, 1, was 3; --set training.growth=none leaves growth out",
    ),
    "training.growth={kind='GrowingBatch', first=32, until=0.3}": ("1, was 32",),
    "training.growth={kind='GrowingLength', first=48, until=0.3}": (
        "training.growth.first doubles until it is model.context_length, 1024: "
        "it can be 512, 256, 128, 64",
    ),
    "training.growth={kind='GrowingLength', first=64, until=0}": (
        "training.growth: until must be greater than 0, was 0.0",
    ),
    "training.growth={kind='GrowingLength', first=64, until=1}": ("until", "less than 1, was 1.0"),
    "training.growth={kind='GrowingLength', first=0, until=0.5}": ("first must be at least 1",),
    "model.head.fixed_bias=true": ("model.head: fixed_bias needs bias = true",),
    # the assignment itself
    "training.batch_size": ("--set training.batch_size: expected PATH=VALUE",),
    "=3": ("--set =3: expected PATH=VALUE",),
    "model..d_model=3": ("--set model..d_model=3: expected PATH=VALUE",),
}


@pytest.mark.parametrize("assignment", REFUSED)
def test_refusal_says_the_key_the_value_and_the_choices(assignment: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        run_with(assignment)
    for part in REFUSED[assignment]:
        assert part in str(refusal.value)


def test_a_batch_that_grows_is_cut_into_its_parts_all_along() -> None:
    growing = "training.growth={kind='GrowingBatch', first=4, until=0.3}"
    assert run_with("training.accumulation=4", growing).training.growth is not None
    with pytest.raises(ConfigError, match=r"32 in 8 equal parts .*: it can be 16, 8, was 4"):
        run_with("training.accumulation=8", growing)
    with pytest.raises(ConfigError, match="31: that has no half, was 4"):
        run_with("training.batch_size=31", growing)


@pytest.mark.parametrize(
    ("preset", "growing", "said"),
    [
        ("t5-small", "{kind='GrowingLength', first=64, until=0.3}", "spans of SpanCorruption"),
        ("nano-pair", "{kind='GrowingBatch', first=4, until=0.3}", "rows of Seq2Seq"),
    ],
)
def test_only_rows_of_text_grow(preset: str, growing: str, said: str) -> None:
    run = run_from_table({"base": preset}, find, [f"training.growth={growing}"])
    if preset == "nano-pair":
        run = replace(run, text=replace(run.text, corpus=config.Pairs(paths=("pairs.tsv",))))
    with pytest.raises(ConfigError, match=f"training.growth is Growing.*{said}"):
        run.check_objective()


def test_sinusoidal_positions_need_an_even_width() -> None:
    with pytest.raises(ConfigError, match="even d_model, was 63"):
        run_with("model.decoder.positions={kind='Sinusoidal', base=1e4}", "model.d_model=63")


def test_what_the_refusals_start_from_is_not_refused() -> None:
    assert run_with().training.batch_size == 32


def test_missing_key_is_named_with_all_that_belong_there() -> None:
    with pytest.raises(ConfigError, match="norm: missing 'bias'; LayerNorm has: eps, bias"):
        decode(config.LayerNorm, {"eps": 1e-5}, "norm")


def test_missing_kind_is_named_with_the_choices() -> None:
    with pytest.raises(ConfigError, match="norm: missing 'kind'; choices: LayerNorm, RMSNorm"):
        decode(config.Norm, {"eps": 1e-5}, "norm")  # type: ignore[arg-type]


def test_number_without_a_kind_where_the_base_has_none_asks_for_the_kind() -> None:
    assert find("gpt2").model.decoder.attention.qk_norm is None
    with pytest.raises(ConfigError, match=r"qk_norm: missing 'kind'; choices: LayerNorm, RMSN"):
        run_from_table({"base": "gpt2"}, find, ["model.decoder.attention.qk_norm.eps=1e-6"])


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"base": "nanno"}, "unknown preset 'nanno'; did you mean 'nano'; presets: nano, "),
        ({"base": 3}, "base: expected the name of a preset, was 3"),
        ({"base": "nano", "format": 99}, "format: this config has format 99"),
        ({"format": 1}, "missing 'seed'; Run has: seed, text, model"),
    ],
)
def test_file_with_a_bad_head_is_refused(table: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        run_from_table(table, find)


def test_text_that_is_not_toml_is_refused_by_name_and_line() -> None:
    with pytest.raises(ConfigError, match=r"mine\.toml is not valid TOML.*line 2"):
        parse_toml("a = 1\nb = = 2\n", "mine.toml")


def test_model_without_a_vocabulary_says_where_one_comes_from() -> None:
    with pytest.raises(ConfigError, match=r"from its tokenizer.*--set model\.vocab_size=N"):
        _ = replace(PRESETS["gpt2"].model, vocab_size=None).rows


def test_checks_hold_however_a_value_is_made() -> None:
    attention = PRESETS["gpt2"].model.decoder.attention
    with pytest.raises(ConfigError, match="n_heads must be at least 1, was 0"):
        replace(attention, n_heads=0)


@pytest.mark.parametrize("given", [{"window": 4}, {"qk_norm": config.RMSNorm(eps=1e-6)}])
def test_what_looking_across_does_not_do_is_refused(given: dict[str, Any]) -> None:
    decoder = find("t5-small").model.decoder
    assert decoder is not None
    assert decoder.cross_attention is not None
    with pytest.raises(ConfigError, match="cross_attention must have neither qk_norm nor window"):
        replace(decoder, cross_attention=replace(decoder.cross_attention, **given))


def _alternating(first: dict[str, Any], second: dict[str, Any]) -> config.Alternating:
    attention = find("nano").model.stacks[0].attention
    assert isinstance(attention, config.MultiHead)
    return config.Alternating(layers=(replace(attention, **first), replace(attention, **second)))


@pytest.mark.parametrize(
    "positions", [config.ALiBi(), config.BucketedBias(n_buckets=8, max_distance=12)]
)
def test_layers_that_share_a_number_per_head_need_the_same_heads(
    positions: config.OnePositions,
) -> None:
    with pytest.raises(ConfigError, match=r"the same n_heads with \w+, was \[2, 4\]"):
        replace(
            find("nano").model.stacks[0],
            positions=positions,
            attention=_alternating({}, {"n_heads": 4}),
        )


def test_layers_that_share_vectors_for_values_need_the_same_width() -> None:
    uneven = _alternating({}, {"d_value": 6})
    stack = find("nano").model.stacks[0]
    shaw = config.ShawRelative(max_distance=4, values=False)
    replace(stack, positions=shaw, attention=uneven)
    with pytest.raises(ConfigError, match=r"values of the same width, was \[6, 64\]"):
        replace(stack, positions=replace(shaw, values=True), attention=uneven)


def _layers(changes: dict[str, Any]) -> config.Stack:
    return replace(find("nano").model.stacks[0], n_layers=4, **changes)


ROTARY, ONE_MLP = config.Rotary(base=1e4), config.MLP(d_ff=8, activation="relu", bias=False)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: config.Alternating(layers=()), "at least two kinds of layers, was 0"),
        (lambda: config.AlternatingFeedForward(layers=(ONE_MLP,)), "two kinds of layers, was 1"),
        (
            lambda: config.AlternatingFeedForward(layers=(), first=(ONE_MLP, ONE_MLP)),
            r"layers must name at least one kind, for the layers after the first 2",
        ),
        (
            lambda: config.AlternatingPositions(layers=(ROTARY, config.Learned())),
            "must not have Learned: it changes the embedding, before the first layer",
        ),
    ],
)
def test_a_pattern_needs_kinds_that_can_take_turns(make: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"attention": _alternating({}, {"d_head": 6}), "positions": ROTARY},
            r"the same d_head with Rotary, was \[6, 64\]",
        ),
        (
            {
                "attention": _alternating({}, {"d_head": 6}),
                "positions": config.AlternatingPositions(
                    layers=(ROTARY, replace(ROTARY, n_features=8))
                ),
            },
            r"n_features must be at most attention.d_head, was 8 and 6",
        ),
        (
            {
                "attention": _alternating({}, {"d_head": 6}),
                "positions": config.ShawRelative(max_distance=3, values=False),
            },
            r"the same d_head with ShawRelative, was \[6, 64\]",
        ),
        (
            {
                "attention": config.Alternating(
                    layers=(
                        find("nano").model.stacks[0].layers[0].attention,
                        config.LinearAttention(
                            n_heads=2, d_head=64, qkv_bias=False, out_bias=False, chunk=4
                        ),
                    )
                ),
                "positions": config.AlternatingPositions(layers=(ROTARY, config.ALiBi())),
            },
            "positions must not be ALiBi if every layer is LinearAttention",
        ),
    ],
)
def test_a_scheme_of_positions_fits_each_layer_that_has_it(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        _layers(changes)


def test_heads_may_differ_in_width_where_their_positions_allow_it() -> None:
    uneven = _alternating({}, {"d_head": 6})
    for positions in (config.ALiBi(), replace(ROTARY, n_features=4), config.Learned()):
        assert len(_layers({"attention": uneven, "positions": positions}).layer_counts) == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"shared_layers": config.SharedLayers(groups=5)}, "n_layers was 4, groups 5"),
        (
            {"shared_layers": config.SharedLayers(groups=1, layers_per_group=3)},
            "a multiple of layers_per_group",
        ),
        (
            {
                "shared_layers": config.SharedLayers(groups=2),
                "attention": _alternating({}, {"window": 4}),
            },
            "layers 1 and 2 share their weights, so their attention must be the same",
        ),
        (
            {
                "shared_layers": config.SharedLayers(groups=2),
                "reparametrisation": config.WeightNorm(),
            },
            "shared_layers does not go with WeightNorm",
        ),
        (
            {"shared_layers": config.SharedLayers(groups=2), "first_attention_norm": False},
            "shared_layers needs first_attention_norm = true",
        ),
        (
            {"residual": config.SandwichNorm(), "first_attention_norm": False},
            "needs residual PreNorm, was SandwichNorm",
        ),
    ],
)
def test_layers_share_weights_only_if_they_are_equal(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        _layers(changes)


def test_layers_are_shared_in_runs_and_in_turn() -> None:
    def owners(n_layers: int, groups: int, per_group: int = 1) -> list[int]:
        shared = config.SharedLayers(groups=groups, layers_per_group=per_group)
        return [shared.owner(layer, n_layers) for layer in range(n_layers)]

    assert owners(5, 2) == [0, 0, 0, 3, 3]
    assert owners(6, 1) == [0] * 6
    assert owners(8, 2, 2) == [0, 1, 0, 1, 4, 5, 4, 5]
    assert owners(3, 3) == [0, 1, 2]


@pytest.mark.parametrize(
    "kind", [config.WeightNorm(), config.SpectralNorm(power_iterations=1)], ids=str
)
def test_matrix_divided_by_its_size_does_not_start_at_zero(kind: config.Reparametrisation) -> None:
    model = find("nano").model
    assert model.initialisation.outputs == "zero"
    with pytest.raises(ConfigError, match=r'outputs must not be "zero" with \w+Norm'):
        replace(model, decoder=replace(model.stacks[0], reparametrisation=kind))


def test_groups_divide_the_width_wherever_the_norm_stands() -> None:
    model, thirds = find("nano").model, config.GroupNorm(eps=1e-5, n_groups=3)
    with pytest.raises(ConfigError, match="multiple of n_groups, was 128 and 3"):
        replace(model, decoder=replace(model.stacks[0], input_norm=thirds))
    transform = config.HeadTransform(activation="gelu", norm=thirds)
    with pytest.raises(ConfigError, match="multiple of n_groups, was 128 and 3"):
        replace(model, head=config.LanguageHead(transform=transform))


def test_a_context_longer_than_any_table_is_refused() -> None:
    nano = find("nano").model
    assert replace(nano, context_length=2**24).context_length == 2**24
    with pytest.raises(ConfigError, match="context_length must be at most 16,777,216"):
        replace(nano, context_length=2**24 + 1)


HEAD = config.ClassificationHead(classes=("a", "b"), pooling="last", dropout=0.0, bias=True)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"classes": ("a",)}, r"must name at least two, was \['a'\]"),
        ({"classes": ("a", "b", "a")}, "must differ from each other"),
        ({"dropout": 1.0}, "dropout must be at least 0 and less than 1"),
    ],
)
def test_a_head_with_nothing_to_tell_apart_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        replace(HEAD, **changes)


def test_classes_are_named_once_they_are_known() -> None:
    assert HEAD.names == ("a", "b")
    with pytest.raises(ConfigError, match=r"model\.head\.classes is not set: pellucid finds them"):
        _ = replace(HEAD, classes=None).names


def test_a_head_for_classes_stands_on_one_stack_and_reads_what_has_seen_the_text() -> None:
    nano = find("nano").model
    assert replace(nano, head=HEAD).head == HEAD
    with pytest.raises(ConfigError, match=r'pooling must not be "first" in a decoder'):
        replace(nano, head=replace(HEAD, pooling="first"))
    with pytest.raises(ConfigError, match="must not be ClassificationHead in an encoder-decoder"):
        replace(find("t5-small").model, head=HEAD)


_PROJECTION = config.EmbeddingProjection(width=48, bias=True)
_TERMS = {"content_to_position": True, "position_to_content": True, "own_projections": False}
_DISTANCES = config.Disentangled(n_buckets=8, **_TERMS)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: _layers(
                {"positions": config.Learned(), "embedding_positions": config.Learned()}
            ),
            "embedding_positions must be none if positions is Learned",
        ),
        (
            lambda: config.Disentangled(n_buckets=7, **_TERMS),
            "n_buckets must be even, was 7",
        ),
        (
            lambda: config.Disentangled(n_buckets=8, max_distance=3, **_TERMS),
            r"greater than n_buckets / 4 \+ 1",
        ),
        (
            lambda: replace(_DISTANCES, content_to_position=False, position_to_content=False),
            "needs content_to_position, position_to_content or both",
        ),
        (
            lambda: config.AlternatingPositions(layers=(ROTARY, _DISTANCES)),
            "AlternatingPositions must not have Disentangled",
        ),
        (
            lambda: _layers(
                {
                    "positions": _DISTANCES,
                    "attention": config.LinearAttention(
                        n_heads=2, d_head=64, qkv_bias=False, out_bias=False, chunk=4
                    ),
                }
            ),
            "LinearAttention",
        ),
        (
            lambda: replace(
                find("nano").model,
                embedding=config.Embedding(tied=True, scaled=False, projection=_PROJECTION),
                head=config.LanguageHead(),
            ),
            "a tied head reads vectors of 48 numbers",
        ),
        (
            lambda: config.ClassificationHead(
                classes=None, pooling="last", dropout=0.0, bias=True, input_dropout=0.1
            ),
            "input_dropout must be 0 without a transform",
        ),
    ],
)
def test_parts_of_encoders_that_do_not_fit_are_refused(make: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()
