"""One training, from its case to its record.

Comes in: a case, a folder of text, the options of the watch. Goes out: a record. It judges nothing.
"""

from __future__ import annotations

import copy
import io
import time
import traceback
import warnings
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, Literal

import torch

from benchmarks.diagnosis.elsewhere.cases import Case
from benchmarks.diagnosis.elsewhere.families import FAMILIES, build
from benchmarks.diagnosis.elsewhere.pretrained import TASKS, start
from benchmarks.diagnosis.elsewhere.score import score
from benchmarks.diagnosis.elsewhere.styles.listed import STYLES
from benchmarks.diagnosis.elsewhere.styles.style import Seen, Setting
from benchmarks.diagnosis.elsewhere.texts import texts
from pellucid.diagnosis import Finding

Record = dict[str, Any]
Rate = Literal["default", "full"]
#: What is passed to `watch` or the callback: nothing, or no bound to its time.
OPTIONS: dict[Rate, dict[str, Any]] = {"default": {}, "full": {"max_overhead": None}}


def run(case: Case, rate: Rate, folder: str | None, out: Path) -> Record:
    """Train under watch, and score; an error of the loop is a record too.

    Args:
        case: the training.
        rate: how much time the watch may take.
        folder: the public data sets.
        out: where pretrained models are kept.
    """
    started = time.process_time()
    record: Record = {"case": case.as_dict(), "rate": rate}
    torch.set_num_threads(1)
    try:
        with (
            warnings.catch_warnings(),
            redirect_stdout(io.StringIO()),
            redirect_stderr(io.StringIO()),
        ):
            warnings.simplefilter("ignore")
            record |= _trained(case, rate, folder, out)
    except Exception:
        record["error"] = traceback.format_exc(limit=-6)
    return record | {"cpu_seconds": time.process_time() - started}


def _trained(case: Case, rate: Rate, folder: str | None, out: Path) -> Record:
    style, family = STYLES[case.style], FAMILIES[case.family]
    change = case.fault or case.odd
    parts = style.base if change is None else change.change(style.base, family)
    read = texts(folder)
    rows = read.windows() if style.packed else read.rows(case.task)
    model = build(family, case.task, case.seed, **parts.config)
    first = None
    if case.task in TASKS:
        start(model, family, read, out / "pretrained")
        first = copy.deepcopy(model).eval()
    parts.tuned(model)
    torch.manual_seed(case.seed)
    setting = Setting(
        parts=parts,
        model=model,
        task=case.task,
        rows=parts.prepared(rows.train),
        seed=case.seed,
        tokenizer=read.tokenizer,
        options=OPTIONS[rate],
    )
    said = style.train(setting)
    return {"score": score(model, case.task, rows.held_out, first)} | _said(said)


def _said(seen: Seen) -> Record:
    return {
        "findings": [_finding(finding) for finding in seen.findings],
        "watching_seconds": seen.watching,
        "training_seconds": seen.training,
        "readings": seen.readings,
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "code": finding.code,
        "severity": finding.severity,
        "confidence": finding.confidence,
        "where": finding.where,
        "message": finding.what,
    }
