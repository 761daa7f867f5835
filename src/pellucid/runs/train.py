"""Training from the first byte of data: the same thing from Python and from the command line.

Comes in: a config. Goes out: a trained `Run`. It does not know how progress is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

from pellucid import config
from pellucid.checkpoints import write_text
from pellucid.config import encode, run_to_toml
from pellucid.counting import MemoryEstimate
from pellucid.data import PreparedText
from pellucid.free_memory import forcing
from pellucid.json_text import json_text
from pellucid.runs.build import build_job, build_model, resolve, with_classes, with_vocabulary
from pellucid.runs.memory_budget import check_beginning, check_training
from pellucid.runs.observe import follow, memory_refused, shown_to
from pellucid.runs.prepare import Data, Ready, ready_data
from pellucid.runs.resolve_config import Length, choose
from pellucid.runs.sample_prompt import with_sentence
from pellucid.runs.summary import facts_of
from pellucid.saved_runs.folder import RunFolder, preparing, refuse_taken
from pellucid.saved_runs.initial_weights import keep_start
from pellucid.saved_runs.load import Run, load
from pellucid.saved_runs.plan import expect_seconds, find_device
from pellucid.saved_runs.progress import Say
from pellucid.saved_runs.seal import as_texts
from pellucid.tasks import Reward, TaskInputs, assemble_task, check_teacher
from pellucid.tasks.rewards import find_reward
from pellucid.training import (
    Event,
    Interrupts,
    Job,
    Observer,
    Preparing,
    Progress,
    Started,
    Watcher,
    generators_kept,
    seed_step,
)


def train(
    paths: Iterable[str | Path] = (),
    *,
    objective: str | None = None,
    start: str | Path | None = None,
    teacher: str | Path | None = None,
    reward: str | None = None,
    lora: int | None = None,
    field: str | None = None,
    columns: Iterable[str] = (),
    preset: str | None = None,
    config_file: str | Path | None = None,
    out: str | Path | None = None,
    steps: int | None = None,
    tokens: int | None = None,
    minutes: float | None = None,
    epochs: float | None = None,
    seed: int | None = None,
    device: str | None = None,
    settings: Iterable[str] = (),
    observers: Sequence[Observer] = (),
    watchers: Sequence[Watcher] = (),
    show: bool = True,
    interrupts: Interrupts | None = None,
    force: bool = False,
) -> Run:
    """Train a model on data and give it back: `pellucid train`, from Python.

    Args:
        paths: files, folders, patterns or "-"; none is the documentation in Python's standard
            library.
        objective: what is learnt, by its short name ("sft", "mlm", ...); the preset's by default.
        start: a run or a published model to go on from: its weights, and its tokenizer.
        teacher: a run or a published model to distil from.
        reward: what answers are worth, as "module:function" or as a run of a classifier.
        lora: train adapters of this rank, and leave the weights as they are.
        field: what holds the text of a row in a table: JSON Lines, JSON, CSV, TSV, Parquet.
        columns: which column of a row holds what, such as "source=english".
        preset: what everything is taken from that is not said otherwise; the objective's by
            default.
        config_file: a TOML file that says what differs; its `base` wins over `preset`.
        out: the run's folder; a fresh one under `runs/` by default.
        steps, tokens, minutes, epochs: how long; at most one of them.
        settings: assignments such as "training.batch_size=16", laid over preset and file; the other
            arguments are laid over them.
        observers: functions called with every event.
        watchers: those who look into the model too, such as `pellucid.vitals.watcher()`.
        show: whether progress is shown on standard output.
        interrupts: what an observer may stop the run by, as Ctrl-C does: `interrupts.asked = True`.
        force: train even if more memory is expected to be needed than is free.

    Raises:
        PellucidError: bad input, named; `Interrupted` and `NonFiniteError` when the run stops early
            (its state is saved).
    """
    run = choose(
        paths,
        goal=objective,
        start=start,
        teacher=teacher,
        lora=lora,
        field=field,
        columns=columns,
        preset=preset,
        config_file=config_file,
        length=Length(steps=steps, tokens=tokens, minutes=minutes, epochs=epochs),
        seed=seed,
        device=device,
        settings=settings,
    )
    name = (objective or preset or "nano") if config_file is None else Path(config_file).stem
    return train_config(
        run,
        name=name,
        out=out,
        reward=reward,
        observers=observers,
        watchers=watchers,
        show=show,
        interrupts=interrupts,
        force=force,
    )


@generators_kept()
def train_config(
    run: config.Run,
    *,
    name: str,
    out: str | Path | None = None,
    reward: str | None = None,
    observers: Sequence[Observer] = (),
    watchers: Sequence[Watcher] = (),
    show: bool = True,
    interrupts: Interrupts | None = None,
    force: bool = False,
) -> Run:
    """Train what a whole config describes, in a fresh folder.

    From its first line on a signal ends it as `Interrupts` says. With `force` it begins even if
    more memory is expected to be needed than is free.
    """
    with forcing(force), interrupts or Interrupts() as active_interrupts:
        folder = _trained(run, name, out, reward, (observers, watchers, show), active_interrupts)
    return load(folder.path, force=True)  # the estimate of the training had it


def _trained(
    run: config.Run,
    name: str,
    out: str | Path | None,
    reward: str | None,
    seen_by: tuple[Sequence[Observer], Sequence[Watcher], bool],
    interrupts: Interrupts,
) -> RunFolder:
    observers, watchers, show = seen_by
    # what can be refused at once is refused before anything is read
    run.check_objective()
    process = check_beginning(run, watched=bool(watchers))
    rewards = find_reward(run.objective, reward)
    check_teacher(run)
    if out is not None:
        refuse_taken(Path(out))
    with shown_to(show, observers) as all_observers:
        seed_step(run.seed, 0)

        def say(phase: str) -> None:
            for observer in all_observers:
                observer(Preparing(what=phase))

        def say_progress(phase: str) -> None:
            for observer in all_observers:
                observer(Preparing(what=phase, fleeting=True))

        ready = ready_data(run, say, say_progress)
        run = with_classes(with_vocabulary(run, ready.tokenizer), ready.classes)
        fits = partial(check_training, process=process, watched=bool(watchers))
        with memory_refused(run):
            with preparing(None if out is None else Path(out), name=name) as (folder, work):
                begin = _prepare(run, work, ready, rewards, say, fits)
            with folder.locked():
                job, first = begin(folder)
                follow(job, Progress(), folder, first, all_observers, interrupts, watchers)
    return folder


def _prepare(
    run: config.Run,
    work: RunFolder,
    ready: Ready,
    reward: Reward | None,
    say: Say,
    fits: Callable[[config.Run, Data], MemoryEstimate],
) -> Callable[[RunFolder], tuple[Job, list[Event]]]:
    """Fill the folder that becomes the run's; what gives, there, the job and its first events."""
    data = ready.fill(work.text)
    memory = fits(run, data)
    run = with_sentence(run, data, ready.tokenizer)
    ready.tokenizer.save(work.tokenizer)
    if run.start is not None:
        say(f"taking the weights of {run.start}")
        keep_start(Path(run.start), work)
    say("building the model, and timing a step")
    model = build_model(run, work, find_device(run.training.device))
    task_inputs = TaskInputs(
        run=run, folder=work, model=model, tokenizer=ready.tokenizer, data=data, reward=reward
    )
    task = assemble_task(task_inputs)
    plan, seconds, problem = resolve(run, model, task)
    write_text(work.plan, json_text(encode(plan), indent=1))
    # last: a folder with a config is a run that can be resumed
    write_text(work.config, run_to_toml(run))

    def begin(folder: RunFolder) -> tuple[Job, list[Event]]:
        job = build_job(run, plan, folder, model, task)
        expected = expect_seconds(
            run.training,
            plan,
            update=seconds.update,
            reading=seconds.reading,
            step_tokens=run.training.batch_size * task.tokens_per_row,
            held_out=_held_out_tokens(data),
        )
        started = Started(
            step=0,
            total_steps=plan.total_steps,
            name=folder.path.name,
            guessing_nats=task.guessing_nats,
            unit=task.unit,
            facts=tuple(facts_of(run, plan, folder, task, expected, problem, job, memory)),
            folder=str(folder.path),
            sealed=as_texts(run, plan),
        )
        return job, [started] if task.example is None else [started, task.example]

    return begin


def _held_out_tokens(data: Data) -> int:
    if isinstance(data, PreparedText):
        return len(data.held_out.tokens)
    return int(sum(column.lengths.sum() for column in data.held_out.columns.values()))
