"""Parts that a family has and a model lacks, written so that they change nothing.

a bias             zeros
a table of segments  zeros
a head of its own  a copy of the embedding, which the head is
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from pellucid import config
from pellucid.checkpoints.huggingface.families import FAMILIES
from pellucid.checkpoints.huggingface.fit import Difference, differences, reread
from pellucid.checkpoints.huggingface.mapping import Unfit
from pellucid.checkpoints.huggingface.write import choose_family
from pellucid.errors import CheckpointError, ConfigError
from pellucid.model import assemble

_HEAD, _EMBEDDING, _SEGMENTS = "head.weight", "token_embedding.weight", "segment_embedding.weight"
#: How a note names each part, by the end of its path.
_PARTS = {
    "norm.bias": "biases in its norms",
    "qkv_bias": "biases on queries, keys and values",
    "out_bias": "a bias behind attention",
    "feed_forward.bias": "biases in its feed-forward layers",
    "head.bias": "a bias in its head",
    "embedding.segments": "vectors of segments",
}


@dataclass(frozen=True, slots=True)
class Completed:
    """A model that a family holds.

    Attributes:
        model: the config; with the parts that were added.
        tensors: the weights, of the added parts too.
        note: one sentence about the parts; "" if there are none.
    """

    model: config.Transformer
    tensors: Mapping[str, Tensor]
    note: str = ""


def complete(
    model: config.Transformer, tensors: Mapping[str, Tensor], *, model_type: str | None = None
) -> Completed:
    """The model as the first family holds it; if none does, with the parts of the first that may.

    Args:
        model: the config.
        tensors: its weights, by pellucid's names.
        model_type: the only family to try; by default all.

    Raises:
        CheckpointError: no family holds it, with such parts or without; names the differences from
            the nearest one.
    """
    try:
        choose_family(model, tensors, model_type=model_type)
    except CheckpointError:
        for family in FAMILIES if model_type is None else FAMILIES.keys() & {model_type}:
            for start in _starts(model):
                completed = _with_parts_of(family, model, start, tensors)
                if completed is not None:
                    return completed
        raise
    return Completed(model, tensors)


def _starts(model: config.Transformer) -> list[config.Transformer]:
    """The model, and if it is an encoder without segments, the model with one or two."""
    if model.decoder is not None or model.embedding.segments is not None:
        return [model]
    embeddings = (replace(model.embedding, segments=n) for n in (1, 2))
    return [model, *(replace(model, embedding=embedding) for embedding in embeddings)]


def _with_parts_of(
    model_type: str,
    model: config.Transformer,
    start: config.Transformer,
    tensors: Mapping[str, Tensor],
) -> Completed | None:
    """A model with the parts of one family; None if that is not enough.

    Args:
        model_type: of the family.
        model: the model.
        start: the same, or with a part that the family cannot do without.
        tensors: its weights.
    """
    family = FAMILIES[model_type]
    try:
        larger = reread(family, start, tensors, family.describe(start))
        missing_parts = differences(model, larger)
        if not all(_changes_nothing(difference) for difference in missing_parts):
            return None
        filled = _filled(larger, tensors)
        if filled is None or choose_family(larger, filled)[0] is not family:
            return None
    except (Unfit, CheckpointError, ConfigError):
        return None
    return Completed(larger, filled, _note(model_type, missing_parts))


def _changes_nothing(difference: Difference) -> bool:
    """Whether a family's part can be filled so that no output changes."""
    path, before, after = difference
    key = path.rpartition(".")[2]
    if key.endswith("bias"):
        return before in (False, None) and after is True
    if key == "segments":
        return before is None and isinstance(after, int)
    return key == "tied" and before is True and after is False


def _filled(model: config.Transformer, tensors: Mapping[str, Tensor]) -> dict[str, Tensor] | None:
    """All tensors of the larger model; None if one is no such part."""
    with torch.device("meta"):
        shapes = {name: p.shape for name, p in assemble(model, seed=0).named_parameters()}
    filled = dict(tensors)
    for name in shapes.keys() - tensors.keys():
        if name == _HEAD:
            filled[name] = tensors[_EMBEDDING].clone()
        elif name.endswith("bias") or name == _SEGMENTS:
            filled[name] = torch.zeros(shapes[name])
        else:
            return None
    return filled


def _note(model_type: str, missing_parts: list[Difference]) -> str:
    names = [
        next((text for end, text in _PARTS.items() if path.endswith(end)), "biases")
        for path, _, _ in missing_parts
        if not path.endswith("tied")
    ]
    parts = list(dict.fromkeys(names))
    sentences: list[str] = []
    if parts:
        part_list = ", ".join(parts[:-1]) + (" and " if len(parts) > 1 else "") + parts[-1]
        sentences.append(
            f"A {model_type} has {part_list}, which this model lacks: zeros take their place and "
            "change no output."
        )
    if len(names) < len(missing_parts):
        sentences.append("The head is a copy of the embedding, which it is here.")
    return " ".join(sentences)
