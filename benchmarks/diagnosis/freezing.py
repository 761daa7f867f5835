"""Thresholds and code frozen before the evaluation: a hash that results carry.

Comes in: the package's files. Goes out: hashes, and an error where they are not those that were
frozen.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import time
from pathlib import Path

_FOLDER = Path(__file__).parent
_SOURCE = _FOLDER.parent.parent / "src" / "pellucid"
FROZEN = _FOLDER.parent / "results" / "diagnosis-frozen.json"


def hashes() -> dict[str, str]:
    """SHA-256 of the two files of thresholds, and of all code that judges or is judged by."""
    rooms = [_SOURCE / "diagnosis", _SOURCE / "vitals"]
    code = sorted(file for room in rooms for file in room.rglob("*.py"))
    bench = sorted(_FOLDER.glob("*.py"))
    return {
        "codes.toml": _digest([_SOURCE / "diagnosis" / "codes.toml"]),
        "thresholds.toml": _digest([_SOURCE / "vitals" / "thresholds.toml"]),
        "code of diagnosis and vitals": _digest(code),
        "code of the benchmark's faults": _digest(
            [f for f in bench if f.name in _FILES_OF_TRAININGS]
        ),
    }


#: What decides which trainings there are, and what counts as a right answer.
_FILES_OF_TRAININGS = (
    "changes.py",
    "fault.py",
    "faults_attention.py",
    "faults_build.py",
    "faults_data.py",
    "faults_loop.py",
    "faults_numbers.py",
    "jobs.py",
    "outcomes.py",
    "record.py",
    "rows.py",
    "setups.py",
    "training.py",
    "unseen.py",
    "variants.py",
    "verdicts.py",
)


def freeze() -> dict[str, str]:
    """Write the hashes down; to be committed before `evaluate`."""
    FROZEN.parent.mkdir(exist_ok=True)
    frozen = hashes() | {"date": time.strftime("%Y-%m-%d %H:%M")}
    FROZEN.write_text(json.dumps(frozen, indent=1) + "\n", encoding="utf-8")
    return frozen


def check_frozen() -> dict[str, str]:
    """The frozen hashes, and the commit they were written in.

    Raises:
        SystemExit: nothing was frozen, or something has changed since.
    """
    if not FROZEN.is_file():
        raise SystemExit(f"{FROZEN.name} is not there: run `freeze` and commit it first")
    frozen: dict[str, str] = json.loads(FROZEN.read_text(encoding="utf-8"))
    changed_names = [name for name, value in hashes().items() if frozen.get(name) != value]
    if changed_names:
        raise SystemExit(
            f"changed since it was frozen: {', '.join(changed_names)}; an evaluation counts only "
            "for "
            "what was frozen before: run `freeze` again, commit, and evaluate into another folder"
        )
    return frozen | {"commit": _commit()}


def _commit() -> str:
    process = subprocess.run(
        ["git", "log", "-1", "--format=%H %cI", "--", str(FROZEN)],
        capture_output=True,
        text=True,
        cwd=_FOLDER,
        check=False,
    )
    return process.stdout.strip()


def _digest(files: list[Path]) -> str:
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.name.encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()
