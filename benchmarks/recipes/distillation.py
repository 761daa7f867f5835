"""A small model taught by a larger one, against the same model taught by the text alone.

    OMP_NUM_THREADS=1 python -m benchmarks.recipes.distillation --text input.txt --out distillation

The text is cut in two: the first 90% of its characters to train on, the last 10% to be judged by,
which no model sees, the teacher included. Both ways train the same student
(`distillation-student.toml`) with the teacher's tokenizer, from the same first weights and on the
same tokens in the same order. The learning rate is the one of a grid that is best for the student
from scratch at the first seed; the distilled student takes it as it is.

Comes in: a text. Goes out: a table, and a dated JSON file under benchmarks/results/. `--out` keeps
all trained models: a command that was stopped continues after the last finished model.
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

FOLDER = Path(__file__).parent
METHODS = ("from scratch", "distilled")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The comparison: how long, how large, how often."""

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


def compare(text: Path, folder: Path, plan: Plan) -> dict[str, Any]:
    """Train the teacher and all students; what each costs on the judging text."""
    folder.mkdir(parents=True, exist_ok=True)
    train_text, judging_text = cut(text, folder)
    few_text = first_part(train_text, plan.share, folder)
    teacher = folder / "teacher"
    teacher_figures = trained(
        teacher,
        judging_text,
        paths=[train_text],
        config_file=FOLDER / "distillation-teacher.toml",
        steps=plan.teacher_steps,
        settings=plan.teacher,
        seed=1,
    )

    def student(method: str, rate: float, seed: int) -> dict[str, Any]:
        name = f"{method.replace(' ', '-')}-{plan.share:g}-{rate:g}-{seed}"
        teacher_choice: dict[str, Any] = {"teacher": teacher} if method == "distilled" else {}
        settings = (*plan.student, *rates_of(rate), *(() if teacher_choice else words_of(teacher)))
        figures = trained(
            folder / name,
            judging_text,
            paths=[few_text],
            config_file=FOLDER / "distillation-student.toml",
            objective="distill" if teacher_choice else None,
            steps=plan.student_steps,
            settings=settings,
            seed=seed,
            **teacher_choice,
        )
        return figures | {"rate": rate, "seed": seed}

    tried = [student(METHODS[0], rate, plan.seeds[0]) for rate in plan.rates]
    best = min(tried, key=lambda run: run["loss_nats"])["rate"]
    students = {method: list[dict[str, Any]]() for method in METHODS}
    for seed in plan.seeds:
        for method in METHODS:
            students[method].append(student(method, best, seed))
    return {
        "teacher": teacher_figures,
        "share": plan.share,
        "rates_tried_from_scratch": tried,
        "rate": best,
        "students": {
            method: {"runs": students[method]} | spread(students[method]) for method in METHODS
        },
    }


def cut(text: Path, folder: Path) -> tuple[Path, Path]:
    """The first 90% of the characters, and the last 10%, as files."""
    content = text.read_text(encoding="utf-8")
    place = len(content) * 9 // 10
    files = folder / "train.txt", folder / "judging.txt"
    for file, part in zip(files, (content[:place], content[place:]), strict=True):
        file.write_text(part, encoding="utf-8")
    return files


def first_part(text: Path, share: float, folder: Path) -> Path:
    """The first part of a text, as a file."""
    if share == 1:
        return text
    content = text.read_text(encoding="utf-8")
    file = folder / f"train-{share:g}.txt"
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
    saved = folder.parent / f"{folder.name}.json"
    if saved.exists():
        return json.loads(saved.read_text(encoding="utf-8"))
    shutil.rmtree(folder, ignore_errors=True)  # one that was stopped half-way
    before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    started = time.perf_counter()
    run = runs.train(out=folder, show=False, **choices)
    seconds = time.perf_counter() - started
    processor = resource.getrusage(resource.RUSAGE_SELF).ru_utime - before
    judged = runs.evaluate(run, [str(judging_text)])
    steps = json.loads((folder / "plan.json").read_text(encoding="utf-8"))["total_steps"]
    figures = {
        "loss_nats": judged.loss_nats,
        "bits_per_byte": judged.bits_per_byte,
        "parameters": sum(parameter.numel() for parameter in run.model.parameters()),
        "tokens": steps * run.config.training.batch_size * run.config.model.context_length,
        "seconds": seconds,
        "processor_seconds": processor,
    }
    saved.write_text(json.dumps(figures), encoding="utf-8")
    print(f"{folder.name}: {judged.loss_nats:.4f} nats per token, {seconds:.0f} s", flush=True)
    return figures


def spread(figures: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Mean and standard deviation of what runs cost."""
    losses = [run["loss_nats"] for run in figures]
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


def table(results: dict[str, Any]) -> str:
    """The comparison, in lines."""
    teacher = results["teacher"]
    lines = [f"{'teacher':14} {teacher['loss_nats']:.4f} nats per token"]
    for method, figures in results["students"].items():
        losses = ", ".join(f"{run['loss_nats']:.4f}" for run in figures["runs"])
        deviation = "" if figures["deviation"] is None else f" ± {figures['deviation']:.4f}"
        lines.append(f"{method:14} {figures['mean_loss_nats']:.4f}{deviation} ({losses})")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--text", type=Path, required=True, help="tiny Shakespeare, input.txt")
    parser.add_argument("--out", type=Path, required=True, help="folder of the trained models")
    parser.add_argument("--teacher-steps", type=int, default=1000)
    parser.add_argument("--student-steps", type=int, default=200)
    parser.add_argument("--rates", type=float, nargs="+", default=[0.5, 1.0, 2.0, 4.0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--share", type=float, default=1.0, help="of the text, for students")
    arguments = parser.parse_args()
    plan = Plan(
        teacher_steps=arguments.teacher_steps,
        student_steps=arguments.student_steps,
        rates=tuple(arguments.rates),
        seeds=tuple(arguments.seeds),
        share=arguments.share,
    )
    results = compare(arguments.text, arguments.out, plan) | {"machine": machine()}
    folder = FOLDER.parent / "results"
    folder.mkdir(exist_ok=True)
    part = "" if plan.share == 1 else f"-{plan.share:g}"
    file = folder / f"distillation{part}-{time.strftime('%Y-%m-%d')}.json"
    file.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print(table(results))


if __name__ == "__main__":
    main()
