"""Records of a split, made on several processes; those that are there are not made again.

Comes in: a split, a folder. Goes out: a file for each case. A record counts as long as the code
that trained, watched and judged is the same: each holds its digest.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import threading
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from benchmarks.diagnosis.elsewhere.cases import Case
from benchmarks.diagnosis.elsewhere.running import Rate, Record, run
from benchmarks.diagnosis.elsewhere.texts import texts
from benchmarks.workers import print_progress

_FOLDER = Path(__file__).parent
_SOURCE = _FOLDER.parents[2] / "src" / "pellucid"
#: The rooms that watch and judge, and what decides which trainings there are.
_JUDGES, _TRAINS = ("diagnosis", "vitals"), ("*.py", "faults/*.py", "odd/*.py", "styles/*.py")
#: Trainings of one process. One that has ended leaves nothing behind: trainers keep more than they
#: give back. `max_tasks_per_child` of Python 3.11 can wait for ever (its issue 115634).
_TASKS = 40
_NOT_TRAININGS = (
    "__init__.py",
    "__main__.py",
    "answers.py",
    "recording.py",
    "results.py",
    "page.py",
)


def digests(folder: str | None) -> dict[str, str]:
    """SHA-256 of thresholds and codes, of the code that judges, of the trainings, of the text."""
    judges = [file for room in _JUDGES for file in (_SOURCE / room).rglob("*.py")]
    tables = [file for room in _JUDGES for file in (_SOURCE / room).rglob("*.toml")]
    trains = [file for pattern in _TRAINS for file in _FOLDER.glob(pattern)]
    return {
        "thresholds and codes": _digest(tables),
        "code of diagnosis and vitals": _digest(judges),
        "trainings": _digest([file for file in trains if file.name not in _NOT_TRAININGS]),
        "text": texts(folder).digest,
    }


def _digest(files: list[Path]) -> str:
    total = hashlib.sha256()
    for file in sorted(files):
        total.update(file.name.encode() + file.read_bytes())
    return total.hexdigest()


def file_of(records_folder: Path, case: Case, rate: Rate) -> Path:
    """Where the record of a case is."""
    return records_folder / case.split / rate / f"{case.name}.json"


def read(records_folder: Path, cases: list[Case], rate: Rate, digest: str) -> list[Record]:
    """The records that are there."""
    records_of_cases = (_record(file_of(records_folder, case, rate), digest) for case in cases)
    return [record for record in records_of_cases if record is not None]


def _record(file: Path, digest: str) -> Record | None:
    if not file.is_file():
        return None
    record: Record = json.loads(file.read_text(encoding="utf-8"))
    return record if record["digest"] == digest else None


def record_all(
    records_folder: Path,
    cases: list[Case],
    rate: Rate,
    folder: str | None,
    workers: int,
    digest: str,
) -> None:
    """Make every record that is not there."""
    open_ones = [
        case for case in cases if _record(file_of(records_folder, case, rate), digest) is None
    ]
    print_progress(f"{rate}: {len(cases)} trainings, {len(cases) - len(open_ones)} are there")
    began = time.monotonic()
    size = _TASKS * workers
    for first in range(0, len(open_ones), size):
        with ProcessPoolExecutor(
            workers,
            mp_context=multiprocessing.get_context("spawn"),
            initializer=_end_with_parent,
        ) as pool:
            running = [
                pool.submit(make, case, rate, folder, records_folder, digest)
                for case in open_ones[first : first + size]
            ]
            for count, future in enumerate(as_completed(running), start=first + 1):
                if future.result():
                    print_progress(future.result())
                if count % 10 == 0 or count == len(open_ones):
                    remaining = (time.monotonic() - began) / count * (len(open_ones) - count)
                    print_progress(
                        f"{count} of {len(open_ones)} done, {remaining / 60:.1f} min left"
                    )


def _end_with_parent() -> None:
    """End this process when the one that started it was killed."""
    parent = os.getppid()

    def look() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=look, daemon=True).start()


def make(case: Case, rate: Rate, folder: str | None, records_folder: Path, digest: str) -> str:
    """Make one record; the last line of its error, if it has one."""
    record = run(case, rate, folder, records_folder) | {"digest": digest}
    file = file_of(records_folder, case, rate)
    file.parent.mkdir(parents=True, exist_ok=True)
    new_file = file.with_suffix(f".{os.getpid()}")
    new_file.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    new_file.replace(file)
    error = record.get("error", "")
    return f"{case.name}: {error.strip().splitlines()[-1]}" if error else ""
