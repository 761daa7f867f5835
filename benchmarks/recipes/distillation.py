"""A small model taught by a larger one, against the same model taught by the text alone.

    OMP_NUM_THREADS=1 python -m benchmarks.recipes.distillation --text input.txt --out distillation

The text is cut in two: the first 90% of its characters to train on, the last 10% to be judged by,
which no model sees, the teacher included. Both ways train the same student
(`distillation-student.toml`) with the teacher's tokenizer, from the same first weights and on the
same tokens in the same order. The learning rate is the one of a grid that is best for the student
from scratch at the first seed; the distilled student takes it as it is.

Comes in: a text. Goes out: a table, and a dated JSON file under benchmarks/results/. What is
trained is kept in `--out`: where the command is stopped, it goes on after the last finished model.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import shutil
import statistics
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from pellucid import runs
from pellucid.config import Muon
from pellucid.presets import find

HERE = Path(__file__).parent
WAYS = ("from scratch", "distilled")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is compared: how long, how large, how often."""

    teacher_steps: int
    student_steps: int
    #: Learning rates as multiples of the preset's.
    rates: tuple[float, ...]
    #: The first also chooses the learning rate.
    seeds: tuple[int, ...]
    #: The share of the training text that students see; the teacher sees all of it.
    share: float = 1.0
    teacher: tuple[str, ...] = ()
    student: tuple[str, ...] = ()


def compare(text: Path, out: Path, plan: Plan) -> dict[str, Any]:
    """Train the teacher and all students; what each costs on the judging text."""
    out.mkdir(parents=True, exist_ok=True)
    train_text, judging_text = cut(text, out)
    few_text = first_part(train_text, plan.share, out)
    teacher = out / "teacher"
    taught = trained(
        teacher,
        judging_text,
        paths=[train_text],
        config_file=HERE / "distillation-teacher.toml",
        steps=plan.teacher_steps,
        settings=plan.teacher,
        seed=1,
    )

    def student(way: str, rate: float, seed: int) -> dict[str, Any]:
        name = f"{way.replace(' ', '-')}-{plan.share:g}-{rate:g}-{seed}"
        more: dict[str, Any] = {"teacher": teacher} if way == "distilled" else {}
        settings = (*plan.student, *rates_of(rate), *(() if more else words_of(teacher)))
        found = trained(
            out / name,
            judging_text,
            paths=[few_text],
            config_file=HERE / "distillation-student.toml",
            objective="distill" if more else None,
            steps=plan.student_steps,
            settings=settings,
            seed=seed,
            **more,
        )
        return found | {"rate": rate, "seed": seed}

    tried = [student(WAYS[0], rate, plan.seeds[0]) for rate in plan.rates]
    best = min(tried, key=lambda run: run["loss_nats"])["rate"]
    found = {way: list[dict[str, Any]]() for way in WAYS}
    for seed in plan.seeds:
        for way in WAYS:
            found[way].append(student(way, best, seed))
    return {
        "teacher": taught,
        "share": plan.share,
        "rates_tried_from_scratch": tried,
        "rate": best,
        "students": {way: {"runs": found[way]} | spread(found[way]) for way in WAYS},
    }


def cut(text: Path, out: Path) -> tuple[Path, Path]:
    """The first 90% of the characters, and the last 10%, as files."""
    content = text.read_text(encoding="utf-8")
    place = len(content) * 9 // 10
    files = out / "train.txt", out / "judging.txt"
    for file, part in zip(files, (content[:place], content[place:]), strict=True):
        file.write_text(part, encoding="utf-8")
    return files


def first_part(text: Path, share: float, out: Path) -> Path:
    """The first part of a text, as a file."""
    if share == 1:
        return text
    content = text.read_text(encoding="utf-8")
    file = out / f"train-{share:g}.txt"
    file.write_text(content[: int(len(content) * share)], encoding="utf-8")
    return file


def rates_of(multiple: float) -> tuple[str, ...]:
    """Both learning rates of the preset, times `multiple`."""
    optimiser = find("nano").optimiser
    assert isinstance(optimiser, Muon)
    return (
        f"optimiser.learning_rate={optimiser.learning_rate * multiple}",
        f"optimiser.rest.learning_rate={optimiser.rest.learning_rate * multiple}",
    )


def words_of(teacher: Path) -> tuple[str, ...]:
    """The teacher's tokenizer, for a student that has no teacher."""
    return ('text.tokenizer={kind = "FromFile", path = ' + json.dumps(str(teacher)) + "}",)


def trained(folder: Path, judging_text: Path, **choices: Any) -> dict[str, Any]:
    """Train a run, or take it as it was trained before; what it costs on the judging text."""
    kept = folder.parent / f"{folder.name}.json"
    if kept.exists():
        return json.loads(kept.read_text(encoding="utf-8"))
    shutil.rmtree(folder, ignore_errors=True)  # one that was stopped half-way
    before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    started = time.perf_counter()
    run = runs.train(out=folder, show=False, **choices)
    seconds = time.perf_counter() - started
    processor = resource.getrusage(resource.RUSAGE_SELF).ru_utime - before
    judged = runs.evaluate(run, [str(judging_text)])
    steps = json.loads((folder / "plan.json").read_text(encoding="utf-8"))["total_steps"]
    found = {
        "loss_nats": judged.loss_nats,
        "bits_per_byte": judged.bits_per_byte,
        "parameters": sum(parameter.numel() for parameter in run.model.parameters()),
        "tokens": steps * run.config.training.batch_size * run.config.model.context_length,
        "seconds": seconds,
        "processor_seconds": processor,
    }
    kept.write_text(json.dumps(found), encoding="utf-8")
    say(f"{folder.name}: {judged.loss_nats:.4f} nats per token, {seconds:.0f} s")
    return found


def spread(found: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Mean and standard deviation of what runs cost."""
    losses = [run["loss_nats"] for run in found]
    deviation = statistics.stdev(losses) if len(losses) > 1 else None
    return {"mean_loss_nats": statistics.mean(losses), "deviation": deviation}


def machine() -> dict[str, Any]:
    """What the seconds depend on."""
    return {
        "processor": platform.machine(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
    }


def say(line: str) -> None:
    """Tell how far it has come."""
    print(line, flush=True)


def table(results: dict[str, Any]) -> str:
    """The comparison, in lines."""
    teacher = results["teacher"]
    lines = [f"{'teacher':14} {teacher['loss_nats']:.4f} nats per token"]
    for way, found in results["students"].items():
        each = ", ".join(f"{run['loss_nats']:.4f}" for run in found["runs"])
        deviation = "" if found["deviation"] is None else f" ± {found['deviation']:.4f}"
        lines.append(f"{way:14} {found['mean_loss_nats']:.4f}{deviation} ({each})")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--text", type=Path, required=True, help="tiny Shakespeare, input.txt")
    parser.add_argument("--out", type=Path, required=True, help="where what is trained is kept")
    parser.add_argument("--teacher-steps", type=int, default=1000)
    parser.add_argument("--student-steps", type=int, default=200)
    parser.add_argument("--rates", type=float, nargs="+", default=[0.5, 1.0, 2.0, 4.0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--share", type=float, default=1.0, help="of the text, for students")
    given = parser.parse_args()
    plan = Plan(
        teacher_steps=given.teacher_steps,
        student_steps=given.student_steps,
        rates=tuple(given.rates),
        seeds=tuple(given.seeds),
        share=given.share,
    )
    results = compare(given.text, given.out, plan) | {"machine": machine()}
    folder = HERE.parent / "results"
    folder.mkdir(exist_ok=True)
    part = "" if plan.share == 1 else f"-{plan.share:g}"
    file = folder / f"distillation{part}-{time.strftime('%Y-%m-%d')}.json"
    file.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print(table(results))


if __name__ == "__main__":
    main()
