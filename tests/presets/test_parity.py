"""The sizes of the presets, as the reference implementation counts them."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from pellucid.counting import parameter_count
from pellucid.presets import find

pytestmark = [
    pytest.mark.parity,
    # not ours to repair
    pytest.mark.filterwarnings("default"),
]

GPT2 = {"vocab_size": 50_257, "n_positions": 1024}
SIZES: dict[str, dict[str, int]] = {
    "gpt2": {**GPT2, "n_layer": 12, "n_head": 12, "n_embd": 768},
    "gpt2-medium": {**GPT2, "n_layer": 24, "n_head": 16, "n_embd": 1024},
    "gpt2-large": {**GPT2, "n_layer": 36, "n_head": 20, "n_embd": 1280},
    "gpt2-xl": {**GPT2, "n_layer": 48, "n_head": 25, "n_embd": 1600},
    "llama2-7b": {
        "vocab_size": 32_000,
        "max_position_embeddings": 4096,
        "hidden_size": 4096,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 32,
        "intermediate_size": 11_008,
    },
}


def reference(name: str) -> torch.nn.Module:
    """The reference's model of that name, without storage."""
    transformers: Any = pytest.importorskip("transformers")
    with torch.device("meta"):
        if name.startswith("gpt2"):
            return transformers.GPT2LMHeadModel(transformers.GPT2Config(**SIZES[name]))
        settings = transformers.LlamaConfig(**SIZES[name], tie_word_embeddings=False)
        return transformers.LlamaForCausalLM(settings)


@pytest.mark.parametrize("name", SIZES)
def test_preset_is_as_large_as_its_reference(name: str) -> None:
    # parameters() counts a tied head once, as we do
    theirs = sum(parameter.numel() for parameter in reference(name).parameters())
    assert parameter_count(find(name).model) == theirs
