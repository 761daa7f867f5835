"""Write the tables of codes in docs/diagnosis.md and of signs in docs/vitals.md from the rules.

    python docs/rule_tables.py

A table stands between `<!-- codes -->` or `<!-- signs -->` and the next `<!-- end -->`. Its rows
have the order of `diagnosis/codes.toml` and of `vitals/thresholds.toml`. A test compares the pages
with what this writes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path

from pellucid.diagnosis.finding import read_codes
from pellucid.vitals.rules import rules_of
from pellucid.vitals.signs import EQUATIONS

DOCS = Path(__file__).parent
MARK = re.compile(r"<!-- (codes|signs) -->\n.*?<!-- end -->", re.S)


def draw(page: str) -> str:
    """A page with what the rules say between its marks."""

    def block(mark: re.Match[str]) -> str:
        return "\n".join([f"<!-- {mark[1]} -->", "", *TABLES[mark[1]](), "", "<!-- end -->"])

    return MARK.sub(block, page)


def codes_table() -> Iterable[str]:
    """A row for each code, with the anchor that its findings lead to."""
    yield from head("code", "severity", "what", "expected", "source")
    for name, code in read_codes().items():
        anchor = f'<a id="{name.lower()}"></a>`{name}`'
        yield row(anchor, code.severity, code.title, code.threshold, code.source)


def signs_table() -> Iterable[str]:
    """A row for each sign, by equation."""
    yield from head("equation", "sign", "what it is", "watch", "sick")
    for rule in sorted(rules_of().values(), key=lambda rule: rule.equation):
        meaning = f"{rule.what}; only {rule.only}" if rule.only else rule.what
        equation = f"{rule.equation} {EQUATIONS[rule.equation][0]}"
        watch = limits(rule.watch_above, rule.watch_below)
        sick = limits(rule.sick_above, rule.sick_below)
        yield row(equation, f"`{rule.id}`", meaning, watch, sick)


def limits(above: float | None, below: float | None) -> str:
    """`above 100 or below 0.01`, with a dash for a word that is never said."""
    pairs = (("above", above), ("below", below))
    return " or ".join(f"{side} {limit:g}" for side, limit in pairs if limit is not None) or "–"


def head(*names: str) -> tuple[str, str]:
    """The first two lines of a table."""
    return row(*names), "|---" * len(names) + "|"


def row(*cells: str) -> str:
    """A row of a table."""
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


#: What writes the table at a mark.
TABLES: dict[str, Callable[[], Iterable[str]]] = {"codes": codes_table, "signs": signs_table}
PAGES = (DOCS / "diagnosis.md", DOCS / "vitals.md")

if __name__ == "__main__":
    for page in PAGES:
        page.write_text(draw(page.read_text("utf-8")), "utf-8")
