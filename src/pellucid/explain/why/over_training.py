"""When this word came to be: the same two words at each checkpoint of a run, part by part."""

from __future__ import annotations

from dataclasses import dataclass

from pellucid import runs
from pellucid.errors import PellucidError
from pellucid.explain.api import trace
from pellucid.explain.trace_types import Trace
from pellucid.explain.why.attribution import Attribution
from pellucid.runs import Run, RunFolder
from pellucid.saved_runs.folder import is_published

#: Parts that are followed: the largest at any checkpoint.
_FOLLOWED = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """The difference of two logits and the shares of the largest parts, by checkpoint.

    `shares[part]` has a number for each of `steps`. `problems` names checkpoints that could not be
    read.
    """

    names: tuple[str, str]
    steps: tuple[int, ...]
    differences: tuple[float, ...]
    probabilities: tuple[tuple[float, float], ...]
    shares: dict[str, tuple[float, ...]]
    problems: tuple[str, ...]


def follow(run: Run, trace_now: Trace, attribution: Attribution) -> Course:
    """Ask the same question at each checkpoint of a run.

    Args:
        run: the run.
        attribution: the answer at the end: its sentence, its words and its token.

    Raises:
        PellucidError: the run keeps fewer than two checkpoints; says how to keep more.
    """
    shelf = RunFolder(run.folder).shelf
    steps = [] if is_published(run.folder) else shelf.steps()
    if len(steps) < 2:
        raise PellucidError(
            f"{run.folder} keeps {len(steps)} checkpoints, and a course needs two or more: train "
            "with --set training.checkpoint_every=N --set training.keep_checkpoints=M"
        )
    sentence, rivals = trace_now.sentence, attribution.rivals
    answers: dict[int, Attribution] = {}
    problems: list[str] = []
    for step in steps:
        try:
            checkpoint = runs.load(shelf.path(step))
        except PellucidError as error:
            problems.append(str(error))
            continue
        traced = trace(checkpoint, ids=sentence.ids, source_ids=sentence.source_ids)
        words = rivals.names if rivals.token is None else rivals.ids
        token = -1 if rivals.token is None else rivals.token
        answers[step] = traced.why(*words, token=token)
    shares = {step: {part.name: part.share for part in a.parts} for step, a in answers.items()}
    names = dict.fromkeys(name for by_name in shares.values() for name in by_name)
    ranked = sorted(
        names, key=lambda name: -max(abs(by_name.get(name, 0.0)) for by_name in shares.values())
    )
    return Course(
        names=rivals.names,
        steps=tuple(answers),
        differences=tuple(answer.rivals.difference for answer in answers.values()),
        probabilities=tuple(answer.rivals.probabilities for answer in answers.values()),
        shares={
            name: tuple(by_name.get(name, 0.0) for by_name in shares.values())
            for name in ranked[:_FOLLOWED]
        },
        problems=tuple(problems),
    )
