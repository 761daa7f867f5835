"""The recipe of docs/recipes/distillation.md, in seconds: the same code on a little text."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

from pellucid.counting import parameter_count
from pellucid.runs.resolve_config import resolve_config
from support.tiny import TEXT

ROOT = Path(__file__).parents[2]
RECIPES = ROOT / "benchmarks/recipes"
#: Models that a second trains; the tokenizer stays what the recipe says, only smaller.
SMALL = (
    "model.context_length=16",
    "training.batch_size=4",
    "training.precision=float32",
    "text.held_out=0.2",
)


def test_the_recipe_trains_a_teacher_and_students_both_ways_and_can_be_stopped(
    tmp_path: Path,
) -> None:
    recipe: dict[str, Any] = runpy.run_path(str(RECIPES / "distillation.py"))
    text = tmp_path / "input.txt"
    text.write_text(TEXT * 3, encoding="utf-8")
    plan = recipe["Plan"](
        teacher_steps=12,
        student_steps=4,
        rates=(1.0,),
        seeds=(1, 2),
        teacher=(*SMALL, "text.tokenizer.vocab_size=270", "model.d_model=32"),
        student=(*SMALL, "model.d_model=16", "model.decoder.attention.d_head=8"),
    )
    results = recipe["compare"](text, tmp_path / "out", plan)
    assert recipe["table"](results).count("\n") == 2
    teacher, students = results["teacher"], results["students"]
    assert set(students) == {"from scratch", "distilled"}
    for student in students.values():
        assert [run["seed"] for run in student["runs"]] == [1, 2]
        # an equal budget of the same text, in the same tokens
        assert {run["tokens"] for run in student["runs"]} == {4 * 4 * 16}
        assert all(run["parameters"] < teacher["parameters"] for run in student["runs"])
        assert student["deviation"] > 0
    # both ways start from the same weights, and see the same tokens
    from_scratch, distilled = (
        tmp_path / "out" / f"{method}-1-1-1" for method in ("from-scratch", "distilled")
    )
    assert (from_scratch / "text/train.npy").read_bytes() == (
        distilled / "text/train.npy"
    ).read_bytes()
    # finished trainings are not repeated
    (tmp_path / "out" / "distilled-1-1-2.json").write_text(json.dumps({"loss_nats": 1.5}))
    second_result = recipe["compare"](text, tmp_path / "out", plan)["students"]["distilled"]
    assert second_result["runs"][1]["loss_nats"] == 1.5


def test_the_student_of_the_recipe_has_about_a_quarter_of_the_teachers_weights() -> None:
    sizes: dict[str, int] = {}
    for name in ("teacher", "student"):
        run = resolve_config(
            config_file=RECIPES / f"distillation-{name}.toml", settings=["model.vocab_size=512"]
        )
        sizes[name] = parameter_count(run.model)
    assert 3.5 < sizes["teacher"] / sizes["student"] < 4.5
