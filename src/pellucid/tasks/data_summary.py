"""What there is to say of examples before they are learnt from.

Comes in: prepared examples. Goes out: lines. It does not know their form.
"""

from __future__ import annotations

from collections.abc import Iterator

from pellucid import config
from pellucid.tasks.task import Fact, TaskInputs


def facts_of_examples(given: TaskInputs) -> tuple[Fact, ...]:
    """Which columns were read, how many examples, what is predicted of them, what was left out."""
    return tuple(_facts(given))


def _facts(task_inputs: TaskInputs) -> Iterator[Fact]:
    data, corpus = task_inputs.examples, task_inputs.run.text.corpus
    census = data.facts.census
    yield "data", f"{type(corpus).__name__}; {'; '.join(census['said'])}"
    for line in census["lines"]:
        name, _, detail = line.partition(" ")
        yield (name, detail) if name in ("dropped", "truncated") else ("rows", line)
    examples = len(data.train) + len(data.held_out)
    share = len(data.held_out) / examples
    yield "held out", f"{len(data.held_out):,} of {examples:,} examples ({share:.1%})"
    if task_inputs.run.start is not None and not isinstance(task_inputs.run.trained, config.LoRA):
        yield "from", task_inputs.run.start
