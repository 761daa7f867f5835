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
    """Write the page of a file of results, by default the newest.

    Raises:
        FileNotFoundError: there are no results.
    """
    if results is None:
        dated = sorted(RESULTS.glob("diagnosis-2*.json"))
        if not dated:
            raise FileNotFoundError(f"no results under {RESULTS}: run `evaluate` first")
        results = dated[-1]
    measures = json.loads(results.read_text(encoding="utf-8"))
    page.write_text(text_of(measures, results.name), encoding="utf-8")
    return page


def text_of(measures: Mapping[str, Any], name: str) -> str:
    """The page."""
    parts = [
        BEFORE.format(
            date=measures["date"],
            file=name,
            elsewhere=ELSEWHERE + (section(RESULTS) or NOT_YET) + MADE_BY_OTHERS,
            **_counts(measures),
        ),
        _frozen(measures["frozen"]),
        "## Results\n",
        _aims(measures),
        _leads_and_calibration(measures["ours"]["all"]),
        "## Class by class\n",
        "Only runs whose fault did harm or broke an invariant count. *named*: the first answer is "
        "right.\n",
        _classes(measures["classes"]),
        "## Losing cases\n",
        _losing(measures),
        "## Free tools on the same runs\n",
        AFTER,
        _others(measures),
        "## Repair\n",
        _repair(measures["repair"]),
        "## Limits of this benchmark\n",
        THREATS,
    ]
    return "\n".join(part.rstrip() + "\n" for part in parts if part)


def _counts(measures: Mapping[str, Any]) -> dict[str, Any]:
    pellucid_measures = measures["ours"]["all"]
    cost = measures["cost"]
    return {
        "runs": pellucid_measures["runs"],
        "classes": len(measures["classes"]),
        "healthy": pellucid_measures["false_alarms"]["of"],
        "seconds": f"{cost['check_mean'] + cost['train_mean']:.1f}",
        "check": f"{cost['check_mean']:.2f}",
        "watching": f"{cost['watching_share_at_full_rate']:.1%}",
        **{f"n_{key}": value for key, value in _outcomes(pellucid_measures).items()},
    }


def _outcomes(pellucid_measures: Mapping[str, Any]) -> dict[str, int]:
    counts = pellucid_measures["outcomes"]
    return {key: counts.get(key, 0) for key in ("harmful", "latent", "harmless")}


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


def _aims(measures: Mapping[str, Any]) -> str:
    parts = [part for part in _PARTS if part in measures["ours"]]
    lines = ["| | aim | " + " | ".join(parts) + " |", "|---|---|" + "---|" * len(parts)]
    for key, title, aim in _AIMS:
        cells = [_share(measures["ours"][part][key]) for part in parts]
        lines.append(f"| {title} | {aim} | " + " | ".join(cells) + " |")
    f1 = [f"{measures['ours'][part]['macro_f1']:.3f}" for part in parts]
    lines.append("| cause, macro-F1 | 0.90, and 0.85 never tuned on | " + " | ".join(f1) + " |")
    lead = [measures["ours"][part]["lead"] for part in parts]
    shares = [
        f"{lead_of_part['share_median']:.0%}" if lead_of_part else "-" for lead_of_part in lead
    ]
    title = "lead: share of the time from onset to divergence, median"
    lines.append(f"| {title} | at least 50% | " + " | ".join(shares) + " |")
    return (
        "\n".join(lines)
        + "\n\nIn brackets: the interval that holds the true share with 95% "
        + ("(Clopper and Pearson; one-sided if the count is 0 or all).\n")
    )


def _share(counts: Mapping[str, Any]) -> str:
    if not counts["of"]:
        return "-"
    low, high = counts["low"], counts["high"]
    return f"{counts['share']:.1%} ({counts['count']} of {counts['of']}) [{low:.1%}, {high:.1%}]"


def _leads_and_calibration(pellucid_measures: Mapping[str, Any]) -> str:
    lead, calibration = pellucid_measures["lead"], pellucid_measures["calibration"]
    rate = pellucid_measures["false_alarms_per_1e5_updates"]
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
        n_faulty = row["harmful"] + row["latent"]
        wrong_codes = ", ".join(f"{code} {count}" for code, count in row["instead"].items())
        lines.append(
            f"| {name} | {row['harmful']} | {row['latent']} | {row['harmless']} "
            f"| {row['detected']}/{n_faulty} | {row['named']}/{n_faulty} "
            f"| {row['named_in_3']}/{n_faulty} | {wrong_codes} |"
        )
    return "\n".join(lines) + "\n"


def _losing(measures: Mapping[str, Any]) -> str:
    alarms = [f"- `{name}`: {', '.join(codes)}" for name, codes in measures["healthy_alarms"]]
    missed = [(n, o) for n, o, codes in measures["losing"] if not codes]
    wrong = [(n, o, codes) for n, o, codes in measures["losing"] if codes]
    lines = [
        "Names are architecture, class, healthy base, level and seed.\n",
        f"**Healthy runs with an alarm ({len(alarms)})**\n",
        "\n".join(alarms) or "none",
        f"\n**Faults that it missed ({len(missed)})**\n",
        _bullets([f"`{name}` ({word})" for name, word in missed]),
        f"\n**Faults detected, with a wrong first answer ({len(wrong)})**\n",
        _bullets([f"`{name}` ({word}): {', '.join(codes)}" for name, word, codes in wrong]),
    ]
    if measures["failed"]:
        lines.append(f"\n**Trainings that could not be run ({len(measures['failed'])})**\n")
        lines.append(_bullets([f"`{name}`" for name in measures["failed"]]))
    return "\n".join(lines)


def _bullets(lines: Sequence[str]) -> str:
    return "\n".join(f"- {line}" for line in lines) or "none"


def _others(measures: Mapping[str, Any]) -> str:
    pellucid_measures = measures["ours"]["all"]
    recall, harm, false = (
        pellucid_measures["recall"],
        pellucid_measures["recall_harmful"],
        pellucid_measures["false_alarms"],
    )
    lines = [
        "| | false alarms | harmful found | harmful and latent found |",
        "|---|---|---|---|",
        f"| **pellucid** | {_count_of(false)} | {_count_of(harm)} | {_count_of(recall)} |",
    ]
    for name, row in measures["others"].items():
        cells = [_pair(row[key]) for key in ("false_alarms", "harmful", "recall")]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    for name, row in measures["others"].items():
        if "class_right" in row:
            lines.append(
                f"\n*{name}*: trained on {row['taught']:.0f} development runs, it names the class "
                f"of {row['class_right']:.1%} of the faults that count."
            )
    return "\n".join(lines) + "\n"


def _count_of(counts: Mapping[str, Any]) -> str:
    return _pair([counts["count"], counts["of"]])


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
        _bullets([_unmended(*run) for run in repair["not_mended"]]),
    ]
    return "\n".join(lines)


def _unmended(arch: str, kind: str, level: int, tries: Sequence[float], band: Any) -> str:
    tried = ", ".join(f"{loss:.2f}" for loss in tries) or "no fix was proposed"
    return f"{arch}, {kind}, {level}: {tried}; healthy {band[0]:.2f} to {band[1]:.2f}"
