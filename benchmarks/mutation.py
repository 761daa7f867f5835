"""Whether the tests of a room notice small wrong changes to its source.

    python -m benchmarks.mutation maths --mutants 40 --seed 1 --json out.json

The tool draws changes at random (see `benchmarks.mutants`), makes one at a time in a copy of the
checkout, and runs the tests of the room until one fails. A mutant that no test notices survives: a
test is missing, or the change changes nothing. `equivalent` knows changes of the second kind by a
rule or by the list in `mutants_equivalent.json`, each with its reason; they do not count.

The score is the share of noticed mutants. It needs a system with `fork`.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import random
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
#: Tests of a room that lie outside its folder.
BEYOND: dict[str, list[str]] = {}


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
    result: Literal["killed", "timeout", "survived", "equivalent"]
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


def tests_of(mutant: Mutant) -> list[str]:
    """Arguments of pytest: the tests of the file first, then those of its room."""
    room, _, rest = mutant.file.partition("/")
    mirrored = ROOT / "tests" / room / Path(rest).parent / f"test_{Path(rest).stem}.py"
    first = [mirrored.relative_to(ROOT).as_posix()] if mirrored.is_file() else []
    if mirrored.stem == "test___init__":  # what a room exports, with the words of 0.1
        first = ["tests/test_old_names.py"]
    return [*first, f"tests/{room}", *BEYOND.get(room, []), *LEFT_OUT.get(room, [])]


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

    def run(self, mutant: Mutant | None, arguments: Sequence[str], limit: float) -> str:
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

    def _run(self, arguments: Sequence[str], limit: float, *, caches: bool) -> str:
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
    """Run the tests of each mutant's room on it.

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
        copy = Copy(Path(folder))
        limits: dict[str, float] = {}
        for mutant in mutants:
            if seconds is not None and time.monotonic() - begun > seconds:
                break
            if equivalent(mutant) is not None:
                outcomes.append(Outcome(mutant, "equivalent", 0.0))
                continue
            room, start = mutant.file.partition("/")[0], time.monotonic()
            if room not in limits:
                if copy.run(None, tests_of(mutant), 3600) != "survived":
                    print((copy.root / "pytest.log").read_text()[-3000:])
                    raise SystemExit(f"the tests of {room} fail on the source as it is")
                limits[room] = 60 + 3 * (time.monotonic() - start)
                start = time.monotonic()
            result = copy.run(mutant, tests_of(mutant), limits[room])
            outcomes.append(Outcome(mutant, result, round(time.monotonic() - start, 1)))
            print(
                f"{result:9} {outcomes[-1].seconds:6.1f} s  {mutant.key} ({mutant.line})",
                flush=True,
            )
    return outcomes


def score(outcomes: Sequence[Outcome]) -> float:
    """The share of noticed mutants among those that change something."""
    real = [outcome for outcome in outcomes if outcome.result != "equivalent"]
    return sum(outcome.result != "survived" for outcome in real) / max(len(real), 1)


def main() -> None:
    """Measure rooms and print their scores."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rooms", nargs="*", default=ROOMS, help="folders of the package")
    parser.add_argument("--mutants", type=int, default=40, help="per room (default: 40)")
    parser.add_argument("--seed", type=int, default=1, help="of the draw (default: 1)")
    parser.add_argument("--json", type=Path, help="file to write the outcomes to")
    parser.add_argument("--list", action="store_true", help="print the drawn mutants and stop")
    arguments = parser.parse_args()
    report: dict[str, object] = {
        "command": " ".join(["python -m benchmarks.mutation", *sys.argv[1:]])
    }
    for room in arguments.rooms:
        mutants = draw(room, arguments.mutants, arguments.seed)
        if arguments.list:
            print(*(f"{mutant.key} ({mutant.line})" for mutant in mutants), sep="\n")
            continue
        outcomes = measure(mutants)
        report[room] = {
            "seed": arguments.seed,
            "score": round(score(outcomes), 4),
            "outcomes": [asdict(outcome) for outcome in outcomes],
        }
        print(f"{room}: {score(outcomes):.1%} of {len(outcomes)} mutants noticed")
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
