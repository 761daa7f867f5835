"""The names of pellucid 0.1 in configs and on the command line, and their names today.

Every 0.2 takes both. For an old name you see one warning line; a config is written with new names.
"""

from __future__ import annotations

from typing import Any, cast

from pellucid.old_names import warn_old_name

Table = dict[str, Any]

#: Kinds of objective: `kind = "MaskedTokens"` in a TOML file, a run's config.toml and its seal.
KINDS = {
    "DirectPreference": "DPO",
    "MaskedTokens": "MLM",
    "SequenceToSequence": "Seq2Seq",
    "SupervisedFineTuning": "SFT",
}
#: Kinds that pellucid alone writes, into files of a run's folder.
STORED_KINDS = {"Tally": "ReadCounts"}
#: Values of `--objective`, and of `objective` in Python.
OBJECTIVES = {
    "classification": "classify",
    "distillation": "distill",
    "policy": "policy-gradient",
    "spans": "span-corruption",
}
#: Flags.
FLAGS = {"--without": "--ablate"}

#: Keys whose value is the name of a kind.
_KIND_KEYS = ("kind", "objective")


def with_new_kinds(table: Table, *, warn_for: str | None = None) -> Table:
    """The table with the new name of each kind.

    Args:
        table: a config, or a part of one; it is not changed.
        warn_for: warn once, and call the config by this name; None gives no warning.
    """
    old_kinds: list[str] = []
    renamed = _rename(table, old_kinds)
    if old_kinds and warn_for is not None:
        changes = ", ".join(f"kind {old} is {KINDS[old]} now" for old in dict.fromkeys(old_kinds))
        warn_old_name(f"{warn_for}: {changes}; pellucid 0.3 will refuse the old name")
    return renamed


def new_objective(name: str) -> str:
    """Today's name of an objective; an old one gives a warning."""
    if name not in OBJECTIVES:
        return name
    new_name = OBJECTIVES[name]
    warn_old_name(f"objective {name} is {new_name} now; pellucid 0.3 will refuse the old name")
    return new_name


def with_new_flags(words: list[str]) -> list[str]:
    """The words of a command with today's flags; each old one gives a warning."""
    return [_new_flag(word) for word in words]


def _new_flag(word: str) -> str:
    flag, equals, value = word.partition("=")
    if flag not in FLAGS:
        return word
    warn_old_name(f"{flag} is {FLAGS[flag]} now; pellucid 0.3 will refuse the old name")
    return f"{FLAGS[flag]}{equals}{value}"


def _rename(value: Any, old_kinds: list[str], key: str = "") -> Any:
    if isinstance(value, dict):
        table = cast("Table", value)
        return {name: _rename(item, old_kinds, name) for name, item in table.items()}
    if isinstance(value, list):
        return [_rename(item, old_kinds) for item in cast("list[Any]", value)]
    if key in _KIND_KEYS and isinstance(value, str) and value in KINDS:
        old_kinds.append(value)
        return KINDS[value]
    if key == "kind" and isinstance(value, str):
        return STORED_KINDS.get(value, value)
    return value
