"""The table of presets by family. A preset is a row of its family's file."""

from __future__ import annotations

from collections.abc import Mapping

from pellucid.config import Run, did_you_mean, encode
from pellucid.config.codec import flatten
from pellucid.errors import ConfigError
from pellucid.presets.bert import BERT
from pellucid.presets.encoder_decoders import T5, TRANSFORMER
from pellucid.presets.gpt import GPT2, PYTHIA
from pellucid.presets.llama import GEMMA, LLAMA, MISTRAL, OLMO, QWEN
from pellucid.presets.nano import PELLUCID

#: The presets of each family, the oldest first after our own.
FAMILIES: Mapping[str, Mapping[str, Run]] = {
    "pellucid": PELLUCID,
    "Transformer": TRANSFORMER,
    "BERT": BERT,
    "GPT-2": GPT2,
    "T5": T5,
    "Pythia": PYTHIA,
    "Llama": LLAMA,
    "Mistral": MISTRAL,
    "Qwen": QWEN,
    "Gemma": GEMMA,
    "OLMo": OLMO,
}

#: Every preset by its name.
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
    a, b = flatten(encode(left)), flatten(encode(right))
    paths = [*a, *(path for path in b if path not in a)]
    pairs = {path: (a.get(path, "-"), b.get(path, "-")) for path in paths}
    return {path: pair for path, pair in pairs.items() if pair[0] != pair[1]}
