"""Published models in and out: `pellucid import` and `pellucid export`.

Comes in: a path. Goes out: a run's folder, or a directory that `transformers` reads. What is
refused leaves nothing behind. It does not know families.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from pellucid import config
from pellucid.checkpoints import Checkpoint, load_model_tensors, write_folder, write_text
from pellucid.checkpoints.huggingface import (
    MULTI_LABEL,
    SINGLE_LABEL,
    is_huggingface,
    open_published,
    write_published,
)
from pellucid.checkpoints.llama2c import read_llama2c
from pellucid.config import run_to_toml
from pellucid.errors import RunError
from pellucid.runs.folder import RunFolder, chosen_folder, existing_folder, refuse_taken
from pellucid.runs.kinds import Kind, kind_of
from pellucid.runs.load import read_config
from pellucid.runs.published import (
    around,
    as_run,
    filled,
    published_tokenizer,
    refuse_too_many,
)
from pellucid.text import Tokenizer, llama2c_tokenizer_from, settings_for, tokenizer_from

_LLAMA2C = "llama2.c"


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """A run made of a published model; `left_out` are tensors that have no place here, and why."""

    folder: Path
    family: str
    kind: Kind
    parameters: int
    left_out: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """A directory that `transformers` reads."""

    folder: Path
    family: str


def import_model(
    source: str | Path, out: str | Path, *, tokenizer: str | Path | None = None
) -> Imported:
    """Make the run `out` of a Hugging Face directory or a llama2.c file.

    `tokenizer` is a file or folder, where the source has none.

    Raises:
        CheckpointError: something in it is not handled, missing or damaged; says what.
        TextError: there is no tokenizer, or it does not fit.
        RunError: `source` is neither, or `out` is taken.
    """
    source, out = Path(source), Path(out)
    refuse_taken(out)
    told = None if tokenizer is None else Path(tokenizer)
    if is_huggingface(source):
        published = open_published(source)
        words = published_tokenizer(published, source if told is None else told)
        tensors = dict(filled(published, torch.device("cpu")).named_parameters())
        family, left_out = published.family, published.left_out
        run = as_run(published, RunFolder(out).tokenizer)
    elif source.is_file():
        model, tensors = read_llama2c(source)
        words, family, left_out = _llama2c_words(source, told, model), _LLAMA2C, {}
        run = around(model, RunFolder(out).tokenizer)
    else:
        raise RunError(
            f"{source} is no published model: expected a folder with config.json and safetensors, "
            "as transformers writes it, or a .bin file of llama2.c"
        )
    _write_run(out, run, tensors, words, family)
    parameters = sum(tensor.numel() for tensor in tensors.values())
    return Imported(
        folder=out,
        family=family,
        kind=kind_of(run.model),
        parameters=parameters,
        left_out=left_out,
    )


def _llama2c_words(source: Path, told: Path | None, model: config.Transformer) -> Tokenizer:
    if told is None:
        raise RunError(
            f"{source} holds no tokenizer: pass the one it was trained with, as --tokenizer "
            "tokenizer.bin or tokenizer.model"
        )
    words = (
        llama2c_tokenizer_from(told, model.rows) if told.suffix == ".bin" else tokenizer_from(told)
    )
    refuse_too_many(words, model)
    return words


def _write_run(
    out: Path,
    run: config.Run,
    tensors: Mapping[str, Tensor],
    words: Tokenizer,
    family: str,
) -> None:
    was_there = out.exists()
    folder = chosen_folder(out)
    try:
        with folder.locked():
            folder.begin()
            words.save(folder.tokenizer)
            checkpoint = Checkpoint(tensors, {}, {}, {"imported": family})
            folder.shelf.save(0, checkpoint, best=False, keep=1)
            # last: a folder with a config is a run
            write_text(folder.config, run_to_toml(run))
            folder.prepared()
    except BaseException:
        shutil.rmtree(out, ignore_errors=True)
        if was_there:
            out.mkdir()
        raise


def export_run(run: str | Path, out: str | Path) -> Exported:
    """Write a run's model, at its latest checkpoint or at the one named, for `transformers`.

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
    tensors = load_model_tensors(named or folder.shelf.latest())
    family = ""

    def write(place: Path) -> None:
        nonlocal family
        told = _ends(model, words)
        family = write_published(
            place, model, tensors, told, problem_type=_problem_type(config_of_run)
        )
        begins = model.encoder is None or model.decoder is None
        ends = model.encoder is not None or (_classifies(model) and bool(words.closing))
        text = words.to_published_json(begins=begins, ends=ends)
        (place / "tokenizer.json").write_text(text, encoding="utf-8")
        settings = settings_for(words.roles(), context_length=model.context_length)
        (place / "tokenizer_config.json").write_text(settings, encoding="utf-8")

    write_folder(out, write)
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
    several = isinstance(objective, config.Classification) and objective.multi_label
    return MULTI_LABEL if several else SINGLE_LABEL
