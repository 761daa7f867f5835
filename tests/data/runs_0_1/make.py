"""How the folders beside this file were made: run it with the code of pellucid 0.1, and no other.

    cd tests/data/runs_0_1
    PYTHONPATH=src-of-0.1 PELLUCID_CACHE=off OMP_NUM_THREADS=1 python make.py

Each folder is a tiny run that stopped after 4 of 10 updates. `expected.json` has what 0.1 computed
when it resumed each of them: a hash of every batch, and of the weights at the end on each of some
processors, as others round differently. `python make.py --weights NAME` adds those of this one,
whose NAME is `pellucid.saved_runs.machine.device_name` of today. The data that the runs were
trained on are in `sources/`.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import random
import shutil
import sys
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import torch

import pellucid
from pellucid.checkpoints import load
from pellucid.errors import Interrupted
from pellucid.runs import RunFolder
from pellucid.training import Interrupts, Job, StepFinished

STOPPED, STEPS = 4, 10
WORDS = (
    *("the", "quick", "brown", "fox", "jumps", "over", "lazy", "dog"),
    *("cat", "sat", "on", "mat", "red", "blue", "green"),
)
SHORT = (
    "training.precision=float32",
    "training.device=cpu",
    "training.log_every=3",
    "training.evaluate_every=100",
    "training.checkpoint_every=100",
    "training.keep_checkpoints=1",
    "text.held_out=0.2",
)
_ATTENTION = ("n_heads=2", "n_kv_heads=1", "d_head=8")
_ENCODER = (
    "model.d_model=16",
    "model.encoder.n_layers=1",
    "model.encoder.dropout=0.1",
    "model.encoder.feed_forward.d_ff=32",
    *(f"model.encoder.attention.{part}" for part in _ATTENTION),
)
_DECODER = (
    "model.d_model=16",
    "model.decoder.n_layers=1",
    "model.decoder.dropout=0.1",
    "model.decoder.feed_forward.d_ff=32",
    *(f"model.decoder.attention.{part}" for part in _ATTENTION),
)
_CROSS = tuple(f"model.decoder.cross_attention.{part}" for part in _ATTENTION)
_BYTES = "text.tokenizer=Bytes"
_SIX = "training.batch_size=6"

#: By its folder: arguments of `pellucid.train` beyond the number of updates.
RUNS: dict[str, dict[str, Any]] = {
    "next_token": {
        "paths": ["sources/documents"],
        "settings": (
            *_DECODER,
            _SIX,
            "text.tokenizer.kind=BytePairs",
            "text.tokenizer.vocab_size=280",
            "model.context_length=16",
            "training.accumulation=2",
            "training.sentence=the",
            "training.documents_apart=true",
        ),
    },
    "next_token_tails": {
        "paths": ["sources/book.txt"],
        "settings": (*_DECODER, _SIX, "text.tokenizer=Characters", "model.context_length=16"),
    },
    "mlm": {
        "paths": ["sources/texts.jsonl.gz"],
        "objective": "mlm",
        "field": "text",
        "settings": (
            *_ENCODER,
            _SIX,
            _BYTES,
            "model.context_length=24",
            "objective.whole_words=true",
            "training.documents_apart=true",
        ),
    },
    "spans": {
        "paths": ["sources/documents/*.txt"],
        "objective": "spans",
        "settings": (
            *_ENCODER,
            *_DECODER,
            *_CROSS,
            _SIX,
            "text.tokenizer=Characters",
            "model.context_length=16",
        ),
    },
    "seq2seq": {
        "paths": ["sources/pairs.tsv"],
        "objective": "seq2seq",
        "settings": (
            *_ENCODER,
            *_DECODER,
            *_CROSS,
            _SIX,
            "text.tokenizer=Characters",
            "model.context_length=12",
        ),
    },
    "classification": {
        "paths": ["sources/labelled.csv"],
        "objective": "classification",
        "settings": (
            *_ENCODER,
            _SIX,
            "text.tokenizer.kind=Words",
            "text.tokenizer.vocab_size=280",
            "model.context_length=16",
        ),
    },
    "sft": {
        "paths": ["sources/answers.json"],
        "objective": "sft",
        "settings": (*_DECODER, _SIX, _BYTES, "model.context_length=96"),
    },
    "sft_by_length": {
        "paths": ["sources/answers.json"],
        "objective": "sft",
        "start": "base",
        "settings": ("training.batch_size=6", "objective.packed=false"),
    },
    "dpo": {
        "paths": ["sources/answers.json"],
        "objective": "dpo",
        "start": "base",
        "settings": (_SIX,),
    },
}


def write_sources() -> None:
    """The data: documents, one of them twice, and tables of every kind."""
    draw = random.Random(0)
    shutil.rmtree("sources", ignore_errors=True)
    folder = Path("sources/documents")
    folder.mkdir(parents=True)

    def sentence(n: int) -> str:
        return " ".join(draw.choices(WORDS, k=n))

    documents = [f"{sentence(9)}.\n{sentence(7)}, é {number}.\n" for number in range(16)]
    for number, document in enumerate([*documents, documents[3]]):
        (folder / f"{number:02}.txt").write_text(document, "utf-8")
    Path("sources/book.txt").write_text("".join(f"{sentence(8)}\n" for _ in range(24)), "utf-8")
    lines = "".join(json.dumps({"text": f"{sentence(12)} {i}"}) + "\n" for i in range(20))
    Path("sources/texts.jsonl.gz").write_bytes(gzip.compress(lines.encode(), mtime=0))
    pairs = ["".join(draw.choices("abcdef", k=draw.randint(1, 14))) for _ in range(40)]
    table = "".join(f"{pair}\t{pair[::-1]}\n" for pair in pairs)
    Path("sources/pairs.tsv").write_text("source\ttarget\n" + table, "utf-8")
    rows = [(sentence(draw.randint(3, 15)), draw.choice("abc")) for _ in range(40)]
    table = "".join(f"{text},{label}\n" for text, label in rows)
    Path("sources/labelled.csv").write_text("text,label\n,a\n" + table, "utf-8")
    columns = ("instruction", "output", "chosen", "rejected")
    answers = [dict.fromkeys(columns, "")]
    for number in range(30):
        one, two = draw.sample(WORDS, k=2)
        answers.append(
            {
                "instruction": f"say {one} {number // 2}",
                "output": one if number % 3 else f"{one} and {two}." * 3,
                "chosen": f"{one}.",
                "rejected": f"no {two}" * (1 + number % 5),
            }
        )
    Path("sources/answers.json").write_text(json.dumps(answers), "utf-8")


def train(name: str, choices: dict[str, Any]) -> None:
    """A run that stops on its own after a few updates."""
    interrupts = Interrupts()

    def stop(event: object) -> None:
        if isinstance(event, StepFinished) and event.step == STOPPED:
            interrupts.asked = True

    settings = [*SHORT, *choices["settings"]]
    try:
        pellucid.train(
            choices["paths"],
            objective=choices.get("objective"),
            start=choices.get("start"),
            field=choices.get("field"),
            out=name,
            steps=STEPS,
            settings=settings,
            observers=[stop],
            interrupts=interrupts,
            show=False,
        )
    except Interrupted:
        return
    raise RuntimeError(f"{name} did not stop")


def add(digest: Any, value: object) -> None:
    """Take a batch into a hash: its tensors with names and shapes, and its numbers."""
    if isinstance(value, torch.Tensor):
        digest.update(f"{value.dtype} {tuple(value.shape)}".encode())
        digest.update(value.contiguous().numpy().tobytes())
    elif is_dataclass(value):
        for part in fields(value):
            digest.update(part.name.encode())
            add(digest, getattr(value, part.name))
    else:
        digest.update(repr(value).encode())


def resumed(name: str, folder: Path) -> dict[str, Any]:
    """What comes of resuming a run."""
    batches: list[str] = []
    batch_of = Job.batch_of

    def recorded(job: Job, step: int) -> Any:
        batch, digest = batch_of(job, step), hashlib.sha256()
        add(digest, batch)
        batches.append(digest.hexdigest())
        return batch

    Job.batch_of = recorded  # type: ignore[method-assign]
    try:
        pellucid.resume(folder / name, show=False)
    finally:
        Job.batch_of = batch_of  # type: ignore[method-assign]
    weights, digest = load(RunFolder(folder / name).shelf.latest()).model, hashlib.sha256()
    for tensor_name in sorted(weights):
        digest.update(tensor_name.encode())
        add(digest, weights[tensor_name])
    files = sorted(
        str(file.relative_to(folder / name))
        for file in (folder / name).rglob("*")
        if file.is_file() and ".lock" not in file.name
    )
    norms = {key: float(value.double().norm()) for key, value in sorted(weights.items())}
    return {"batches": batches, "weights": digest.hexdigest(), "norms": norms, "files": files}


def add_weights(processor: str) -> None:
    """What the runs in these folders resume to on this processor."""
    file = Path("expected.json")
    expected = json.loads(file.read_text("utf-8"))
    again = Path("again")
    for name in RUNS:
        shutil.copytree(name, again / name)
        expected[name]["weights"][processor] = resumed(name, again)["weights"]
    shutil.rmtree(again)
    file.write_text(json.dumps(expected, indent=1) + "\n", "utf-8")


def main() -> None:
    """Make all of it anew."""
    write_sources()
    for name in ("base", *RUNS):
        shutil.rmtree(name, ignore_errors=True)
    base = [*SHORT, *_DECODER, _SIX, _BYTES, "model.context_length=96"]
    pellucid.train(["sources/documents"], out="base", steps=2, settings=base, show=False)
    expected: dict[str, Any] = {"pellucid": pellucid.__version__}
    again = Path("again")
    for name, choices in RUNS.items():
        train(name, choices)
        shutil.copytree(name, again / name)
        expected[name] = resumed(name, again)
        expected[name]["weights"] = {"the one that made the folders": expected[name]["weights"]}
        print(name, len(expected[name]["batches"]), file=sys.stderr)
    shutil.rmtree(again)
    shutil.rmtree("base")
    Path("expected.json").write_text(json.dumps(expected, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--weights"]:
        add_weights(sys.argv[2])
    else:
        main()
