"""The recipe in a model card: the settings of the training, without paths."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

from pellucid import config
from pellucid.config import encode

#: The settings that a reader needs to train the model again, by their keys in `config.toml`.
_PARTS = ("objective", "optimiser", "schedule", "training", "trained", "penalties")
#: Settings of display and of saving, which change no weight; and paths.
_OMITTED_KEYS = {
    "log_every",
    "evaluate_every",
    "evaluate_tokens",
    "checkpoint_every",
    "keep_checkpoints",
    "sentence",
    "teacher",
}


def recipe_section(run: config.Run, step: int) -> str:
    """How the model was trained, setting by setting.

    Args:
        run: the config.
        step: the update after which the weights were saved.
    """
    rows = [("seed", str(run.seed)), ("updates", f"{step:,}")]
    if run.training.ema_decay is not None:
        rows.append(("weights", "the moving average over the updates, not the last weights"))
    if run.start is not None:
        rows.append(("first weights", "from another model"))
    if isinstance(run.objective, config.Distillation):
        rows.append(("teacher", "another model"))
    table_of_run: dict[str, Any] = encode(run)
    for part in _PARTS:
        rows += _flat(part, table_of_run.get(part))
    return f"## Recipe\n\n{table(('setting', 'value'), rows)}"


def _flat(path: str, value: Any) -> Iterator[tuple[str, str]]:
    if value is None or value == []:
        return
    if isinstance(value, dict):
        settings = cast("dict[str, Any]", value)
        if "kind" in settings and path != "training":
            yield path, str(settings["kind"])
        for key, member in settings.items():
            if key != "kind" and key not in _OMITTED_KEYS:
                yield from _flat(f"{path}.{key}", member)
        return
    if isinstance(value, list) and any(isinstance(m, dict) for m in cast("list[Any]", value)):
        for place, member in enumerate(cast("list[Any]", value)):
            yield from _flat(f"{path}[{place}]", member)
        return
    yield path, str(cast("object", value))


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; signs that would break it are escaped."""
    lines = [_line(head), _line(["---"] * len(head)), *map(_line, rows)]
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(_cell(cell) for cell in cells)} |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
