"""Published models in and out: `pellucid import` and `pellucid export`.

Comes in: a path. Goes out: a run's folder, or a directory that `transformers` reads. What is
refused leaves nothing behind. It does not know families.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import torch

from pellucid import config
from pellucid.checkpoints import write_folder
from pellucid.checkpoints.huggingface import (
    MULTI_LABEL,
    PUBLISHED_FILES,
    SINGLE_LABEL,
    is_adapter,
    is_huggingface,
    open_published,
    write_published,
)
from pellucid.checkpoints.llama2c import read_llama2c
from pellucid.errors import RunError
from pellucid.free_memory import forcing
from pellucid.model import merged
from pellucid.runs.adapters import import_adapter
from pellucid.runs.import_run import Exported, Imported, write_run
from pellucid.saved_runs.folder import RunFolder, existing_folder, refuse_taken
from pellucid.saved_runs.load import load, read_config
from pellucid.saved_runs.memory_check import check_opening
from pellucid.saved_runs.published import (
    around,
    as_run,
    filled,
    published_tokenizer,
    refuse_too_many,
)
from pellucid.saved_runs.requirements import kind_of
from pellucid.tokenizers import (
    SETTINGS,
    Tokenizer,
    llama2c_tokenizer_from,
    settings_for,
    tokenizer_from,
)

_LLAMA2C = "llama2.c"
#: All that an export writes.
_EXPORTED = (*PUBLISHED_FILES, "tokenizer.json", SETTINGS)


def import_model(
    source: str | Path,
    out: str | Path,
    *,
    tokenizer: str | Path | None = None,
    base: str | Path | None = None,
    force: bool = False,
) -> Imported:
    """Make the run `out` of a Hugging Face directory, a llama2.c file, or adapters and their base.

    `tokenizer` is a file or folder, where the source has none. `base` is the run or published model
    that adapters were trained on. With `force` it is made even if the weights are not expected to
    fit into memory.

    Raises:
        CheckpointError: something in it is not handled, missing or damaged; says what.
        TextError: there is no tokenizer, or it does not fit.
        RunError: `source` is neither, or `out` is taken.
    """
    source, out = Path(source), Path(out)
    refuse_taken(out)
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
            f"--base {base}: {source} is no folder of adapters (adapter_config.json), and stands "
            "on no base: leave --base out"
        )
    if is_huggingface(source):
        published = open_published(source, fits=partial(check_opening, force=force))
        words = published_tokenizer(published, source if tokenizer_path is None else tokenizer_path)
        tensors = dict(filled(published, torch.device("cpu")).named_parameters())
        family, left_out = published.family, published.left_out
        run = as_run(published, RunFolder(out).tokenizer)
    elif source.is_file():
        model, tensors = read_llama2c(source, fits=partial(check_opening, force=force))
        words, family, left_out = _llama2c_words(source, tokenizer_path, model), _LLAMA2C, {}
        run = around(model, RunFolder(out).tokenizer)
    else:
        raise RunError(
            f"{source} is no published model: expected a folder with config.json and safetensors, "
            "as transformers writes it, one with adapter_config.json, as peft writes it, or a .bin "
            "file of llama2.c"
        )
    write_run(out, run, tensors, words, family)
    parameters = sum(tensor.numel() for tensor in tensors.values())
    return Imported(
        folder=out,
        family=family,
        kind=kind_of(run.model),
        parameters=parameters,
        left_out=left_out,
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


def export_run(run: str | Path, out: str | Path) -> Exported:
    """Write a run's model, at its latest checkpoint or at the one named, for `transformers`.

    Adapters are merged: what is written is a plain model.

    Raises:
        RunError: there is no run, or `out` is taken.
        CheckpointError: no family can say the model; says which parts.
    """
    folder, named = existing_folder(Path(run))
    out = Path(out)
    refuse_taken(out)
    config_of_run = read_config(folder)
    model = config_of_run.model
    words = Tokenizer.load(folder.tokenizer)
    tensors = merged(load(named or folder.path).model)
    family = ""

    def write(place: Path) -> None:
        nonlocal family
        special_ids = _ends(model, words)
        family = write_published(
            place, model, tensors, special_ids, problem_type=_problem_type(config_of_run)
        )
        begins = model.encoder is None or model.decoder is None
        ends = model.encoder is not None or (_classifies(model) and bool(words.closing))
        text = words.to_published_json(begins=begins, ends=ends)
        (place / "tokenizer.json").write_text(text, encoding="utf-8")
        settings = settings_for(words.roles(), context_length=model.context_length)
        (place / SETTINGS).write_text(settings, encoding="utf-8")

    write_folder(out, _EXPORTED, write)
    return Exported(folder=out, family=family)


def _ends(model: config.Transformer, words: Tokenizer) -> dict[str, int | None]:
    """What `config.json` calls the tokens that begin and end a text."""
    if model.decoder is None:
        return {"pad_token_id": words.id_of("[PAD]")}
    if model.encoder is None:
        # without a token for padding, a classifier there reads one text at a time: where the end
        # fills up rows, it takes the token before the end for the last
        pad = words.id_of(words.roles().get("pad_token", "")) if _classifies(model) else None
        return {"bos_token_id": words.begin_id, "eos_token_id": words.end_id, "pad_token_id": pad}
    start = {"decoder_start_token_id": words.begin_id, "pad_token_id": words.begin_id}
    return {**start, "eos_token_id": words.end_id}


def _classifies(model: config.Transformer) -> bool:
    return isinstance(model.head, config.ClassificationHead)


def _problem_type(run: config.Run) -> str | None:
    """What `config.json` says of the classes of a text: one of them, or any number."""
    if not _classifies(run.model):
        return None
    objective = run.objective
    multi_label = isinstance(objective, config.Classification) and objective.multi_label
    return MULTI_LABEL if multi_label else SINGLE_LABEL
