"""A learned classifier on the same records: a check of how much is in the signs at all.

    pip install scikit-learn
    python -m benchmarks.diagnosis.learned DIR/dev DIR/eval

In an environment of its own, without torch. It is taught the development runs, with their classes,
and asked about the others. `judge` has to have been run on both before: it writes `labels.json`.

Comes in: two folders. Goes out: `learned.json` in the second, which `judge` puts next to pellucid's
results.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
from pathlib import Path
from typing import Any

Record = dict[str, Any]
_HEALTHY = "healthy"
_TREES = 600


def main() -> None:
    training_folder, test_folder = Path(sys.argv[1]), Path(sys.argv[2])
    alarms: dict[str, dict[str, list[str]]] = {}
    scores: dict[str, dict[str, float]] = {}
    for name, probes in (("learned: signs", False), ("learned: signs and probes", True)):
        alarms[name], scores[name] = classified(training_folder, test_folder, probes=probes)
    results = {"alarms": alarms, "more": scores}
    (test_folder / "learned.json").write_text(json.dumps(results), encoding="utf-8")
    print(json.dumps(scores, indent=1))


def classified(
    training_folder: Path, test_folder: Path, *, probes: bool
) -> tuple[dict[str, list[str]], dict[str, float]]:
    """What a forest says of each run; its limit is set so that 1% of what it was taught is lost."""
    from sklearn.ensemble import ExtraTreesClassifier  # type: ignore[import-not-found]

    examples, kinds = _read(training_folder, probes=probes)
    questions, truth = _read(test_folder, probes=probes)
    names = sorted({key for example in examples.values() for key in example})
    forest = ExtraTreesClassifier(
        _TREES, bootstrap=True, oob_score=True, class_weight="balanced", random_state=0, n_jobs=1
    )
    rows = [[example.get(n, -1.0) for n in names] for example in examples.values()]
    labels = [kinds[name] for name in examples]
    forest.fit(rows, labels)
    column = list(forest.classes_).index(_HEALTHY)
    sure = sorted(
        row[column]
        for row, kind in zip(forest.oob_decision_function_, labels, strict=True)
        if kind == _HEALTHY
    )
    limit = sure[len(sure) // 100]
    probabilities = forest.predict_proba(
        [[q.get(n, -1.0) for n in names] for q in questions.values()]
    )
    alarms: dict[str, list[str]] = {}
    for name, row in zip(questions, probabilities, strict=True):
        others = [(p, kind) for p, kind in zip(row, forest.classes_, strict=True)]
        best = max(
            (answer for answer in others if answer[1] != _HEALTHY), key=lambda answer: answer[0]
        )
        alarms[name] = [str(best[1])] if row[column] < limit else []
    sick = [name for name in questions if truth[name] != _HEALTHY]
    right = sum(alarms[name] == [truth[name]] for name in sick)
    return alarms, {"class_right": right / max(1, len(sick)), "taught": len(labels)}


def _read(folder: Path, *, probes: bool) -> tuple[dict[str, dict[str, float]], dict[str, str]]:
    labels = json.loads((folder / "labels.json").read_text(encoding="utf-8"))
    examples: dict[str, dict[str, float]] = {}
    kinds: dict[str, str] = {}
    for name, (kind, outcome) in labels.items():
        if outcome == "harmless":
            continue
        record = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        examples[name], kinds[name] = features(record, probes=probes), kind
    return examples, kinds


def features(record: Record, *, probes: bool) -> dict[str, float]:
    """Of every measurement its first, last, largest and smallest value; of the loss its course."""
    series: dict[str, list[float]] = {"loss": [v for _, v in record["losses"]]}
    series["norm"] = [v for _, v in record["norms"]]
    series["rate"] = [v for _, v in record["rates"]]
    for step, readings in record["told"]:
        if step is None:
            continue
        for id, _, values in readings:
            for kind, take in (("high", max), ("low", min), ("mid", statistics.median)):
                series.setdefault(f"{id} {kind}", []).append(take(values))
    values_by_name: dict[str, float] = {}
    for id, values in series.items():
        for kind, value in _course(values).items():
            values_by_name[f"{id} {kind}"] = value
    if probes:
        values_by_name |= {f"probe {finding['code']}": 1.0 for finding in record["findings"]}
    return values_by_name


def _course(values: list[float]) -> dict[str, float]:
    finite = [v for v in values if math.isfinite(v)] or [0.0]
    quarter = finite[: max(1, len(finite) // 4)]
    return {
        "first": _tamed(finite[0]),
        "early": _tamed(statistics.fmean(quarter)),
        "last": _tamed(finite[-1]),
        "high": _tamed(max(finite)),
        "low": _tamed(min(finite)),
        "lost": float(len(values) - len(finite)),
    }


def _tamed(value: float) -> float:
    return max(-1e30, min(1e30, value))


if __name__ == "__main__":
    main()
