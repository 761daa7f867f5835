"""Where the code may delete, rename and write: a careless call anywhere else fails here."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.source import FILES, nodes

#: What removes or replaces something, by where alone it may be called.
REMOVERS = {
    "disk/removal.py": {"unlink", "rmdir"},
    "disk/rename.py": {"replace"},
}
#: Private folders of the system's own naming, which take everything in them along at their end.
SCRATCH = {
    "diagnosis/proof/fork.py",
    "explain/losses/examples.py",
    "native/compile.py",
    "runs/convert.py",
    "runs/evaluate_examples.py",
    "runs/kills.py",
    "runs/prepare_folder.py",
    "runs/ready_folder.py",
    "runs/verify.py",
    "tokenizers/processes.py",
    "training/guard.py",  # a traceback, kept for the user
}
#: Everything that writes without the room `disk`, and why that can reach nothing of the user's.
WRITERS = {
    "disk/removal.py": "the mark, into a folder that was just made or that has one",
    "disk/atomic_write.py": "into an unfinished folder of ours",
    "textbook/documentation.py": "pages of our own repository, which git holds",
    "disk/outputs.py": "into a pipe or a device",
    "checkpoints/files.py": "into an unfinished folder of ours",
    "checkpoints/huggingface/adapter.py": "into an unfinished folder of ours",
    "checkpoints/huggingface/adapter_config.py": "into an unfinished folder of ours",
    "checkpoints/huggingface/own.py": "into an unfinished folder of ours",
    "checkpoints/huggingface/write.py": "into an unfinished folder of ours",
    "datasets/download.py": "into an unfinished folder of ours",
    "data/cache.py": "into an unfinished folder of ours",
    "data/manifest.py": "into an unfinished folder of ours",
    "data/array_writer.py": "into an unfinished folder of ours",
    "data/shards/cache.py": "`.unfinished` in the cache, while the process holds its lock",
    "data/shards/folder.py": "into an unfinished folder of ours, or a private one",
    "runs/ready_folder.py": "into an unfinished folder of ours, or a private one",
    "data/example_writer.py": "into an unfinished folder of ours",
    "exports/gguf/folder.py": "into an unfinished folder of ours",
    "exports/onnx_folder.py": "into an unfinished folder of ours",
    "exports/published.py": "into an unfinished folder of ours",
    "exports/tokenizer_files.py": "into an unfinished folder of ours",
    "runs/import_run.py": "into an unfinished folder of ours",
    "runs/prepare_examples.py": "into an unfinished folder of ours",
    "runs/kills.py": "into a private folder",
    "runs/rebuild.py": "into an unfinished folder of ours, or a private one",
    "training/non_finite.py": "into an unfinished folder of ours",
    "checkpoints/shares.py": "into an unfinished folder of ours",
    "saved_runs/packed_folder.py": "into an unfinished folder of ours",
    "saved_runs/replans.py": "at the end of a run's `replans.jsonl`",
    "diagnosis/proof/fork.py": "into a private folder",
    "explain/losses/examples.py": "into a private folder",
    "saved_runs/folder.py": "`.lock-owner.json` in the folder of a run",
    "saved_runs/records.py": "at the end of a run's `metrics.jsonl`",
    "vitals/logs.py": "at the end of the file that the user named",
    "vitals/huggingface.py": "a file of ours in a checkpoint that the trainer has just made",
    "cli/one_voice.py": "to nowhere, what other ranks would print",
    "cli/verbs/embed.py": "into memory",
}


def attributes(path: Path) -> Iterator[tuple[str, str]]:
    """Each dotted name of a file, split at its last dot."""
    for node in nodes(path):
        if isinstance(node, ast.Attribute):
            yield getattr(node.value, "id", ""), node.attr
        elif isinstance(node, ast.Name):
            yield "", node.id


def calls(path: Path) -> Iterator[tuple[ast.Call, str, str]]:
    """Each call with the owner and the name of what it calls."""
    for node in nodes(path):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield node, getattr(node.func.value, "id", ""), node.func.attr
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node, "", node.func.id


def removals(path: Path) -> set[str]:
    removing = {"rmtree", "unlink", "rmdir", "removedirs", "rename", "renames"}
    removal_names = {name for _, name in attributes(path)} & removing
    moving = {"remove", "replace", "move", "truncate"}
    removal_names |= {
        name for owner, name in attributes(path) if owner in ("os", "shutil")
    } & moving
    # `replace` of a text takes two arguments, and `dataclasses.replace` names its arguments
    texts = {"dataclasses", "re"}
    return removal_names | {
        name
        for call, owner, name in calls(path)
        if name == "replace" and isinstance(call.func, ast.Attribute) and owner not in texts
        if len(call.args) == 1 and not call.keywords
    }


def writes(path: Path) -> bool:
    modes = ("w", "wb", "a", "ab", "x", "xb", "r+b", "w+b")
    for call, owner, name in calls(path):
        is_method = isinstance(call.func, ast.Attribute)
        if name in ("write_text", "write_bytes") and is_method and owner != "disk":
            return True
        if name == "open" and any(getattr(mode, "value", "") in modes for mode in call.args):
            return True
        if name in ("touch", "save_file") or (owner, name) == ("np", "save"):
            return True
        if owner == "shutil" and name.startswith("copy") and name != "copymode":
            return True
    return False


def test_only_the_room_disk_removes_and_renames() -> None:
    calls_by_file = {name: removals(path) for name, path in FILES.items()}
    assert {name: calls for name, calls in calls_by_file.items() if calls} == REMOVERS


def test_private_folders_are_made_where_they_are_known() -> None:
    temporary_makers = {"TemporaryDirectory", "mkdtemp", "mkstemp", "NamedTemporaryFile"}
    files_with_temporary = {
        name for name, path in FILES.items() if temporary_makers & {n for _, n in attributes(path)}
    }
    assert files_with_temporary == SCRATCH


def test_everything_that_writes_by_itself_is_listed_with_its_reason() -> None:
    assert {name for name, path in FILES.items() if writes(path)} == set(WRITERS)


@pytest.mark.parametrize(
    "line",
    [
        "import shutil; shutil.rmtree(place)",
        "import atexit, shutil; atexit.register(shutil.rmtree, place)",
        "from shutil import rmtree; rmtree(place)",
        "place.unlink(missing_ok=True)",
        "import os; os.remove(place)",
        "import os; os.rename(place, other)",
        "place.with_name('a').replace(other)",
        "import os; os.replace(place, other)",
    ],
)
def test_a_careless_call_is_seen(line: str, tmp_path: Path) -> None:
    file = tmp_path / "careless.py"
    file.write_text(line)
    assert removals(file)
