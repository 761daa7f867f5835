"""The track: files with gaps, in order, which become a model that the reader wrote.

A gap is a function whose body raises `NotImplementedError`. The package holds no solutions:
`check` compares what a reader writes with pellucid's own equations and modules.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from pellucid import disk
from pellucid.errors import PellucidError


class Step(NamedTuple):
    """A file of the track and its task."""

    file: str
    task: str


STEPS = (
    Step("tokenizer.py", "count pairs of neighbours, and merge them"),
    Step("embedding.py", "an id becomes a vector"),
    Step("positions.py", "turn queries and keys by angles"),
    Step("attention.py", "scores, mask, softmax, values"),
    Step("norm.py", "layer norm"),
    Step("feed_forward.py", "gelu between two matrices"),
    Step("block.py", "two layers on the residual stream"),
    Step("loss.py", "cross-entropy that does not overflow"),
    Step("backward.py", "the head's gradients by hand"),
    Step("adamw.py", "one step of AdamW"),
    Step("schedule.py", "warm-up and half a cosine"),
    Step("sampling.py", "temperature and top-k"),
    Step("lora.py", "an update of low rank, and its merge"),
    Step("dpo.py", "the loss of a preference"),
    Step("train.py", "a loop of your own"),
    Step("parts.py", "given: your parts in a model of pellucid's"),
)


def template(file: str) -> str:
    """A file of the track with its gaps."""
    return (files("pellucid.course.build") / f"files/{Path(file).stem}.txt").read_text("utf-8")


def write_track(folder: Path) -> None:
    """Write the files of the track into a folder.

    Raises:
        PellucidError: the folder has one of the files already: none is overwritten.
    """
    existing_files = [step.file for step in STEPS if (folder / step.file).exists()]
    if existing_files:
        raise PellucidError(
            f"{folder} has {', '.join(existing_files)} already, and no file "
            "of yours is overwritten: name another folder, or move the files away"
        )
    folder.mkdir(parents=True, exist_ok=True)
    for step in STEPS:
        disk.write_text(folder / step.file, template(step.file))
