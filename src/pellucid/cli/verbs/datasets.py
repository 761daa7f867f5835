"""`pellucid data list` and `pellucid data get`: public datasets by name."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pellucid.cli.flags.shared import finish_parser
from pellucid.cli.output.printing import can_ask, print_json, print_result
from pellucid.errors import Interrupted, TextError

if TYPE_CHECKING:
    from pellucid.datasets import Dataset, Fetched
    from pellucid.datasets.download import Progress

#: If more bytes are missing, the command asks you first.
_ASK_ABOVE = 100_000_000
_MIRROR = "PELLUCID_MIRROR"
_NO_CHECKSUM = "not known for this file: pellucid compares it with the checksum of the server"


def add_to(actions: Any) -> None:
    """Two actions of `pellucid data`, and their flags."""
    listing = actions.add_parser("list", help="the public datasets that `get` knows")
    finish_parser(listing, _list)
    getting = actions.add_parser(
        "get",
        help="download a public dataset",
        description="Download a public dataset, and check sizes and checksums: you get all of it "
        "or nothing. An interrupted download continues where it stopped. OWNER/NAME or "
        "OWNER/NAME@REVISION is a dataset on a hub such as Hugging Face's: you get its files of "
        "text and rows.",
    )
    getting.add_argument(
        "name", metavar="NAME", help="a name that `data list` shows, or OWNER/NAME"
    )
    getting.add_argument("--to", metavar="FOLDER", help="default: data/NAME")
    getting.add_argument(
        "--from",
        dest="mirror",
        metavar="URL",
        help="another server with the same paths (or set PELLUCID_MIRROR)",
    )
    getting.add_argument("--yes", action="store_true", help="download any size without a question")
    finish_parser(getting, _get, when_stopped="at once; the same command continues the download")


def _list(arguments: argparse.Namespace) -> None:
    from pellucid.datasets import DATASETS

    facts = {
        name: asdict(dataset) | {"what": dataset.description}  # the key of 0.1
        for name, dataset in DATASETS.items()
    }
    lines = [
        f"{name:<18} {_size(dataset.n_bytes):>8}  {dataset.licence}\n    {dataset.description}"
        for name, dataset in DATASETS.items()
    ]
    print_result(arguments, facts, [*lines, "\npellucid data get NAME"])


def _get(arguments: argparse.Namespace) -> None:
    from pellucid import datasets

    if "/" in arguments.name:
        _get_from_hub(arguments)
        return
    dataset = datasets.find(arguments.name)
    mirror = arguments.mirror or os.environ.get(_MIRROR) or None
    folder = Path(arguments.to or Path("data") / arguments.name)
    addresses = [datasets.address_of(dataset, part, mirror) for part in dataset.parts]
    if not arguments.json:
        _introduce(arguments.name, dataset, addresses, folder)
    local_files = [
        datasets.find_file(folder / part.name, n_bytes=part.n_bytes, sha256=part.sha256)
        for part in dataset.parts
    ]
    missing = [
        part
        for part, local_file in zip(dataset.parts, local_files, strict=True)
        if local_file is None
    ]
    sizes = [part.n_bytes for part in missing]
    total = None if None in sizes else sum(size for size in sizes if size is not None)
    _ask_if_much(total, arguments)
    files: list[Fetched] = []
    for part, address, local_file in zip(dataset.parts, addresses, local_files, strict=True):
        with _watching(part.name, quiet=arguments.json or local_file is not None) as progress:
            file = local_file or datasets.fetch(
                address,
                folder / part.name,
                n_bytes=part.n_bytes,
                sha256=part.sha256,
                progress=progress,
            )
        files.append(file)
        if not arguments.json:
            print(_format_checksum(file))
    train = _command(folder, dataset)
    if arguments.json:
        facts = [asdict(file) | {"path": str(file.path)} for file in files]
        print_json({"name": arguments.name, "files": facts, "train": train})
        return
    print(f"\nwhat next\n    {train}")
    if dataset.train.endswith(".parquet") and find_spec("pyarrow") is None:
        print("    (reading .parquet needs one more package: pip install '.[parquet]')")


def _introduce(name: str, dataset: Dataset, addresses: list[str], folder: Path) -> None:
    print(f"{name}: {dataset.description}")
    print(f"licence  {dataset.licence}")
    for part, address in zip(dataset.parts, addresses, strict=True):
        size_text = "size not known" if part.n_bytes is None else f"{part.n_bytes:,} bytes"
        print(f"from     {address}")
        print(f"to       {folder / part.name}")
        print(f"size     {size_text} ({_size(part.n_bytes)})")
        print(f"sha256   {part.sha256 or _NO_CHECKSUM}")


def _get_from_hub(arguments: argparse.Namespace) -> None:
    from pellucid.hub import parse_hub_name
    from pellucid.hub.download import download_data

    if arguments.mirror is not None:
        raise TextError(
            f"--from {arguments.mirror} is for the datasets that `data list` shows: set "
            "HF_ENDPOINT to ask another hub"
        )
    name = parse_hub_name(arguments.name)
    folder = Path(arguments.to or Path("data") / name.repo.split("/")[1])
    files = download_data(name, folder, confirm=lambda n_bytes: _ask_if_much(n_bytes, arguments))
    train = f"pellucid train {shlex.quote(str(folder))}"
    facts = {"name": arguments.name, "files": [str(file) for file in files], "train": train}
    print_result(arguments, facts, [*map(str, files), f"\nwhat next\n    {train}"])


def _ask_if_much(n_bytes: int | None, arguments: argparse.Namespace) -> None:
    """Ask before many bytes, or an unknown number of them, are downloaded."""
    if arguments.yes or (n_bytes is not None and n_bytes <= _ASK_ABOVE):
        return
    amount = "an unknown number of bytes" if n_bytes is None else _size(n_bytes)
    if arguments.json or not can_ask():
        raise TextError(
            f"{arguments.name} is {amount} to download, and there is no terminal to ask on: pass "
            "--yes to download it without a question"
        )
    try:
        answer = input(f"download {amount}? [y/N] ")
    except EOFError:
        answer = ""
    if answer.strip().lower() not in ("y", "yes"):
        raise Interrupted("nothing was downloaded, as you chose")


@contextmanager
def _watching(name: str, *, quiet: bool) -> Generator[Progress]:
    """Show the progress of a download: a bar on a terminal, a line for each tenth elsewhere."""
    if quiet:
        yield lambda n_bytes, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    from pellucid.display import can_redraw

    console = Console()
    if not can_redraw(console, sys.stdout):
        yield _Tenths(name)
        return
    columns = (TextColumn("{task.description}"), BarColumn(20), DownloadColumn())
    with Bar(*columns, TimeRemainingColumn(), console=console, transient=True) as bar:
        task = bar.add_task(name, total=None)
        yield lambda n_bytes, total: bar.update(task, completed=n_bytes, total=total)


class _Tenths:
    """Print a line for each tenth of a file, or for each 100 MB if its size is unknown."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._printed = -1

    def __call__(self, n_bytes: int, total: int | None) -> None:
        parts = 10 * n_bytes // total if total else n_bytes // _ASK_ABOVE
        if self._printed < 0 and n_bytes:
            print(f"{self._name}: continuing after {_size(n_bytes)}", flush=True)
        elif self._printed >= 0 and parts > self._printed:
            total_text = f" of {_size(total)}, {100 * n_bytes // total}%" if total else ""
            print(f"{self._name}: {_size(n_bytes)}{total_text}", flush=True)
        self._printed = max(self._printed, parts)


def _format_checksum(file: Fetched) -> str:
    checksum_note = {
        "published": "its SHA-256 is the published one",
        "server": f"its SHA-256 is from the server: {file.sha256}",
        "earlier": "its SHA-256 equals the earlier download",
        None: f"no checksum is published; computed: {file.sha256}",
    }[file.checked]
    state = "is already complete" if file.was_there else "is complete"
    return f"{file.path} {state}: {checksum_note}"


def _command(folder: Path, dataset: Dataset) -> str:
    field = "" if dataset.field is None else f" --field {dataset.field}"
    return f"pellucid train {shlex.quote(str(folder / dataset.train))}{field}"


def _size(n_bytes: int | None) -> str:
    """A size in decimal units; the room `display` has one too, but it loads torch."""
    from rich.filesize import decimal

    return "?" if n_bytes is None else decimal(n_bytes)
