"""pellucid's own directory: a model that no class of `transformers` can hold.

`config.json` has the whole config of the model, and the tensors have pellucid's names. After
`import pellucid.transformers` the `Auto` classes of `transformers` open it.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import safetensors.torch
import torch
from torch import Tensor

from pellucid import config
from pellucid.checkpoints.huggingface.attributes import Table, as_table
from pellucid.checkpoints.huggingface.directory import CONFIG, WEIGHTS
from pellucid.checkpoints.huggingface.family import Family
from pellucid.checkpoints.huggingface.names import Source
from pellucid.config import decode, encode
from pellucid.errors import CheckpointError, ConfigError
from pellucid.json_text import json_text
from pellucid.model import assemble
from pellucid.version import __version__

#: The `model_type`, and the key in `config.json` of the model's config.
OWN_TYPE, MODEL = "pellucid", "transformer"
#: What the names of tensors start with.
PREFIX = "model."


def own_architecture(model: config.Transformer) -> str:
    """The class of `pellucid.transformers` for a model."""
    match model.head:
        case config.ClassificationHead():
            return "PellucidForSequenceClassification"
        case config.NoHead():
            return "PellucidModel"
        case config.LanguageHead():
            pass
    if model.decoder is None:
        return "PellucidForMaskedLM"
    return "PellucidForCausalLM" if model.encoder is None else "PellucidForConditionalGeneration"


def own_attributes(model: config.Transformer) -> Table:
    """The attributes in `config.json`: the whole config, and sizes that other programs read."""
    stack = model.stacks[-1]
    head = model.head
    classes = head.names if isinstance(head, config.ClassificationHead) else None
    labels: Table = {}
    if classes is not None:
        labels = {
            "id2label": {str(place): name for place, name in enumerate(classes)},
            "label2id": {name: place for place, name in enumerate(classes)},
        }
    return {
        "vocab_size": model.rows,
        "hidden_size": model.d_model,
        "num_hidden_layers": stack.n_layers,
        "num_attention_heads": stack.n_heads,
        "max_position_embeddings": model.context_length,
        "is_encoder_decoder": model.encoder is not None and model.decoder is not None,
        **labels,
        MODEL: encode(model),
    }


def read_own(table: Table) -> config.Transformer:
    """The model that a `config.json` of ours describes.

    Raises:
        CheckpointError: it has no model, or one that this version does not know.
    """
    raw_model = as_table(table.get(MODEL), MODEL)
    try:
        return decode(config.Transformer, raw_model, MODEL)
    except ConfigError as error:
        raise CheckpointError(f"config.json describes no model of pellucid: {error}") from None


def own_family(model: config.Transformer) -> Family:
    """Our own form as a family: every tensor has its name here, with a prefix."""
    with torch.device("meta"):
        names = assemble(model, seed=0).state_dict()
    return Family(
        model_type=OWN_TYPE,
        heads={own_architecture(model): {"kind": type(model.head).__name__}},
        skeleton={},
        rows=(),
        names={name: Source(f"{PREFIX}{name}") for name in names},
    )


def write_own(
    folder: Path,
    model: config.Transformer,
    tensors: Mapping[str, Tensor],
    ends: Mapping[str, int | None],
    *,
    problem_type: str | None = None,
) -> str:
    """Write a model into an existing folder in our own form; returns its class.

    Args:
        folder: where to write.
        model: the config.
        tensors: by pellucid's names.
        ends: ids such as `bos_token_id`.
        problem_type: for a classifier, whether a text can have several classes.
    """
    architecture = own_architecture(model)
    table: Table = {
        "architectures": [architecture],
        "model_type": OWN_TYPE,
        "load_after": "import pellucid.transformers",
        "pellucid_version": __version__,
        **own_attributes(model),
        **ends,
        **({} if problem_type is None else {"problem_type": problem_type}),
        "torch_dtype": "float32",
    }
    (folder / CONFIG).write_text(json_text(table, indent=2) + "\n", encoding="utf-8")
    prefixed_tensors = {
        f"{PREFIX}{name}": tensor.cpu().contiguous() for name, tensor in tensors.items()
    }
    cast("Any", safetensors.torch).save_file(
        prefixed_tensors, folder / WEIGHTS, metadata={"format": "pt"}
    )
    # safetensors makes the file readable for the owner only, but other users may need it too
    shutil.copymode(folder / CONFIG, folder / WEIGHTS)
    return architecture
