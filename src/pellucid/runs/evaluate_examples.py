"""How well a run does on examples: its own that were held out, or rows of the same kind.

Comes in: a run, and paths or none. Goes out: the loss and measures, classes, texts it writes and
what they are worth. It does not know which objective it is: a task does.
"""

from __future__ import annotations

import tempfile
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from pellucid import config
from pellucid.data import Examples, StoredExamples, assemble_template
from pellucid.data.shards import Data
from pellucid.errors import ConfigError, RunError
from pellucid.evaluation.metrics import Classified, need_sacrebleu, text_measures
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

#: More held-out text than there is: the most that a config may say.
_NO_LIMIT = 10**15


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsEvaluation:
    """What came out over `examples` of them.

    `said` tells which columns were read, and what was dropped and cut. `classified` is there where
    the run names classes. `written` and `compared`, BLEU, chrF and exact match, are there where
    they were asked for.
    """

    held_out: HeldOut
    examples: int
    said: tuple[str, ...]
    classified: Classified | None = None
    written: tuple[GeneratedText, ...] = ()
    compared: Mapping[str, float] | None = None


def learns_from_rows(run: Run) -> bool:
    """Whether a run's data are rows, and no text end to end."""
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
    """How a run does on rows of the kind it learnt from; without paths, on its held-out examples.

    Args:
        columns: which column of a row holds what; those of the run by default.
        reward: what answers are worth, where that is what the run learnt from.
        limit: so many examples at most, taken from all over.
        beams: also let it write, by this search, and compare that with what was to be written.
        force: read them even if more memory is expected to be needed than is free.

    Raises:
        TextError: the rows cannot be read, or none is left.
        ConfigError: a choice that this run has no use for.
        RunError: the run's own examples are not there; or sacrebleu is not.
        NonFiniteError: the loss is not finite.
    """
    if limit is not None and limit < 1:
        raise ConfigError(f"--limit must be at least 1, was {limit}")
    rewards = find_reward(run.config.objective, reward)
    with _examples(run, paths, tuple(columns)) as (data, reading_notes):
        assert isinstance(data, StoredExamples)
        side = data.held_out if limit is None else data.held_out.spread(limit)
        check_examples(run, side, beams, force=force)
        task = _task(run, data, rewards)
        return _evaluated(run, task, side, reading_notes, beams)


@contextmanager
def task_on(run: Run, paths: Sequence[str]) -> Generator[Task]:
    """The task of a run, on rows of other files: its batches are made as in training.

    Raises:
        TextError: the rows cannot be read, or none is left.
    """
    with _examples(run, paths, ()) as (data, _):
        yield _task(run, data, None)


def evaluate_held_out(run: Run, *, reward: str | None = None, force: bool = False) -> HeldOut:
    """How a run of any objective does on all that it kept out of training.

    With `force` it is read even if more memory is expected to be needed than is free.

    Raises:
        RunError: its data are not there.
    """
    if learns_from_rows(run):
        return evaluate_rows(run, reward=reward, force=force).held_out
    check_windows(run, force=force)
    whole = replace(run.config, training=replace(run.config.training, evaluate_tokens=_NO_LIMIT))
    rewards = find_reward(run.config.objective, reward)
    return _task(replace(run, config=whole), _open_own_data(run), rewards).evaluate("float32")


def _evaluated(
    run: Run, task: Task, side: Examples, reading_notes: tuple[str, ...], beams: Beams | None
) -> RowsEvaluation:
    assert task.evaluate_examples is not None  # every objective that learns from rows has one
    if beams is not None and task.generate is None:
        raise ConfigError(
            f"objective {type(run.config.objective).__name__} has no texts to compare with what is "
            "written: leave --write out"
        )
    if beams is not None:
        need_sacrebleu()
    written = [] if beams is None or task.generate is None else task.generate(side, beams)
    compared = None
    if beams is not None:
        compared = text_measures(
            [output.text for output in written], [output.references for output in written]
        )
    held_out = task.evaluate_examples(side, "float32")
    finite(torch.tensor(held_out.loss_nats), "the losses of the examples")
    return RowsEvaluation(
        held_out=held_out,
        examples=len(side),
        said=reading_notes,
        classified=None if task.measure_classes is None else task.measure_classes(side, "float32"),
        written=tuple(written),
        compared=compared,
    )


def _task(run: Run, data: Data, reward: Reward | None) -> Task:
    run.model.eval()
    return assemble_task(
        TaskInputs(
            run=run.config,
            folder=RunFolder(run.folder),
            model=run.model,
            tokenizer=run.tokenizer,
            data=data,
            reward=reward,
        )
    )


def _open_own_data(run: Run) -> Data:
    """The data that a run keeps in its folder."""
    if is_published(run.folder):
        raise RunError(
            f"{run.folder} is a published model, and has no held-out data of its own: name files "
            "to evaluate it on"
        )
    return open_data(RunFolder(run.folder), run.config)


@contextmanager
def _examples(
    run: Run, paths: Sequence[str], columns: tuple[str, ...]
) -> Generator[tuple[Data, tuple[str, ...]]]:
    """The examples, and what there is to say of them."""
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


def _encoded(run: Run, corpus: config.Rows, folder: Path) -> tuple[Data, tuple[str, ...]]:
    if isinstance(corpus, config.Conversations | config.Preferences | config.Prompts):
        corpus = replace(corpus, template=None)  # the one that the run keeps
    template = assemble_template(corpus, run.folder)
    data = encode_examples(run.config, corpus, run.tokenizer, template, folder)
    return data, (*data.facts.census["said"], *data.facts.census["lines"])
