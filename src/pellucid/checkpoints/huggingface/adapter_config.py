"""Read and write `adapter_config.json`.

Every version of `peft` adds attributes, which are off by default. So an attribute that is unknown
here is refused unless it is off.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from pellucid import config
from pellucid.checkpoints.huggingface.attributes import Table
from pellucid.errors import CheckpointError
from pellucid.json_text import json_text

ADAPTER_CONFIG = "adapter_config.json"

#: Attributes that are read, and attributes without effect: origin, start, and layers (the tensors
#: name these).
_READ = {"r", "lora_alpha", "lora_dropout", "rank_pattern", "alpha_pattern"}
_IGNORED = {
    "peft_version", "task_type", "auto_mapping", "base_model_name_or_path", "revision",
    "inference_mode", "target_modules", "exclude_modules", "layers_to_transform",
    "layers_pattern", "fan_in_fan_out", "megatron_core", "qalora_group_size",
}  # fmt: skip
#: The only supported value, which is also the default.
_ONE_VALUE = {"peft_type": "LORA", "bias": "none"}
#: Initial weights that do not change the base.
_STARTS = (True, False, None, "gaussian", "orthogonal", "eva")
_REASONS = {
    "peft_type": "only LoRA is",
    "bias": "the biases of the base do not change",
    "use_rslora": "its updates are scaled by alpha / sqrt(rank), here by alpha / rank",
    "use_dora": "it trains the length of each row separately",
    "lora_bias": "an update has no bias",
    "modules_to_save": "fully trained weights belong to a model, not to an adapter",
    "trainable_token_indices": "embeddings are not adapted",
    "target_parameters": "only linear layers are adapted",
    "layer_replication": "it makes another model of the base",
    "init_lora_weights": "it changed the base's weights before training",
}


@dataclass(frozen=True, slots=True)
class AdapterNumbers:
    """Ranks and scales; patterns are the last parts of a module's path."""

    rank: int
    alpha: float
    dropout: float
    ranks: Mapping[str, int]
    alphas: Mapping[str, float]

    def for_layer(self, module: str) -> tuple[int, float]:
        """Rank and alpha of the layer at this published path."""
        rank, alpha = _match_pattern(self.ranks, module), _match_pattern(self.alphas, module)
        return self.rank if rank is None else int(rank), self.alpha if alpha is None else alpha


def read_adapter_numbers(table: Table) -> AdapterNumbers:
    """The numbers of an `adapter_config.json`.

    Raises:
        CheckpointError: an attribute is unsupported, missing, or not a number; says which and why.
    """
    for name, value in table.items():
        if name in _READ or name in _IGNORED:
            continue
        if name == "init_lora_weights":
            refused = value not in _STARTS
        elif name in _ONE_VALUE:
            refused = value != _ONE_VALUE[name]
        else:
            refused = value not in (None, False, "", [], {})
        if refused:
            reason = _REASONS.get(name, "its effect on the numbers is unknown")
            raise CheckpointError(
                f"{ADAPTER_CONFIG}: {name} = {value!r} is not supported: {reason}; merge the "
                "adapter into its base with peft, and import the model"
            )
    return AdapterNumbers(
        rank=int(_number(table, "r", table.get("r"), at_least=1)),
        alpha=_number(table, "lora_alpha", table.get("lora_alpha")),
        dropout=_number(table, "lora_dropout", table.get("lora_dropout", 0.0)),
        ranks={k: int(v) for k, v in _pattern(table, "rank_pattern").items()},
        alphas=_pattern(table, "alpha_pattern"),
    )


def describe_adapter(
    lora: config.LoRA,
    model: config.Transformer,
    *,
    modules: Iterable[str],
    fused: Mapping[str, int],
    transposed: bool,
    base: str | None,
) -> Table:
    """The table to write.

    Args:
        lora: rank, alpha and dropout.
        model: the base's config.
        modules: the published paths of adapted layers.
        fused: the number of updates in each layer that has several.
        transposed: whether the base's matrices are stored as (in, out).
        base: the name or path of the base.
    """
    return {
        "peft_type": "LORA",
        "task_type": _task(model),
        "base_model_name_or_path": base,
        "inference_mode": True,
        "r": lora.rank,
        "lora_alpha": _short(lora.alpha),
        "lora_dropout": lora.dropout,
        "target_modules": sorted(modules),
        "rank_pattern": {module: n * lora.rank for module, n in fused.items()},
        "alpha_pattern": {module: _short(n * lora.alpha) for module, n in fused.items()},
        "fan_in_fan_out": transposed,
        "bias": "none",
        "modules_to_save": None,
        "use_rslora": False,
        "use_dora": False,
        "init_lora_weights": True,
    }


def write_table(folder: Path, table: Table) -> None:
    """Write the file."""
    text = json_text(table, indent=2) + "\n"
    (folder / ADAPTER_CONFIG).write_text(text, encoding="utf-8")


def _task(model: config.Transformer) -> str | None:
    if isinstance(model.head, config.NoHead):
        return "FEATURE_EXTRACTION"
    if model.decoder is None:
        return None
    return "CAUSAL_LM" if model.encoder is None else "SEQ_2_SEQ_LM"


def _short(number: float) -> float:
    """A whole number as an int, as `peft` writes alpha."""
    return int(number) if number == int(number) else number


def _number(table: Table, name: str, value: Any, *, at_least: int | None = None) -> float:
    expected = "a number" if at_least is None else f"a whole number, at least {at_least}"
    is_allowed = at_least is None or (type(value) is int and value >= at_least)
    if type(value) not in (int, float) or not is_allowed:
        actual = f"{name} is {value!r}" if name in table else f"there is no {name}"
        raise CheckpointError(f"{ADAPTER_CONFIG}: {actual}, expected {expected}")
    return float(value)


def _pattern(table: Table, name: str) -> dict[str, float]:
    entries = table.get(name)
    if entries is None:
        return {}
    if not isinstance(entries, dict):
        raise CheckpointError(f"{ADAPTER_CONFIG}: {name} must be a table, was {entries!r}")
    pattern: dict[str, float] = {}
    least = 1 if name == "rank_pattern" else None
    for key, value in cast("Table", entries).items():
        if not re.fullmatch(r"\^?[\w.]+", key):
            raise CheckpointError(
                f"{ADAPTER_CONFIG}: {name} has the pattern {key!r}, and only plain paths are read"
            )
        pattern[key] = _number({key: value}, key, value, at_least=least)
    return pattern


def _match_pattern(pattern: Mapping[str, float], module: str) -> float | None:
    """The first entry that is the path or its end; "^" requires the whole path."""
    for key, value in pattern.items():
        if module == key.removeprefix("^") or module.endswith(f".{key}"):
            return value
    return None
