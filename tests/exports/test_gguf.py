"""GGUF files read back: the weights, the logits from them, and the tokens."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import pellucid
from pellucid import config, runs
from pellucid.checkpoints.huggingface import complete, fitting_families
from pellucid.data.chat.templates import PLAIN
from pellucid.errors import CheckpointError, PellucidError, TextError
from pellucid.exports.gguf.architecture import Architecture
from pellucid.exports.gguf.architectures import ARCHITECTURES
from pellucid.exports.gguf.fit import architecture_for
from pellucid.exports.gguf.layouts import pairing_order
from pellucid.exports.gguf.names import gguf_name
from pellucid.exports.gguf.number_types import gguf_library
from pellucid.tokenizers import train_bytes
from pellucid.tokenizers.train import train_byte_pairs, train_characters, train_words
from support.exported import filled, small_preset, untrained, weights
from support.gguf_models import CASES, MODELS, published, tiny

gguf: Any = pytest.importorskip("gguf")

IDS = torch.randint(0, 262, (2, 23), generator=torch.Generator().manual_seed(1))


def tensors_in(file: Path) -> dict[str, Tensor]:
    """All tensors of a file, in float32."""
    reader = gguf.GGUFReader(str(file))
    return {
        tensor.name: torch.tensor(gguf.quants.dequantize(tensor.data, tensor.tensor_type))
        for tensor in reader.tensors
    }


def fields_of(file: Path) -> dict[str, Any]:
    reader = gguf.GGUFReader(str(file))
    return {name: field.contents() for name, field in reader.fields.items()}


def as_ours(stored: dict[str, Tensor], case: str, model: config.Transformer) -> dict[str, Tensor]:
    """The weights of the model, from the tensors of a file: every layout turned back."""
    from pellucid.model import assemble

    state = assemble(model, seed=0).state_dict()
    shapes = {name: tensor.shape for name, tensor in state.items() if tensor.is_floating_point()}
    # the states of an encoder have no head
    dropped = ("pooler.", *(["head"] if model.decoder is None else []))
    kept_names = [name for name in shapes if not name.startswith(dropped)]
    return {name: _as_ours(name, stored, case, model).reshape(shapes[name]) for name in kept_names}


def _as_ours(name: str, stored: dict[str, Tensor], case: str, model: config.Transformer) -> Tensor:
    architecture = ARCHITECTURES_BY_NAME[MODELS[case]]
    stack = model.decoder or model.encoder
    assert stack is not None
    attention = stack.layers[0].attention
    tensor = _stored(name, stored, architecture, model)
    leaf = name.partition(".attention.")[2]
    if leaf and tensor.ndim < 3:
        tensor = _as_paired(leaf, tensor, architecture, stack)
    has_norm = getattr(attention, "qk_norm", None) is not None
    folded = "query_norm" if has_norm else "query."
    if leaf.startswith(folded) and attention.scale is not None and MODELS[case] != "t5":
        tensor = tensor / (attention.scale / USUAL.get(case, score_width(attention) ** -0.5))
    if name.endswith(".gain") and getattr(stack.norm, "unit_offset", False):
        tensor = tensor - 1
    scaled = isinstance(model.head, config.LanguageHead) and model.head.scaled
    return tensor * model.d_model**0.5 if name == "head.weight" and scaled else tensor


#: By what llama.cpp multiplies scores, where it is not 1 / sqrt of their features.
USUAL = {
    "deepseek2 with YaRN": (1 + 0.1 * math.log(4)) ** 2 / 24**0.5,
    "gemma2 in the depth of its 27B": (64 / 4) ** -0.5,
    "gemma3 in the depth of its 27B": (64 / 4) ** -0.5,
}
ARCHITECTURES_BY_NAME = {a.name: a for a in ARCHITECTURES.values()}


def score_width(attention: Any) -> int:
    """The features of a query: with and without positions, if the two are apart."""
    return attention.d_head + getattr(attention, "d_rotated", 0)


def _stored(
    name: str, stored: dict[str, Tensor], architecture: Architecture, model: config.Transformer
) -> Tensor:
    """The tensor of a parameter, cut from the one that holds it."""
    stack = model.decoder or model.encoder
    assert stack is not None
    attention = stack.layers[0].attention
    block, _, part = name.partition(".attention.")
    if isinstance(attention, config.LatentAttention) and part in (
        "latent.weight",
        "rotated_key.weight",
    ):
        layer = block.rpartition(".")[2]
        sizes = [attention.d_latent, attention.d_rotated]
        pieces = stored[f"blk.{layer}.attn_kv_a_mqa.weight"].split(sizes)
        return pieces[part.startswith("rotated")]
    if isinstance(attention, config.LatentAttention) and part == "key.weight":
        return stored[gguf_name(name, architecture, model)].mT
    expert = re.search(r"\.experts\.(\d+)\.", name)
    if expert is not None:
        joint = name.replace(expert[0], ".experts.")
        return stored[gguf_name(joint, architecture, model)][int(expert[1])]
    for end, leaf in ((".choice_bias", ".bias"), (".sinks", ".weight")):
        name = f"{name}{leaf}" if name.endswith(end) else name
    file_name = gguf_name(name, architecture, model)
    if architecture.gate_up and re.search(r"ffn_(gate|up)\.", file_name):
        fused = stored[file_name.replace("ffn_gate", "ffn_up")]
        return fused.chunk(2)["ffn_up" in file_name]
    match = re.search(r"attn_([qkv])\.", file_name)
    if architecture.joined and match is not None:
        sizes = [n * attention.d_head for n in (attention.n_heads, *2 * [attention.n_kv_heads])]
        fused = stored[file_name.replace(f"attn_{match[1]}.", "attn_qkv.")]
        return fused.split(sizes)["qkv".index(match[1])]
    tensor = stored[file_name]
    if name.endswith("positions.embedding.weight"):  # the rows in front are never read
        offset = stack.positions.offset
        return torch.cat((torch.full((offset, tensor.shape[1]), torch.nan), tensor))
    return tensor


def _as_paired(
    leaf: str, tensor: Tensor, architecture: Architecture, stack: config.Stack
) -> Tensor:
    """Queries and keys in the order of our pairs."""
    rotary = next((p for p in stack.schemes if isinstance(p, config.Rotary)), None)
    if rotary is None or rotary.pairing == architecture.pairing:
        return tensor
    attention = stack.layers[0].attention
    rotated = rotary.n_features or stack.d_head
    order = pairing_order(rotary.pairing, rotated, stack.d_head)
    part = leaf.partition(".")[0]
    if isinstance(attention, config.LatentAttention):
        if part not in ("query", "rotated_key"):
            return tensor
        if part == "query":
            plain = torch.arange(attention.d_head)
            order = torch.cat((plain, attention.d_head + order))
    elif part not in ("query", "key", "query_norm", "key_norm"):
        return tensor
    inverse = order.argsort()
    heads = tensor.reshape(-1, len(inverse), *tensor.shape[1:])
    return heads[:, inverse].reshape(tensor.shape)


def outputs(model: Any) -> Tensor:
    with torch.no_grad():
        if model.encoder is not None and model.decoder is not None:
            return model(IDS, encoded=model.encode(IDS))
        return model.states(IDS) if model.decoder is None else model(IDS)


def test_every_architecture_has_a_case() -> None:
    assert {a.name for a in ARCHITECTURES.values()} == set(MODELS.values())


def test_the_page_has_every_architecture_and_family() -> None:
    page = (Path(__file__).parents[2] / "docs" / "export.md").read_text(encoding="utf-8")
    rows = page.partition("| architecture of llama.cpp |")[2].partition("\n\n")[0].splitlines()[2:]
    code_names = {name for row in rows for name in re.findall(r"`([^`]+)`", row)}
    presets = {"nano", "micro", "small", "medium"}
    assert code_names - presets == {*ARCHITECTURES, *MODELS.values()}


def table_of_cases() -> list[Any]:
    """One case of each architecture, and nightly the others."""
    daily = (*dict.fromkeys(MODELS.values()), "llama with experts")
    marks = {case: () if case in daily else pytest.mark.nightly for case in MODELS}
    return [pytest.param(case, marks=mark) for case, mark in marks.items()]


@pytest.mark.parametrize("case", table_of_cases())
def test_what_is_read_back_gives_the_same_logits(case: str, tmp_path: Path) -> None:
    model, architecture = tiny(case), MODELS[case]
    run = untrained(tmp_path / "run", model)
    exported = runs.export_run(run, tmp_path / "out", file_format="gguf")
    assert exported.family == architecture
    file = tmp_path / "out" / "model-f32.gguf"
    fields = fields_of(file)
    assert fields["general.architecture"] == architecture
    for name, value in FIELDS.get(case, {}).items():
        expected = pytest.approx(value) if isinstance(value, float) else value
        assert fields.get(f"{architecture}.{name}") == expected, name
    stored = tensors_in(file)
    assert {name_of_kind(name) for name in stored} <= known_names(architecture)
    before = pellucid.load(run).model
    completed = complete(model, before.state_dict()).model
    head = {n: t for n, t in before.state_dict().items() if n.startswith("head")}
    unread = head if model.decoder is None else {}
    reread = filled(completed, unread | as_ours(stored, case, completed))
    tolerance = 1e-5 * max(1.0, float(outputs(before).abs().max()))
    torch.testing.assert_close(outputs(reread), outputs(before), rtol=0, atol=tolerance)


#: What the file says besides the sizes.
FIELDS: dict[str, dict[str, Any]] = {
    "llama with experts": {"expert_count": 4, "expert_used_count": 2, "feed_forward_length": 96},
    "qwen2moe": {
        "expert_count": 4,
        "expert_used_count": 2,
        "expert_feed_forward_length": 32,
        "expert_shared_feed_forward_length": 64,
    },
    "granitemoe": {
        "feed_forward_length": 96,
        "embedding_scale": 3.0,
        "residual_scale": 0.4,
        "logit_scale": 2.0,
    },
    "glm4moe": {
        "expert_weights_scale": 1.7,
        "expert_weights_norm": True,
        "expert_gating_func": 2,
        "expert_shared_count": 1,
        "expert_group_count": 4,
        "expert_group_used_count": 2,
        "leading_dense_block_count": 1,
        "rope.dimension_count": 8,
    },
    "ernie4_5-moe": {
        "interleave_moe_layer_step": 1,
        "leading_dense_block_count": 1,
        "expert_shared_feed_forward_length": 64,
    },
    "gpt-oss": {
        "attention.sliding_window": 8,
        "attention.sliding_window_pattern": [True, False, True, False],
        "rope.scaling.type": "yarn",
        "rope.scaling.factor": 4.0,
        "rope.scaling.original_context_length": 10,
        "rope.scaling.attn_factor": 1.0,
    },
    "deepseek2": {
        "attention.head_count_kv": 1,
        "attention.key_length": 40,
        "attention.value_length": 32,
        "attention.key_length_mla": 24,
        "attention.value_length_mla": 24,
        "attention.kv_lora_rank": 32,
        "attention.q_lora_rank": 24,
        "expert_gating_func": 1,
        "expert_shared_count": 2,
    },
    "deepseek2 with YaRN": {"rope.scaling.yarn_log_multiplier": 0.1, "expert_gating_func": 2},
    "gemma3": {
        "attention.sliding_window_pattern": [True, True, False, True],
        "rope.freq_base": 1e6,
        "rope.freq_base_swa": 1e4,
    },
    "gemma3 without windows": {"attention.sliding_window": None},
    "phi3": {
        "context_length": 256,
        "rope.scaling.type": "longrope",
        "rope.scaling.original_context_length": 300,
    },
    "command-r": {"logit_scale": 0.5},
    "cohere2": {"attention.sliding_window_pattern": [True, True, True, False]},
    "olmo": {"attention.clamp_kqv": 0.5},
    "mpt": {"attention.max_alibi_bias": 8.0},
    "modern-bert": {
        "attention.causal": False,
        "attention.sliding_window": 8,
        "attention.sliding_window_pattern": [False, True, True, False],
        "rope.freq_base": 160000.0,
        "rope.freq_base_swa": 10000.0,
    },
}


def name_of_kind(name: str) -> str:
    """A tensor's name without layer and leaf."""
    return re.sub(r"\.(weight|bias)$", "", re.sub(r"blk\.\d+", "blk.{bid}", name))


def known_names(architecture: str) -> set[str]:
    """The tensors of an architecture in the library's own table; scaled angles are in all."""
    constants = gguf.constants
    (kind,) = (k for k, name in constants.MODEL_ARCH_NAMES.items() if name == architecture)
    return {constants.TENSOR_NAMES[t] for t in constants.MODEL_TENSORS[kind]} | {"rope_freqs"}


@pytest.mark.parametrize(("kind", "tolerance"), [("f16", 1e-3), ("bf16", 8e-3), ("q8_0", 8e-3)])
def test_numbers_are_off_by_the_rounding_of_their_type(
    kind: str, tolerance: float, tmp_path: Path
) -> None:
    run = untrained(tmp_path / "run", tiny("llama"))
    for name in ("f32", kind):
        runs.export_run(run, tmp_path / name, file_format="gguf", number_type=name)
    exact = tensors_in(tmp_path / "f32" / "model-f32.gguf")
    rounded = tensors_in(tmp_path / kind / f"model-{kind}.gguf")
    sizes = [(tmp_path / name / f"model-{name}.gguf").stat().st_size for name in ("f32", kind)]
    assert sizes[1] < 0.75 * sizes[0]
    assert exact.keys() == rounded.keys()
    for name, tensor in exact.items():
        largest = float(tensor.abs().max())
        assert float((rounded[name] - tensor).abs().max()) <= tolerance * largest, name
        if tensor.ndim == 1:
            assert torch.equal(rounded[name], tensor), name


def test_sizes_and_special_tokens_are_in_the_file(tmp_path: Path) -> None:
    run = untrained(tmp_path / "run", tiny("gptneox"), template=PLAIN)
    runs.export_run(run, tmp_path / "out", file_format="gguf")
    fields = fields_of(tmp_path / "out" / "model-f32.gguf")
    words = train_bytes()
    assert fields["gptneox.context_length"] == 40
    assert fields["gptneox.attention.head_count"] == 4
    assert fields["gptneox.use_parallel_residual"] is False
    assert fields["tokenizer.ggml.bos_token_id"] == words.begin_id
    assert fields["tokenizer.ggml.add_bos_token"] is True
    assert len(fields["tokenizer.ggml.tokens"]) == 262
    assert fields["tokenizer.chat_template"].startswith("{{ bos_token }}")
    text = (tmp_path / "out" / "Modelfile").read_text(encoding="utf-8")
    assert text.startswith("FROM ./model-f32.gguf\n")
    assert "### Instruction:\n{{ .Prompt }}\n\n### Response:\n{{ .Response }}" in text


def test_a_window_that_llama_cpp_lacks_cuts_the_context(tmp_path: Path) -> None:
    model = tiny("llama")
    decoder = replace(model.decoder, attention=replace(model.decoder.attention, window=9))
    run = untrained(tmp_path / "run", replace(model, decoder=decoder))
    exported = runs.export_run(run, tmp_path / "out", file_format="gguf")
    assert any("cut from 40 to 9 tokens" in note for note in exported.notes)
    assert fields_of(tmp_path / "out" / "model-f32.gguf")["llama.context_length"] == 9


def test_characters_leave_as_merges_of_their_bytes(tmp_path: Path) -> None:
    words = train_characters(["aé日\n b"])
    run = untrained(tmp_path / "run", tiny("gptneox"), tokenizer=words)
    exported = runs.export_run(run, tmp_path / "out", file_format="gguf")
    assert any("leaves out a character" in note for note in exported.notes)
    fields = fields_of(tmp_path / "out" / "model-f32.gguf")
    assert len(fields["tokenizer.ggml.merges"]) == 3  # one for é, two for 日


REFUSED: dict[str, tuple[config.Transformer, Any, str]] = {
    "words": (tiny("gptneox"), train_words(["a cat sat"], 8), "of the kind WordLevel"),
    "own form": (small_preset("nano-encoder"), train_bytes(), "no family of transformers"),
    "activation": (
        replace(
            tiny("gpt2"),
            decoder=replace(
                tiny("gpt2").decoder,
                feed_forward=config.MLP(d_ff=96, activation="relu", bias=True),
            ),
        ),
        train_bytes(),
        "feed_forward.activation is relu",
    ),
    "classes": (
        replace(
            tiny("llama"),
            head=config.ClassificationHead(
                classes=("a", "b"), pooling="last", dropout=0.0, bias=False
            ),
        ),
        train_bytes(),
        "names classes",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_llama_cpp_lacks_is_refused_by_name(case: str, tmp_path: Path) -> None:
    model, words, message = REFUSED[case]
    run = untrained(tmp_path / "run", model, tokenizer=words)
    with pytest.raises((CheckpointError, TextError), match=message):
        runs.export_run(run, tmp_path / "out", file_format="gguf")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run"]


_MOE = CASES["qwen3moe"].table
_LATENT = CASES["deepseek2"].table
_YARN = CASES["llama with YaRN"].table["rope_parameters"]
#: A family, its `config.json`, and what llama.cpp lacks of it.
LACKING: dict[str, tuple[str, dict[str, Any], str]] = {
    "no architecture": (
        "gptj",
        {"n_embd": 64, "n_positions": 40, "rotary_dim": 8},
        "no GGUF file of a gptj",
    ),
    "weights that are normalised": (
        "qwen2_moe",
        {**CASES["qwen2moe"].table, "norm_topk_prob": True},
        "qwen2moe does not have router.normalised = true",
    ),
    "weights that are not": (
        "qwen3_moe",
        {**_MOE, "norm_topk_prob": False},
        "qwen3moe does not have router.normalised = false",
    ),
    "a dense layer among experts": (
        "qwen3_moe",
        {**_MOE, "mlp_only_layers": [2]},
        "layers behind the first experts that differ",
    ),
    "a dense layer in front": (
        "qwen3_moe",
        {**_MOE, "mlp_only_layers": [0]},
        "dense layers in front of those with experts",
    ),
    "an activation of experts": (
        "mixtral",
        {**CASES["llama with experts"].table, "hidden_act": "gelu"},
        "experts with the activation gelu",
    ),
    "another clamp": (
        "gpt_oss",
        {**CASES["gpt-oss"].table, "swiglu_limit": 5.0},
        "ClampedGatedMLP with limit 5 and slope 1.702",
    ),
    "groups by their best expert": (
        "deepseek_v2",
        {**_LATENT, "topk_method": "group_limited_greedy", "n_group": 4, "topk_group": 2},
        'router.groups with score = "largest"',
    ),
    "a latent of queries in 27 layers": (
        "deepseek_v2",
        {**_LATENT, "num_hidden_layers": 27},
        "latents of queries in 27 layers",
    ),
    "biases of latents": ("deepseek_v2", {**_LATENT, "attention_bias": True}, "biases in the proj"),
    "a ramp that is not rounded": (
        "gpt_oss",
        {**CASES["gpt-oss"].table, "rope_parameters": {**_YARN, "truncate": False}},
        "truncated is false",
    ),
    "another ramp": (
        "llama",
        {"rope_parameters": {**_YARN, "beta_fast": 16.0}},
        "beta_fast 16 and beta_slow 1, and llama.cpp has 32 and 1",
    ),
    "factors from a short text on": (
        "phi3",
        {
            **CASES["phi3"].table,
            "original_max_position_embeddings": 200,
            "partial_rotary_factor": 1.0,
            "rope_parameters": {
                **CASES["phi3"].table["rope_parameters"],
                "original_max_position_embeddings": 200,
            },
        },
        "LongRoPE",
    ),
    "angles that depend on the text": (
        "llama",
        {
            "rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e3, "factor": 2.0},
        },
        "scaling is DynamicNTK",
    ),
    "biases behind attention": (
        "qwen3",
        {"attention_bias": True},
        "qwen3 does not have biases in attention.output",
    ),
    "biases of experts": (
        "ernie4_5_moe",
        {**CASES["ernie4_5-moe"].table, "use_bias": True},
        "a shared layer of another kind than the experts",
    ),
    "a head of its own": (
        "gemma",
        {"tie_word_embeddings": False},
        "gemma does not have a head other than the embedding",
    ),
    "heads wider than the model": (
        "cohere",
        {"head_dim": 32},
        "n_heads x d_head is 128, and d_model 64",
    ),
    "few heads of keys": (
        "olmoe",
        {**CASES["olmoe"].table, "num_key_value_heads": 2},
        "fewer heads of keys",
    ),
    "windows in few layers": ("exaone4", {"sliding_window": 8}, "windows in a model of other than"),
    "norms of queries in few layers": (
        "cohere",
        {"use_qk_norm": True},
        "4 layers with norms of queries",
    ),
    "norms of queries": ("phi", {"qk_layernorm": True}, "phi2 does not have norms of queries"),
    "layers that rotate": (
        "smollm3",
        {"no_rope_layers": [1, 0, 1, 1]},
        "layer 2 has NoPositions, and llama.cpp's smollm3 has Rotary there",
    ),
    "slopes": ("falcon", {"alibi": True}, "layer 1 has ALiBi"),
    "norms of encoders": ("modernbert", {"norm_bias": True}, "modern-bert does not have biases in"),
}


@pytest.mark.parametrize("case", LACKING)
def test_what_an_architecture_lacks_is_refused_by_name(case: str) -> None:
    family, table, message = LACKING[case]
    model = published(family, table)
    names = list(weights(model))
    families = [fitting.model_type for fitting in fitting_families(model, names)]
    assert family in families
    with pytest.raises(CheckpointError, match=re.escape(message)):
        architecture_for(families, model, names)


def test_the_first_family_that_llama_cpp_computes_is_taken(tmp_path: Path) -> None:
    model = tiny("ernie4_5")
    families = [family.model_type for family in fitting_families(model, weights(model))]
    assert families[:2] == ["helium", "ernie4_5"]  # llama.cpp has no Helium
    run = untrained(tmp_path / "run", model)
    assert runs.export_run(run, tmp_path / "out", file_format="gguf").family == "ernie4_5"


def test_vectors_routers_and_biases_of_experts_keep_their_numbers(tmp_path: Path) -> None:
    run = untrained(tmp_path / "run", tiny("gpt-oss"))
    runs.export_run(run, tmp_path / "out", file_format="gguf", number_type="q8_0")
    reader = gguf.GGUFReader(str(tmp_path / "out" / "model-q8_0.gguf"))
    types = {name_of_kind(t.name) + t.name[-5:]: t.tensor_type.name for t in reader.tensors}
    assert types["blk.{bid}.ffn_down_expseight"] == "Q8_0"
    exact = ("ffn_down_exps.bias", "ffn_gate_inpeight", "ffn_gate_inp.bias", "attn_sinkseight")
    assert {types[f"blk.{{bid}}.{name}"] for name in exact} == {"F32"}


def test_the_missing_library_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    run = untrained(tmp_path / "run", tiny("gptneox"))
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(PellucidError, match=r"pellucid\[gguf\]"):
        runs.export_run(run, tmp_path / "out", file_format="gguf")
    assert not (tmp_path / "out").exists()


def test_an_old_library_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(gguf.GGUFWriter, "add_rope_freq_base_swa")
    with pytest.raises(
        PellucidError, match=r"newer version of the library gguf .*pellucid\[gguf\]"
    ):
        gguf_library()


def test_byte_pairs_keep_their_merges(tmp_path: Path) -> None:
    words = train_byte_pairs(["the cat sat on the mat"] * 9, 262)
    run = untrained(tmp_path / "run", tiny("gptneox"), tokenizer=words)
    runs.export_run(run, tmp_path / "out", file_format="gguf")
    fields = fields_of(tmp_path / "out" / "model-f32.gguf")
    assert fields["tokenizer.ggml.merges"] == [f"{a} {b}" for a, b in words.merges()]
    assert fields["tokenizer.ggml.pre"] == "gpt-2"
