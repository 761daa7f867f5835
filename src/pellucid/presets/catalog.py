"""The table of presets: name, what it is, value.

Adding a preset touches its own file and this table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from pellucid.config import Run, did_you_mean, encode
from pellucid.errors import ConfigError
from pellucid.presets.bert import BERT_BASE, BERT_LARGE, MINILM_L6
from pellucid.presets.gemma import GEMMA2_2B
from pellucid.presets.gpt2 import GPT2, GPT2_LARGE, GPT2_MEDIUM, GPT2_XL
from pellucid.presets.llama import LLAMA2_7B, LLAMA3_2_1B, LLAMA3_8B
from pellucid.presets.mistral import MISTRAL_7B
from pellucid.presets.nano import NANO
from pellucid.presets.nano_sizes import MEDIUM, SMALL
from pellucid.presets.nano_variants import NANO_ENCODER, NANO_PAIR
from pellucid.presets.olmo import OLMO2_1B
from pellucid.presets.pythia import PYTHIA_1B, PYTHIA_70M, PYTHIA_160M, PYTHIA_410M
from pellucid.presets.qwen import QWEN2_0_5B, QWEN3_0_6B, QWEN3_1_7B
from pellucid.presets.t5 import T5_1_1_BASE, T5_1_1_SMALL, T5_BASE, T5_SMALL
from pellucid.presets.transformer import TRANSFORMER_BASE, TRANSFORMER_BIG

#: The presets of each family, the oldest first after our own.
FAMILIES: Mapping[str, Mapping[str, Run]] = {
    "pellucid": {
        "nano": NANO,
        "small": SMALL,
        "medium": MEDIUM,
        "nano-encoder": NANO_ENCODER,
        "nano-pair": NANO_PAIR,
    },
    "Transformer": {"transformer-base": TRANSFORMER_BASE, "transformer-big": TRANSFORMER_BIG},
    "BERT": {"bert-base": BERT_BASE, "bert-large": BERT_LARGE, "minilm-l6": MINILM_L6},
    "GPT-2": {
        "gpt2": GPT2,
        "gpt2-medium": GPT2_MEDIUM,
        "gpt2-large": GPT2_LARGE,
        "gpt2-xl": GPT2_XL,
    },
    "T5": {
        "t5-small": T5_SMALL,
        "t5-base": T5_BASE,
        "t5-1.1-small": T5_1_1_SMALL,
        "t5-1.1-base": T5_1_1_BASE,
    },
    "Pythia": {
        "pythia-70m": PYTHIA_70M,
        "pythia-160m": PYTHIA_160M,
        "pythia-410m": PYTHIA_410M,
        "pythia-1b": PYTHIA_1B,
    },
    "Llama": {"llama2-7b": LLAMA2_7B, "llama3-8b": LLAMA3_8B, "llama3.2-1b": LLAMA3_2_1B},
    "Mistral": {"mistral-7b": MISTRAL_7B},
    "Qwen": {"qwen2-0.5b": QWEN2_0_5B, "qwen3-0.6b": QWEN3_0_6B, "qwen3-1.7b": QWEN3_1_7B},
    "Gemma": {"gemma2-2b": GEMMA2_2B},
    "OLMo": {"olmo2-1b": OLMO2_1B},
}

PRESETS: Mapping[str, Run] = {
    name: run for family in FAMILIES.values() for name, run in family.items()
}


def find(name: str) -> Run:
    """The preset called `name`.

    Raises:
        ConfigError: no preset has that name; lists the names.
    """
    if name not in PRESETS:
        hint = did_you_mean(name, PRESETS)
        raise ConfigError(f"unknown preset {name!r}{hint}; presets: {', '.join(PRESETS)}")
    return PRESETS[name]


def diff(left: Run, right: Run) -> dict[str, tuple[object, object]]:
    """Every path whose value differs, with both values; "-" where one has no such path."""
    a, b = _flat(encode(left)), _flat(encode(right))
    paths = [*a, *(path for path in b if path not in a)]
    pairs = {path: (a.get(path, "-"), b.get(path, "-")) for path in paths}
    return {path: pair for path, pair in pairs.items() if pair[0] != pair[1]}


def _flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, object]:
    flat: dict[str, object] = {}
    for key, value in table.items():
        if isinstance(value, Mapping):
            flat |= _flat(cast("Mapping[str, Any]", value), f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat
