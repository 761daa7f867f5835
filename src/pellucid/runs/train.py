"""Training from the first byte of text: the same thing from Python and from the command line.

Comes in: a config. Goes out: a trained `Run`. It does not know how progress is shown.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from pellucid import config
from pellucid.checkpoints import write_text
from pellucid.config import encode, run_to_toml
from pellucid.runs.build import build_job, build_model, build_order, resolve, with_vocabulary
from pellucid.runs.choose import choose
from pellucid.runs.facts import facts_of
from pellucid.runs.folder import RunFolder, chosen_folder, new_folder, refuse_taken
from pellucid.runs.follow import follow, memory_refused, shown_to
from pellucid.runs.load import Run, load
from pellucid.runs.pace import Say
from pellucid.runs.plan import find_device
from pellucid.runs.text import Fill, ready_text
from pellucid.text import Tokenizer
from pellucid.training import Observer, Preparing, Progress, Started, Watcher


def train(
    paths: Iterable[str | Path] = (),
    *,
    field: str | None = None,
    preset: str = "nano",
    config_file: str | Path | None = None,
    out: str | Path | None = None,
    steps: int | None = None,
    tokens: int | None = None,
    minutes: float | None = None,
    seed: int | None = None,
    device: str | None = None,
    settings: Iterable[str] = (),
    observers: Sequence[Observer] = (),
    watchers: Sequence[Watcher] = (),
    show: bool = True,
) -> Run:
    """Train a model on text and give it back: `pellucid train`, from Python.

    Args:
        paths: files, folders, patterns or "-"; none is the documentation in Python's standard
            library.
        field: what holds the text of a row in a table: JSON Lines, JSON, CSV, TSV, Parquet.
        preset: what everything is taken from that is not said otherwise.
        config_file: a TOML file that says what differs; its `base` wins over `preset`.
        out: the run's folder; a fresh one under `runs/` by default.
        steps, tokens, minutes: how long; at most one of them.
        settings: assignments such as "training.batch_size=16", laid over preset and file; the other
            arguments are laid over them.
        observers: functions called with every event.
        watchers: those who look into the model too, such as `pellucid.vitals.watcher()`.
        show: whether progress is shown on standard output.

    Raises:
        PellucidError: bad input, named; `Interrupted` and `NonFiniteError` when the run stops early
            (its state is saved).
    """
    run = choose(
        paths,
        field=field,
        preset=preset,
        config_file=config_file,
        steps=steps,
        tokens=tokens,
        minutes=minutes,
        seed=seed,
        device=device,
        settings=settings,
    )
    name = preset if config_file is None else Path(config_file).stem
    return train_config(run, name=name, out=out, observers=observers, watchers=watchers, show=show)


def train_config(
    run: config.Run,
    *,
    name: str,
    out: str | Path | None = None,
    observers: Sequence[Observer] = (),
    watchers: Sequence[Watcher] = (),
    show: bool = True,
) -> Run:
    """Train what a whole config describes, in a fresh folder."""
    # what can be refused at once is refused before anything is read
    run.check_objective()
    find_device(run.training.device)
    if out is not None:
        refuse_taken(Path(out))
    with shown_to(show, observers) as shown:

        def say(what: str) -> None:
            for observer in shown:
                observer(Preparing(what=what))

        def now(what: str) -> None:
            for observer in shown:
                observer(Preparing(what=what, fleeting=True))

        tokenizer, fill = ready_text(run.text, say, now)
        run = with_vocabulary(run, tokenizer)
        folder = new_folder(name) if out is None else chosen_folder(Path(out))
        with folder.locked(), memory_refused(run):
            _prepare_and_run(run, folder, fill, tokenizer, shown, watchers, say)
    return load(folder.path)


def _prepare_and_run(
    run: config.Run,
    folder: RunFolder,
    fill: Fill,
    tokenizer: Tokenizer,
    observers: Sequence[Observer],
    watchers: Sequence[Watcher],
    say: Say,
) -> None:
    with _given_up_on_error(folder):
        folder.begin()
        text = fill(folder.text)
        order = build_order(run, text)
        say("building the model, and timing a step")
        model, objective = build_model(run)
        tokenizer.save(folder.tokenizer)
        plan, seconds, problem = resolve(run, model, objective, order)
        write_text(folder.plan, json.dumps(encode(plan), indent=1))
        # last: a folder with a config is a run that can be resumed
        write_text(folder.config, run_to_toml(run))
        folder.prepared()
    job = build_job(
        run,
        plan,
        folder,
        model=model,
        objective=objective,
        order=order,
        tokenizer=tokenizer,
        text=text,
    )
    started = Started(
        step=0,
        total_steps=plan.total_steps,
        name=folder.path.name,
        guessing_nats=math.log(run.model.rows),
        facts=tuple(facts_of(run, plan, folder, text, tokenizer, seconds, problem, job)),
        folder=str(folder.path),
    )
    follow(job, Progress(), folder, started, observers, watchers=watchers)


@contextmanager
def _given_up_on_error(folder: RunFolder) -> Generator[None]:
    """Take a folder away again whose run could not even be prepared."""
    try:
        yield
    except BaseException:
        shutil.rmtree(folder.path, ignore_errors=True)
        if folder.path.parent == Path("runs"):
            with suppress(OSError):  # if there is nothing else in it
                folder.path.parent.rmdir()
        raise
