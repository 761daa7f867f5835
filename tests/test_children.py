"""Nothing that pellucid starts runs code of the folder that you are in."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pellucid import children

SOURCES = Path(children.__file__).parent
#: Modules and functions that start processes.
STARTERS = (
    "subprocess",
    "multiprocessing",
    "concurrent.futures.process",
    "pty",
    "asyncio.subprocess",
)
CALLS = ("system", "popen", "fork", "forkpty", "posix_spawn", "posix_spawnp", "startfile")

#: A file without any of these is not parsed.
WORDS = re.compile(r"process|pty|\bos\.(system|p?open|fork|posix_spawn|startfile|exec|spawn)")


@pytest.fixture
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder full of modules that leave a mark when they are run."""
    folder = tmp_path / "hostile"
    folder.mkdir()
    for module in (
        "json",
        "torch",
        "numpy",
        "random",
        "sitecustomize",
        "usercustomize",
        "pellucid",
    ):
        (folder / f"{module}.py").write_text(
            f"open({str(folder / 'ran')!r}, 'a').write({module!r})\n"
        )
    monkeypatch.chdir(folder)
    return folder


def starts_processes(tree: ast.AST) -> list[int]:
    lines: list[int] = []
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            name = node.attr
            if node.value.id == "os" and (name in CALLS or name.startswith(("exec", "spawn"))):
                lines.append(node.lineno)
            if name in ("ProcessPoolExecutor", "create_subprocess_exec", "create_subprocess_shell"):
                lines.append(node.lineno)
        if any(name.split(".")[-1] == "ProcessPoolExecutor" for name in names) or any(
            name == starter or name.startswith(f"{starter}.")
            for name in names
            for starter in (*STARTERS, "torch.multiprocessing")
        ):
            lines.append(node.lineno)
    return lines


def test_one_module_starts_processes() -> None:
    texts = {file: file.read_text(encoding="utf-8") for file in SOURCES.rglob("*.py")}
    starting = {
        file.relative_to(SOURCES).as_posix()
        for file, text in texts.items()
        if WORDS.search(text) and starts_processes(ast.parse(text))
    }
    assert starting == {"children.py"}


@pytest.mark.parametrize(
    "line",
    [
        "import subprocess",
        "from multiprocessing import Pool",
        "os.execv('a', [])",
        "os.system('a')",
        "from concurrent.futures import ProcessPoolExecutor",
        "import torch.multiprocessing as mp",
    ],
)
def test_every_way_to_start_a_process_is_seen(line: str) -> None:
    assert starts_processes(ast.parse(line))


@pytest.mark.parametrize("path", [None, "", ".", f".{os.pathsep}relative", os.pathsep])
def test_another_python_runs_nothing_of_the_working_folder(
    hostile: Path, path: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = ["", str(hostile)]
    if path is not None:
        monkeypatch.setenv("PYTHONPATH", path)
        places += [os.path.abspath(entry) for entry in path.split(os.pathsep)]
    if path is not None and "relative" in path:
        (hostile / "relative").mkdir()
        (hostile / "json.py").rename(hostile / "relative" / "json.py")
    monkeypatch.setattr(sys, "path", [*places, *sys.path])
    process = children.run(
        children.python("import json, random, numpy, pellucid.config; print(pellucid.__file__)")
    )
    assert process.stdout.strip() == str(SOURCES / "__init__.py"), process.stderr
    assert not (hostile / "ran").exists()


def test_another_python_imports_what_this_one_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere.py").write_text("answer = 42\n")
    monkeypatch.syspath_prepend(tmp_path)
    process = children.run(children.python("import elsewhere; print(elsewhere.answer)"))
    assert process.stdout == "42\n"


def test_a_program_of_the_working_folder_is_not_found(
    hostile: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (hostile / "cc").write_text("#!/bin/sh\n")
    (hostile / "cc").chmod(0o755)
    monkeypatch.setenv("PATH", os.pathsep.join(("", ".", "hostile")))
    assert children.program("cc") is None
    assert children.program("./cc") == str(hostile / "cc")  # you named it by its path
    assert children.environment()["PATH"] == ""


def test_a_child_inherits_no_relative_folder_to_search(monkeypatch: pytest.MonkeyPatch) -> None:
    home = os.path.abspath(os.sep)
    for name in ("LD_LIBRARY_PATH", "PYTHONPATH", "CPATH"):
        monkeypatch.setenv(name, os.pathsep.join(("", ".", home, "a/b")))
    variables = children.environment()
    assert {variables[name] for name in ("LD_LIBRARY_PATH", "PYTHONPATH", "CPATH")} == {home}
    assert os.environ["CPATH"] != home


@pytest.mark.parametrize("module", ["json", "typing", "argparse", "__future__"])
def test_the_command_as_a_module_runs_nothing_of_the_working_folder(
    hostile: Path, module: str
) -> None:
    (hostile / "pellucid.py").unlink()  # Python looks for that one here, and nothing can be done
    (hostile / f"{module}.py").write_text(f"open({str(hostile / 'ran')!r}, 'w')\n")
    command = [sys.executable, "-m", "pellucid", "presets", "list"]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    assert not (hostile / "ran").exists()


def test_a_reward_comes_first_and_what_lies_beside_it_last(
    hostile: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pellucid.tasks.rewards import import_module

    monkeypatch.setattr(sys, "path", [*sys.path])
    (hostile / "statistics.py").write_text(f"open({str(hostile / 'ran')!r}, 'w')\n")
    (hostile / "my_words.py").write_text("liked = 'good'\n")
    (hostile / "my_reward.py").write_text(
        "import statistics, my_words\n"
        "def fn(row, answer): return statistics.mean([my_words.liked in answer])\n"
    )
    monkeypatch.delitem(sys.modules, "statistics", raising=False)
    try:
        assert import_module("my_reward").fn({}, "good") == 1
    finally:
        for name in ("my_reward", "my_words"):
            sys.modules.pop(name, None)
    assert not (hostile / "ran").exists()
