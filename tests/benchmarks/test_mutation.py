"""The mutation tool, and a sample of mutants that the tests have to notice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.mutants import mutants_of
from benchmarks.mutation import ROOT, draw


def test_each_kind_of_mutant_is_made(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(
        "def f(x, n=2):\n"
        '    """Text 1 < 2."""\n'
        "    if x < n and not x:\n"
        "        g(x)\n"
        "        raise ValueError(f'{x + 1}')\n"
        "    return -x * 3\n"
    )
    changes = {(mutant.before, mutant.after) for mutant in mutants_of(tmp_path, "a.py")}
    assert {
        ("2", "(3)"),
        ("x < n", "(x <= n)"),
        ("not x", "(x)"),
        ("g(x)", "pass"),
        ("raise ValueError(f'{x + 1}')", "pass"),
        ("-x * 3", "(-x / 3)"),
        ("-x", "(x)"),
        ("return -x * 3", "return None"),
    } <= changes
    assert not any("Text" in before or "x + 1" in before[:5] for before, _ in changes)
    source = (tmp_path / "a.py").read_bytes()
    for mutant in mutants_of(tmp_path, "a.py"):
        compile(mutant.apply(source), "a.py", "exec")


def test_the_same_seed_draws_the_same_mutants() -> None:
    assert draw("optim", 5, 1) == draw("optim", 5, 1)
    assert draw("optim", 5, 1) != draw("optim", 5, 2)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the tool forks")
def test_a_sample_of_mutants_is_noticed(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.mutation", "optim"]
    arguments = ["--mutants", "8", "--seed", "1", "--json", str(report)]
    subprocess.run([*command, *arguments], cwd=ROOT, check=True, timeout=900)
    results = json.loads(report.read_text(encoding="utf-8"))["optim"]
    survived = [each["mutant"] for each in results["outcomes"] if each["result"] == "survived"]
    assert results["score"] >= 0.95, survived
