"""The commands, in groups by what people want to do."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from pellucid.cli.verbs import (
    answer,
    attach,
    check,
    classify,
    data,
    diagnose,
    distill,
    doctor,
    draw,
    embed,
    evaluate,
    explain,
    export,
    fill,
    generate,
    import_model,
    presets,
    push,
    report,
    score,
    tokenizer,
    train,
    translate,
    verify_resume,
    vitals,
)
from pellucid.cli.verbs.course import equations, experiment, learn, quiz
from pellucid.cli.verbs.lab import compare, plan, runs, scaling, sweep
from pellucid.cli.verbs.serving import mcp, serve

GROUPS: dict[str, tuple[ModuleType, ...]] = {
    "Train": (train, distill, attach, runs, presets, verify_resume),
    "Use": (generate, answer, translate, fill, classify, embed, score, evaluate, serve, mcp),
    "Understand": (explain, vitals, diagnose, check, report, draw),
    "Compare and learn": (compare, sweep, scaling, experiment, learn, equations, quiz),
    "Models in and out": (import_model, export, push),
    "Data and machines": (data, tokenizer, doctor, plan),
}


class VerbList:
    """argparse's commands, which notes the line of each for the help."""

    def __init__(self, verbs: Any) -> None:
        self._verbs = verbs
        self.lines: list[tuple[str, str]] = []

    def add_parser(self, name: str, *, help: str, **options: Any) -> Any:
        """The parser of one command."""
        self.lines.append((name, help))
        return self._verbs.add_parser(name, help=help, **options)


def add_verbs(verbs: Any) -> str:
    """Add all commands; the text of the help that lists them."""
    groups: list[str] = []
    for title, modules in GROUPS.items():
        verb_list = VerbList(verbs)
        for module in modules:
            module.add_to(verb_list)
        rows = "".join(f"  {name:<15}{line}\n" for name, line in verb_list.lines)
        groups.append(f"{title}:\n{rows}")
    return "\n".join(groups)
