"""The tools that only read: runs, metrics, numbers with receipts, findings, comparisons."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pellucid.errors import ConfigError, PellucidError
from pellucid.mcp.root import Root

Facts = dict[str, Any]

#: The most points of a curve that one answer holds.
_MOST_POINTS = 1000


def list_runs(root: Root, folder: str) -> Facts:
    """A row for each run in a folder and below it."""
    from pellucid.lab.run_table import RunRow, row_facts, run_folders, run_row

    def row(path: Path) -> RunRow:
        name = root.name_of(path)
        try:
            root.check_within(path)
        except PellucidError as error:
            return RunRow(name=name, state="refused", problem=str(error))
        return run_row(path, name)

    paths = run_folders(root.locate(folder))
    return {"runs": [row_facts(row(path)) for path in paths]}


def read_metrics(root: Root, run: str, names: Iterable[str], points: int) -> Facts:
    """The curves of a run by name, each thinned to so many points; the last one stays.

    Raises:
        ConfigError: the run has no such number, or `points` is out of range.
        PellucidError: there is no such run.
    """
    from pellucid import runs
    from pellucid.observers.metrics import numbers_of

    if not 1 <= points <= _MOST_POINTS:
        raise ConfigError(f"points must be from 1 to {_MOST_POINTS}, was {points}")
    folder, _ = runs.existing_folder(root.folder_of_run(run))
    curves: dict[str, list[tuple[int, float]]] = {}
    for event in runs.read_events(folder.metrics):
        for step, numbers in numbers_of(event):
            for name, value in numbers.items():
                curves.setdefault(name, []).append((step, value))
    requested_names = list(names) or list(curves)
    unknown = [name for name in requested_names if name not in curves]
    if unknown:
        raise ConfigError(f"{run} has no {unknown[0]!r}; it has: {', '.join(curves) or 'nothing'}")
    return {
        "run": run,
        "metrics": {name: _summary(curves[name], points) for name in requested_names},
    }


def _summary(curve: list[tuple[int, float]], points: int) -> Facts:
    stride = math.ceil(len(curve) / points)
    thinned = curve[::-1][::stride][::-1]
    return {
        "updates": [step for step, _ in thinned],
        "values": [value for _, value in thinned],
        "lowest": min(value for _, value in curve),
        "n": len(curve),
    }


def explain(root: Root, run: str, sentence: str, number: str, chapter: str) -> Facts:
    """One number of a sentence with its receipt, or a chapter, or the sentence's tokens.

    Raises:
        ConfigError: both a number and a chapter.
        PellucidError: no such run, number or chapter; or the sentence cannot be read.
    """
    from pellucid import runs
    from pellucid import trace as trace_sentence
    from pellucid.explain.chapter_json import plain_chapter, plain_receipt
    from pellucid.explain.inspection import Request, inspect

    if number and chapter:
        raise ConfigError("number and chapter were both given: leave one of them out")
    loaded = runs.load(root.folder_of_run(run))
    trace = trace_sentence(loaded, sentence)
    if number:
        receipt = trace.receipt(number)
        operands = [operand._asdict() for operand in receipt.operands]
        return plain_receipt(receipt) | {"operands": operands}
    inspection = inspect(Request(trace=trace, chapters=(chapter or "tokens",)))
    return plain_chapter(inspection.chapter()) | ({} if chapter else _contents(trace.addresses()))


def _contents(addresses: dict[str, Any]) -> Facts:
    """What else of the sentence can be asked for."""
    from pellucid.explain.chapters import CHAPTERS

    return {
        "chapters": {chapter.id: chapter.summary for chapter in CHAPTERS},
        "numbers": {name: list(shape) for name, shape in addresses.items()},
    }


def diagnose(root: Root, run: str) -> Facts:
    """The findings of a run, or of a log of another tool.

    Raises:
        PellucidError: there is no run and no log of this name.
    """
    from pellucid.diagnosis import (
        diagnose,
        history_of_log,
        history_of_run,
        is_log,
        list_unknowns,
    )

    path = root.folder_of_run(run)
    if not is_log(path) and (path / "config.toml").is_file():
        return {"findings": [asdict(finding) for finding in diagnose(history_of_run(path))]}
    history = history_of_log(path)
    findings = [asdict(finding) for finding in diagnose(history)]
    return {"findings": findings, "not_checked": list_unknowns(history)}


def read_comparison(root: Root, folder: str, others: Iterable[str]) -> Facts:
    """A comparison that is finished, and others on the same corpus.

    Raises:
        RunError: a comparison is not finished, or learnt from another corpus.
    """
    from pellucid.lab.results import check_same_corpus, read_result

    result = read_result(root.folder_of_run(folder))
    other_results = [read_result(root.folder_of_run(name)) for name in others]
    for other in other_results:
        check_same_corpus(result.corpus, other)
    return {"result": result.facts, "against": [other.facts for other in other_results]}
