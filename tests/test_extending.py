"""The pages of docs/extending are true: a copy of the checkout takes each part, and it works."""

from __future__ import annotations

import ast
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.extending import FOLDER, ROOT, apply, changed_files, recipes

RECIPES = recipes()
del RECIPES["README"]
#: Carried out in every run of the slow tests; the others in the nightly ones.
SAMPLE = ("norm",)
TREES = ("src", "tests", "docs", "benchmarks")
PARTS = ["pellucid", "pytest", "basedpyright", "ruff"]
#: Commands `python FILE`: each writes pages from the code.
SCRIPTS = ["docs/config_tables.py", "docs/source_tables.py"]


def parsed_files(*names: str) -> dict[str, str]:
    """The files that the pages change, after all changes; those in Python can be parsed."""
    texts = changed_files([RECIPES[name] for name in names], ROOT)
    for path, text in texts.items():
        if path.endswith(".py"):
            ast.parse(text)
    return texts


@pytest.mark.parametrize("name", RECIPES)
def test_every_change_of_a_page_fits_the_checkout(name: str) -> None:
    paths = list(parsed_files(name))
    assert len(paths) > 1
    assert any(path.startswith("tests/") for path in paths)
    assert RECIPES[name].commands


def test_all_pages_fit_together() -> None:
    assert len(parsed_files(*RECIPES)) > 1


def test_every_page_is_listed() -> None:
    page = (FOLDER / "README.md").read_text("utf-8")
    assert [name for name in RECIPES if f"({name}.md)" not in page] == []


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the checkout with all parts added."""
    copy = tmp_path_factory.mktemp("extended") / "checkout"
    skipped = shutil.ignore_patterns("__pycache__", ".*_cache")
    for tree in TREES:
        shutil.copytree(ROOT / tree, copy / tree, ignore=skipped)
    for file in ROOT.iterdir():
        if file.is_file():
            shutil.copy(file, copy)
    apply(RECIPES.values(), copy)
    return copy


def run(command: str, checkout: Path) -> None:
    """Run a command of a page with the code of the copy; it must succeed."""
    part, *words = shlex.split(command)
    if part == "python":
        assert words[0] in SCRIPTS, f"a page may run {SCRIPTS}, not {words[0]}"
        run_python(checkout, *words)
        return
    assert part in PARTS, f"a page may run {PARTS}, not {part}"
    run_python(checkout, "-m", part, *words)


def run_python(checkout: Path, *words: str) -> None:
    """Run Python with the code of the copy; it must succeed."""
    paths = os.pathsep.join(str(checkout / folder) for folder in ("src", "tests"))
    result = subprocess.run(
        [sys.executable, *words],
        cwd=checkout,
        env=os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    output = f"{result.stdout[-4000:]}\n{result.stderr[-4000:]}"
    assert result.returncode == 0, f"{shlex.join(words)}\n{output}"


def test_what_the_pages_change_can_be_imported(extended: Path) -> None:
    """A page that uses a name which is no longer there fails here, in seconds."""
    paths = [path for path in parsed_files(*RECIPES) if path.endswith(".py")]
    modules = [path[4:-3].replace("/", ".") for path in paths if path.startswith("src/")]
    imports = "\n".join(f"import {module.removesuffix('.__init__')}" for module in modules)
    run_python(extended, "-c", imports)
    tests = [path for path in paths if Path(path).name.startswith("test_")]
    run_python(extended, "-m", "pytest", "--collect-only", "-q", *tests)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=() if n in SAMPLE else pytest.mark.nightly) for n in RECIPES],
)
def test_a_new_part_works(name: str, extended: Path) -> None:
    for command in RECIPES[name].commands:
        run(command, extended)


@pytest.mark.slow
def test_the_types_of_all_new_parts_together_hold(extended: Path) -> None:
    pytest.importorskip("basedpyright", reason="needs the package's `checks`")
    run("ruff check src tests", extended)
    run("ruff format --check src tests", extended)
    run("basedpyright --pythonpath " + sys.executable, extended)
