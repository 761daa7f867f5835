"""Published models in and to a hub: `pellucid import` and `pellucid push`.

A refusal leaves nothing behind.
"""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from pellucid import config
from pellucid.checkpoints.huggingface import (
    is_adapter,
    is_huggingface,
    open_published,
)
from pellucid.checkpoints.llama2c import read_llama2c
from pellucid.errors import RunError
from pellucid.exports import export_run
from pellucid.free_memory import forcing
from pellucid.hub import local_model, parse_hub_name
from pellucid.runs.adapters import import_adapter
from pellucid.runs.import_run import Imported, write_run
from pellucid.saved_runs.folder import RunFolder, refuse_taken
from pellucid.saved_runs.memory_check import check_opening
from pellucid.saved_runs.published import (
    build_published,
    published_template,
    published_tokenizer,
    refuse_too_many,
    to_run_config,
    wrap_model,
)
from pellucid.saved_runs.requirements import kind_of
from pellucid.tokenizers import (
    Tokenizer,
    llama2c_tokenizer_from,
    tokenizer_from,
)

if TYPE_CHECKING:
    from pellucid.hub.push import Pushed

_LLAMA2C = "llama2.c"


def import_model(
    source: str | Path,
    out: str | Path,
    *,
    tokenizer: str | Path | None = None,
    base: str | Path | None = None,
    force: bool = False,
) -> Imported:
    """Make the run `out` of a Hugging Face directory, a llama2.c file, or adapters and their base.

    Args:
        source: the published model, by path or by its name on a hub.
        out: the run's folder.
        tokenizer: a file or a folder with the tokenizer, if the source has none.
        base: the run or published model that adapters were trained on.
        force: import it even if pellucid expects the weights not to fit into memory.

    Raises:
        CheckpointError: a part of it is missing, damaged, or not supported; names the part.
        TextError: there is no tokenizer, or it does not fit.
        RunError: `source` is none of these, or `out` exists.
    """
    out = Path(out)
    refuse_taken(out)
    source = local_model(source)
    tokenizer_path = None if tokenizer is None else Path(tokenizer)
    if is_adapter(source):
        if tokenizer_path is not None:
            raise RunError(
                f"--tokenizer {tokenizer_path}: adapters have the tokenizer of their base"
            )
        with forcing(force):
            return import_adapter(source, out, base=base)
    if base is not None:
        raise RunError(
            f"--base {base}: {source} has no adapters (adapter_config.json), and so no base: "
            "leave --base out"
        )
    if is_huggingface(source):
        published = open_published(source, fits=partial(check_opening, force=force))
        words = published_tokenizer(published, source if tokenizer_path is None else tokenizer_path)
        tensors = build_published(published, torch.device("cpu")).state_dict()
        family, dropped_tensors = published.family, published.ignored_tensors
        run = to_run_config(published, RunFolder(out).tokenizer)
    elif source.is_file():
        model, tensors = read_llama2c(source, fits=partial(check_opening, force=force))
        words = _llama2c_words(source, tokenizer_path, model)
        family, dropped_tensors = _LLAMA2C, {}
        run = wrap_model(model, RunFolder(out).tokenizer)
    elif not source.exists():
        raise RunError(
            f"{source} does not exist: pass a folder, a .bin file of llama2.c, or the name of a "
            "model on a hub, such as openai-community/gpt2"
        )
    else:
        raise RunError(
            f"{source} is no published model: expected a folder with config.json and safetensors, "
            "as transformers writes it, one with adapter_config.json, as peft writes it, or a .bin "
            "file of llama2.c"
        )
    write_run(out, run, tensors, words, family, template=published_template(source))
    parameters = sum(tensor.numel() for tensor in tensors.values())
    return Imported(
        folder=out,
        family=family,
        kind=kind_of(run.model),
        parameters=parameters,
        left_out=dropped_tensors,
    )


def _llama2c_words(
    source: Path, tokenizer_path: Path | None, model: config.Transformer
) -> Tokenizer:
    if tokenizer_path is None:
        raise RunError(
            f"{source} holds no tokenizer: pass the one it was trained with, as --tokenizer "
            "tokenizer.bin or tokenizer.model"
        )
    words = (
        llama2c_tokenizer_from(tokenizer_path, model.rows)
        if tokenizer_path.suffix == ".bin"
        else tokenizer_from(tokenizer_path)
    )
    refuse_too_many(words, model)
    return words


def push_run(run: str | Path, name: str, *, public: bool = False) -> Pushed:
    """Upload a run as `transformers` reads it.

    Args:
        run: a run, one of its checkpoints, or a published model's folder.
        name: the repository, `owner/name`; it is made if there is none.
        public: whether everybody may see a new repository.

    Raises:
        RunError: there is no run, the name is none, or the hub refuses or cannot be reached.
        CheckpointError: no published family has a model like this; names the parts.
    """
    from pellucid.hub.push import push_folder  # the library loads when it is needed

    target, run = parse_hub_name(name), Path(run)
    if is_huggingface(run):
        return push_folder(run, target, private=not public)
    with tempfile.TemporaryDirectory(prefix="pellucid-push-") as folder:
        exported = export_run(run, Path(folder) / target.repo.split("/")[1])
        return push_folder(exported.folder, target, private=not public)
