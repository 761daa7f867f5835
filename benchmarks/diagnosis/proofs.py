"""How often does the first proven fix mend a loop, and was any recommended that did not help?

    python -m benchmarks.diagnosis.proofs --sample 20 --out proofs-benchmark
    python -m benchmarks.diagnosis.proofs --out proofs-benchmark --save

Harmed loops of the tuning split of `elsewhere`, in plain torch: `prove` gets a function that builds
the loop, and nothing else. It diagnoses, screens, and tries the best fix on pairs. The fix that it
recommends is then tried on seeds that the proof did not use, against the same loop without it and
against its healthy twin. Healthy twins are proven too: a recommendation for one must help, too. A
fault did harm if the loss of pairs is higher by a margin, and by more than chance explains.

Comes in: nothing, or a folder with public data sets. Goes out: a record for each loop, numbers.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import multiprocessing
import os
import time
import traceback
import warnings
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from benchmarks.diagnosis.elsewhere.cases import TWIN, Case, places
from benchmarks.diagnosis.elsewhere.families import FAMILIES, Family, build
from benchmarks.diagnosis.elsewhere.faults.listed import KINDS
from benchmarks.diagnosis.elsewhere.parts import Batch
from benchmarks.diagnosis.elsewhere.parts import Loop as Pieces
from benchmarks.diagnosis.elsewhere.score import MARGIN, score
from benchmarks.diagnosis.elsewhere.styles.listed import STYLES
from benchmarks.diagnosis.elsewhere.styles.style import Setting
from benchmarks.diagnosis.elsewhere.texts import texts
from benchmarks.machine import machine
from pellucid.diagnosis import Loop, prove
from pellucid.diagnosis.fixes.loop import LOOP_FIXES
from pellucid.diagnosis.fixes.propose import read_fixes
from pellucid.diagnosis.proof.loop_fork import run_loop_fork
from pellucid.lab.statistics import LEVEL, paired_difference

_RESULTS = Path(__file__).parents[1] / "results"
#: Faults in the data or in the loss function: no fix from outside can be meant for them.
_INSIDE_THE_LOOP = (
    "softmax before cross-entropy",
    "logits divided by 30",
    "label smoothing of 0.9",
    "labels of other rows",
    "inputs shuffled",
    "rows of one token",
    "the same batch again",
    "ten rows are all the data",
    "texts cut off",
    "hardly any labels",
    "masked inputs not masked",
    "loss on every token of a masked model",
    "nearly all is masked",
    "source and target swapped",
    "decoder is given its labels",
    "noise in the labels",
    "labels not shifted",
    "a batch without targets poisons all",
)
#: Updates of a fork: what `prove` takes by default.
_STEPS = 100
#: Held-out rows that a fork is judged by.
_HELD_OUT = 48
#: Seeds that no proof uses, on which a recommended fix is tried again.
_FRESH = tuple(range(70_001, 70_007))
#: Mended also if a fix is this share of the way back to the healthy twin.
_NEARLY = 0.9


def chosen_cases() -> list[Case]:
    """A plain loop for each fault that can be undone from outside, and some healthy twins."""
    style = STYLES["plain"]
    loops = [
        Case(style.split, style.name, family.name, task, TWIN, 11)
        for family in FAMILIES.values()
        for task, kinds in style.tasks.items()
        if family.split == style.split and family.kind in kinds
        if family.attends and not family.experts  # both are slow
    ]
    cases: list[Case] = []
    for fault in KINDS:
        able = [c for c in loops if any(f.name == fault and not f.healthy for f in places(c))]
        if fault not in _INSIDE_THE_LOOP and able:
            cases.append(replace(min(able, key=lambda c: _lot(f"{fault} {c.name}")), what=fault))
    twins = sorted(loops, key=lambda c: _lot(c.name))[: len(cases) // 4]
    return sorted([*cases, *twins], key=lambda c: _lot(c.name))


def _one_layer(family: Family) -> dict[str, int]:
    """Changes of its config: one layer instead of two, as a proof is many trainings."""
    return {
        name: 1
        for name in ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
        if name in family.numbers
    }


def _lot(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def make_loop_of(case: Case, folder: str | None) -> Any:
    """The function that a user would write: it builds the loop of a case for a seed."""
    style, family, read = STYLES[case.style], FAMILIES[case.family], texts(folder)
    change = case.fault
    parts = style.base if change is None else change.change(style.base, family)
    rows = read.rows(case.task)
    held_out = rows.held_out[:_HELD_OUT]

    def make_loop(seed: int) -> Loop:
        model = build(family, case.task, seed, **_one_layer(family), **parts.config)
        parts.tuned(model)
        torch.manual_seed(seed)
        prepared = parts.prepared(rows.train)
        setting = Setting(
            parts=parts,
            model=model,
            task=case.task,
            rows=prepared,
            seed=seed,
            tokenizer=read.tokenizer,
            options={},
        )
        pieces = setting.loop()

        def update(loop: Loop, batch: Batch) -> torch.Tensor:
            loss = parts.loss(pieces, batch)
            parts.back(pieces, loss)
            parts.clipped(pieces)
            parts.stepped(pieces)
            parts.advanced(pieces)
            parts.cleared(pieces)
            parts.between(pieces)
            pieces.update += 1
            return loss.detach()

        return Loop(
            model=model.train(),
            optimizer=pieces.optimizer,
            batches=setting.batches(),
            loss=lambda model, batch: parts.loss(_with_model(pieces, model), batch),
            update=update,
            schedule=pieces.schedule,
            measure=lambda model: score(model, case.task, held_out, None),
        )

    return make_loop


def _with_model(pieces: Pieces, model: Any) -> Pieces:
    return replace(pieces, model=model)


def record(case: Case, folder: str | None) -> dict[str, Any]:
    """The proof of a loop, and its fix on fresh seeds; an error is a record too."""
    started = time.process_time()
    result: dict[str, Any] = {"case": case.as_dict()}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result |= _proven(case, folder)
    except Exception:
        result["error"] = traceback.format_exc(limit=-4)
    return result | {"cpu_seconds": round(time.process_time() - started, 1)}


def _proven(case: Case, folder: str | None) -> dict[str, Any]:
    make_loop = make_loop_of(case, folder)
    scores = _scores(make_loop, "")
    healthy = scores if case.fault is None else _scores(make_loop_of(case.twin, folder), "")
    row: dict[str, Any] = {"unfixed": fmean(scores), "healthy": fmean(healthy)}
    if case.fault is not None and not _is_worse(scores, healthy):
        return row | {"harmed": False}
    proof = prove(make_loop)
    best = proof.best
    row |= {
        "harmed": case.fault is not None,
        "codes": [finding.code for finding in proof.findings],
        "trials": [[t.fix.change, t.verdict, t.mean, t.p] for t in proof.trials],
        "text": proof.text().splitlines(),
    }
    if best is None:
        return row | {"recommended": None}
    name = next(n for n, words in read_fixes().items() if words["change"] == best.fix.change)
    return row | {"recommended": name, "fixed": fmean(_scores(make_loop, name))}


def _is_worse(scores: list[float], healthy: list[float]) -> bool:
    """Whether pairs of the same seeds differ by a margin, and by more than chance explains."""
    if not all(map(math.isfinite, scores)):
        return True
    difference = paired_difference(healthy, scores)
    p = 1.0 if difference.p is None else difference.p
    return difference.mean > MARGIN and p < 1 - LEVEL


def _scores(make_loop: Any, name: str) -> list[float]:
    """The measure for each fresh seed; infinite if a fork is not finite."""
    scores: list[float] = []
    for seed in _FRESH:
        fork = run_loop_fork(
            make_loop,
            seed=seed,
            steps=_STEPS,
            build=lambda loop: LOOP_FIXES[name](loop, _STEPS) if name else None,
        )
        scores.append(math.inf if fork.loss is None else fork.loss)
    return scores


def results(records: list[dict[str, Any]]) -> dict[str, Any]:
    """How many harmed loops were mended, and which recommendations did not help."""
    complete = [r for r in records if "error" not in r]
    harmed = [r for r in complete if r.get("harmed")]
    advised = [r for r in complete if r.get("recommended")]
    mended = [r for r in harmed if r.get("recommended") and _mended(r, MARGIN, 1.0)]
    nearly = [r for r in harmed if r.get("recommended") and _mended(r, MARGIN, _NEARLY)]
    healthy = [r for r in complete if r["case"]["what"] == TWIN]
    return {
        "loops": len(records),
        "harmed": len(harmed),
        "mended": len(mended),
        "nearly_mended": len(nearly),
        "recommended": len(advised),
        "recommended_without_help": [_name(r) for r in advised if r["fixed"] >= r["unfixed"]],
        "healthy": len(healthy),
        "recommended_to_healthy": [_name(r) for r in healthy if r.get("recommended")],
        "not_mended": [_name(r) for r in harmed if r not in nearly],
        "errors": [_name(r) for r in records if "error" in r],
        "cpu_hours": round(sum(r["cpu_seconds"] for r in records) / 3600, 2),
    }


def _mended(record: dict[str, Any], margin: float, share: float) -> bool:
    """Whether a fix leads back to the healthy twin, up to a margin or for a share of the way."""
    unfixed, fixed, healthy = (record[key] for key in ("unfixed", "fixed", "healthy"))
    return fixed <= healthy + max(margin, (1 - share) * (unfixed - healthy))


def _name(record: dict[str, Any]) -> str:
    case = record["case"]
    return f"{case['what']} ({case['family']}, {case['task']}): {record.get('recommended')}"


def kept_record(case: Case, folder: str | None, records: Path) -> dict[str, Any]:
    """The record of a loop, which is made if it is not there."""
    file = records / f"{case.name}.json"
    if not file.exists():
        file.write_text(json.dumps(record(case, folder), indent=1), encoding="utf-8")
    return dict(json.loads(file.read_text(encoding="utf-8")))


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.diagnosis.proofs",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--sample", type=int, metavar="N", help="the first N, which are a fair mix")
    parser.add_argument("--only", metavar="WORD", help="those with this word in their name")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--data", metavar="FOLDER", help="folder with public data sets")
    parser.add_argument("--out", type=Path, default=Path("proofs-benchmark"))
    parser.add_argument("--save", action="store_true", help="write benchmarks/results/")
    arguments = parser.parse_args()
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ["OMP_NUM_THREADS"] = "1"
    arguments.out.mkdir(parents=True, exist_ok=True)
    cases = [c for c in chosen_cases() if not arguments.only or arguments.only in c.name]
    make = partial(kept_record, folder=arguments.data, records=arguments.out)
    records: list[dict[str, Any]] = []
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(arguments.workers, mp_context=spawn) as pool:
        for row in pool.map(make, cases[: arguments.sample]):
            records.append(row)
            print(json.dumps(row), flush=True)
    totals = results(records)
    print(json.dumps(totals, indent=1))
    if arguments.save:
        date = time.strftime("%Y-%m-%d")
        head = {"date": date, "machine": machine(), "steps": _STEPS}
        text = json.dumps(head | totals | {"records": records}, indent=1, allow_nan=False)
        (_RESULTS / f"proofs-{date}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
