"""How far off the estimates of memory and time are that a training begins with.

    python -m benchmarks.budget --data FILE --steps 12

Each shape is trained in a fresh process with the allocator settings of the command line. Compared
are the peak of its resident memory (VmHWM) and `counting.peak_memory`, and the duration that was
foretold after the first `--after` updates and what the rest took. Memory does not depend on what
else the machine does; durations do, and are only worth reading from a quiet one.

Comes in: a text file. Goes out: `results/budget-DATE.json`, and lines. It does not know how either
is estimated.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.machine import header, write
from benchmarks.worker import memory, own_output, settle
from benchmarks.workers import say

ADAMW = (
    "optimiser.kind=AdamW",
    "optimiser.learning_rate=1e-3",
    "optimiser.betas=[0.9,0.99]",
    "optimiser.eps=1e-8",
    "optimiser.weight_decay=0.1",
)
SGD = (
    "optimiser.kind=SGD",
    "optimiser.learning_rate=1e-3",
    "optimiser.momentum=0.9",
    "optimiser.l2=0.0",
)


def decoder(layers: int, width: int, length: int, batch: int, *more: str) -> dict[str, Any]:
    """A decoder with heads of 64 features, or of half its width, over bytes."""
    heads = max(1, width // 64)
    attention = "model.decoder.attention"
    return {
        "settings": [
            f"model.decoder.n_layers={layers}",
            f"model.d_model={width}",
            f"{attention}.n_heads={heads}",
            f"{attention}.n_kv_heads={heads}",
            f"{attention}.d_head={width // heads}",
            f"model.decoder.feed_forward.d_ff={4 * width}",
            f"model.context_length={length}",
            f"training.batch_size={batch}",
            "text.tokenizer.kind=Bytes",
            *more,
        ]
    }


#: What is trained: arguments of `pellucid.train`.
SHAPES: dict[str, dict[str, Any]] = {
    "nano": {},
    "encoder": {"objective": "mlm"},
    "pair, spans": {"objective": "spans", "settings": ["training.batch_size=16"]},
    "many rows": decoder(4, 256, 128, 32, *ADAMW),
    "no dropout": decoder(4, 256, 128, 16, "model.decoder.dropout=0.0", *ADAMW),
    "accumulation": decoder(4, 256, 128, 32, "training.accumulation=4", *ADAMW),
    "bfloat16": decoder(2, 256, 128, 16, "training.precision=bfloat16", *ADAMW),
    "long": decoder(2, 128, 2048, 2),
    "deep and narrow": decoder(24, 64, 128, 8),
    "wide and shallow": decoder(2, 1024, 64, 4, *ADAMW),
    "vocabulary 50,257": decoder(2, 256, 128, 4, "model.vocab_size=50257", *ADAMW),
    "SGD": decoder(6, 512, 64, 4, *SGD),
    "Muon": decoder(4, 256, 64, 8),
    "not watched": {"watched": False, "settings": ["training.batch_size=16"]},
}


def main() -> None:
    parser = argparse.ArgumentParser(description="how far off estimates of memory and time are")
    parser.add_argument("--data", type=Path, required=True, help="a text file")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--after", type=int, default=4, help="updates before time is foretold")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--shape", action="append", choices=SHAPES)
    parser.add_argument("--child", choices=SHAPES, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child is not None:
        trained(arguments)
        return
    found = header("benchmarks.budget", parser, arguments)
    found["shapes"] = {}
    for name in arguments.shape or SHAPES:
        found["shapes"][name] = row = measured(name, arguments)
        say(
            f"{name:<20} {row['peak_bytes'] / 1e6:6.0f} MB, expected "
            f"{row['expected_bytes'] / row['peak_bytes'] - 1:+.1%}; {row['seconds_left']:6.1f} s "
            f"left, foretold {row['foretold_seconds'] / row['seconds_left'] - 1:+.1%}"
        )
        write(found, Path(__file__).parent / "results", "budget")


def measured(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """A shape, trained in a process of its own."""
    words = ["--data", arguments.data, "--steps", arguments.steps, "--after", arguments.after]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.budget", "--child", name, *map(str, words)],
        env=os.environ | {"OMP_NUM_THREADS": str(arguments.threads)},
        stdout=subprocess.PIPE,
        check=True,
    )
    return json.loads(done.stdout)


def trained(arguments: argparse.Namespace) -> None:
    """Train a shape; on standard output its peak, what was expected, and the same of its time."""
    answers = own_output()
    settle()
    import pellucid
    from pellucid.training import Event, Finished, Logged, Started
    from pellucid.vitals import watcher

    shape = dict(SHAPES[arguments.child])
    watched, settings = shape.pop("watched", True), shape.pop("settings", [])
    moments: dict[str, float] = {}
    facts: dict[str, str] = {}

    def note(event: Event) -> None:
        if isinstance(event, Started):
            facts.update(event.facts)
        if isinstance(event, Logged) and event.step == arguments.after:
            moments.update(at=time.perf_counter(), foretold=event.seconds_left)
        if isinstance(event, Finished):
            moments["end"] = time.perf_counter()

    with tempfile.TemporaryDirectory() as folder:
        often = [f"training.log_every={arguments.after}", "training.evaluate_tokens=4096"]
        pellucid.train(
            [arguments.data],
            out=Path(folder) / "run",
            steps=arguments.steps,
            settings=[*settings, *often, f"training.evaluate_every={arguments.steps}"],
            observers=[note],
            watchers=[watcher()] if watched else [],
            show=False,
            **shape,
        )
    row = {
        "peak_bytes": memory("VmHWM"),
        "expected_bytes": in_bytes(facts["expect"]),
        "seconds_left": moments["end"] - moments["at"],
        "foretold_seconds": moments["foretold"],
        "expect": facts["expect"],
    }
    print(json.dumps(row), file=answers, flush=True)


def in_bytes(expect: str) -> float:
    """The bytes that a run said it expects: "about 14s, 540 MB of memory"."""
    number, unit = expect.split(", ")[1].split()[:2]
    return float(number) * {"kB": 1e3, "MB": 1e6, "GB": 1e9}[unit]


if __name__ == "__main__":
    main()
