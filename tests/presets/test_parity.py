"""The sizes of the presets, as the reference implementation counts them."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from pellucid.counting import parameter_count
from pellucid.model import assemble
from pellucid.presets import FAMILIES, PRESETS, find

pytestmark = [
    pytest.mark.parity,
    # not ours to repair
    pytest.mark.filterwarnings("default"),
]

BERT = {"vocab_size": 30_522, "max_position_embeddings": 512, "type_vocab_size": 2}
T5 = {
    "vocab_size": 32_128,
    "d_kv": 64,
    "relative_attention_num_buckets": 32,
    "relative_attention_max_distance": 128,
}
T5_1_1 = {**T5, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}
GPT2 = {"vocab_size": 50_257, "n_positions": 1024}
PYTHIA = {
    "vocab_size": 50_304,
    "max_position_embeddings": 2048,
    "use_parallel_residual": True,
    "tie_word_embeddings": False,
}
QWEN = {"vocab_size": 151_936, "tie_word_embeddings": True}


def sizes(layers: int, width: int, heads: int, inner: int, kv_heads: int | None = None) -> Any:
    """The four or five numbers by the names that most of the reference's models give them."""
    grouped = {} if kv_heads is None else {"num_key_value_heads": kv_heads}
    return {
        "num_hidden_layers": layers,
        "hidden_size": width,
        "num_attention_heads": heads,
        "intermediate_size": inner,
        **grouped,
    }


def t5_sizes(layers: int, width: int, heads: int, inner: int) -> Any:
    return {"num_layers": layers, "d_model": width, "num_heads": heads, "d_ff": inner}


#: The reference's name of the model, of its configuration, and every number that matters.
REFERENCES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "bert-base": ("BertForPreTraining", "BertConfig", {**BERT, **sizes(12, 768, 12, 3072)}),
    "bert-large": ("BertForPreTraining", "BertConfig", {**BERT, **sizes(24, 1024, 16, 4096)}),
    "minilm-l6": ("BertModel", "BertConfig", {**BERT, **sizes(6, 384, 12, 1536)}),
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", {**GPT2, "n_layer": 12, "n_head": 12, "n_embd": 768}),
    "gpt2-medium": (
        "GPT2LMHeadModel",
        "GPT2Config",
        {**GPT2, "n_layer": 24, "n_head": 16, "n_embd": 1024},
    ),
    "gpt2-large": (
        "GPT2LMHeadModel",
        "GPT2Config",
        {**GPT2, "n_layer": 36, "n_head": 20, "n_embd": 1280},
    ),
    "gpt2-xl": (
        "GPT2LMHeadModel",
        "GPT2Config",
        {**GPT2, "n_layer": 48, "n_head": 25, "n_embd": 1600},
    ),
    "t5-small": (
        "T5ForConditionalGeneration",
        "T5Config",
        {**T5, **t5_sizes(6, 512, 8, 2048)},
    ),
    "t5-base": (
        "T5ForConditionalGeneration",
        "T5Config",
        {**T5, **t5_sizes(12, 768, 12, 3072)},
    ),
    "t5-1.1-small": (
        "T5ForConditionalGeneration",
        "T5Config",
        {**T5_1_1, **t5_sizes(8, 512, 6, 1024)},
    ),
    "t5-1.1-base": (
        "T5ForConditionalGeneration",
        "T5Config",
        {**T5_1_1, **t5_sizes(12, 768, 12, 2048)},
    ),
    "pythia-70m": (
        "GPTNeoXForCausalLM",
        "GPTNeoXConfig",
        {**PYTHIA, **sizes(6, 512, 8, 2048)},
    ),
    "pythia-160m": (
        "GPTNeoXForCausalLM",
        "GPTNeoXConfig",
        {**PYTHIA, **sizes(12, 768, 12, 3072)},
    ),
    "pythia-410m": (
        "GPTNeoXForCausalLM",
        "GPTNeoXConfig",
        {**PYTHIA, **sizes(24, 1024, 16, 4096)},
    ),
    "pythia-1b": (
        "GPTNeoXForCausalLM",
        "GPTNeoXConfig",
        {**PYTHIA, **sizes(16, 2048, 8, 8192)},
    ),
    "llama2-7b": (
        "LlamaForCausalLM",
        "LlamaConfig",
        {"vocab_size": 32_000, "tie_word_embeddings": False, **sizes(32, 4096, 32, 11_008, 32)},
    ),
    "llama3-8b": (
        "LlamaForCausalLM",
        "LlamaConfig",
        {"vocab_size": 128_256, "tie_word_embeddings": False, **sizes(32, 4096, 32, 14_336, 8)},
    ),
    "llama3.2-1b": (
        "LlamaForCausalLM",
        "LlamaConfig",
        {
            "vocab_size": 128_256,
            "tie_word_embeddings": True,
            "head_dim": 64,
            **sizes(16, 2048, 32, 8192, 8),
        },
    ),
    "mistral-7b": (
        "MistralForCausalLM",
        "MistralConfig",
        {"vocab_size": 32_000, "tie_word_embeddings": False, **sizes(32, 4096, 32, 14_336, 8)},
    ),
    "qwen2-0.5b": ("Qwen2ForCausalLM", "Qwen2Config", {**QWEN, **sizes(24, 896, 14, 4864, 2)}),
    "qwen3-0.6b": (
        "Qwen3ForCausalLM",
        "Qwen3Config",
        {**QWEN, "head_dim": 128, **sizes(28, 1024, 16, 3072, 8)},
    ),
    "qwen3-1.7b": (
        "Qwen3ForCausalLM",
        "Qwen3Config",
        {**QWEN, "head_dim": 128, **sizes(28, 2048, 16, 6144, 8)},
    ),
    "gemma2-2b": (
        "Gemma2ForCausalLM",
        "Gemma2Config",
        {
            "vocab_size": 256_000,
            "head_dim": 256,
            "tie_word_embeddings": True,
            **sizes(26, 2304, 8, 9216, 4),
        },
    ),
    "olmo2-1b": (
        "Olmo2ForCausalLM",
        "Olmo2Config",
        {"vocab_size": 100_352, "tie_word_embeddings": False, **sizes(16, 2048, 16, 8192, 16)},
    ),
}
#: What the reference has and the preset does not.
LEFT_OUT = ("cls.seq_relationship.",)


def reference_count(name: str) -> int:
    """The parameters of the reference's model of that name, built without storage."""
    transformers: Any = pytest.importorskip("transformers")
    model, settings, numbers = REFERENCES[name]
    with torch.device("meta"):
        built = getattr(transformers, model)(getattr(transformers, settings)(**numbers))
        head = built.get_output_embeddings()
        if numbers.get("tie_word_embeddings") is False and "T5" in model:
            # version 5 ties T5's head in any case; loading a checkpoint with its own head unties it
            head.weight = torch.nn.Parameter(torch.empty_like(head.weight))
    # named_parameters() gives a tied matrix once, as we do
    parameters = built.named_parameters()
    return sum(p.numel() for key, p in parameters if not key.startswith(LEFT_OUT))


@pytest.mark.parametrize("name", REFERENCES)
def test_preset_is_as_large_as_its_reference(name: str) -> None:
    with torch.device("meta"):
        own_model = assemble(find(name).model, seed=0)
    built = sum(parameter.numel() for parameter in own_model.parameters())
    assert parameter_count(find(name).model) == built == reference_count(name)


def test_every_preset_with_a_reference_is_compared() -> None:
    own_presets = set(FAMILIES["pellucid"])
    assert set(PRESETS) - set(REFERENCES) == own_presets | {"transformer-base", "transformer-big"}
