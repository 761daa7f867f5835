"""The data in a model card: counts, and each file by its name and its SHA-256."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from pellucid import config
from pellucid.data import open_prepared
from pellucid.data.manifest import ShardFacts
from pellucid.display.numbers import size
from pellucid.errors import PellucidError
from pellucid.exports.card.recipe import table
from pellucid.reader import read_json_table
from pellucid.saved_runs.folder import RunFolder

#: Most files that the card lists.
_MOST_FILES = 50


def data_section(run: config.Run, folder: RunFolder) -> str:
    """What the model was trained on.

    Args:
        run: the config.
        folder: has the prepared data, and the hashes of the files.
    """
    parts = ["## Data", "\n".join(f"- {line}" for line in _lines(run, folder)), *_files(folder)]
    return "\n\n".join(part for part in parts if part)


def _lines(run: config.Run, folder: RunFolder) -> Iterator[str]:
    corpus = run.text.corpus
    if isinstance(corpus, config.StandardLibrary):
        version = ".".join(map(str, sys.version_info[:3]))
        yield (
            "Source: the docstrings of Python's standard library (the export ran on Python "
            f"{version})"
        )
    else:
        yield f"Source: {type(corpus).__name__}, in the files below"
    yield f"Tokenizer: {type(run.text.tokenizer).__name__}"
    try:
        data = open_prepared(folder.text)
    except PellucidError:
        yield "The prepared data are not in the run's folder any more, so there are no counts."
        return
    train, held_out = data.manifest.train, data.manifest.held_out
    if isinstance(train, ShardFacts) and isinstance(held_out, ShardFacts):
        yield f"To train on: {size(train.n_bytes)}, {train.n_tokens:,} tokens"
        yield f"Held out: {size(held_out.n_bytes)}, {held_out.n_tokens:,} tokens"
        yield f"SHA-256 of all texts: `{data.manifest.sha256}`"
    else:
        yield f"To train on: {len(data.train):,} examples"
        yield f"Held out: {len(data.held_out):,} examples"
        yield f"SHA-256 of the tokenizer: `{data.manifest.tokenizer_sha256}`"


def _files(folder: RunFolder) -> Iterator[str]:
    try:
        files: list[dict[str, Any]] = read_json_table(folder.data_files)["files"]
        rows = [(file["name"], f"`{file['sha256']}`") for file in files]
    except (PellucidError, KeyError, TypeError):
        return  # a run of before has no such record
    if not rows:
        return
    yield table(("file", "SHA-256"), rows[:_MOST_FILES])
    if len(rows) > _MOST_FILES:
        yield f"There are {len(rows) - _MOST_FILES:,} more files."
