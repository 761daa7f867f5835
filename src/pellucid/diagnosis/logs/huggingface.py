"""Read the log of Hugging Face's trainer: `trainer_state.json`, and the JSON files next to it.

pellucid never opens `training_args.bin`: it is a pickle, and a pickle can run anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from pellucid.diagnosis.history.history import Facts
from pellucid.diagnosis.logs.lines import Row
from pellucid.diagnosis.logs.parsers import flat_records, number
from pellucid.errors import PellucidError
from pellucid.reader import LARGE, read_json

STATE = "trainer_state.json"


def newest_state(folder: Path) -> Path | None:
    """The state with the most updates: the folder's own, or the one of a checkpoint in it."""
    files = [file for file in (folder / STATE, *folder.glob(f"*/{STATE}")) if file.is_file()]
    return max(files, key=lambda file: (_step_of(file), file.parent == folder), default=None)


def _step_of(file: Path) -> float:
    try:
        state = read_json(file, limit=LARGE, lenient=True)
    except PellucidError:
        return -1.0
    if not isinstance(state, Mapping):
        return 0.0
    return number(cast("Mapping[str, Any]", state).get("global_step")) or 0.0


def is_state(content: object) -> bool:
    """Whether a JSON value is a trainer's state."""
    return isinstance(content, Mapping) and "log_history" in content


def rows_of_state(file: Path, state: Mapping[str, Any]) -> list[Row]:
    """The rows of a trainer's state, without the summary at its end.

    Raises:
        PellucidError: the state has no rows.
    """
    history = state["log_history"]
    if not isinstance(history, list):
        raise PellucidError(f"{file}: log_history must be a list, was {type(history).__name__}")
    rows = [row for row in flat_records(cast("list[Any]", history)) if "train_runtime" not in row]
    if not rows:
        raise PellucidError(
            f"{file} has no row in log_history: the trainer saved it before it logged anything; "
            "set logging_steps to less than the number of steps"
        )
    return rows


def facts_of_state(file: Path, state: Mapping[str, Any]) -> Facts:
    """The facts of the training, as far as JSON files next to the state have them."""
    args = _read_neighbour(file.parent, "training_args.json")
    model = _read_neighbour(file.parent, "config.json")
    nested = model.get("text_config")
    model = cast("dict[str, Any]", nested) if isinstance(nested, dict) else model
    layer_counts = (model[n] for n in ("num_hidden_layers", "n_layer", "num_layers") if n in model)
    optimiser = args.get("optim")
    beta1, beta2 = number(args.get("adam_beta1")), number(args.get("adam_beta2"))
    return Facts(
        total_steps=_count(state.get("max_steps")),
        vocab_size=_count(model.get("vocab_size")),
        n_layers=_count(next(layer_counts, None)),
        d_head=_count(model.get("head_dim")),
        optimiser=optimiser if isinstance(optimiser, str) else None,
        learning_rate=number(args.get("learning_rate")),
        warmup_steps=_count(args.get("warmup_steps")),
        betas=None if beta1 is None or beta2 is None else (beta1, beta2),
        eps=number(args.get("adam_epsilon")),
        weight_decay=number(args.get("weight_decay")),
        clip_norm=number(args.get("max_grad_norm")) or None,
        precision=next(
            (precision for precision in ("fp16", "bf16") if args.get(precision) is True), None
        ),
        pretrained=True if _read_neighbour(file.parent, "adapter_config.json") else None,
    )


def _read_neighbour(folder: Path, name: str) -> dict[str, Any]:
    """A file next to the state, or above its checkpoint's folder; empty if there is none."""
    for file in (folder / name, folder.parent / name):
        if file.parent != folder and not folder.name.startswith("checkpoint-"):
            continue
        with suppress(PellucidError):
            content = read_json(file, lenient=True)
            if isinstance(content, dict):
                return cast("dict[str, Any]", content)
    return {}


def _count(value: object) -> int | None:
    """A whole number above 0; None for anything else."""
    count = number(value)
    return int(count) if count is not None and count.is_integer() and count > 0 else None
