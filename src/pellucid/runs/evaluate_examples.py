"""Evaluating a run on examples: its own held-out ones, or rows of the same kind."""

from __future__ import annotations

import tempfile
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from pellucid import config
from pellucid.data import Examples, PreparedData, assemble_template
from pellucid.errors import ConfigError, RunError
from pellucid.evaluation.metrics import Classified, sacrebleu_library, text_measures
from pellucid.generation import Beams, finite
from pellucid.runs.prepare import open_data
from pellucid.runs.prepare_examples import encode_examples
from pellucid.runs.resolve_config import with_columns
from pellucid.saved_runs.folder import RunFolder, is_published
from pellucid.saved_runs.inference_memory import check_examples, check_windows
from pellucid.saved_runs.load import Run
from pellucid.tasks import GeneratedText, Reward, Task, TaskInputs, assemble_task
from pellucid.tasks.rewards import find_reward
from pellucid.training import HeldOut

#: More held-out text than any run has.
_NO_LIMIT = 10**15


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsEvaluation:
    """The evaluation of a run on examples.

    Attributes:
        held_out: the loss and the measures of the objective.
        examples: how many examples.
        notes: the columns, and how many rows were dropped and cut.
        classified: the measures of a classifier.
        generated: the generated texts, if you asked for them.
        compared: BLEU, chrF and exact match of the generated texts.
    """

    held_out: HeldOut
    examples: int
    notes: tuple[str, ...]
    classified: Classified | None = None
    generated: tuple[GeneratedText, ...] = ()
    compared: Mapping[str, float] | None = None


def learns_from_rows(run: Run) -> bool:
    """Whether the data of a run are rows, not documents."""
    return isinstance(run.config.text.corpus, config.Rows)


def evaluate_rows(
    run: Run,
    paths: Sequence[str] = (),
    *,
    columns: Iterable[str] = (),
    reward: str | None = None,
    limit: int | None = None,
    beams: Beams | None = None,
    force: bool = False,
) -> RowsEvaluation:
    """Evaluate a run on rows of the kind that it learnt from.

    Args:
        run: the run.
        paths: files with rows; by default the run's own held-out examples.
        columns: which column of a row holds what; by default as in the run.
        reward: what judges answers, if the run learnt from a reward.
        limit: the most examples, taken from all over.
        beams: also generate texts by this search, and compare them with the expected ones.
        force: read them even if pellucid expects to need more memory than is free.

    Raises:
        TextError: the rows cannot be read, or no row is left.
        ConfigError: a choice that does not fit this run.
        RunError: the run's own examples are missing, or sacrebleu is not installed.
        NonFiniteError: the loss is not finite.
    """
    if limit is not None and limit < 1:
        raise ConfigError(f"--limit must be at least 1, was {limit}")
    rewards = find_reward(run.config.objective, reward)
    with _examples(run, paths, tuple(columns)) as (data, reading_notes):
        side = data.held_out if limit is None else data.held_out.spread(limit)
        check_examples(run, side, beams, force=force)
        task = _task(run, data, rewards)
        return _evaluated(run, task, side, reading_notes, beams)


@contextmanager
def task_on(
    run: Run,
    paths: Sequence[str],
    *,
    columns: tuple[str, ...] = (),
    reward: Reward | None = None,
    answer: str | None = None,
) -> Generator[Task]:
    """The task of a run, on rows of other files: its batches are made as in training.

    Args:
        run: the run.
        paths: files with rows.
        columns: which column of a row holds what; by default as in the run.
        reward: what judges answers, if the run learnt from a reward.
        answer: takes the place of the first answer that such a run samples.

    Raises:
        TextError: the rows cannot be read, or no row is left.
    """
    with _examples(run, paths, columns) as (data, _):
        yield _task(run, data, reward, answer)


def evaluate_held_out(run: Run, *, reward: str | None = None, force: bool = False) -> HeldOut:
    """Evaluate a run of any objective on all of its held-out data.

    Args:
        run: the run.
        reward: what judges answers, if the run learnt from a reward.
        force: read them even if pellucid expects to need more memory than is free.

    Raises:
        RunError: the data are missing.
    """
    if learns_from_rows(run):
        return evaluate_rows(run, reward=reward, force=force).held_out
    check_windows(run, force=force)
    all_tokens = replace(
        run.config, training=replace(run.config.training, evaluate_tokens=_NO_LIMIT)
    )
    rewards = find_reward(run.config.objective, reward)
    return _task(replace(run, config=all_tokens), _open_own_data(run), rewards).evaluate("float32")


def _evaluated(
    run: Run, task: Task, side: Examples, reading_notes: tuple[str, ...], beams: Beams | None
) -> RowsEvaluation:
    assert task.evaluate_examples is not None  # every objective that learns from rows has one
    if beams is not None and task.generate is None:
        raise ConfigError(
            f"objective {type(run.config.objective).__name__} has no expected texts to compare "
            "with: leave --write out"
        )
    if beams is not None:
        sacrebleu_library()
    generated = [] if beams is None or task.generate is None else task.generate(side, beams)
    compared = None
    if beams is not None:
        compared = text_measures(
            [output.text for output in generated], [output.references for output in generated]
        )
    held_out = task.evaluate_examples(side, "float32")
    finite(torch.tensor(held_out.loss_nats), "the losses of the examples")
    return RowsEvaluation(
        held_out=held_out,
        examples=len(side),
        notes=reading_notes,
        classified=None if task.measure_classes is None else task.measure_classes(side, "float32"),
        generated=tuple(generated),
        compared=compared,
    )


def _task(run: Run, data: PreparedData, reward: Reward | None, answer: str | None = None) -> Task:
    run.model.eval()
    return assemble_task(
        TaskInputs(
            run=run.config,
            folder=RunFolder(run.folder),
            model=run.model,
            tokenizer=run.require_tokenizer(),
            data=data,
            reward=reward,
            answer=answer,
        )
    )


def _open_own_data(run: Run) -> PreparedData:
    """The data that a run keeps in its folder."""
    if is_published(run.folder):
        raise RunError(
            f"{run.folder} is a published model, and has no held-out data of its own: name files "
            "to evaluate it on"
        )
    return open_data(RunFolder(run.folder), run.config.text.corpus)


@contextmanager
def _examples(
    run: Run, paths: Sequence[str], columns: tuple[str, ...]
) -> Generator[tuple[PreparedData, tuple[str, ...]]]:
    """The examples, and notes about them."""
    if not paths:
        if columns:
            raise ConfigError(
                f"--columns {','.join(columns)}: the run's own examples are encoded already; name "
                "files too, or leave it out"
            )
        yield _open_own_data(run), ("the run's own held-out examples",)
        return
    corpus = run.config.text.corpus
    assert isinstance(corpus, config.Rows)
    corpus = with_columns(replace(corpus, paths=tuple(paths)), columns)
    with tempfile.TemporaryDirectory() as folder:
        yield _encoded(run, corpus, Path(folder) / "examples")


def _encoded(run: Run, corpus: config.Rows, folder: Path) -> tuple[PreparedData, tuple[str, ...]]:
    if isinstance(corpus, config.Conversations | config.Preferences | config.Prompts):
        corpus = replace(corpus, template=None)  # the one that the run keeps
    template = assemble_template(corpus, run.folder)
    data = encode_examples(run.config, corpus, run.require_tokenizer(), template, folder)
    return data, (*data.census["said"], *data.census["lines"])
