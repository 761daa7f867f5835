"""Text encoded once for many runs: a folder with its tokenizer, on this machine or at a URL."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from pellucid import config
from pellucid.data.manifest import TEXT_MANIFEST, ShardFacts, read_manifest
from pellucid.data.shards.folder import FOLDER_FILES, TOKENIZER, cut_into_shards
from pellucid.data.store import weights_of
from pellucid.disk import move, new_folder, remove_empty
from pellucid.errors import TextError
from pellucid.hub import UrlStore, is_url
from pellucid.runs.prepare_text import ready_text
from pellucid.saved_runs.folder import refuse_taken
from pellucid.saved_runs.progress import Notify, silent

_TEXT = "text"


def prepare_folder(
    text: config.Text,
    out: str,
    *,
    shard_bytes: int = 2**20,
    n_processes: int = 1,
    notify: Notify = silent,
) -> dict[str, Any]:
    """Encode a text, and write it with its tokenizer where runs can train from it.

    Args:
        text: the config of the text.
        out: a new folder, or the URL of one.
        shard_bytes: bytes of tokens that a run fetches at once from a URL.
        n_processes: how many processes encode; the files do not depend on it.
        notify: takes a line for each step that begins, and every few seconds.

    Returns:
        The counts: "tokens", "held_out_tokens", "shards", "shard_bytes", "bytes".

    Raises:
        PellucidError: the text cannot be read, there is such a folder, or the URL cannot be
            written to.
    """
    if not is_url(out):
        refuse_taken(Path(out))
        with new_folder(Path(out), (*FOLDER_FILES, *_inner(FOLDER_FILES))) as folder:
            return _fill(folder, text, shard_bytes, n_processes, notify)
    store = UrlStore(out)
    if store.exists(TEXT_MANIFEST):
        raise TextError(f"{out} has prepared text already: name another URL, or remove it there")
    with tempfile.TemporaryDirectory() as temporary:
        home = Path(temporary)
        facts = _fill(home, text, shard_bytes, n_processes, notify)
        names = [name for name in FOLDER_FILES if (home / name).is_file()]
        # last: a folder with a manifest is whole
        for name in sorted(names, key=lambda name: name == TEXT_MANIFEST):
            notify(f"sending {name}, {(home / name).stat().st_size:,} bytes")
            store.send(home / name, name)
    return facts


def _fill(
    folder: Path, text: config.Text, shard_bytes: int, n_processes: int, notify: Notify
) -> dict[str, Any]:
    tokenizer, fill = ready_text(text, notify, notify, n_processes=n_processes)
    fill(folder / _TEXT)
    for file in (folder / _TEXT).iterdir():
        move(file, folder / file.name)
    remove_empty(folder / _TEXT)
    tokenizer.save(folder / TOKENIZER)
    notify("computing the checksums of shards")
    table = cut_into_shards(
        folder,
        shard_bytes=shard_bytes,
        held_out=text.held_out,
        drop_duplicates=text.drop_duplicates,
        weights=weights_of(text.corpus),
    )
    manifest = read_manifest(folder)
    assert isinstance(manifest.train, ShardFacts)
    assert isinstance(manifest.held_out, ShardFacts)
    return {
        "tokens": manifest.train.n_tokens,
        "held_out_tokens": manifest.held_out.n_tokens,
        "shards": table.n_shards,
        "shard_bytes": table.shard_bytes,
        "bytes": table.n_bytes,
    }


def _inner(files: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{_TEXT}/{name}" for name in files)
