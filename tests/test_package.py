"""The house as a whole: public names, allowed imports, and forbidden acts."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import pellucid

TESTS = Path(__file__).parent
ROOT = TESTS.parent
SOURCE = ROOT / "src" / "pellucid"
FILES = sorted(SOURCE.rglob("*.py"))

PUBLIC = [
    "CheckpointError",
    "ConfigError",
    "Interrupted",
    "MathsError",
    "NonFiniteError",
    "PellucidError",
    "Run",
    "RunError",
    "TextError",
    "__version__",
    "classify",
    "compare",
    "diagnosis",
    "embed",
    "evaluate",
    "fill",
    "film",
    "generate",
    "load",
    "resume",
    "trace",
    "train",
]


def in_a_new_process(script: str, *arguments: str) -> Any:
    """The JSON that a script prints, run alone with warnings as errors."""
    process = subprocess.run(
        [sys.executable, "-W", "error", "-c", script, *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(TESTS)},
    )
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout.splitlines()[-1])


def names(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def test_public_names_are_those_promised_and_all_are_there() -> None:
    assert sorted(pellucid.__all__) == PUBLIC
    assert all(getattr(pellucid, name) is not None for name in PUBLIC)
    assert dir(pellucid) == PUBLIC


def test_name_that_is_not_public_is_not_there() -> None:
    with pytest.raises(AttributeError, match="'pellucid' has no attribute 'trian'"):
        _ = pellucid.trian


def test_rooms_that_need_no_torch_load_none() -> None:
    script = """if True:
        import json, sys
        import pellucid, pellucid.errors
        import pellucid.maths, pellucid.config, pellucid.presets, pellucid.counting
        import pellucid.drawing
        pellucid.PellucidError, pellucid.__version__
        heavy = {"torch", "tokenizers", "safetensors", "rich"} & set(sys.modules)
        rooms = sorted(name for name in sys.modules if name.startswith("pellucid.model"))
        print(json.dumps([sorted(heavy), rooms]))
    """
    assert in_a_new_process(script) == [[], []]


def test_rooms_import_only_what_lies_below_them() -> None:
    linted = subprocess.run(
        [
            sys.executable,
            "-c",
            "from importlinter.cli import lint_imports_command as lint; lint()",
            "--no-cache",
            "--no-logo",
        ],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert linted.returncode == 0, linted.stdout + linted.stderr
    assert "0 broken" in linted.stdout


def imported_by(path: Path) -> set[str]:
    """Dotted names that a source file imports."""
    modules: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            modules |= {f"{node.module}.{alias.name}" for alias in node.names}
    return modules


@pytest.mark.parametrize("room", ["drawing", "model", "objectives", "optim"])
def test_assemble_alone_reads_the_config_of_its_room(room: str) -> None:
    readers = {
        names(path)
        for path in (SOURCE / room).rglob("*.py")
        # which layers a name means is no choice: counting and the model share that rule
        if any(
            name.startswith("pellucid.config")
            for name in imported_by(path) - {"pellucid.config.trained.is_meant"}
        )
    }
    doors = (f"{room}/assemble", f"{room}/build/")
    assert readers
    assert {name for name in readers if not name.startswith(doors)} == set()


def test_no_file_is_longer_than_three_hundred_lines() -> None:
    lengths = {names(path): len(path.read_text("utf-8").splitlines()) for path in FILES}
    assert {name: length for name, length in lengths.items() if length > 300} == {}


def test_no_file_is_a_drawer_for_what_has_no_home() -> None:
    drawers = {"utils", "common", "helpers", "core", "misc", "base", "manager"}
    assert {
        part for path in FILES for part in Path(names(path)).with_suffix("").parts
    } & drawers == set()


def test_one_room_alone_opens_connections() -> None:
    network_modules = (
        "urllib.request",
        "http.",
        "ssl",
        "ftplib",
        "requests",
        "httpx",
        "huggingface_hub",
    )
    rooms = {
        names(path).split("/")[0]
        for path in FILES
        if any(name.startswith(network_modules) for name in imported_by(path))
    }
    assert rooms == {"datasets", "hub"}


def test_a_mark_stands_in_the_file_of_its_tests() -> None:
    """`.ci/run` collects only the files that have a mark."""
    mark = re.compile(r"mark\.(slow|parity|browser)\b")
    others = [path for path in TESTS.rglob("*.py") if not path.name.startswith("test_")]
    assert [path.name for path in others if mark.search(path.read_text("utf-8"))] == []


def test_nothing_tries_to_reach_the_network(tmp_path: Path) -> None:
    """Training, loading and generating with every way to open a socket shut."""
    script = """if True:
        import json, socket, sys
        from pathlib import Path

        def shut(event, arguments):  # the machine's own name is no business of the network's
            if event.startswith("socket.") and event != "socket.gethostname":
                raise PermissionError(f"{event} {arguments}")

        sys.addaudithook(shut)
        try:
            socket.create_connection(("127.0.0.1", 9))
        except PermissionError:
            refused = True
        import pellucid
        from support.tiny import train_tiny
        folder = Path(sys.argv[1]) / "run"
        train_tiny(folder, steps=2)
        run = pellucid.load(folder)
        print(json.dumps([refused, type(run).__name__]))
    """
    assert in_a_new_process(script, str(tmp_path)) == [True, "Run"]
