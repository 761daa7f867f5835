"""Whether the tests of a room notice small wrong changes to its source.

    python -m benchmarks.mutation maths --mutants 40 --seed 1 --json out.json
    python -m benchmarks.mutation --together --mutants 40

The tool draws changes by their digests (see `benchmarks.mutants`), makes one at a time in a copy of
the checkout, and runs the tests of its room, the nearest file first, until one fails. A mutant that
no test notices survives: a test is missing, or the change changes nothing. `equivalent` knows
changes of the second kind by a rule or by the list in `mutants_equivalent.json`, each with its
reason; they do not count. In the end the tests that noticed a mutant run on the source as it is,
and must pass.

The score is the share of noticed mutants. It needs a system with `fork`.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import functools
import hashlib
import json
import os
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
from typing import Any, Literal

from benchmarks.mutants import Mutant, mutants_of

ROOT = Path(__file__).parents[1]
EQUIVALENT = Path(__file__).with_name("mutants_equivalent.json")
ROOMS = ("maths", "optim", "objectives", "training", "data", "checkpoints")

#: Tests that take long and compute nothing of the room that another one does not.
IGNORED_TESTS = {
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
#: Tests outside a room's folder that test the room.
TESTS_OF_OTHER_ROOMS = {"checkpoints": ["tests/saved_runs/test_half_precision.py"]}
#: Processor seconds after which a test, or the start of all of them, counts as one that does not
#: end. One that only waits has five times as long, by the clock.
LIMIT = 120

Result = Literal["killed", "timeout", "survived", "equivalent"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a mutant.

    Attributes:
        mutant: The change.
        result: "killed" by a test, "timeout" where a test did not end, "survived", or
            "equivalent" where the list says so.
        seconds: How long the tests ran.
    """

    mutant: Mutant
    result: Result
    seconds: float


def draw(room: str, count: int, seed: int, root: Path = ROOT) -> list[Mutant]:
    """A sample of the changes of a room.

    A change is drawn by the digest of its key, so that a line that is written elsewhere in the room
    exchanges none of the sample but its own.

    Args:
        room: Folder of the package.
        count: How many to draw; fewer if there are fewer.
        seed: Of the draw.
        root: Of the checkout.
    """
    package = root / "src" / "pellucid"
    files = sorted(path.relative_to(package).as_posix() for path in (package / room).rglob("*.py"))
    every = [mutant for file in files for mutant in mutants_of(package, file)]

    equals = collections.Counter[str]()

    def place(mutant: Mutant) -> bytes:
        equals[mutant.key] += 1
        return hashlib.sha256(f"{seed} {mutant.key} {equals[mutant.key]}".encode()).digest()

    return sorted(every, key=place)[:count]


def equivalent(mutant: Mutant) -> str | None:
    """The reason why a change changes nothing, by a rule or by the list; None if there is none."""
    if mutant.before.startswith("assert_never("):
        return "the type checker proves that the line is never reached"
    return _equivalents().get(mutant.key)


@functools.cache
def _equivalents() -> dict[str, str]:
    return json.loads(EQUIVALENT.read_text(encoding="utf-8"))


def nearest(file: str) -> tuple[str, ...]:
    """The tests to begin with: of `NEAREST`, or the closest file of the room."""
    for folder, tests in NEAREST.items():
        if file.startswith(folder):
            return tests
    if file.endswith("__init__.py"):  # what a room exports, with the words of 0.1
        return ("tests/test_old_names.py",)
    return (_by_closeness(file)[0],)


def room_tests(file: str) -> list[str]:
    """Arguments of pytest: the tests of a source file's room, the nearest ones first."""
    room = file.partition("/")[0]
    names = [*nearest(file), *_by_closeness(file), *TESTS_OF_OTHER_ROOMS.get(room, [])]
    return [*dict.fromkeys(names), *IGNORED_TESTS.get(room, [])]


@functools.cache
def _by_closeness(file: str) -> list[str]:
    """The test files of a room: first one that mirrors the source file, then those that name it.

    Names are the names of the file's functions and classes. Each counts by the share of its uses
    that a test file has: one that all tests use says little.
    """
    room = file.partition("/")[0]
    source = (ROOT / "src" / "pellucid" / file).read_text(encoding="utf-8")
    defined = set(re.findall(r"^ *(?:def|class) ([A-Za-z]\w*)", source, re.MULTILINE))
    paths = [path for path in sorted((ROOT / "tests" / room).rglob("test_*.py")) if _runs(path)]
    uses = {
        path: collections.Counter(re.findall(r"\w+", path.read_text("utf-8"))) for path in paths
    }
    total = collections.Counter[str]()
    for counts in uses.values():
        total.update(counts)

    def distance(path: Path) -> tuple[bool, float]:
        shares = (uses[path][name] / total[name] for name in defined if total[name])
        return path.stem != f"test_{Path(file).stem}", -sum(shares)

    return [path.relative_to(ROOT).as_posix() for path in sorted(paths, key=distance)]


def _runs(file: Path) -> bool:
    options = IGNORED_TESTS.get(file.relative_to(ROOT / "tests").parts[0], [])
    ignored = f"--ignore={file.relative_to(ROOT).as_posix()}" in options
    return not ignored and "parity" not in file.name


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

    def run(self, mutant: Mutant | None, arguments: Sequence[str]) -> tuple[Result, list[str]]:
        """Run tests in a process of their own.

        Args:
            mutant: The change; None for the source as it is.
            arguments: Of pytest.

        Returns:
            "killed", "timeout" or "survived", and the tests that failed or did not end.
        """
        file = None if mutant is None else self.root / "src" / "pellucid" / mutant.file
        source = b"" if file is None else file.read_bytes()
        try:
            if mutant is not None and file is not None:
                file.write_bytes(mutant.apply(source))
            return self._run(arguments, caches=mutant is None)
        finally:
            if file is not None:
                file.write_bytes(source)

    def _run(self, arguments: Sequence[str], *, caches: bool) -> tuple[Result, list[str]]:
        begun_file, failed_file = self.root / "begun.txt", self.root / "failed.txt"
        begun_file.unlink(missing_ok=True)
        failed_file.unlink(missing_ok=True)
        child = os.fork()
        if child == 0:
            _test(self.root, arguments, _Notes(begun_file, failed_file), caches=caches)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code == 5:  # pytest's word for: no test ran
            raise SystemExit(f"no test ran: pytest {' '.join(arguments)}")
        if code == 0:
            return "survived", []
        if -code in (signal.SIGPROF, signal.SIGALRM):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)  # what the test had started
            return "timeout", _lines(begun_file)
        return "killed", _lines(failed_file) or _lines(begun_file)


def _lines(file: Path) -> list[str]:
    return file.read_text("utf-8").splitlines() if file.exists() else []


class _Notes:
    """A plugin of pytest that notes which test runs and which one failed."""

    def __init__(self, begun_file: Path, failed_file: Path) -> None:
        self._begun_file, self._failed_file = begun_file, failed_file
        self._start_clock()

    def _start_clock(self) -> None:
        """Ends the process when the time of what begins now is over."""
        signal.setitimer(signal.ITIMER_PROF, LIMIT)
        signal.alarm(5 * LIMIT)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._start_clock()
        self._begun_file.write_text(nodeid, "utf-8")

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self._failed_file.write_text(report.nodeid, "utf-8")

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self._failed_file.write_text(report.nodeid, "utf-8")


def _test(root: Path, arguments: Sequence[str], notes: _Notes, *, caches: bool) -> None:
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
        code = int(pytest.main([*quiet, *arguments], plugins=[notes]))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def measure(mutants: Sequence[Mutant], seconds: float | None = None) -> list[Outcome]:
    """Run the tests of a mutant's room until one notices it, for each mutant.

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
    # children must not compete with other work for the cores
    os.environ["OMP_NUM_THREADS"] = "1"
    # loaded once for all children; nothing of ours, which is read anew for each mutant
    import hypothesis  # noqa: F401
    import numpy  # noqa: F401
    import pytest  # noqa: F401
    import torch

    torch.set_num_threads(1)
    clock_started = time.monotonic()
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory() as folder:
        copy = Copy(Path(folder))
        rooms = {mutant.file.partition("/")[0] for mutant in mutants}
        # compiles, too, what the runs below then load
        _must_pass(copy, ["--collect-only", *(f"tests/{room}" for room in sorted(rooms))])
        noticed: set[str] = set()
        for mutant in mutants:
            if seconds is not None and time.monotonic() - clock_started > seconds:
                break
            start = time.monotonic()
            result: Result = "equivalent"
            if equivalent(mutant) is None:
                result, tests = copy.run(mutant, room_tests(mutant.file))
                noticed |= {test.partition("[")[0] for test in tests}
            outcomes.append(Outcome(mutant, result, round(time.monotonic() - start, 1)))
            print(
                f"{result:10} {outcomes[-1].seconds:6.1f} s  {mutant.key} ({mutant.line})",
                flush=True,
            )
        if noticed:
            _must_pass(copy, sorted(noticed))
    return outcomes


def _must_pass(copy: Copy, arguments: Sequence[str]) -> None:
    """Refuse to measure with tests that fail on the source as it is."""
    if copy.run(None, arguments)[0] != "survived":
        print((copy.root / "pytest.log").read_text()[-3000:])
        raise SystemExit(f"{' '.join(arguments)} fail on the source as it is")


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
    mutants_by_room = {room: draw(room, count, seed) for room in rooms}
    if arguments.together:
        shares = (
            draw(room, len(range(i, count, len(rooms))), seed) for i, room in enumerate(rooms)
        )
        mutants_by_room = {" ".join(rooms): [mutant for share in shares for mutant in share]}
    for name, mutants in mutants_by_room.items():
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
