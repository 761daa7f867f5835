from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import pellucid.presets
from pellucid import config
from pellucid.counting import parameter_count
from pellucid.data import next_token_batches
from pellucid.errors import ConfigError
from pellucid.model import assemble
from pellucid.objectives import NextToken
from pellucid.optim import assemble_optimiser
from pellucid.presets import (
    FAMILIES,
    LARGE_MODEL_OPTIMISER,
    LARGE_MODEL_SCHEDULE,
    OBJECTIVES,
    PRESETS,
    diff,
    find,
    find_objective,
)
from pellucid.training.step import update

#: What the released checkpoints hold; BERT's without the head for the next sentence.
PUBLISHED = {
    "bert-base": 110_104_890,
    "bert-large": 336_224_058,
    "minilm-l6": 22_713_216,
    "gpt2": 124_439_808,
    "gpt2-medium": 354_823_168,
    "gpt2-large": 774_030_080,
    "gpt2-xl": 1_557_611_200,
    "t5-small": 60_506_624,
    "t5-base": 222_903_552,
    "t5-1.1-small": 76_961_152,
    "t5-1.1-base": 247_577_856,
    "pythia-70m": 70_426_624,
    "pythia-160m": 162_322_944,
    "pythia-410m": 405_334_016,
    "pythia-1b": 1_011_781_632,
    "llama2-7b": 6_738_415_616,
    "llama3-8b": 8_030_261_248,
    "llama3.2-1b": 1_235_814_400,
    "mistral-7b": 7_241_732_096,
    "qwen2-0.5b": 494_032_768,
    "qwen3-0.6b": 596_049_920,
    "qwen3-1.7b": 1_720_574_976,
    "gemma2-2b": 2_614_341_888,
    "olmo2-1b": 1_484_916_736,
}
#: What the paper says, in millions; no checkpoint of it was released.
ROUNDED = {"transformer-base": 65, "transformer-big": 213}
#: What this house's language models hold with all of their tokenizer's vocabulary.
OURS = {"nano": 1_311_872, "micro": 3_000_384, "small": 9_998_400, "medium": 33_563_136}
#: Files of presets that are not published.
OF_OUR_OWN = ("__init__", "catalog", "nano", "recipe", "objectives")
#: Heads that are wider or narrower, all together, than the model.
NOT_ITS_WIDTH = {"t5-1.1-small", "qwen3-0.6b", "gemma2-2b"}


@pytest.mark.parametrize("name", PUBLISHED)
def test_counting_gives_the_published_number_of_parameters(name: str) -> None:
    assert parameter_count(find(name).model) == PUBLISHED[name]


@pytest.mark.parametrize("name", ROUNDED)
def test_the_original_transformer_is_as_large_as_its_paper_says(name: str) -> None:
    # 63.0 and 214.2 million by the formula: "about 37,000" pairs, and no checkpoint to count
    assert parameter_count(find(name).model) / 1e6 == pytest.approx(ROUNDED[name], rel=0.04)


@pytest.mark.parametrize("name", [*PUBLISHED, *ROUNDED])
def test_assembled_model_has_the_counted_parameters(name: str) -> None:
    with torch.device("meta"):
        model = assemble(find(name).model, seed=0)
    assert all(parameter.is_meta for parameter in model.parameters())
    count = sum(parameter.numel() for parameter in model.parameters())
    assert count == parameter_count(find(name).model)


@pytest.mark.parametrize("name", OURS)
def test_a_preset_of_ours_holds_what_is_said_and_learns_a_batch_by_heart(name: str) -> None:
    run = find(name)
    tokenizer = run.text.tokenizer
    assert isinstance(tokenizer, config.BytePairs)
    model = assemble(replace(run.model, vocab_size=tokenizer.vocab_size), seed=0)
    assert sum(parameter.numel() for parameter in model.parameters()) == OURS[name]
    order = next_token_batches(np.arange(33), context_length=32, seed=0)
    optimiser = assemble_optimiser(run.optimiser, model.named_parameters())
    losses = [
        update(
            model,
            NextToken(),
            optimiser,
            order.batch(0, 1),
            factor=1.0,
            clip_norm=run.training.clip_norm,
            blocked=torch.zeros(()),
            accumulation=1,
            device=torch.device("cpu"),
            precision="float32",
        ).parts["loss_nats"]
        for _ in range(6)
    ]
    assert losses[-1] < losses[0] - 3


@pytest.mark.parametrize("name", OURS)
def test_the_counted_parameters_of_a_preset_of_ours_are_those(name: str) -> None:
    run = find(name)
    tokenizer = run.text.tokenizer
    assert isinstance(tokenizer, config.BytePairs)
    sized_model = replace(run.model, vocab_size=tokenizer.vocab_size)
    assert parameter_count(sized_model) == OURS[name]


def test_the_larger_presets_are_nano_in_other_sizes() -> None:
    for name, added in (("micro", []), ("small", ["training.growth.kind"]), ("medium", [])):
        differences = diff(find("nano"), find(name))
        kinds = [path for path in differences if path.endswith((".kind", ".activation", ".tied"))]
        assert kinds == added


def test_every_preset_of_a_published_model_has_its_published_size_checked() -> None:
    assert set(PRESETS) - set(PUBLISHED) - set(ROUNDED) == set(FAMILIES["pellucid"])


def test_families_hold_every_preset_once() -> None:
    names = [name for family in FAMILIES.values() for name in family]
    assert names == list(PRESETS)
    assert len(set(names)) == len(names)


def test_every_family_says_where_its_numbers_are_from() -> None:
    folder = Path(pellucid.presets.__file__).parent
    for file in sorted(folder.glob("*.py")):
        if file.stem in OF_OUR_OWN:
            continue
        head = file.read_text("utf-8").split('"""')[1]
        assert re.search(r"et al\. \d{4}|Team \d{4}", head), file.name
        assert "released" in head, file.name


def test_gpt2_and_its_medium_sister_differ_in_a_handful_of_numbers() -> None:
    assert diff(find("gpt2"), find("gpt2-medium")) == {
        "model.d_model": (768, 1024),
        "model.decoder.n_layers": (12, 24),
        "model.decoder.attention.n_heads": (12, 16),
        "model.decoder.attention.n_kv_heads": (12, 16),
        "model.decoder.feed_forward.d_ff": (3072, 4096),
        "optimiser.learning_rate": (6e-4, 3e-4),
    }


def test_mistral_is_llama_with_a_window_and_fewer_keys() -> None:
    table = diff(find("llama2-7b"), find("mistral-7b"))
    model = {path: values for path, values in table.items() if path.startswith("model.")}
    assert model == {
        "model.context_length": (4096, 32_768),
        "model.decoder.attention.n_kv_heads": (32, 8),
        "model.decoder.attention.window": ("-", 4096),
        "model.decoder.feed_forward.d_ff": (11_008, 14_336),
    }


def test_diff_shows_kinds_and_marks_what_one_side_lacks() -> None:
    table = diff(find("gpt2"), find("llama2-7b"))
    assert table["model.decoder.positions.kind"] == ("Learned", "Rotary")
    assert table["model.decoder.positions.base"] == ("-", 10_000.0)
    assert table["model.decoder.norm.bias"] == (True, "-")
    assert diff(find("llama2-7b"), find("gpt2")).keys() == table.keys()


def test_diff_of_an_encoder_and_a_decoder_names_both_stacks() -> None:
    table = diff(find("bert-base"), find("gpt2"))
    assert table["model.encoder.n_layers"] == (12, "-")
    assert table["model.decoder.n_layers"] == ("-", 12)


@pytest.mark.parametrize("name", PRESETS)
def test_preset_does_not_differ_from_itself(name: str) -> None:
    assert diff(find(name), find(name)) == {}


@pytest.mark.parametrize("name", PRESETS)
def test_heads_of_a_published_model_fill_its_width(name: str) -> None:
    model = find(name).model
    filled = {
        layer.attention.n_heads * layer.attention.d_head == model.d_model
        for stack in model.stacks
        for layer in stack.layers
    }
    assert filled == {name not in NOT_ITS_WIDTH}


#: Presets whose objective their corpus, or any corpus, cannot meet, and the refusals.
REFUSED = {
    "nano-pair": "learns from Pairs, and text.corpus is StandardLibrary",
    "transformer-base": "learns from Pairs, and text.corpus is StandardLibrary",
    "transformer-big": "learns from Pairs, and text.corpus is StandardLibrary",
    "minilm-l6": "this model is an encoder with no head",
}


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_can_be_trained_as_it_is_or_says_what_it_lacks(name: str) -> None:
    run = find(name)
    if name not in REFUSED:
        run.check_objective()
        return
    with pytest.raises(ConfigError, match=REFUSED[name]):
        run.check_objective()


@pytest.mark.parametrize("name", [name for name in REFUSED if name != "minilm-l6"])
def test_a_preset_for_pairs_can_be_trained_once_it_has_some(name: str) -> None:
    run = find(name)
    replace(
        run, text=replace(run.text, corpus=config.Pairs(paths=("pairs.tsv",)))
    ).check_objective()


@pytest.mark.parametrize("name", OBJECTIVES)
def test_the_preset_of_each_objective_has_the_model_that_it_trains(name: str) -> None:
    goal = find_objective(name)
    run = find(goal.preset)
    (kind, *_) = config.data_for(goal.objective)
    corpus = kind() if kind is config.StandardLibrary else kind(paths=("rows.jsonl",))
    replace(
        run,
        objective=goal.objective,
        model=replace(run.model, head=goal.head or run.model.head),
        text=replace(run.text, corpus=corpus),
        start="a-run",
    ).check_objective()


@pytest.mark.parametrize("name", PRESETS)
def test_the_tokenizer_of_a_preset_has_what_its_objective_needs(name: str) -> None:
    run = find(name)
    special_of_objective = {config.MLM: "mask", config.SpanCorruption: "sentinels"}
    special = special_of_objective.get(type(run.objective))
    assert special is None or special in run.text.special


def test_a_decoder_without_a_head_cannot_be_trained_on_the_next_token() -> None:
    run = find("nano")
    with pytest.raises(ConfigError, match="this model is a decoder with no head"):
        replace(run, model=replace(run.model, head=config.NoHead())).check_objective()


def test_bert_sees_both_ways_and_its_sentence_encoder_has_no_head() -> None:
    bert = find("bert-base").model
    assert bert.decoder is None
    assert bert.encoder is not None
    assert bert.encoder.residual == config.PostNorm()
    assert bert.embedding.segments == 2
    assert find("minilm-l6").model.head == config.NoHead()


def test_only_the_first_t5_divides_its_states_where_head_and_embedding_are_one() -> None:
    for name, first in (("t5-small", True), ("t5-1.1-small", False)):
        model = find(name).model
        assert model.head == config.LanguageHead(scaled=first)
        assert model.embedding == config.Embedding(tied=first, scaled=False)


def test_gemma_looks_near_and_far_in_turn() -> None:
    decoder = find("gemma2-2b").model.decoder
    assert decoder is not None
    windows = [
        layer.attention.window
        for layer in decoder.layers
        if isinstance(layer.attention, config.MultiHead)
    ]
    assert windows == [4096, None] * 13


def test_unknown_name_is_refused_with_the_nearest_and_all_others() -> None:
    with pytest.raises(ConfigError) as refusal:
        find("gpt-2")
    assert str(refusal.value) == (
        f"unknown preset 'gpt-2'; did you mean 'gpt2'; presets: {', '.join(PRESETS)}"
    )


def test_the_usual_recipe_of_large_models_is_the_one_that_is_usually_named() -> None:
    usual = config.AdamW(learning_rate=3e-4, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
    assert usual == LARGE_MODEL_OPTIMISER
    assert config.Cosine(warm_up=0.01, final=0.1) == LARGE_MODEL_SCHEDULE
