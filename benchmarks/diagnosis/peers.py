"""Tools of other people on the same logs: losses, norms, rates and held-out losses of each record.

    pip install runmedic==0.1.1 trainpulse==0.4.0 training-doctor==0.1.0
    python -m benchmarks.diagnosis.peers DIR/eval

In an environment of their own, which needs neither torch nor pellucid. Each with its defaults, as
its page shows it in a loop; what it calls a warning or worse is an alarm. torchmortem is not among
them: it reads no logs, and hangs hooks into the model instead.

Comes in: a folder of records. Goes out: `peers.json` in it, which `judge` puts next to pellucid's
results. A tool that is not there, or that fails, is left out and named.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

Record = dict[str, Any]
Rows = list[dict[str, float]]


def main() -> None:
    folder = Path(sys.argv[1])
    records = [json.loads(f.read_text(encoding="utf-8")) for f in sorted(folder.glob("*/*.json"))]
    records = [record for record in records if "losses" in record]
    alarms: dict[str, dict[str, list[str]]] = {}
    for name, tool in TOOLS.items():
        try:
            alarms[name] = {record["name"]: tool(rows_of(record)) for record in records}
        except Exception as error:
            print(f"{name} cannot be run: {type(error).__name__}: {error}", file=sys.stderr)
    (folder / "peers.json").write_text(json.dumps({"alarms": alarms}), encoding="utf-8")
    for name, alarms_by_run in alarms.items():
        print(
            name, sum(map(bool, alarms_by_run.values())), "of", len(alarms_by_run), "runs alarmed"
        )


def rows_of(record: Record) -> Rows:
    """What a loop logs, update by update."""
    rows: dict[int, dict[str, float]] = {}
    log_names = {"losses": "loss", "norms": "grad_norm", "rates": "lr", "held_out": "val_loss"}
    for series, name in log_names.items():
        for step, value in record[series]:
            rows.setdefault(int(step), {})[name] = float(value)
    return [{"step": step, **rows[step]} for step in sorted(rows)]


def runmedic(rows: Rows) -> list[str]:
    """By a JSONL file, as its command reads it."""
    from runmedic import loaders, roles  # type: ignore[import-not-found]
    from runmedic.checks import run_checks  # type: ignore[import-not-found]

    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "run.jsonl"
        file.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
        (run,) = loaders.load(str(file))
    results = run_checks(run, roles.detect(run))
    return [result.check for result in results if result.severity in ("critical", "warning")]


def trainpulse(rows: Rows) -> list[str]:
    """By its monitor, with the names its page uses."""
    from trainpulse import Monitor  # type: ignore[import-not-found]

    monitor = Monitor()
    names = {"loss": "loss", "grad_norm": "grad_norm", "lr": "learning_rate"}
    for row in rows:
        for key, name in names.items():
            if key in row:
                monitor.log(name, int(row["step"]), row[key])
    return [alert.detector for alert in monitor.report().alerts if alert.severity.value != "info"]


def training_doctor(rows: Rows) -> list[str]:
    """By one call of its log for each update."""
    from training_doctor import Doctor  # type: ignore[import-not-found]

    doctor = Doctor()
    for row in rows:
        doctor.log(**{**row, "step": int(row["step"])})
    return [
        diagnosis.problem for diagnosis in doctor.diagnoses if diagnosis.severity.value != "info"
    ]


TOOLS: dict[str, Callable[[Rows], list[str]]] = {
    "runmedic 0.1.1": runmedic,
    "trainpulse 0.4.0": trainpulse,
    "training-doctor 0.1.0": training_doctor,
}


if __name__ == "__main__":
    main()
