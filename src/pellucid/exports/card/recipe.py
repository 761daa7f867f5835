"""The recipe in a model card: the settings of the training, without paths."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from pellucid import config
from pellucid.config import encode
from pellucid.exports.card.tables import table

#: The settings that a reader needs to train the model again, by their keys in `config.toml`.
_PARTS = ("objective", "optimiser", "schedule", "training", "trained", "penalties")
#: Settings of display and of saving, which change no weight; and paths.
_LEFT_OUT = {
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
    if run.start is not None:
        rows.append(("first weights", "those of another model"))
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
            if key != "kind" and key not in _LEFT_OUT:
                yield from _flat(f"{path}.{key}", member)
        return
    if isinstance(value, list) and any(isinstance(m, dict) for m in cast("list[Any]", value)):
        for place, member in enumerate(cast("list[Any]", value)):
            yield from _flat(f"{path}[{place}]", member)
        return
    yield path, str(cast("object", value))
