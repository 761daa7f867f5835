"""No other room opens a file from outside: the other calls are listed here with a reason."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from support.source import FILES, nodes

#: Calls that read a file; if `pellucid.reader` gives these names, they are plain names.
READING = {"open", "read_text", "read_bytes", "load", "memmap", "fromfile", "ZipFile", "GzipFile"}
MODULES = {"np", "numpy", "zipfile", "gzip", "tokenize", "os"}
OWN = "a file that pellucid itself wrote, in a format that is read in place"
HASH = "only hashed, block by block"
PACKAGE = "a file of this package or of Python itself"
WRITES = "opened to be written or put on disk"
ALLOWED = {
    "cli/one_voice.py": "nowhere, for what other ranks would print",
    "cores.py": "the kernel's own figures",
    "runs/follow.py": HASH,
    "web/session.py": "opens a lesson, which is no file",
    "free_memory.py": "the kernel's own figures",
    "machine.py": "the kernel's own figures",
    "data/array_writer.py": OWN,
    "data/example_writer.py": OWN,
    "data/standard_library.py": PACKAGE,
    "data/streams.py": "what the reader opened, decompressed; members of an archive where they lie",
    "data/store.py": OWN,
    "data/shards/cache.py": "a shard, whose SHA-256 is compared first",
    "data/shards/folder.py": OWN,
    "hub/url_store.py": HASH,
    "saved_runs/replans.py": WRITES,
    "saved_runs/packed_folder.py": WRITES,
    "web/assets.py": PACKAGE,
    "course/build/track.py": PACKAGE,
    "course/lessons/lesson.py": PACKAGE,
    "textbook/concept.py": PACKAGE,
    "vitals/rules.py": PACKAGE,
    "vitals/logs.py": WRITES,
    "diagnosis/fixes/propose.py": PACKAGE,
    "diagnosis/finding.py": PACKAGE,
    "diagnosis/logs/columns.py": PACKAGE,
    "native/compile.py": PACKAGE,
    "checkpoints/llama2c.py": "the weights, mapped, once the reader has opened the header",
    "disk/removal.py": "a mark that pellucid wrote; its room lies below the reader's",
    "disk/outputs.py": "looks whether an output is ours; its room lies below the reader's",
    "disk/rename.py": WRITES,
    "datasets/download.py": "hashed and appended to, block by block",
    "datasets/server.py": "no file: an answer of a server, bounded there",
    "catalogue/languages.py": OWN,
    "evaluation/held_out_text.py": OWN,
    "saved_runs/machine.py": "the kernel's list of processors",
    "saved_runs/records.py": WRITES,
    "runs/verify.py": HASH,
    "training/energy.py": "the kernel's counters of energy",
}


def openings(file: Path) -> Iterator[str]:
    """The calls in a source file that may open a file to read it."""
    for node in nodes(file):
        if not isinstance(node, ast.Call):
            continue
        match node.func:
            case ast.Name("open"):
                yield "open"
            case ast.Attribute(ast.Name("reader"), _):
                pass
            case ast.Attribute(_, "read_text" | "read_bytes" | "open" as name):
                yield name
            case ast.Attribute(ast.Name(module), name) if module in MODULES and name in READING:
                yield f"{module}.{name}"
            case _:
                pass


def test_no_other_room_opens_a_file_from_outside() -> None:
    by_file = {
        name: sorted(set(openings(path)))
        for name, path in FILES.items()
        if not name.startswith("reader/")
    }
    opening = {name: calls for name, calls in by_file.items() if calls}
    assert {name: calls for name, calls in opening.items() if name not in ALLOWED} == {}
    assert ALLOWED.keys() <= opening.keys(), "a reason for a file that opens nothing"


def test_an_opening_is_seen_however_it_is_spelled(tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text(
        "open(f)\nf.open()\nPath(f).read_text()\nnp.load(f)\nreader.read_text(f)\nread_text(f)\n"
    )
    assert sorted(openings(file)) == ["np.load", "open", "open", "read_text"]
