"""`pellucid data list` and `pellucid data get`: public datasets by name.

Comes in: a name, and where to put it. Goes out: what it is, before anything is downloaded; then the
files, and the command to train on them. It does not know how a file is downloaded.
"""

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

from pellucid.cli.output.streams import add_json, print_json
from pellucid.errors import Interrupted, TextError

if TYPE_CHECKING:
    from pellucid.datasets import Dataset, Fetched, Part
    from pellucid.datasets.download import Progress

#: Bytes still to come above which somebody is asked first.
_MUCH = 100_000_000
_MIRROR = "PELLUCID_MIRROR"
_NO_CHECKSUM = "none is known for this file: it is compared with what the server says of it"


def add_to(actions: Any) -> None:
    """Two actions of `pellucid data`, and their flags."""
    listing = actions.add_parser("list", help="the public datasets that `get` knows")
    add_json(listing)
    listing.set_defaults(call=_list)
    getting = actions.add_parser(
        "get",
        help="download a public dataset",
        description="Download a public dataset, whole or not at all: sizes and checksums are "
        "compared. A download that was cut off goes on where it stopped.",
    )
    getting.add_argument("name", metavar="NAME", help="one of those that `data list` shows")
    getting.add_argument("--to", metavar="FOLDER", help="default: data/NAME")
    getting.add_argument(
        "--from",
        dest="mirror",
        metavar="URL",
        help="another server, with the files under the same paths (or set PELLUCID_MIRROR)",
    )
    getting.add_argument("--yes", action="store_true", help="do not ask, however large it is")
    add_json(getting)
    getting.set_defaults(
        call=_get,
        when_stopped="at once; what has come is kept, the same command goes on from there",
    )


def _list(arguments: argparse.Namespace) -> None:
    from pellucid.datasets import DATASETS

    if arguments.json:
        # "what" is the key of 0.1
        facts = {
            name: asdict(dataset) | {"what": dataset.description}
            for name, dataset in DATASETS.items()
        }
        print_json(facts)
        return
    for name, dataset in DATASETS.items():
        print(f"{name:<18} {_size(dataset.n_bytes):>8}  {dataset.licence}")
        print(f"    {dataset.description}")
    print("\npellucid data get NAME")


def _get(arguments: argparse.Namespace) -> None:
    from pellucid import datasets

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
    _ask_if_much(missing, arguments)
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
            print(_said_of(file))
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
        counted = "size not known" if part.n_bytes is None else f"{part.n_bytes:,} bytes"
        print(f"from     {address}")
        print(f"to       {folder / part.name}")
        print(f"size     {counted} ({_size(part.n_bytes)})")
        print(f"sha256   {part.sha256 or _NO_CHECKSUM}")


def _ask_if_much(missing: list[Part], arguments: argparse.Namespace) -> None:
    sizes = [part.n_bytes for part in missing]
    known_bytes = sum(size for size in sizes if size is not None)
    if arguments.yes or (known_bytes <= _MUCH and None not in sizes):
        return
    much = "an unknown number of bytes" if None in sizes else _size(known_bytes)
    if arguments.json or not (sys.stdin and sys.stdin.isatty() and sys.stdout.isatty()):
        raise TextError(
            f"{arguments.name} is {much} to download, and there is nobody to ask: pass --yes to "
            "download it without being asked"
        )
    try:
        answer = input(f"download {much}? [y/N] ")
    except EOFError:
        answer = ""
    if answer.strip().lower() not in ("y", "yes"):
        raise Interrupted("nothing was downloaded, as you said")


@contextmanager
def _watching(name: str, *, quiet: bool) -> Generator[Progress]:
    """What shows how far a download is: a bar on a terminal, a line for each tenth elsewhere."""
    if quiet:
        yield lambda done, total: None
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
        yield lambda done, total: bar.update(task, completed=done, total=total)


class _Tenths:
    """Says a line when a tenth more of the file is there, and each 100 MB where none is known."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._said = -1

    def __call__(self, done: int, total: int | None) -> None:
        reached = 10 * done // total if total else done // _MUCH
        if self._said < 0 and done:
            print(f"{self._name}: going on after {_size(done)}", flush=True)
        elif self._said >= 0 and reached > self._said:
            of = f" of {_size(total)}, {100 * done // total}%" if total else ""
            print(f"{self._name}: {_size(done)}{of}", flush=True)
        self._said = max(self._said, reached)


def _said_of(file: Fetched) -> str:
    checksum_note = {
        "published": "its SHA-256 is the published one",
        "server": f"its SHA-256 is the one that the server gave: {file.sha256}",
        "earlier": "its SHA-256 is that of the earlier download",
        None: f"nobody gives a checksum to compare; counted: {file.sha256}",
    }[file.checked]
    was = "is there already and whole" if file.was_there else "is there"
    return f"{file.path} {was}: {checksum_note}"


def _command(folder: Path, dataset: Dataset) -> str:
    field = "" if dataset.field is None else f" --field {dataset.field}"
    return f"pellucid train {shlex.quote(str(folder / dataset.train))}{field}"


def _size(n_bytes: int | None) -> str:
    """As the file manager says it; without the display room, which would load torch."""
    from rich.filesize import decimal

    return "?" if n_bytes is None else decimal(n_bytes)
