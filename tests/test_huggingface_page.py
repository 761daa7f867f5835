"""docs/huggingface.md says of each attribute what the tables of the code do with it.

To write its tables again: `python tests/test_huggingface_page.py`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from pellucid.checkpoints.huggingface import FAMILIES
from pellucid.checkpoints.huggingface.attributes import (
    ANYWHERE,
    REQUIRED,
    Derived,
    FixedValue,
    Ignored,
    OtherName,
    Read,
    Rule,
    Rules,
)

PAGE = Path(__file__).parents[1] / "docs" / "huggingface.md"
START, END = "<!-- tables: begin -->\n", "<!-- tables: end -->\n"


def format_rule(name: str, rule: Rule) -> str:
    if isinstance(rule, Read):
        if rule.default is REQUIRED:
            return f"`{name}`"
        if isinstance(rule.default, Derived):
            absent = rule.default.absent
            return f"`{name}` ({rule.default.formula if absent is None else absent})"
        return f"`{name}` ({json.dumps(rule.default)})"
    if isinstance(rule, FixedValue):
        return f"`{name}` = {json.dumps(rule.value)}"
    if isinstance(rule, OtherName):
        return f"`{name}` ({rule.usual})"
    return f"`{name}`"


def lines(rules: Rules) -> Iterator[str]:
    kinds = (
        (Read, "decides"),
        (FixedValue, "one value only"),
        (OtherName, "other names"),
        (Ignored, "ignored"),
    )
    for kind, title in kinds:
        names = [
            format_rule(name, rule) for name, rule in sorted(rules.items()) if type(rule) is kind
        ]
        if names:
            yield f"| {title} | {', '.join(names)} |"


def tables() -> str:
    """Every family's attributes, and those that any config.json may have."""
    page: list[str] = []
    for family in FAMILIES.values():
        page += [f"### {family.model_type}", "", f"Classes: {', '.join(family.architectures)}.", ""]
        page += ["| | attributes |", "|---|---|", *lines(family.rules)]
        ignored_tensors = [f"`{name}`: {reason}" for name, reason in family.ignored_tensors.items()]
        if ignored_tensors:
            page += ["", f"Tensors that are left out: {'; '.join(ignored_tensors)}."]
        page += [""]
    page += ["### Any family", "", "| | attributes |", "|---|---|", *lines(ANYWHERE), ""]
    reasons = dict[str, list[str]]()
    for name, rule in sorted(ANYWHERE.items()):
        if isinstance(rule, Ignored):
            reasons.setdefault(rule.reason, []).append(name)
    page += ["Why they are ignored:", ""]
    page += [
        f"- {reason}: {', '.join(f'`{n}`' for n in names)}" for reason, names in reasons.items()
    ]
    return "\n".join(page) + "\n"


def parts() -> tuple[str, str, str]:
    text = PAGE.read_text("utf-8")
    head, after_start = text.split(START)
    tables_text, foot = after_start.split(END)
    return head, tables_text, foot


def test_the_page_shows_the_tables_of_the_code() -> None:
    assert parts()[1].strip() == tables().strip()


def test_the_page_names_every_family_in_its_overview() -> None:
    overview = parts()[0].split("<!-- families -->")[1].split("<!-- end -->")[0]
    assert sorted(re.findall(r"\n\| `([^`]+)` \|", overview)) == sorted(FAMILIES)


if __name__ == "__main__":
    head, _, foot = parts()
    PAGE.write_text(head + START + tables() + END + foot, encoding="utf-8")
