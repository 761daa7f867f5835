"""Training from the first byte of data: the same thing from Python and from the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Unpack

from pellucid import config
from pellucid.checkpoints import write_text
from pellucid.config import encode, run_to_toml
from pellucid.counting import MemoryEstimate
from pellucid.data import PreparedData
from pellucid.free_memory import forcing
from pellucid.json_text import json_text
from pellucid.model import Transformer
from pellucid.parallel import World, joined
from pellucid.runs.build import build_job, build_model, with_classes, with_vocabulary
from pellucid.runs.follow import (
    announce_run,
    check_alike,
    find_shared_folder,
    follow,
    led_reward,
    share_folder,
)
from pellucid.runs.memory_budget import check_beginning, check_training
from pellucid.runs.observe import add_display, explain_memory_errors, observe_job
from pellucid.runs.parts import Inject, find_parts
from pellucid.runs.plan import (
    StepSeconds,
    expect_seconds,
    measure_step,
    plan_run,
    try_compiler,
    with_step_count,
)
from pellucid.runs.prepare import Ready, ready_data
from pellucid.runs.prepare_text import data_file_hashes
from pellucid.runs.resolve_config import RunChoices, resolve_config
from pellucid.runs.sample_prompt import with_sentence
from pellucid.runs.shard import check_division
from pellucid.runs.summary import summarise
from pellucid.saved_runs.folder import RunFolder, preparing, refuse_taken
from pellucid.saved_runs.initial_weights import copy_start
from pellucid.saved_runs.load import Run, load
from pellucid.saved_runs.machine import find_device
from pellucid.saved_runs.seal import as_texts
from pellucid.tasks import Reward, Task, TaskInputs, assemble_task, check_teacher
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
    out: str | Path | None = None,
    reward: str | None = None,
    parts: str | Inject | None = None,
    observers: Sequence[Observer] = (),
    watchers: Sequence[Watcher] = (),
    show: bool = True,
    interrupts: Interrupts | None = None,
    force: bool = False,
    **choices: Unpack[RunChoices],
) -> Run:
    """Train a model and return it: `pellucid train`, from Python.

    Args:
        paths: files, folders, patterns or "-"; by default the documentation of Python's standard
            library.
        out: the run's folder; by default a new one under `runs/`.
        reward: what judges answers, as "module:function" or as "RUN:CLASS" of a classifier.
        parts: a function, or "module:function", that replaces modules of the model by your own.
        observers: functions that are called with every event.
        watchers: functions that also look into the model, such as `pellucid.vitals.watcher()`.
        show: show progress on standard output.
        interrupts: lets an observer stop the run as Ctrl-C does: `interrupts.asked = True`.
        force: train even if pellucid expects to need more memory than is free.
        **choices: the config, as `pellucid.runs.resolve_config` documents it: `objective`, `start`,
            `teacher`, `lora`, `field`, `columns`, `preset`, `config_file`, one of `steps`,
            `tokens`, `minutes` and `epochs`, `seed`, `device`, `settings`.

    Raises:
        PellucidError: bad input, named; `Interrupted` and `NonFiniteError` if the run stops early
            (its state is saved).
        TypeError: a choice that does not exist.
    """
    run = resolve_config(paths, **choices)
    file = choices.get("config_file")
    name = choices.get("objective") or choices.get("preset") or "nano"
    return train_config(
        run,
        name=name if file is None else Path(file).stem,
        out=out,
        reward=reward,
        parts=parts,
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
    parts: str | Inject | None = None,
    observers: Sequence[Observer] = (),
    watchers: Sequence[Watcher] = (),
    show: bool = True,
    interrupts: Interrupts | None = None,
    force: bool = False,
) -> Run:
    """Train by a whole config, in a new folder. A signal ends it as `Interrupts` says.

    Args:
        run: the config.
        name: the beginning of the folder's name, unless you give `out`.
        out, reward, parts, observers, watchers, show, interrupts, force: as in `train`.

    Raises:
        PellucidError: as `train`.
    """
    with (
        forcing(force),
        joined(run.parallel) as world,
        interrupts or Interrupts() as active_interrupts,
    ):
        run.check_objective()
        check_division(run, world.size)
        check_alike(world, run)
        # refuse all that needs no data before any data is read
        watched = bool(watchers)
        process_bytes = check_beginning(run, watched=watched)
        rewards = find_reward(run.objective, reward)
        inject = find_parts(parts)
        check_teacher(run)
        if world.rank:
            find_shared_folder(world)
            return load(
                follow(world, active_interrupts, reward=rewards, inject=inject, watchers=watchers),
                force=True,
            )
        target = None if out is None else Path(out)
        if target is not None:
            refuse_taken(target)
        with add_display(show, observers) as all_observers:
            seed_step(run.seed, 0)
            notify = partial(_announce, all_observers)
            ready = ready_data(run, notify, partial(notify, fleeting=True))
            run = with_classes(with_vocabulary(run, ready.tokenizer), ready.classes)
            with explain_memory_errors(run):
                with preparing(target, name=name) as (folder, work):
                    share_folder(world, work.path)
                    data = ready.fill(work.text)
                    memory = check_training(run, data, process=process_bytes, watched=watched)
                    prepared = _prepare(
                        run,
                        work,
                        ready,
                        data,
                        led_reward(world, rewards),
                        inject,
                        notify,
                        world,
                    )
                with folder.locked():
                    announce_run(world, folder)
                    job = build_job(
                        prepared.run, prepared.plan, folder, prepared.model, prepared.task, world
                    )
                    events = _first_events(prepared, folder, job, memory)
                    observe_job(
                        job, Progress(), folder, events, all_observers, active_interrupts, watchers
                    )
    return load(folder.path, force=True)  # the training's estimate covers it


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Parts:
    """The parts of a prepared run; `compiler` is the reason why its model is not compiled."""

    run: config.Run
    plan: config.Plan
    model: Transformer
    task: Task
    seconds: StepSeconds | None
    compiler: str | None
    held_out_tokens: int


def _prepare(
    run: config.Run,
    work: RunFolder,
    ready: Ready,
    data: PreparedData,
    reward: Reward | None,
    inject: Inject | None,
    notify: Callable[[str], None],
    world: World,
) -> _Parts:
    """Fill the folder that becomes the run's, and build everything that the loop needs."""
    run = with_sentence(run, data, ready.tokenizer)
    ready.tokenizer.save(work.tokenizer)
    if run.start is not None:
        notify(f"taking the weights of {run.start}")
        copy_start(Path(run.start), work)
    notify("building the model, and timing a step")
    device = find_device(run.training.device)
    compiler = try_compiler(run.training, device)
    plan = plan_run(run, device, compiler=compiler, ranks=world.size)
    model = build_model(run, plan, work, world, inject)
    task = assemble_task(
        TaskInputs(
            run=run, folder=work, model=model, tokenizer=ready.tokenizer, data=data, reward=reward
        )
    )
    # no rank alone has the weights that ranks share, nor rewards that it gives to all of them
    is_shared = world.is_sharded or (reward is not None and world.size > 1)
    seconds = None if is_shared else measure_step(run, plan, model, task)
    plan = with_step_count(plan, run.training, task, seconds)
    write_text(work.plan, json_text(encode(plan), indent=1))
    write_text(work.data_files, json_text(data_file_hashes(run.text), indent=1))
    # last: a folder with a config is a run that can be resumed
    write_text(work.config, run_to_toml(run))
    return _Parts(
        run=run,
        plan=plan,
        model=model,
        task=task,
        seconds=seconds,
        compiler=compiler,
        held_out_tokens=_count_held_out_tokens(data),
    )


def _first_events(
    parts: _Parts, folder: RunFolder, job: Job, memory: MemoryEstimate
) -> list[Event]:
    """The start of the run, and one example as it will be trained."""
    run, plan, task = parts.run, parts.plan, parts.task
    expected = expect_seconds(
        run.training,
        plan,
        parts.seconds,
        step_tokens=run.training.batch_size * task.tokens_per_row,
        held_out_tokens=parts.held_out_tokens,
    )
    started = Started(
        step=0,
        total_steps=plan.total_steps,
        name=folder.path.name,
        guessing_nats=task.guessing_nats,
        unit=task.unit,
        facts=tuple(summarise(run, plan, folder, task, expected, parts.compiler, job, memory)),
        folder=str(folder.path),
        sealed=as_texts(run, plan),
    )
    return [started] if task.example is None else [started, task.example]


def _announce(observers: Sequence[Observer], phase: str, *, fleeting: bool = False) -> None:
    for observer in observers:
        observer(Preparing(what=phase, fleeting=fleeting))


def _count_held_out_tokens(data: PreparedData) -> int:
    if data.is_text:
        return len(data.held_out.tokens)
    return int(sum(column.lengths.sum() for column in data.held_out.columns.values()))
