"""Measure and draw the pictures of the README: a sentence, a receipt, a proof, a comparison.

    python docs/pictures/front.py FOLDER   # trains into FOLDER, measures into front.json, draws
    python docs/pictures/front.py          # draws again from front.json

`FOLDER` gets the runs; existing runs are not trained again. `front.json` holds the measurements. A
test draws the pictures from it and compares, and another one measures again.
"""

from __future__ import annotations

import json
import os
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
DATA = FOLDER / "front.json"
SENTENCE = "Return the number of items in a"
#: The config that is compared with the default one: its optimiser, with a usual rate.
ADAMW = """base = "nano"

[optimiser]
kind = "AdamW"
learning_rate = 3e-3
betas = [0.9, 0.95]
eps = 1e-8
weight_decay = 0.1
"""
#: How many of the likeliest next tokens are drawn.
NEXT = 4
#: What a terminal shows while it waits.
PROGRESS = re.compile(r"^(?:fork|run) \d+/.*\n+", re.M)
#: The commands of the pictures, by the picture's name.
COMMANDS = {
    "receipt": 'pellucid explain runs/my-run "the cat sat" --chapter scores --layer 1 --head 1',
    "proof": "pellucid diagnose runs/too-fast --prove",
    "comparison": "pellucid compare nano adamw.toml --seeds 5 --steps 60",
}


def measure(folder: Path) -> dict[str, Any]:
    """Train what the pictures show, and run their commands."""
    folder.mkdir(exist_ok=True)
    (folder / "adamw.toml").write_text(ADAMW, "utf-8")
    if not (folder / "runs" / "my-run").exists():
        _run(folder, "pellucid train --out runs/my-run")
    if not (folder / "runs" / "too-fast").exists():
        _run(
            folder,
            "pellucid train --steps 120 --out runs/too-fast --set optimiser.learning_rate=1.0",
        )
    outputs = {name: _run(folder, command) for name, command in COMMANDS.items()}
    trained = folder / "runs" / "my-run"
    started = (trained / "metrics.jsonl").read_text("utf-8").partition("\n")[0]
    text = dict(json.loads(started)["facts"])["text"]
    return {"text": text, "sentence": _sentence(trained), "outputs": outputs}


def _run(folder: Path, command: str) -> str:
    words = [sys.executable, "-m", "pellucid", "--color", "always", *shlex.split(command)[1:]]
    surroundings = {**os.environ, "COLUMNS": "80"}
    process = subprocess.run(words, cwd=folder, env=surroundings, stdout=subprocess.PIPE, text=True)
    if process.returncode not in (0, 3):
        raise SystemExit(f"{command} ended with {process.returncode}")
    return process.stdout


def _sentence(folder: Path) -> dict[str, Any]:
    import pellucid

    run = pellucid.load(folder)
    trace = pellucid.trace(run, SENTENCE)
    likeliest = trace["probabilities"][-1].topk(NEXT)
    return {
        "tokens": [run.tokenizer.decode([token]) for token in trace.ids.tolist()],
        "attention": [layer.tolist() for layer in _attention(trace)],
        "next": [
            [run.tokenizer.decode([token]), probability]
            for token, probability in zip(
                likeliest.indices.tolist(), likeliest.values.tolist(), strict=True
            )
        ],
    }


def _attention(trace: Any) -> list[Any]:
    """The attention of each layer, the mean of its heads: (queries, keys)."""
    layers: dict[str, list[Any]] = {}
    for address in trace.addresses():
        if weights := re.fullmatch(r"(L\d+)\.H\d+\.weights", address):
            layers.setdefault(weights[1], []).append(trace[address])
    return [sum(heads) / len(heads) for heads in layers.values()]


def draw(measured: dict[str, Any]) -> dict[str, str]:
    """All pictures as SVG, by their names."""
    sentence = runpy.run_path(str(FOLDER / "sentence.py"))["draw"]
    terminal = runpy.run_path(str(FOLDER / "terminal.py"))["draw"]
    return {
        "sentence": sentence(measured["sentence"]),
        **{
            name: terminal(COMMANDS[name], PROGRESS.sub("", text))
            for name, text in measured["outputs"].items()
        },
    }


def main() -> None:
    if folder := sys.argv[1:]:
        measured = measure(Path(folder[0]))
        DATA.write_text(json.dumps(measured, ensure_ascii=False, indent=1) + "\n", "utf-8")
    for name, picture in draw(json.loads(DATA.read_text("utf-8"))).items():
        (FOLDER / f"{name}.svg").write_text(picture, "utf-8")


if __name__ == "__main__":
    main()
