"""How long until another trainer's final loss, and how much lower at its time?

    python -m benchmarks.quality --nanogpt PATH --text input.txt
    python -m benchmarks.quality --train wiki.test.raw --held-out wiki.valid.raw
    python -m benchmarks.quality --tune

Two races, each where its texts are given. nanoGPT runs its documented CPU recipe for tiny
Shakespeare. Hugging Face's GPT-2 has the shape of a preset of ours and gets its token ids, its
learning rate and batch size picked from a grid on another text (`--tune`: the documentation in
Python's standard library). Then our presets run as they are, untouched but for `--minutes`, so that
the whole command takes a fifth of the peer's time and all of it. Neither text was used to choose
anything in the presets that race on it: `benchmarks.recipe_choices` has most of their choices, and
docs/recipes/quality.md the rest.

All models are measured alike: every token of the same held-out text after the first, in windows of
the model's own context that do not overlap, in bits per byte of the text. Our seconds are of whole
commands, preparing the text included; a peer's are of its training (nanoGPT's with its start).

Comes in: texts, and a checkout of nanoGPT. Goes out: tables, and dated JSON files under
benchmarks/results/. The packages `torch`, `pellucid` and (for the second race) `transformers`
belong to the Python that runs this.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.machine import header, write
from benchmarks.quality.nanogpt import cut, nanogpt
from benchmarks.quality.ours import Track, race
from benchmarks.quality.page import table
from benchmarks.quality.tuning import CHOSEN, RATES, newest_choice, one_training, tune

RESULTS = Path(__file__).parent.parent / "results"
#: The race of GPT-2 that has no preset, seconds or text in the name of its results.
PRESET = "small"
SECONDS = 100.0
TEXT = "wiki"


def main() -> None:
    parser = flags()
    arguments = checked(parser)
    with tempfile.TemporaryDirectory() as folder:
        for name, measure_race in runs(arguments, Path(folder)):
            results = header("benchmarks.quality", parser, arguments)
            results |= measure_race()
            results["load_after"] = os.getloadavg()[0]
            write(results, RESULTS, name)
            print(table(results) if "peer" in results else json.dumps(results, indent=1))


def runs(
    arguments: argparse.Namespace, scratch: Path
) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    """The requested races: a name of a file before the date, and how to make its content."""
    shape = "" if arguments.preset == PRESET else f"-{arguments.preset}"
    length = "" if arguments.seconds == SECONDS else f"-{arguments.seconds:g}s"
    if arguments.tune:
        seconds, threads = arguments.seconds, arguments.threads
        yield (
            f"quality-peer{shape}{length}",
            lambda: tune(arguments.preset, seconds, arguments.rates, scratch, threads),
        )
    if arguments.nanogpt is not None:
        yield "quality-nanogpt", lambda: against_nanogpt(arguments, scratch)
    if arguments.train is not None:
        text = arguments.train.name.partition(".")[0]
        suffix = "" if text == TEXT else f"-{text}"
        yield f"quality-gpt2{shape}{length}{suffix}", lambda: against_gpt2(arguments, scratch)


def flags() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.quality",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--nanogpt", type=Path, help="a checkout of nanoGPT")
    parser.add_argument("--text", type=Path, help="tiny Shakespeare, or another text")
    parser.add_argument("--train", type=Path, help="a text for the race against GPT-2")
    parser.add_argument("--held-out", type=Path, help="the held-out text of that race")
    parser.add_argument(
        "--tune", action="store_true", help="pick GPT-2's rate, batch, dropout and decay"
    )
    parser.add_argument(
        "--rates", type=float, nargs="+", default=list(RATES), help="where --tune begins"
    )
    parser.add_argument("--preset", default=PRESET, help="of the race against GPT-2")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of GPT-2's training")
    parser.add_argument("--shares", type=float, nargs="+", default=[0.2, 1], help="of their time")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5], help="of ours")
    parser.add_argument("--peer-seeds", type=int, nargs="+", default=[1], help="of GPT-2")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    return parser


def checked(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """The flags; refused if they describe half a race."""
    arguments = parser.parse_args()
    for first, second in (("nanogpt", "text"), ("train", "held_out")):
        if (getattr(arguments, first) is None) != (getattr(arguments, second) is None):
            parser.error(f"--{first} and --{second.replace('_', '-')} belong together")
    if not (arguments.nanogpt or arguments.train or arguments.tune):
        parser.error("nothing to do: give --nanogpt and --text, --train and --held-out, or --tune")
    return arguments


def against_nanogpt(arguments: argparse.Namespace, scratch: Path) -> dict[str, Any]:
    """`nano`, with its own tokens, and `nano-characters`, with nanoGPT's."""
    train, held_out = cut(arguments.text.resolve(), scratch)
    track = Track(train, held_out, scratch, arguments.threads)
    peer = nanogpt(
        arguments.nanogpt.resolve(), arguments.text.resolve(), held_out, scratch, arguments.threads
    )
    ready = {preset: track.start_up(preset)[0] for preset in ("nano", "nano-characters")}
    text = held_out.read_text(encoding="utf-8")
    return {
        "peer": {**peer, "losses": [peer["bits_per_byte"]]},
        "bytes_per_character": len(text.encode()) / len(text),
        **race(track, peer, ready, arguments.shares, arguments.seeds),
    }


def against_gpt2(arguments: argparse.Namespace, scratch: Path) -> dict[str, Any]:
    """One preset, and GPT-2 in its shape at the rate and batch size that `--tune` has picked."""
    choice = newest_choice(RESULTS, arguments.preset, arguments.seconds)
    track = Track(
        arguments.train.resolve(), arguments.held_out.resolve(), scratch, arguments.threads
    )
    start_up, run = track.start_up(arguments.preset)
    setup = {
        "run": str(run),
        "held_out": str(track.held_out),
        "seconds": arguments.seconds,
        **{key: choice[key] for key in CHOSEN},
    }
    trainings = [one_training(setup | {"seed": s}, track.threads) for s in arguments.peer_seeds]
    losses = [training["bits_per_byte"] for training in trainings]
    peer = {
        "name": "GPT-2",
        "seconds": arguments.seconds,
        "bits_per_byte": math.fsum(losses) / len(losses),
        "losses": losses,
        **choice,
        **{key: trainings[0][key] for key in ("parameters", "our_parameters", "transformers")},
        "updates": [training["updates"] for training in trainings],
    }
    return {
        "peer": peer,
        **race(track, peer, {arguments.preset: start_up}, arguments.shares, arguments.seeds),
    }


if __name__ == "__main__":
    main()
