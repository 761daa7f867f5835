"""What the recipes on SMS spam share: the file in two halves, a run, how well it tells spam.

Comes in: the file of messages, paths, settings. Goes out: files, and figures of a run. It does not
know the comparisons.
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
import platform
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pellucid import runs
from pellucid.evaluation.metrics import classification_measures

FOLDER = Path(__file__).parent
COLUMNS = ("label=1", "text=2")
#: One message in five is kept out of everything, whichever seed a run has.
FIFTHS = 5
#: An encoder for little time; all other settings are nano-encoder's.
SMALL = ("model.encoder.n_layers=2", "model.context_length=128")
#: One for less, where many are compared.
TINY = (
    "model.encoder.n_layers=1",
    "model.encoder.attention.d_head=32",
    "model.encoder.feed_forward.d_ff=128",
    "model.d_model=64",
    "model.context_length=128",
)


def parted(messages: Path, folder: Path) -> tuple[Path, Path]:
    """The messages as two files, one to train on and one to judge by; a text is on one side only.

    The side is a hash of the text: the same whoever runs it, and whatever the order of the lines.
    """
    folder.mkdir(parents=True, exist_ok=True)
    sides: tuple[list[str], list[str]] = ([], [])
    for line in messages.read_text("utf-8").splitlines():
        text = line.partition("\t")[2].strip()
        is_test = int(hashlib.sha256(text.encode()).hexdigest(), 16) % FIFTHS == 0
        sides[is_test].append(line)
    files = folder / "train.tsv", folder / "test.tsv"
    for file, lines in zip(files, sides, strict=True):
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return files


def first_of(file: Path, n: int, shorter: Path) -> Path:
    """The first `n` messages of a file, which are in no order."""
    lines = file.read_text("utf-8").splitlines()[:n]
    shorter.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return shorter


def adamw(learning_rate: float, weight_decay: float) -> str:
    """AdamW as an assignment of the config."""
    return (
        f'optimiser={{kind="AdamW", learning_rate={learning_rate}, betas=[0.9, 0.99], eps=1e-8, '
        f"weight_decay={weight_decay}}}"
    )


def adam(learning_rate: float, l2: float) -> str:
    """Adam with the penalty in the gradient, as an assignment of the config."""
    return (
        f'optimiser={{kind="Adam", learning_rate={learning_rate}, betas=[0.9, 0.99], eps=1e-8, '
        f"l2={l2}}}"
    )


def train_classifier(
    messages: Path,
    folder: Path,
    *,
    tokenizer: Path,
    start: Path | None,
    seed: int,
    epochs: float,
    settings: Sequence[str],
    model: Sequence[str] = SMALL,
) -> runs.Run:
    """A classifier, on from `start` or from nothing; both have the tokenizer of the same run.

    Everything else is alike: the model, the schedule, the batches, how long.
    """
    common = [
        'schedule={kind="Cosine", warm_up=0.1, final=0.1}',
        "training.batch_size=32",
        "training.clip_norm=1.0",
        "training.evaluate_every=100000",
        "training.checkpoint_every=100000",
        "text.held_out=0.1",
    ]
    if start is None:
        common += [f'text.tokenizer={{kind="FromFile", path="{tokenizer}"}}', "text.special=[]"]
        common += model
    return runs.train(
        [messages],
        objective="classify",
        start=start,
        columns=COLUMNS,
        seed=seed,
        epochs=epochs,
        out=folder,
        settings=[*common, *settings],
        show=False,
    )


def while_tuning(run: runs.Run) -> dict[str, float]:
    """The last measures on the part of the training file that the run itself held out."""
    last = [e for e in _events(run) if e["event"] == "Evaluated"][-1]
    return {"loss_nats": last["loss_nats"], **dict(last["measures"])}


def seconds_of(run: runs.Run) -> float:
    """How long the updates took, by the clock."""
    return next(e["seconds"] for e in _events(run) if e["event"] == "Finished")


def judged(run: runs.Run, test: Path) -> dict[str, float]:
    """How well a run tells spam on messages that no run trained on."""
    with test.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    names = runs.class_names(run)
    answers = runs.classify(run, [text for _, text in rows], batch_size=64)
    shares = [{s.name: s.probability for s in answer.shares} for answer in answers]
    probabilities = np.array(
        [[shares_of_text[name] for name in names] for shares_of_text in shares]
    )
    labels = np.array([names.index(label) for label, _ in rows])
    measures = dict(classification_measures(probabilities, labels, names).measures)
    right = probabilities[np.arange(len(labels)), labels]
    return {"loss_nats": float(-np.log(np.maximum(right, 1e-30)).mean()), **measures}


def spread(values: Sequence[float]) -> dict[str, Any]:
    """Mean, and from the least to the most."""
    return {"mean": float(np.mean(values)), "each": [round(value, 5) for value in values]}


def format_spread(values: Sequence[float]) -> str:
    """The same in words."""
    return f"{np.mean(values):.3f} ({min(values):.3f} to {max(values):.3f})"


def write_results(name: str, results: Mapping[str, Any]) -> Path:
    """A dated file of results, with what they were measured on."""
    machine = {
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "load": os.getloadavg(),
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
    date = time.strftime("%Y-%m-%d")
    file = FOLDER.parent / "results" / f"{name}-{date}.json"
    table = {"date": date, "machine": machine, **results}
    file.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
    return file


def _events(run: runs.Run) -> list[dict[str, Any]]:
    lines = (run.folder / "metrics.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]
