"""The results as a page for people, from the newest file under benchmarks/results/.

Comes in: a dated JSON file. Goes out: docs/diagnosis-benchmark.md. Every number in it is the
file's; nothing is computed here but shares.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.diagnosis.elsewhere.page import section
from benchmarks.diagnosis.words import AFTER, BEFORE, ELSEWHERE, MADE_BY_OTHERS, NOT_YET, THREATS

_ROOT = Path(__file__).parent.parent.parent
PAGE = _ROOT / "docs" / "diagnosis-benchmark.md"
RESULTS = _ROOT / "benchmarks" / "results"
_PARTS = ("all", "tuned on", "never tuned on")


def write_page(results: Path | None = None, page: Path = PAGE) -> Path:
    """Write the page of a file of results, of the newest where none is named.

    Raises:
        FileNotFoundError: there are no results.
    """
    if results is None:
        dated = sorted(RESULTS.glob("diagnosis-2*.json"))
        if not dated:
            raise FileNotFoundError(f"no results under {RESULTS}: run `evaluate` first")
        results = dated[-1]
    found = json.loads(results.read_text(encoding="utf-8"))
    page.write_text(text_of(found, results.name), encoding="utf-8")
    return page


def text_of(found: Mapping[str, Any], name: str) -> str:
    """The page."""
    parts = [
        BEFORE.format(
            date=found["date"],
            file=name,
            elsewhere=ELSEWHERE + (section(RESULTS) or NOT_YET) + MADE_BY_OTHERS,
            **_counts(found),
        ),
        _frozen(found["frozen"]),
        "## Results\n",
        _reached(found),
        _more(found["ours"]["all"]),
        "## Class by class\n",
        "Only runs whose fault did harm or broke an invariant count. *named*: the first answer is "
        "right.\n",
        _classes(found["classes"]),
        "## Losing cases\n",
        _losing(found),
        "## Free tools on the same runs\n",
        AFTER,
        _others(found),
        "## Repair\n",
        _repair(found["repair"]),
        "## Limits of this benchmark\n",
        THREATS,
    ]
    return "\n".join(part.rstrip() + "\n" for part in parts if part)


def _counts(found: Mapping[str, Any]) -> dict[str, Any]:
    ours = found["ours"]["all"]
    cost = found["cost"]
    return {
        "runs": ours["runs"],
        "classes": len(found["classes"]),
        "healthy": ours["false_alarms"]["of"],
        "seconds": f"{cost['check_mean'] + cost['train_mean']:.1f}",
        "check": f"{cost['check_mean']:.2f}",
        "watching": f"{cost['watching_share_at_full_rate']:.1%}",
        **{f"n_{key}": value for key, value in _outcomes(ours).items()},
    }


def _outcomes(ours: Mapping[str, Any]) -> dict[str, int]:
    told = ours["outcomes"]
    return {key: told.get(key, 0) for key in ("harmful", "latent", "harmless")}


def _frozen(frozen: Mapping[str, str]) -> str:
    if not frozen:
        return ""
    rows = [f"| {name} | `{value[:16]}` |" for name, value in frozen.items() if len(value) == 64]
    head = (
        "We froze thresholds, codes and all code that judges before the first run of the "
        f"evaluation: on {frozen['date']} (UTC), commit `{frozen['commit'][:12]}`. The "
        "evaluation refuses to run if a hash differs.\n\n"
        "| frozen | SHA-256 begins |\n|---|---|\n"
    )
    return head + "\n".join(rows)


_AIMS = (
    ("false_alarms", "false alarms per healthy run", "at most 1%"),
    ("recall_harmful", "harmful faults detected", "at least 95%"),
    ("recall", "harmful and latent faults detected", ""),
    ("top_1", "first answer right", ""),
    ("top_3", "right answer among the first three", ""),
    ("top_1_of_detected", "first answer right, of those detected", ""),
    ("abstained", "detected, with the cause reported as unknown", ""),
    ("place", "place right, of right answers that have one", ""),
    ("alarms_on_harmless", "alarms on harmless injections", ""),
)


def _reached(found: Mapping[str, Any]) -> str:
    there = [part for part in _PARTS if part in found["ours"]]
    lines = ["| | aim | " + " | ".join(there) + " |", "|---|---|" + "---|" * len(there)]
    for key, title, aim in _AIMS:
        cells = [_share(found["ours"][part][key]) for part in there]
        lines.append(f"| {title} | {aim} | " + " | ".join(cells) + " |")
    f1 = [f"{found['ours'][part]['macro_f1']:.3f}" for part in there]
    lines.append("| cause, macro-F1 | 0.90, and 0.85 never tuned on | " + " | ".join(f1) + " |")
    lead = [found["ours"][part]["lead"] for part in there]
    shares = [f"{each['share_median']:.0%}" if each else "-" for each in lead]
    title = "lead: share of the time from onset to divergence, median"
    lines.append(f"| {title} | at least 50% | " + " | ".join(shares) + " |")
    return (
        "\n".join(lines)
        + "\n\nIn brackets: the interval that holds the true share with 95% "
        + ("(Clopper and Pearson; one-sided if the count is 0 or all).\n")
    )


def _share(told: Mapping[str, Any]) -> str:
    if not told["of"]:
        return "-"
    low, high = told["low"], told["high"]
    return f"{told['share']:.1%} ({told['count']} of {told['of']}) [{low:.1%}, {high:.1%}]"


def _more(ours: Mapping[str, Any]) -> str:
    lead, calibration = ours["lead"], ours["calibration"]
    rate = ours["false_alarms_per_1e5_updates"]
    lines = [f"Runs with a false alarm per 100,000 healthy updates: {rate:.1f}.\n"]
    if lead:
        lines.append(
            f"The first alarm came {lead['updates_to_detect_median']:.0f} updates after the onset "
            f"(median). It came {lead['updates_median']:.0f} updates before the loss itself showed "
            f"the fault or the run ended (median; 10th percentile {lead['updates_10th']:.0f}).\n"
        )
    rows = [
        f"| {row['said']:.2f} | {row['right']:.2f} | {row['runs']} |" for row in calibration["bins"]
    ]
    lines.append(
        "Confidence of the first answer, against how often it was right (mean gap "
        f"{calibration['expected_error']:.3f}):\n\n"
        "| confidence | right | answers |\n|---|---|---|\n" + "\n".join(rows) + "\n"
    )
    return "\n".join(lines)


def _classes(classes: Mapping[str, Any]) -> str:
    lines = [
        "| class | harmful | latent | harmless | detected | named | in three | named instead |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, row in classes.items():
        counted = row["harmful"] + row["latent"]
        instead = ", ".join(f"{code} {count}" for code, count in row["instead"].items())
        lines.append(
            f"| {name} | {row['harmful']} | {row['latent']} | {row['harmless']} "
            f"| {row['detected']}/{counted} | {row['named']}/{counted} "
            f"| {row['named_in_3']}/{counted} | {instead} |"
        )
    return "\n".join(lines) + "\n"


def _losing(found: Mapping[str, Any]) -> str:
    alarms = [f"- `{name}`: {', '.join(codes)}" for name, codes in found["healthy_alarms"]]
    missed = [(n, o) for n, o, codes in found["losing"] if not codes]
    wrong = [(n, o, codes) for n, o, codes in found["losing"] if codes]
    lines = [
        "Names are architecture, class, healthy base, level and seed.\n",
        f"**Healthy runs with an alarm ({len(alarms)})**\n",
        "\n".join(alarms) or "none",
        f"\n**Faults that it missed ({len(missed)})**\n",
        _listed([f"`{name}` ({word})" for name, word in missed]),
        f"\n**Faults detected, with a wrong first answer ({len(wrong)})**\n",
        _listed([f"`{name}` ({word}): {', '.join(codes)}" for name, word, codes in wrong]),
    ]
    if found["failed"]:
        lines.append(f"\n**Trainings that could not be run ({len(found['failed'])})**\n")
        lines.append(_listed([f"`{name}`" for name in found["failed"]]))
    return "\n".join(lines)


def _listed(lines: Sequence[str]) -> str:
    return "\n".join(f"- {line}" for line in lines) or "none"


def _others(found: Mapping[str, Any]) -> str:
    ours = found["ours"]["all"]
    recall, harm, false = ours["recall"], ours["recall_harmful"], ours["false_alarms"]
    lines = [
        "| | false alarms | harmful found | harmful and latent found |",
        "|---|---|---|---|",
        f"| **pellucid** | {_of(false)} | {_of(harm)} | {_of(recall)} |",
    ]
    for name, row in found["others"].items():
        cells = [_pair(row[key]) for key in ("false_alarms", "harmful", "recall")]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    for name, row in found["others"].items():
        if "class_right" in row:
            lines.append(
                f"\n*{name}*: trained on {row['taught']:.0f} development runs, it names the class "
                f"of {row['class_right']:.1%} of the faults that count."
            )
    return "\n".join(lines) + "\n"


def _of(told: Mapping[str, Any]) -> str:
    return _pair([told["count"], told["of"]])


def _pair(pair: Sequence[int]) -> str:
    count, total = pair
    return f"{count / total:.1%} ({count}/{total})" if total else "-"


def _repair(repair: Mapping[str, Any]) -> str:
    if not repair:
        return "Not run.\n"
    low, high = repair["first_interval"]
    low3, high3 = repair["within_three_interval"]
    lines = [
        f"In {repair['of']} harmful runs the fault is a line of config (one seed each). The first "
        f"fix repaired {_pair([repair['first'], repair['of']])} [{low:.1%}, {high:.1%}] of them, "
        "and one of the first three repaired "
        f"{_pair([repair['within_three'], repair['of']])} [{low3:.1%}, {high3:.1%}]; the aims were "
        "85% and 95%. A run counts as repaired if the whole training, with the fix in its config, "
        "ends within the healthy band (mean and three standard deviations). In "
        f"{repair['and_calm']} of them it ended without any alarm. The fix came nine tenths of the "
        f"way back to the healthy mean in {_pair([repair['nearly_first'], repair['of']])} with the "
        f"first, and in {_pair([repair['nearly_within_three'], repair['of']])} within three.\n",
        "Not repaired (architecture, class, level; losses of the tries; healthy mean and worst):\n",
        _listed([_unmended(*each) for each in repair["not_mended"]]),
    ]
    return "\n".join(lines)


def _unmended(arch: str, kind: str, level: int, tries: Sequence[float], band: Any) -> str:
    tried = ", ".join(f"{loss:.2f}" for loss in tries) or "no fix was proposed"
    return f"{arch}, {kind}, {level}: {tried}; healthy {band[0]:.2f} to {band[1]:.2f}"
