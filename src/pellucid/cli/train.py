"""`pellucid train`: from text to a model, or on from where a run stopped."""

from __future__ import annotations

import argparse
import shlex
import shutil
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pellucid.cli.output import add_json, print_json
from pellucid.errors import ConfigError, Interrupted

if TYPE_CHECKING:
    from pellucid.runs import Run
    from pellucid.training import Event, Observer


def add_to(verbs: Any) -> None:
    """The verb and its flags."""
    parser = verbs.add_parser(
        "train",
        help="train a model on text",
        description="Train a model on text files, tables (.jsonl, .json, .csv, .tsv, .parquet; .gz "
        "or .zst) or folders of them (or - for standard input). Without any, on the documentation "
        "in Python's standard library.",
    )
    parser.add_argument(
        "paths", nargs="*", metavar="PATH", help='files, folders, patterns as "data/**/*.md", or -'
    )
    parser.add_argument("--field", metavar="F", help="the field of a table that holds the text")
    parser.add_argument("--preset", metavar="NAME", help="where to start from (default: nano)")
    parser.add_argument("--config", metavar="FILE", help="TOML file that says what differs")
    parser.add_argument("--out", metavar="RUN", help="the run's folder (default: a new runs/...)")
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--steps", type=int, metavar="N", help="train for N updates")
    length.add_argument("--tokens", type=int, metavar="N", help="train on N tokens")
    length.add_argument("--minutes", type=float, metavar="N", help="train for about N minutes")
    parser.add_argument("--seed", type=int, metavar="S", help="of weights, order and dropout")
    parser.add_argument("--device", metavar="D", help="auto, cpu, cuda, cuda:1, mps")
    parser.add_argument("--resume", metavar="RUN", help="go on from a run's latest checkpoint")
    parser.add_argument(
        "--allow-drift",
        action="store_true",
        help="resume even where this machine cannot compute bit for bit as before",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="PATH=VALUE",
        help="any value of the config, such as model.decoder.n_layers=6",
    )
    parser.add_argument(
        "--observe",
        action="append",
        default=[],
        choices=("tensorboard", "wandb"),
        help="also write the run for this tool (an optional extra); may be given twice",
    )
    parser.add_argument(
        "--no-vitals",
        action="store_true",
        help="do not watch softmax, cross-entropy, KL, gradients and variance (2%% of the time)",
    )
    add_json(parser)
    parser.set_defaults(
        call=call, when_stopped="at once; nothing was saved since the last checkpoint"
    )


def call(arguments: argparse.Namespace) -> None:
    """Train or resume; then say what came of it and what can be done with it."""
    from pellucid import runs
    from pellucid.vitals import watcher

    result = _Result()
    if arguments.resume is not None:
        _refuse_with_resume(arguments)
    observers = [result, *_observers(arguments.observe)]
    watchers = [] if arguments.no_vitals else [watcher()]
    try:
        if arguments.resume is not None:
            run = runs.resume(
                arguments.resume,
                observers=observers,
                watchers=watchers,
                show=not arguments.json,
                allow_drift=arguments.allow_drift,
            )
        else:
            run = runs.train(
                arguments.paths,
                field=arguments.field,
                preset=arguments.preset or "nano",
                config_file=arguments.config,
                out=arguments.out,
                steps=arguments.steps,
                tokens=arguments.tokens,
                minutes=arguments.minutes,
                seed=arguments.seed,
                device=arguments.device,
                settings=arguments.set,
                observers=observers,
                watchers=watchers,
                show=not arguments.json,
            )
    except Interrupted as stop:
        raise Interrupted(f"{stop}; go on with: {result.resume_command}") from None
    if arguments.json:
        print_json(result.facts | {"run": str(run.folder), "checkpoint": str(run.checkpoint)})
    else:
        _say_what_next(run, result)


def _refuse_with_resume(arguments: argparse.Namespace) -> None:
    names = ("preset", "config", "out", "steps", "tokens", "minutes", "seed", "device", "field")
    given = [f"--{name}" for name in names if getattr(arguments, name) is not None]
    given += ["--set"] if arguments.set else []
    given += ["PATH"] if arguments.paths else []
    if given:
        raise ConfigError(
            f"--resume takes everything from the run, so {', '.join(given)} cannot be given with "
            "it: leave it out, or start a new run"
        )


def _observers(names: Sequence[str]) -> list[Observer]:
    """Made before anything else, so that a missing package is said at once."""
    if not names:
        return []
    from pellucid.observers import observer_for

    return [observer_for(name) for name in dict.fromkeys(names)]


class _Result:
    """An observer that keeps the last word on each thing."""

    def __init__(self) -> None:
        self.facts: dict[str, Any] = {}
        self.resume_command = ""
        self.best = ""

    def __call__(self, event: Event) -> None:
        from pellucid.training import CheckpointSaved, Evaluated, Logged, Sampled

        self.facts["step"] = event.step
        match event:
            case Logged():
                self.facts |= {"train_loss_nats": event.losses[-1], "tokens": event.tokens}
            case Evaluated():
                self.facts |= {
                    "held_out_loss_nats": event.loss_nats,
                    "held_out_bits_per_byte": event.bits_per_byte,
                }
            case Sampled():
                self.facts |= {"sentence": event.sentence, "continuation": event.continuation}
            case CheckpointSaved():
                self.best = event.path if event.best else self.best
                folder = event.path.replace("\\", "/").rsplit("/checkpoints/", 1)[0]
                self.resume_command = f"pellucid train --resume {shlex.quote(folder)}"
            case _:
                pass


def _say_what_next(run: Run, result: _Result) -> None:
    from pellucid import runs
    from pellucid.generation import Sampling

    sentence = run.config.training.sentence
    sampling = Sampling(max_new_tokens=160, temperature=0.6, top_k=50, seed=run.config.seed)
    (sample,) = runs.generate(run, sentence, sampling)
    bits = result.facts.get("held_out_bits_per_byte")
    held_out = "" if bits is None else f": {bits:.4f} bits per byte on held-out text"
    folder = shlex.quote(str(run.folder))
    lines = [
        "",
        f"a sample, at temperature 0.6{held_out}",
        "",
        *(f"    {line}" for line in _lines_of(sentence + sample.text)),
        "",
        "what next",
        f"    pellucid generate {folder} --prompt {shlex.quote(sentence)}",
        f"    pellucid explain {folder} {shlex.quote(sentence)}",
        f"    pellucid evaluate {folder} PATH",
        f"    pellucid train --resume {folder}",
        f"    pellucid verify-resume {folder}",
    ]
    if result.best not in ("", str(run.checkpoint)):
        lines += [
            "",
            "the held-out loss was lowest earlier: beyond that, the text was learnt by heart;",
            f"the best model is kept: pellucid generate {shlex.quote(result.best)}",
        ]
    print("\n".join(lines))


def _lines_of(sample: str) -> list[str]:
    """The lines of a text, folded between words on a terminal."""
    from pellucid.display import folded, visible

    lines = [visible(line) for line in sample.splitlines()]
    if not sys.stdout.isatty():
        return lines
    columns = max(shutil.get_terminal_size().columns - 4, 20)
    return [part for line in lines for part in folded(line, columns) or [""]]
