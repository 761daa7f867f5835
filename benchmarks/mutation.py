"""Whether the tests of a room notice small wrong changes to its source.

    python -m benchmarks.mutation maths --mutants 40 --seed 1 --json out.json
    python -m benchmarks.mutation --together --mutants 40

The tool draws changes at random (see `benchmarks.mutants`), makes one at a time in a copy of the
checkout, and runs the tests of the nearest file, then those of the room, until one fails. A mutant
that no test notices survives: a test is missing, or the change changes nothing. `equivalent` knows
changes of the second kind by a rule or by the list in `mutants_equivalent.json`, each with its
reason; they do not count.

The score is the share of noticed mutants. It needs a system with `fork`.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from benchmarks.mutants import Mutant, mutants_of

ROOT = Path(__file__).parents[1]
EQUIVALENT = Path(__file__).with_name("mutants_equivalent.json")
ROOMS = ("maths", "optim", "objectives", "training", "data", "checkpoints")

#: Tests that take long and compute nothing of the room that another one does not.
LEFT_OUT = {
    "maths": [
        "--deselect=tests/maths/test_checks.py::test_checks_break_no_graph_of_a_compiler",
        "--ignore=tests/maths/test_bodies.py",
        "--ignore=tests/maths/test_jax.py",
    ],
    "objectives": ["--ignore=tests/objectives/test_bandit.py"],
    "training": [
        "--deselect=tests/training/test_kernels.py::test_the_fast_path_learns_as_the_plain_one_does"
    ],
}

#: Tests of files that are tables of rows: one file for each topic would name no row.
NEAREST = {
    "checkpoints/huggingface/families/": (
        "tests/checkpoints/test_published_configs.py",
        "tests/checkpoints/test_described_configs.py",
        "tests/checkpoints/test_published_outputs.py",
    ),
}
#: Tests outside a room's folder that hold what is in the room.
BESIDE = {"checkpoints": ["tests/saved_runs/test_half_precision.py"]}

Result = Literal["killed", "timeout", "survived", "equivalent"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a mutant.

    Attributes:
        mutant: The change.
        result: "killed" by a test, "timeout" where the tests did not end, "survived", or
            "equivalent" where the list says so.
        seconds: How long the tests ran.
    """

    mutant: Mutant
    result: Result
    seconds: float


def draw(room: str, count: int, seed: int, root: Path = ROOT) -> list[Mutant]:
    """A sample of the changes of a room.

    Args:
        room: Folder of the package.
        count: How many to draw; fewer if there are fewer.
        seed: Of the draw.
        root: Of the checkout.
    """
    package = root / "src" / "pellucid"
    files = sorted(path.relative_to(package).as_posix() for path in (package / room).rglob("*.py"))
    every = [mutant for file in files for mutant in mutants_of(package, file)]
    return random.Random(seed).sample(every, min(count, len(every)))


def equivalent(mutant: Mutant) -> str | None:
    """The reason why a change changes nothing, by a rule or by the list; None if there is none."""
    if mutant.before.startswith("assert_never("):
        return "the type checker proves that the line is never reached"
    return _listed().get(mutant.key)


@functools.cache
def _listed() -> dict[str, str]:
    return json.loads(EQUIVALENT.read_text(encoding="utf-8"))


@functools.cache
def nearest(file: str) -> tuple[str, ...]:
    """The test file that mirrors a source file, else the one of its room that names it most often.

    Names are those of the file's public functions and classes. `NEAREST` has other files.
    """
    for folder, tests in NEAREST.items():
        if file.startswith(folder):
            return tests
    if file.endswith("__init__.py"):  # what a room exports, with the words of 0.1
        return ("tests/test_old_names.py",)
    room, _, rest = file.partition("/")
    mirrored = ROOT / "tests" / room / Path(rest).parent / f"test_{Path(rest).stem}.py"
    if not mirrored.is_file():
        source = (ROOT / "src" / "pellucid" / file).read_text(encoding="utf-8")
        defined = re.findall(r"^ *(?:def|class) ([A-Za-z]\w*)", source, re.MULTILINE)
        names = re.compile(rf"\b({'|'.join(defined)})\b")
        candidates = sorted((ROOT / "tests" / room).rglob("test_*.py"))
        candidates = [path for path in candidates if not _is_left_out(path)]
        mirrored = max(candidates, key=lambda path: len(names.findall(path.read_text("utf-8"))))
    return (mirrored.relative_to(ROOT).as_posix(),)


def _is_left_out(file: Path) -> bool:
    options = LEFT_OUT.get(file.relative_to(ROOT / "tests").parts[0], [])
    return f"--ignore={file.relative_to(ROOT).as_posix()}" in options or "parity" in file.name


def tests_of(room: str) -> list[str]:
    """Arguments of pytest: the tests of a room."""
    return [f"tests/{room}", *BESIDE.get(room, []), *LEFT_OUT.get(room, [])]


class Copy:
    """A copy of the checkout, in which one file at a time is wrong."""

    def __init__(self, folder: Path) -> None:
        """Copy what the tests need.

        Args:
            folder: An empty folder.
        """
        self.root = folder / "checkout"
        names = ("src", "tests", "docs", "benchmarks")
        for name in names:
            shutil.copytree(ROOT / name, self.root / name)
        for path in ROOT.iterdir():
            if path.is_file() and not path.name.startswith("."):
                shutil.copy2(path, self.root)
        if (ROOT.parent / "shared").is_dir():
            (folder / "shared").symlink_to(ROOT.parent / "shared")

    def run(self, mutant: Mutant | None, arguments: Sequence[str], limit: float) -> Result:
        """Run tests in a process of their own.

        Args:
            mutant: The change; None for the source as it is.
            arguments: Of pytest.
            limit: Seconds after which they are stopped.

        Returns:
            "killed", "timeout" or "survived".
        """
        file = None if mutant is None else self.root / "src" / "pellucid" / mutant.file
        source = b"" if file is None else file.read_bytes()
        try:
            if mutant is not None and file is not None:
                file.write_bytes(mutant.apply(source))
            return self._run(arguments, limit, caches=mutant is None)
        finally:
            if file is not None:
                file.write_bytes(source)

    def _run(self, arguments: Sequence[str], limit: float, *, caches: bool) -> Result:
        child = os.fork()
        if child == 0:
            _test(self.root, arguments, caches=caches)
        ends = time.monotonic() + limit
        while time.monotonic() < ends:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                code = os.waitstatus_to_exitcode(status)
                if code == 5:  # pytest's word for: no test ran
                    raise SystemExit(f"no test ran: pytest {' '.join(arguments)}")
                return "killed" if code else "survived"
            time.sleep(0.05)
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return "timeout"


def _test(root: Path, arguments: Sequence[str], *, caches: bool) -> None:
    """In the child: run pytest on the copy and end with its exit code."""
    code = 1
    try:
        os.setpgid(0, 0)
        os.chdir(root)
        sys.path.insert(0, str(root / "src"))
        os.environ["PYTHONPATH"] = str(root / "src")
        # Python takes a file and its compiled form for the same where second and size agree
        sys.dont_write_bytecode = not caches
        with (root / "pytest.log").open("w") as log:
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
        import pytest

        quiet = ["-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", "--assert=plain"]
        code = int(pytest.main([*quiet, *arguments]))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def measure(mutants: Sequence[Mutant], seconds: float | None = None) -> list[Outcome]:
    """Run tests on each mutant: those of the nearest file, and if none fails, those of its room.

    Args:
        mutants: The changes.
        seconds: Stop after so long, with the mutants that are done; None for all.

    Raises:
        SystemExit: The tests fail on the source as it is, or none ran.
    """
    if "pellucid" in sys.modules:
        raise SystemExit(
            "pellucid is loaded, so the children would not see a mutant: use the command"
        )
    # children that run beside other work must not fight over the cores
    os.environ["OMP_NUM_THREADS"] = "1"
    # loaded once for all children; nothing of ours, which is read anew for each mutant
    import hypothesis  # noqa: F401
    import numpy  # noqa: F401
    import pytest  # noqa: F401
    import torch

    torch.set_num_threads(1)
    begun = time.monotonic()
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory() as folder:
        trial = _Trial(Copy(Path(folder)), mutants)
        for mutant in mutants:
            if seconds is not None and time.monotonic() - begun > seconds:
                break
            start = time.monotonic()
            result = "equivalent" if equivalent(mutant) is not None else trial.result(mutant)
            outcomes.append(Outcome(mutant, result, round(time.monotonic() - start, 1)))
            print(
                f"{result:10} {outcomes[-1].seconds:6.1f} s  {mutant.key} ({mutant.line})",
                flush=True,
            )
    return outcomes


class _Trial:
    """Runs tests on mutants that pass on the source as it is."""

    def __init__(self, copy: Copy, mutants: Sequence[Mutant]) -> None:
        self.copy = copy
        real = [mutant for mutant in mutants if equivalent(mutant) is None]
        self.files = sorted({file for mutant in real for file in nearest(mutant.file)})
        self.limits: dict[tuple[str, ...], float] = {}

    def result(self, mutant: Mutant) -> Result:
        """What becomes of a mutant."""
        room = mutant.file.partition("/")[0]
        result = self._run(mutant, [*nearest(mutant.file), *LEFT_OUT.get(room, [])], self.files)
        if result == "survived":
            result = self._run(mutant, tests_of(room), tests_of(room))
        return result

    def _run(self, mutant: Mutant, arguments: Sequence[str], whole: Sequence[str]) -> Result:
        """Run tests that are among the `whole`, which have to pass without the mutant."""
        if tuple(whole) not in self.limits:
            start = time.monotonic()
            options = [option for room in ROOMS for option in LEFT_OUT.get(room, [])]
            if self.copy.run(None, [*whole, *options], 3600) != "survived":
                print((self.copy.root / "pytest.log").read_text()[-3000:])
                raise SystemExit(f"{' '.join(whole)} fail on the source as it is")
            self.limits[tuple(whole)] = 60 + 3 * (time.monotonic() - start)
        return self.copy.run(mutant, arguments, self.limits[tuple(whole)])


def score(outcomes: Sequence[Outcome]) -> float:
    """The share of noticed mutants among those that change something."""
    real = [outcome for outcome in outcomes if outcome.result != "equivalent"]
    return sum(outcome.result != "survived" for outcome in real) / max(len(real), 1)


def main() -> None:
    """Measure rooms and print their scores."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rooms", nargs="*", default=ROOMS, help="folders of the package")
    parser.add_argument("--mutants", type=int, default=40, help="per room (default: 40)")
    parser.add_argument("--together", action="store_true", help="divide them among the rooms")
    parser.add_argument("--seed", type=int, default=1, help="of the draw (default: 1)")
    parser.add_argument("--json", type=Path, help="file to write the outcomes to")
    parser.add_argument("--list", action="store_true", help="print the drawn mutants and stop")
    arguments = parser.parse_args()
    report: dict[str, object] = {
        "command": " ".join(["python -m benchmarks.mutation", *sys.argv[1:]])
    }
    rooms, count, seed = arguments.rooms, arguments.mutants, arguments.seed
    drawn = {room: draw(room, count, seed) for room in rooms}
    if arguments.together:
        shares = (
            draw(room, len(range(i, count, len(rooms))), seed) for i, room in enumerate(rooms)
        )
        drawn = {" ".join(rooms): [mutant for share in shares for mutant in share]}
    for name, mutants in drawn.items():
        if arguments.list:
            print(*(f"{mutant.key} ({mutant.line})" for mutant in mutants), sep="\n")
            continue
        outcomes = measure(mutants)
        report[name] = {
            "seed": seed,
            "score": round(score(outcomes), 4),
            "outcomes": [asdict(outcome) for outcome in outcomes],
        }
        print(f"{name}: {score(outcomes):.1%} of {len(outcomes)} mutants noticed")
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
