"""The mutation tool, and a sample of mutants that the tests have to notice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.mutants import Mutant, mutants_of
from benchmarks.mutation import (
    EQUIVALENT,
    NEAREST,
    ROOMS,
    ROOT,
    TESTS_OF_OTHER_ROOMS,
    draw,
    equivalent,
    nearest,
    room_tests,
)

from support.nightly import sampled


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


def test_a_change_is_equivalent_by_a_rule_or_by_the_list_with_its_reason() -> None:
    mutants_by_statement = {
        name: Mutant("a.py", 4, "f", 0, 0, name, "pass") for name in ("assert_never(k)", "g(k)")
    }
    assert equivalent(mutants_by_statement["assert_never(k)"]) == (
        "the type checker proves that the line is never reached"
    )
    assert equivalent(mutants_by_statement["g(k)"]) is None
    keys = {mutant.key for room in ROOMS for mutant in draw(room, 10**6, 1)}
    reasons = json.loads(EQUIVALENT.read_text(encoding="utf-8"))
    assert reasons.keys() <= keys, "the list names changes that no longer exist"
    assert all(reasons.values())


def test_the_nearest_tests_mirror_a_file_or_name_what_it_defines() -> None:
    assert nearest("optim/proximal.py") == ("tests/optim/test_proximal.py",)
    assert nearest("optim/clipping.py") == ("tests/optim/test_optim.py",)
    assert nearest("maths/positions/rotary.py") == ("tests/maths/positions/test_rotary.py",)
    assert nearest("data/chat/forms.py") == ("tests/data/test_forms.py",)
    assert nearest("data/__init__.py") == ("tests/test_old_names.py",)
    (rows,) = NEAREST.values()
    assert nearest("checkpoints/huggingface/families/opt.py") == rows
    assert all(
        (ROOT / file).is_file()
        for files in (rows, *TESTS_OF_OTHER_ROOMS.values())
        for file in files
    )


def test_the_whole_room_runs_but_for_what_is_left_out_and_the_nearest_tests_begin() -> None:
    files = [name for name in room_tests("maths/output_head.py") if not name.startswith("--")]
    assert files[0] == "tests/maths/test_checks.py"
    ignored = {"tests/maths/test_bodies.py", "tests/maths/test_jax.py"}
    room = {path.relative_to(ROOT).as_posix() for path in ROOT.glob("tests/maths/**/test_*.py")}
    assert sorted(files) == sorted(name for name in room - ignored if "parity" not in name)
    assert room_tests("checkpoints/atomic.py")[-1] == "tests/saved_runs/test_half_precision.py"


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the tool forks")
@pytest.mark.parametrize("n_mutants", sampled([20, 40], 2))
def test_a_sample_of_mutants_is_noticed(tmp_path: Path, n_mutants: int) -> None:
    report = tmp_path / "report.json"
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.mutation", "--together"]
    arguments = ["--mutants", str(n_mutants), "--seed", "1", "--json", str(report)]
    subprocess.run([*command, *arguments], cwd=ROOT, check=True, timeout=1800)
    results = json.loads(report.read_text(encoding="utf-8"))[" ".join(ROOMS)]
    survived = [
        outcome["mutant"] for outcome in results["outcomes"] if outcome["result"] == "survived"
    ]
    assert results["score"] >= 0.95, survived
