"""Training from text that is prepared already: from a folder of this machine, or from its URL."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from pellucid import config
from pellucid.data import PreparedData, open_prepared
from pellucid.data.cache import link_prepared
from pellucid.data.manifest import (
    DIGESTS,
    TEXT_FILES,
    TEXT_MANIFEST,
    Manifest,
    ShardFacts,
    ShardTable,
    read_manifest,
)
from pellucid.data.shards.folder import TOKENIZER
from pellucid.data.store import check_tokenizer
from pellucid.disk import new_folder
from pellucid.errors import ConfigError, PellucidError, TextError
from pellucid.hub import UrlStore, is_url
from pellucid.saved_runs.progress import Notify
from pellucid.tokenizers import SETTINGS, Tokenizer
from pellucid.tokenizers.from_file import tokenizer_from

Fill = Callable[[Path], PreparedData]


def ready_folder(
    text: config.Text, corpus: config.Prepared, notify: Notify
) -> tuple[Tokenizer, Fill]:
    """The tokenizer of a prepared folder, and a function that puts its text into a run's folder.

    From a URL the tokens to learn from stay there; they are fetched when they are needed.

    Args:
        text: the config of the text.
        corpus: the folder.
        notify: takes a line for each step that begins.

    Raises:
        TextError: it is no such folder, or it is damaged.
        ConfigError: it was prepared in another way than the config says.
    """
    notify(f"reading the prepared text of {corpus.path}")
    if not is_url(corpus.path):
        home = Path(corpus.path)
        manifest, shards = _read_manifest(home, corpus)
        tokenizer = _open_tokenizer(home, manifest, shards, text, corpus)
        open_prepared(home, verify=True)
        return tokenizer, lambda folder: link_prepared(home, folder)
    store = UrlStore(corpus.path)
    with tempfile.TemporaryDirectory() as temporary:
        home = Path(temporary)
        content = store.read(TEXT_MANIFEST)
        (home / TEXT_MANIFEST).write_bytes(content)
        manifest, shards = _read_manifest(home, corpus)
        (home / TOKENIZER).write_bytes(store.read(TOKENIZER))
        if shards.settings_sha256 is not None:
            store.fetch(SETTINGS, shards.settings_sha256, home / SETTINGS)
        tokenizer = _open_tokenizer(home, manifest, shards, text, corpus)
    train, held_out = manifest.train, manifest.held_out
    assert isinstance(train, ShardFacts)
    assert isinstance(held_out, ShardFacts)
    checksums = {
        "train.starts.npy": train.starts_sha256,
        "held_out.npy": held_out.tokens_sha256,
        "held_out.starts.npy": held_out.starts_sha256,
        DIGESTS: shards.digests_sha256,
    }

    def fill(folder: Path) -> PreparedData:
        with new_folder(folder, TEXT_FILES) as partial:
            for name, sha256 in checksums.items():
                store.fetch(name, sha256, partial / name)
            (partial / TEXT_MANIFEST).write_bytes(content)
        return open_prepared(folder, corpus=corpus)

    return tokenizer, fill


def _read_manifest(home: Path, corpus: config.Prepared) -> tuple[Manifest, ShardTable]:
    """The manifest of a folder, and how its text is cut into shards."""
    try:
        manifest = read_manifest(home)
    except PellucidError as error:
        raise TextError(
            f"{corpus.path} has no prepared text that this version reads ({error}): make it with "
            f"pellucid data prepare FILES --out {corpus.path}"
        ) from None
    if manifest.shards is None or not isinstance(manifest.train, ShardFacts):
        raise TextError(
            f"{corpus.path} has the text of a run, which has no list of shards: make a folder "
            "with pellucid data prepare FILES --out FOLDER"
        )
    return manifest, manifest.shards


def _open_tokenizer(
    home: Path,
    manifest: Manifest,
    shards: ShardTable,
    text: config.Text,
    corpus: config.Prepared,
) -> Tokenizer:
    """The tokenizer of a folder, which is compared with the config."""
    for name in ("held_out", "drop_duplicates"):
        configured, prepared = getattr(text, name), getattr(shards, name)
        if configured != prepared:
            value = str(prepared).lower()
            raise ConfigError(
                f"text.{name} is {configured}, and {corpus.path} was prepared with {value}: pass "
                f"--set text.{name}={value}, or prepare the text again"
            )
    check_tokenizer(home / TOKENIZER, manifest.tokenizer_sha256)
    tokenizer = tokenizer_from(home)
    if not isinstance(text.tokenizer, config.FromFile):
        raise ConfigError(
            f"text.tokenizer is {type(text.tokenizer).__name__}, and the text of {corpus.path} is "
            f'encoded already: name its tokenizer, {{kind = "FromFile", path = "{corpus.path}"}}'
        )
    if text.tokenizer.path != corpus.path:
        named = tokenizer_from(Path(text.tokenizer.path))
        if named.sha256 != tokenizer.sha256:
            raise ConfigError(
                f"text.tokenizer: {text.tokenizer.path} is not the tokenizer that encoded "
                f"{corpus.path}: prepare the text with --set "
                f'\'text.tokenizer={{kind="FromFile",path="{text.tokenizer.path}"}}\''
            )
    return tokenizer
