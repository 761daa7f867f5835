"""How often is the diagnosis right, and how often does it cry wolf?

    python -m benchmarks.diagnosis record --split dev --out DIR    runs to tune thresholds on
    python -m benchmarks.diagnosis judge --split dev --out DIR     every number, from records
    python -m benchmarks.diagnosis freeze                          hashes of thresholds and code
    python -m benchmarks.diagnosis evaluate --out DIR              record eval, repair, judge, page

A unit is one live training, without a healthy twin to compare with: `check` before the first
update, `watch` during it, `diagnose` at any time. Records are kept apart from verdicts, so that
judging takes seconds and training is not repeated.

Comes in: nothing. Goes out: records under DIR, a dated JSON file under benchmarks/results/, and
docs/diagnosis-benchmark.md.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from benchmarks.diagnosis.freezing import check_frozen, freeze
from benchmarks.diagnosis.judging import format_results, judge_split
from benchmarks.diagnosis.page import write_page
from benchmarks.diagnosis.recording import record_split
from benchmarks.diagnosis.repairing import repair_split
from benchmarks.workers import print_progress


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.diagnosis",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("do", choices=("record", "repair", "judge", "freeze", "evaluate", "page"))
    parser.add_argument("--split", choices=("dev", "eval"), default="dev")
    parser.add_argument("--out", type=Path, default=Path("diagnosis-benchmark"))
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--others",
        metavar="PYTHON",
        help="an interpreter that has the tools of others and scikit-learn: see peers.py",
    )
    arguments = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    folder: Path = arguments.out / arguments.split
    match arguments.do:
        case "record":
            record_split(arguments.split, folder, arguments.processes)
        case "repair":
            repair_split(arguments.split, folder, arguments.processes)
        case "judge":
            print(format_results(judge_split(folder)))
        case "freeze":
            print_progress(f"frozen: {freeze()}")
        case "page":
            print_progress(f"written: {write_page()}")
        case _:
            evaluate(arguments.out, arguments.processes, arguments.others)


def evaluate(folder_of_splits: Path, processes: int, others: str | None) -> None:
    """The whole evaluation, in one go; existing records are not made again."""
    frozen = check_frozen()
    folder = folder_of_splits / "eval"
    record_split("eval", folder, processes)
    repair_split("eval", folder, processes)
    check_frozen()
    if others is not None:
        judge_split(folder)  # leaves the labels that the learned classifier is scored by
        compare(others, folder_of_splits)
    print(format_results(judge_split(folder, frozen=frozen, save=True)))
    print_progress(f"written: {write_page()}")


def compare(python: str, folder_of_splits: Path) -> None:
    """Run the tools of others on the records; those that cannot be run are left out, and named."""
    for module, folders in (("peers", ["eval"]), ("learned", ["dev", "eval"])):
        words = [
            python,
            "-m",
            f"benchmarks.diagnosis.{module}",
            *(str(folder_of_splits / f) for f in folders),
        ]
        if subprocess.run(words, check=False).returncode:
            print(f"{module} could not be run by {python}", file=sys.stderr)


if __name__ == "__main__":
    main()
