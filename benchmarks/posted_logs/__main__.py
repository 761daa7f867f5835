"""How often does the diagnosis of a log from a public post name the real cause?

    python -m benchmarks.posted_logs            judge every log of corpus.toml, write the results
    python -m benchmarks.posted_logs --page     write docs/posted-logs.md from the newest results

A log is right if the first finding has one of the expected codes; a healthy one is right if no
finding is worse than a note. The split is by a hash of the address, not by choice.

Comes in: corpus.toml. Goes out: a dated JSON file under benchmarks/results/, and a page.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import tempfile
import time
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from pellucid.diagnosis import diagnose, history_of_log
from pellucid.errors import PellucidError

_FOLDER = Path(__file__).parent
_RESULTS = _FOLDER.parent / "results"
PAGE = _FOLDER.parents[1] / "docs" / "posted-logs.md"
Group = Literal["confirmed fault", "other fault", "healthy", "not told"]
GROUPS: dict[Group, str] = {
    "confirmed fault": "fault, its cause confirmed in the thread",
    "other fault": "fault that the numbers show, its cause not confirmed",
    "healthy": "healthy",
    "not told": "fault that these rows do not show",
}


def corpus() -> list[dict[str, Any]]:
    """Every log of the corpus."""
    return tomllib.loads((_FOLDER / "corpus.toml").read_text(encoding="utf-8"))["log"]


def split_of(address: str) -> Literal["tune", "report"]:
    """The half that a thread belongs to: all logs of one thread are on one side."""
    thread = address.partition("#")[0]
    return "tune" if hashlib.sha256(thread.encode()).digest()[0] % 2 else "report"


def group_of(log: Mapping[str, Any]) -> Group:
    """Healthy, or how a fault is known."""
    if not log["expected"]:
        return "healthy"
    if not log.get("told", True):
        return "not told"
    return "confirmed fault" if log["confirmed"] else "other fault"


def judge(log: Mapping[str, Any]) -> dict[str, Any]:
    """What the diagnosis says of a log, and whether it is right."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "log.txt"
        file.write_text(log["rows"], encoding="utf-8")
        try:
            findings = diagnose(history_of_log(file))
            problem = ""
        except PellucidError as error:
            findings, problem = [], str(error).replace(str(file), "the log")
    alarms = [finding.code for finding in findings if finding.severity != "note"]
    first_code = findings[0].code if findings else ""
    right = not alarms if not log["expected"] else first_code in log["expected"]
    return {
        "address": log["address"],
        "tool": log["tool"],
        "split": split_of(log["address"]),
        "group": group_of(log),
        "expected": log["expected"],
        "named": first_code,
        "alarms": alarms,
        "right": right and not problem,
        "problem": problem,
        "first_look": log.get("first_look"),
    }


def page(results: Mapping[str, Any]) -> str:
    """The results as a page."""
    logs: list[dict[str, Any]] = results["logs"]
    lines = [
        "# Logs that people posted",
        "",
        "`benchmarks/posted_logs/corpus.toml` holds logs from public threads: numbers only, "
        "each with its address. A row is as the thread's stored excerpt has it, so most logs are "
        f"short. Measured on {results['date']} by `python -m benchmarks.posted_logs`.",
        "",
        "A log is right if the first finding names one of the expected codes. A healthy log is "
        "right if no finding is worse than a note. A hash of the address splits the threads: "
        "thresholds may be tuned on one half only. Whoever wrote the rules had read all logs, "
        "so this split is weaker than a blind one. The rule for ln k (`LOG005`) was written after "
        "the two logs of the reported half that it names had been read.",
        "",
        "| logs | tuned on, right | reported, right |",
        "|---|---|---|",
    ]
    for group, title in GROUPS.items():
        cells = [_share(logs, group, split) for split in ("tune", "report")]
        lines.append(f"| {title} | {cells[0]} | {cells[1]} |")
    lines += ["", *_first_look(logs), ""]
    lines += [
        "## Misses and false alarms",
        "",
        "| log | tool | half | expected | named |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| [{_name(log['address'])}]({log['address']}) | {log['tool']} | {log['split']} | "
        f"{', '.join(log['expected']) or 'healthy'} | {log['named'] or 'nothing'} |"
        for log in logs
        if not log["right"]
    ]
    lines += [
        "",
        "The faults that these rows do not show stay in the table: a loss that is a multiple of "
        "another run's, or a model that was saved wrongly, leaves a curve that looks healthy.",
        "",
    ]
    return "\n".join(lines)


def _first_look(logs: Iterable[Mapping[str, Any]]) -> list[str]:
    """What the rules said of logs that nobody had read when the rules were written."""
    first = [log for log in logs if log["first_look"] is not None]
    lines = [
        "## At first sight",
        "",
        f"{len(first)} of the logs were added later. Their codes were written down from the words "
        "of the thread before pellucid saw them. It then judged each once, with unchanged rules: "
        f"{sum(log['first_look'] for log in first)} were right. A log that it could not read "
        "counts as wrong. Then the rules were mended, so the last column says nothing about new "
        "logs.",
        "",
        "| logs | right at first sight | right now |",
        "|---|---|---|",
    ]
    for group, title in GROUPS.items():
        of_group = [log for log in first if log["group"] == group]
        shares = [
            f"{sum(log[key] for log in of_group)} of {len(of_group)}"
            for key in ("first_look", "right")
        ]
        lines.append(f"| {title} | {shares[0]} | {shares[1]} |")
    return lines


def _share(logs: Iterable[Mapping[str, Any]], group: Group, split: str) -> str:
    rights = [log["right"] for log in logs if log["group"] == group and log["split"] == split]
    return f"{sum(rights)} of {len(rights)}"


def _name(address: str) -> str:
    return "/".join(address.split("/")[3:])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.posted_logs", description=__doc__)
    parser.add_argument("--page", action="store_true", help="write the page, and judge nothing")
    if parser.parse_args().page:
        newest = sorted(_RESULTS.glob("posted-logs-*.json"))[-1]
        PAGE.write_text(page(json.loads(newest.read_text("utf-8"))), encoding="utf-8")
        return
    date = time.strftime("%Y-%m-%d")
    results = {"date": date, "logs": [judge(log) for log in corpus()]}
    text = json.dumps(results, indent=1, ensure_ascii=False) + "\n"
    (_RESULTS / f"posted-logs-{date}.json").write_text(text, encoding="utf-8")
    print(page(results))


if __name__ == "__main__":
    main()
