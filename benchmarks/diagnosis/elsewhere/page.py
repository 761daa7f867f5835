"""The section of the page about loops that others write, from the newest results of each split.

Comes in: a folder of dated results. Goes out: text. Every number in it is a file's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_RATES = {"default": "default budget", "full": "full rate"}
_TUNED = """Rules and thresholds were changed after a look at these runs: the numbers say what is
known of them, and not how often the diagnosis is right elsewhere. The digests name the code that
they ran with; it has changed since if yours differ.
"""
_ROWS = {
    "detected": "harmed runs detected",
    "first cause right": "first cause right, of all harmed runs",
    "right, if a cause was named": "first cause right, if one was named",
    "could not tell": "could not tell, of all harmed runs",
    "detected, where it could tell": "detected, where it could tell",
    "first cause right, where it could tell": "first cause right, where it could tell",
    "false alarms": "false alarms in healthy runs",
    "could not tell, healthy": "could not tell, of healthy runs",
    "alarms at odd runs that ended worse": "alarms at odd runs that ended worse",
    "alarms at faults without harm": "alarms at faults that did no harm",
}


def section(folder: Path) -> str:
    """The section; empty as long as the test split has no results."""
    newest_by_rate = {rate: _newest(folder, "test", rate) for rate in _RATES}
    results = {rate: result for rate, result in newest_by_rate.items() if result is not None}
    if "default" not in results:
        return ""
    parts = [
        _measured_section(results["default"]),
        _shares({_RATES[rate]: result["all"] for rate, result in results.items()}),
        "By style of loop, at the default budget:\n",
        _shares(results["default"]["by style"]),
        "By family of models, at the default budget:\n",
        _shares(results["default"]["by family"]),
        _calibration(results["default"]["calibration"]),
        *_lost(results["default"], "at the default budget"),
    ]
    tuned = _newest(folder, "tune", "default")
    if tuned is not None:
        parts += [
            "### The split that we tune on\n",
            _TUNED,
            _measured_section(tuned),
            _shares({_RATES["default"]: tuned["all"]}),
            _calibration(tuned["calibration"]),
            *_lost(tuned, "tuning split"),
        ]
    return "\n".join(part.rstrip() + "\n" for part in parts)


def _lost(result: Mapping[str, Any], place: str) -> list[str]:
    """The runs where the diagnosis was silent or wrong."""
    titles = ("missed", "could not tell", "named wrongly", "false alarms")
    return [
        _list_runs(f"{title.capitalize()}, {place}", result[title])
        for title in titles
        if title in result  # older results have no answers that are left open
    ]


def _newest(folder: Path, split: str, rate: str) -> Mapping[str, Any] | None:
    files = sorted(folder.glob(f"elsewhere-{split}-{rate}-*.json"))
    return json.loads(files[-1].read_text(encoding="utf-8")) if files else None


def _measured_section(result: Mapping[str, Any]) -> str:
    versions = ", ".join(f"{name} {value}" for name, value in result["versions"].items())
    outcomes = ", ".join(f"{count} {name}" for name, count in sorted(result["outcomes"].items()))
    digests = "\n".join(f"| {name} | `{value[:16]}` |" for name, value in result["digests"].items())
    part = (
        "" if result["sample"] is None else "the first of a list with "
    ) + f"one loop of each kind with each of the seeds {_seeds(result)}, "
    return f"""Measured on {result["date"]} with the {result["split"]} split: {result["runs"]} runs
({outcomes}; {len(result["errors"])} ended with an error),
{part if result["of each kind"] else ""}of {result["trainings of the split"]} in the split.
They took {result["cpu hours"]:.2f} CPU hours. A run is harmed if it ends {result["margin"]} worse
than its healthy twin. Watching took {result["share of time spent watching"]:.1%} of the time, the
median of these short runs. Versions: {versions}.

| frozen | SHA-256 begins |
|---|---|
{digests}
"""


def _seeds(results: Mapping[str, Any]) -> str:
    """The seeds of a sample; older results have one."""
    return ", ".join(map(str, results["seeds"] if "seeds" in results else [results["seed"]]))


def _calibration(bins: Mapping[str, Any]) -> str:
    """How often the first cause was right, for each range of its confidence."""
    lines = ["| confidence | right | answers |", "|---|---|---|"]
    lines += [f"| {row['said']:.2f} | {row['right']:.2f} | {row['runs']} |" for row in bins["bins"]]
    title = f"Confidence, against how often it was right (mean gap {bins['expected_error']:.3f}):"
    return "\n".join([title, "", *lines]) + "\n"


def _shares(columns: Mapping[str, Mapping[str, Any]]) -> str:
    """A table with a row for each column's name, if there are many of them."""
    # older results have no answers that are left open
    keys = [
        key for key in _ROWS if all(key in s for s in columns.values()) and _counts(columns, key)
    ]
    if len(columns) > 2:
        head = ["", *(_ROWS[key] for key in keys)]
        rows = [[name, *(_share(s[key]) for key in keys)] for name, s in columns.items()]
    else:
        head = ["", *columns]
        rows = [[_ROWS[key], *(_share(s[key]) for s in columns.values())] for key in keys]
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"


def _counts(columns: Mapping[str, Mapping[str, Any]], key: str) -> bool:
    return any(shares[key]["of"] for shares in columns.values())


def _share(share: Mapping[str, Any]) -> str:
    if not share["of"]:
        return "-"
    value = share["count"] / share["of"]
    low, high = share["low"], share["high"]
    return f"{value:.0%} ({share['count']} of {share['of']}) [{low:.0%}, {high:.0%}]"


def _list_runs(title: str, runs: list[Mapping[str, Any]]) -> str:
    """Each run, with its right answers and the codes of its alarms."""
    lines = [f"{title}: {len(runs)}\n"]
    for run in runs:
        codes = ", ".join(line.partition(":")[0] for line in run["said"]) or "nothing"
        right = ", ".join(run["right"])
        lines.append(f"- {run['run']}: {codes}" + (f" (right: {right})" if right else ""))
    return "\n".join(lines) + "\n"
