"""Write tables of three pages from the source.

    python docs/source_tables.py

A table is between its mark and the next `<!-- end -->`. A test compares the pages with what this
writes.

    <!-- codes -->    docs/diagnosis.md: a row for each code of `diagnosis/codes.toml`
    <!-- signs -->    docs/vitals.md: a row for each sign of `vitals/thresholds.toml`
    <!-- papers -->   docs/notation.md: the papers that it cites, from docstrings and concepts
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path

from pellucid.diagnosis.finding import read_codes
from pellucid.vitals.rules import rules_of
from pellucid.vitals.signs import EQUATIONS

DOCS = Path(__file__).parent
SOURCE = DOCS.parent / "src" / "pellucid"
MARK = re.compile(r"<!-- (codes|signs|papers) -->\n.*?<!-- end -->", re.S)


def draw(page: str) -> str:
    """A page with what the source says between its marks."""

    def block(mark: re.Match[str]) -> str:
        return "\n".join([f"<!-- {mark[1]} -->", "", *TABLES[mark[1]](page), "", "<!-- end -->"])

    return MARK.sub(block, page)


def codes_table(_: str) -> Iterable[str]:
    """A row for each code, with the anchor that its findings lead to."""
    yield from head("code", "severity", "what", "expected", "source")
    for name, code in read_codes().items():
        anchor = f'<a id="{name.lower()}"></a>`{name}`'
        yield row(anchor, code.severity, code.title, code.threshold, code.source)


def signs_table(_: str) -> Iterable[str]:
    """A row for each sign, by equation."""
    yield from head("equation", "sign", "what it is", "watch", "sick")
    for rule in sorted(rules_of().values(), key=lambda rule: rule.equation):
        meaning = f"{rule.what}; only {rule.only}" if rule.only else rule.what
        equation = f"{rule.equation} {EQUATIONS[rule.equation][0]}"
        watch = limits(rule.watch_above, rule.watch_below)
        sick = limits(rule.sick_above, rule.sick_below)
        yield row(equation, f"`{rule.id}`", meaning, watch, sick)


def papers_table(page: str) -> Iterable[str]:
    """A row for each paper that a page cites as `Vaswani 2017`, with the longest title in use."""
    files = sorted([*SOURCE.rglob("*.py"), *(SOURCE / "textbook" / "concepts").glob("*.toml")])
    text = " ".join(" ".join(map(Path.read_text, files)).replace('\\"', '"').split())
    cited = set(re.findall(r"\b([A-Z][a-z]+ (?:19|20)\d\d)\b", MARK.sub("", page)))
    yield from head("short", "paper")
    for short in sorted(cited):
        name, year = short.split()
        citation = (
            rf'(?<!, )(?<!and )\b({name}(?: et al\.|[^".;]{{0,80}}?)? {year}), "([^"]+?)[,.]?"'
        )
        authors, title = max(re.findall(citation, text), key=lambda match: len(match[1]))
        yield row(short, f'{authors.removesuffix(f" {year}")}, "{title}"')


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
TABLES: dict[str, Callable[[str], Iterable[str]]] = {
    "codes": codes_table,
    "signs": signs_table,
    "papers": papers_table,
}
PAGES = (DOCS / "diagnosis.md", DOCS / "vitals.md", DOCS / "notation.md")

if __name__ == "__main__":
    for page in PAGES:
        page.write_text(draw(page.read_text("utf-8")), "utf-8")
