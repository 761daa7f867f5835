"""From a name on a hub to a folder on this machine, with the sizes before and progress during.

A model's folder is in the library's cache; data goes into a folder of yours. Only safetensors are
read: a pickle can run code.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Literal, cast

import huggingface_hub

from pellucid import disk
from pellucid.errors import RunError
from pellucid.hub.names import HubName
from pellucid.hub.refusals import endpoint, is_offline, progress_bars, refusing

Kind = Literal["model", "dataset"]
#: Its functions have types that a strict checker cannot follow.
_LIBRARY = cast("Any", huggingface_hub)
#: The files of a model that are read; weights are chosen apart.
_MODEL_FILES = frozenset(
    {
        "config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json",
        "special_tokens_map.json", "added_tokens.json", "chat_template.jinja", "vocab.json",
        "merges.txt", "vocab.txt", "spiece.model", "tokenizer.model", "sentencepiece.bpe.model",
        "adapter_config.json", "README.md",
    }
)  # fmt: skip
_WEIGHTS, _INDEX = "model.safetensors", "model.safetensors.index.json"
_PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack")
#: Endings of files of text and of tables.
_DATA_ENDINGS = (
    ".txt", ".md", ".json", ".jsonl", ".ndjson", ".csv", ".tsv", ".parquet", ".gz", ".zst",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class HubFile:
    """A file of a repository, and its size in bytes."""

    path: str
    n_bytes: int


def fetch_model(name: HubName) -> Path:
    """The folder of a model in the cache, which is filled first.

    Raises:
        RunError: the hub does not have it, cannot be reached, or has no safetensors.
    """
    with refusing(f"the model {name}"):
        if is_offline():
            return _cached(name)
        revision, files = _ask(name, "model", _choose_model_files)
        cached = [f for f in files if _is_cached(name, f, revision)]
        missing = [f for f in files if f not in cached]
        _announce(missing, "the cache", _cache_folder())
        folder = None
        with progress_bars():
            for file in files:
                path = _LIBRARY.hf_hub_download(
                    name.repo, file.path, revision=revision, endpoint=endpoint()
                )
                folder = Path(path).parent
    assert folder is not None  # the choice of files refuses a model without weights
    return folder


def download_data(
    name: HubName, folder: Path, *, confirm: Callable[[int], None] = lambda n_bytes: None
) -> list[Path]:
    """The files of text and tables of a dataset, in a folder of yours.

    Args:
        name: the dataset.
        folder: where the files go, under their own paths.
        confirm: is called with the number of missing bytes; it may refuse.

    Raises:
        RunError: the hub does not have it, cannot be reached, or has no such files; or a file of
            yours has the place of one.
    """
    with refusing(f"the dataset {name}"):
        revision, files = _ask(name, "dataset", _choose_data_files)
        missing = [file for file in files if not _is_there(folder / file.path, file)]
        confirm(sum(file.n_bytes for file in missing))
        _announce(missing, str(folder), folder)
        with progress_bars():
            for file in missing:
                _LIBRARY.hf_hub_download(
                    name.repo,
                    file.path,
                    repo_type="dataset",
                    revision=revision,
                    local_dir=folder,
                    endpoint=endpoint(),
                )
    return [folder / file.path for file in files]


def _ask(
    name: HubName, kind: Kind, choose: Callable[[HubName, list[HubFile]], list[HubFile]]
) -> tuple[str, list[HubFile]]:
    """The commit of a repository, and the files of it that are wanted."""
    print(f"asking {endpoint()} for the {kind} {name}", file=sys.stderr)
    info: Any = _LIBRARY.HfApi(endpoint=endpoint()).repo_info(
        name.repo, repo_type=kind, revision=name.revision, files_metadata=True
    )
    files = [HubFile(file.rfilename, file.size or 0) for file in info.siblings or ()]
    return info.sha, choose(name, files)


def _choose_model_files(name: HubName, files: list[HubFile]) -> list[HubFile]:
    """The files of a model at the top of its repository."""
    paths = {file.path for file in files}
    weights = {_WEIGHTS, "adapter_model.safetensors"} & paths
    if _INDEX in paths and _WEIGHTS not in paths:
        weights = {path for path in paths if path.endswith(".safetensors") and "/" not in path}
        weights |= {_INDEX}
    if not weights:
        pickles = sorted(path for path in paths if path.endswith(_PICKLES))
        raise RunError(
            f"the model {name} has no safetensors"
            + (f", only {pickles[0]}: pellucid does not open pickles" if pickles else "")
            + "; choose another revision, or convert it first"
        )
    return [file for file in files if file.path in weights | _MODEL_FILES]


def _choose_data_files(name: HubName, files: list[HubFile]) -> list[HubFile]:
    chosen_files = [
        file
        for file in files
        if file.path.endswith(_DATA_ENDINGS)
        and PurePosixPath(file.path).name not in ("README.md", "dataset_infos.json")
    ]
    if not chosen_files:
        raise RunError(
            f"the dataset {name} has no file of text or rows: {', '.join(_DATA_ENDINGS)}"
        )
    return chosen_files


def _is_there(path: Path, file: HubFile) -> bool:
    """Whether a file is complete in the folder.

    Raises:
        RunError: another file has its place.
    """
    if not path.exists():
        return False
    if path.stat().st_size != file.n_bytes:
        raise RunError(
            f"{path} exists and is another file: it has {path.stat().st_size:,} bytes, expected "
            f"{file.n_bytes:,}; move it away, or choose another folder with --to"
        )
    return True


def _is_cached(name: HubName, file: HubFile, revision: str) -> bool:
    path = _LIBRARY.try_to_load_from_cache(name.repo, file.path, revision=revision)
    return isinstance(path, str)


def _cached(name: HubName) -> Path:
    """The folder of a model in the cache; no server is asked."""
    try:
        folder = _LIBRARY.snapshot_download(
            name.repo, revision=name.revision, local_files_only=True
        )
    except (OSError, ValueError):
        raise RunError(
            f"the model {name} is not in the cache, and HF_HUB_OFFLINE forbids asking "
            f"{endpoint()}: download it once without that variable"
        ) from None
    return Path(folder)


def _cache_folder() -> Path:
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE)


def _announce(files: Sequence[HubFile], place: str, folder: Path) -> None:
    """Say how much will be downloaded, and refuse what does not fit on the disk."""
    if not files:
        return
    n_bytes = sum(file.n_bytes for file in files)
    print(f"downloading {len(files)} files, {n_bytes:,} bytes, to {place}", file=sys.stderr)
    free = disk.free_bytes(folder)
    if n_bytes > free:
        raise RunError(
            f"{n_bytes:,} bytes do not fit into {folder}: the disk has {free:,} left; make room, "
            "or move the cache with HF_HOME"
        )
