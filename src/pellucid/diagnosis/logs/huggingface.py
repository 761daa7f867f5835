"""What Hugging Face's trainer leaves behind: `trainer_state.json`, and plain JSON beside it.

pellucid never opens `training_args.bin`: it is a pickle, and a pickle can run anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from pellucid.diagnosis.history.history import Facts
from pellucid.diagnosis.logs.parsers import Row, flat, number
from pellucid.errors import PellucidError
from pellucid.reader import LARGE, read_json

STATE = "trainer_state.json"


def newest_state(folder: Path) -> Path | None:
    """The state in a folder that has come furthest: its own, or that of a checkpoint within."""
    files = [folder / STATE, *folder.glob(f"*/{STATE}")]
    files = [file for file in files if file.is_file()]
    if not files:
        return None
    return max(files, key=lambda file: (_step_of(file), file.parent == folder))


def _step_of(file: Path) -> float:
    try:
        read = read_json(file, limit=LARGE, lenient=True)
    except PellucidError:
        return -1.0
    step = cast("Mapping[str, Any]", read).get("global_step") if isinstance(read, Mapping) else None
    return number(step) or 0.0


def is_state(read: object) -> bool:
    """Whether a JSON value is a trainer's state."""
    return isinstance(read, Mapping) and "log_history" in read


def rows_of_state(file: Path, state: Mapping[str, Any]) -> list[Row]:
    """The rows of a trainer's state, but for the sum at its end.

    Raises:
        PellucidError: nothing was logged yet.
    """
    history = state["log_history"]
    if not isinstance(history, list):
        raise PellucidError(f"{file}: log_history must be a list, was {type(history).__name__}")
    rows = [
        flat(cast("Mapping[str, Any]", entry))
        for entry in cast("list[Any]", history)
        if isinstance(entry, Mapping) and "train_runtime" not in entry
    ]
    if not rows:
        raise PellucidError(
            f"{file} has no row in log_history: nothing was logged before it was saved; set "
            "logging_steps to less than the number of steps"
        )
    return rows


def facts_of_state(file: Path, state: Mapping[str, Any]) -> Facts:
    """How it was trained, as far as plain JSON beside the state says so."""
    args = _json(file.parent, "training_args.json")
    model = _json(file.parent, "config.json")
    nested = model.get("text_config")
    model = cast("dict[str, Any]", nested) if isinstance(nested, dict) else model
    adapter = _json(file.parent, "adapter_config.json")
    return Facts(
        total_steps=_whole(state.get("max_steps")),
        vocab_size=_whole(model.get("vocab_size")),
        n_layers=_whole(_first(model, "num_hidden_layers", "n_layer", "num_layers")),
        d_head=_whole(model.get("head_dim")),
        optimiser=_text(args.get("optim")),
        learning_rate=number(args.get("learning_rate")),
        warmup_steps=_whole(args.get("warmup_steps")),
        betas=_pair(args.get("adam_beta1"), args.get("adam_beta2")),
        eps=number(args.get("adam_epsilon")),
        weight_decay=number(args.get("weight_decay")),
        clip_norm=number(args.get("max_grad_norm")) or None,
        precision=next(
            (precision for precision in ("fp16", "bf16") if args.get(precision) is True), None
        ),
        pretrained=True if adapter else None,
    )


def _json(folder: Path, name: str) -> dict[str, Any]:
    """A file beside the state, or in the folder above a checkpoint; nothing where there is none."""
    for place in (folder / name, folder.parent / name):
        if place.parent != folder and not folder.name.startswith("checkpoint-"):
            continue
        try:
            read = read_json(place, lenient=True)
        except PellucidError:
            continue
        if isinstance(read, dict):
            return cast("dict[str, Any]", read)
    return {}


def _first(table: Mapping[str, Any], *names: str) -> object:
    return next((table[name] for name in names if name in table), None)


def _whole(value: object) -> int | None:
    read = number(value)
    return int(read) if read is not None and read.is_integer() and read > 0 else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _pair(first: object, second: object) -> tuple[float, float] | None:
    a, b = number(first), number(second)
    return (a, b) if a is not None and b is not None else None
