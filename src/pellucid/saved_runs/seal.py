"""The seal of a run: each checkpoint holds the config and plan that it was trained with.

The digests are over values: a file with the same values in another order or with other spaces is
the same config.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

from pellucid import config
from pellucid.config import decode, encode
from pellucid.errors import CheckpointError, ConfigError
from pellucid.json_text import json_text
from pellucid.reader import parse_json
from pellucid.training import Event, Started

#: The key of the length of a run.
LENGTH = "plan.total_steps"
#: The keys that `--steps` changes: a growing batch keeps its plan.
BY_STEPS = (LENGTH, "plan.growth_steps")
#: The text for an absent value.
_ABSENT = "nothing"
#: Characters of a value in a message: a list of files may have thousands.
_LONGEST = 100


class Change(NamedTuple):
    """A key with its value in the run so far and its new value."""

    key: str
    before: str
    now: str

    def __str__(self) -> str:
        return f"{self.key}: the run has {_short(self.before)}, here is {_short(self.now)}"


def _short(value: str) -> str:
    return value if len(value) <= _LONGEST else f"{value[:_LONGEST]}…"


def seal(run: config.Run, plan: config.Plan) -> dict[str, Any]:
    """The part of a checkpoint with the config, the plan, and the SHA-256 of each."""
    values = {"config": encode(run), "plan": encode(plan)}
    return values | {"seal": {name: _digest(value) for name, value in values.items()}}


def as_texts(run: config.Run, plan: config.Plan) -> tuple[tuple[str, str], ...]:
    """The config and the plan as the event `Started` holds them."""
    return ("config", json_text(encode(run))), ("plan", json_text(encode(plan)))


def sealed_at_start(events: Sequence[Event]) -> dict[str, Any] | None:
    """The seal of a run without a checkpoint; None if its start did not record one."""
    started = next((event for event in reversed(events) if isinstance(event, Started)), None)
    if started is None or not started.sealed:
        return None
    values = {name: parse_json(text, f"the sealed {name}") for name, text in started.sealed}
    return values | {"seal": {name: _digest(value) for name, value in values.items()}}


def is_sealed(state: Mapping[str, Any]) -> bool:
    """Whether a checkpoint has a seal; checkpoints of 0.1 have none."""
    return {"seal", "config", "plan"} <= state.keys()


def check_seal(state: Mapping[str, Any], file: Path) -> None:
    """Refuse a checkpoint's state whose config or plan does not match its seal.

    Raises:
        CheckpointError: the state was changed, or is damaged.
    """
    if not is_sealed(state):
        return
    if state["seal"] != {name: _digest(state[name]) for name in ("config", "plan")}:
        raise CheckpointError(
            f"{file} is damaged: its config or its plan does not match the digests of its seal"
        )


def changes_since(
    sealed: Mapping[str, Any], run: config.Run, plan: config.Plan
) -> tuple[Change, ...]:
    """The keys whose values in a config and a plan differ from a checkpoint's."""
    current = seal(run, plan)
    if sealed["seal"] == current["seal"]:
        return ()
    return (
        *_differences("", _as_now(config.Run, sealed["config"]), current["config"]),
        *_differences("plan", _as_now(config.Plan, sealed["plan"]), current["plan"]),
    )


def _digest(value: object) -> str:
    return hashlib.sha256(json_text(value, sort_keys=True).encode()).hexdigest()


def _as_now(kind: type[Any], values: Any) -> Any:
    """As this version writes it: a new key with its default value is no change."""
    try:
        return encode(decode(kind, values))
    except ConfigError:
        return values


def _differences(name: str, old_value: Any, new_value: Any) -> Iterator[Change]:
    old, new = dict(_flat(name, old_value)), dict(_flat(name, new_value))
    for key in dict.fromkeys((*old, *new)):
        if key not in old or key not in new or old[key] != new[key]:
            old_text, new_text = (
                repr(side[key]) if key in side else _ABSENT for side in (old, new)
            )
            yield Change(key, old_text, new_text)


def _flat(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Nested tables as keys with dots and their values, such as training.batch_size."""
    if isinstance(value, dict):
        for key, inner in cast("dict[str, Any]", value).items():
            yield from _flat(f"{name}.{key}" if name else key, inner)
    elif isinstance(value, list) and any(isinstance(item, dict) for item in cast("Any", value)):
        for place, inner in enumerate(cast("list[Any]", value)):
            yield from _flat(f"{name}[{place}]", inner)
    else:
        yield name, value
