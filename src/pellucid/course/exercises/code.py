"""Grade code: run it in a child process on several inputs, and compare with the equation."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from pellucid import children
from pellucid.course.exercises.leaves import agrees, operand_text, short_text
from pellucid.course.exercises.mistakes import operand_note, recognise
from pellucid.course.exercises.types import Exercise, Verdict, evaluate
from pellucid.errors import PellucidError
from pellucid.json_text import json_text
from pellucid.reader import parse_json_table

#: Inputs that code is run on, and how long it may take for all of them.
N_INPUTS, SECONDS = 4, 20.0
_RUNNER = Path(__file__).with_name("runner.py")
#: Characters of code, and of what it gives.
_LONGEST = 50_000


def grade_code(exercise: Exercise, code: str) -> Verdict:
    """The verdict on code that defines a function with the name and parameters of the equation.

    Raises:
        PellucidError: the code is too long.
    """
    if len(code) > _LONGEST:
        raise PellucidError(
            f"exercise {exercise.id}: the code has {len(code):,} characters; at most {_LONGEST:,} "
            "are read"
        )
    name = str(exercise.equation)
    further_operands = exercise.more_operands
    cases = [exercise.operands]
    cases += (
        [further_operands(place) for place in range(1, N_INPUTS)]
        if further_operands is not None
        else []
    )
    outcome = run_code(code, name, cases)
    if "error" in outcome:
        return Verdict(accepted=False, explanation=str(outcome["error"]))
    for operands, result in zip(cases, outcome["results"], strict=True):
        if not agrees(result, evaluate(name, operands)):
            return _wrong(exercise, operands, result)
    return Verdict(
        accepted=True, explanation=f"right: your code equals {name} on {len(cases)} inputs"
    )


def _wrong(exercise: Exercise, operands: dict[str, Any], result: Any) -> Verdict:
    case = replace(exercise, operands=operands)
    mistake = recognise(case, result)
    outcome_text = f"for {operand_text(operands)} your code gives {short_text(result)[:200]}"
    if mistake is None:
        first = next(iter(operands), None)
        right = short_text(case.right)[:200]
        return Verdict(
            accepted=False, explanation=f"{outcome_text}; right is {right}", operand=first
        )
    note = operand_note(case, mistake.operand)
    text = "; ".join(part for part in (outcome_text, mistake.text, note) if part)
    return Verdict(accepted=False, explanation=text, operand=mistake.operand)


def run_code(code: str, name: str, cases: list[dict[str, Any]]) -> dict[str, Any]:
    """What a function of the code gives in each case, or the error in words.

    Args:
        code: Python source; it may use NumPy as `np`, and `math`.
        name: the function.
        cases: its arguments by name; lists become NumPy arrays.
    """
    child = children.start(children.python_file(_RUNNER))
    task = json_text({"code": code, "name": name, "cases": cases}).encode()
    try:
        output, _ = child.communicate(task, timeout=SECONDS)
    except children.ChildError:
        child.kill()
        child.communicate()
        return {"error": f"your code did not end within {SECONDS:.0f} seconds"}
    if child.returncode or not output:
        return {"error": "the process of your code ended without a result"}
    return parse_json_table(output.decode(), "the result of your code", lenient=True)
