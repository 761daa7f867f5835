"""Write tables of six pages from the source.

    python docs/source_tables.py

A table is between its mark and the next `<!-- end -->`. A test compares the pages with what this
writes.

    <!-- codes -->    docs/diagnosis.md: a row for each code of `diagnosis/codes.toml`
    <!-- signs -->    docs/vitals.md: a row for each sign of `vitals/thresholds.toml`
    <!-- papers -->   docs/notation.md: the papers that it cites, from docstrings and concepts
    <!-- families --> docs/huggingface.md: a row for each family of `families/models.toml`
    <!-- rooms -->    docs/architecture.md: a row for each room, from its docstring
    <!-- floors -->   docs/architecture.md: the floors of the import contract
    <!-- errors -->   docs/exit-codes.md: a row for each exception, from its docstring
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path

from pellucid.diagnosis.finding import read_codes
from pellucid.errors import PellucidError
from pellucid.vitals.rules import rules_of
from pellucid.vitals.signs import EQUATIONS

DOCS = Path(__file__).parent
SOURCE = DOCS.parent / "src" / "pellucid"
MARK = re.compile(
    r"<!-- (codes|signs|papers|families|rooms|floors|errors) -->\n.*?<!-- end -->", re.S
)


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


def families_table(_: str) -> Iterable[str]:
    """A row for each family of published models."""
    file = SOURCE / "checkpoints" / "huggingface" / "families" / "models.toml"
    yield from head("model type", "models", "supported")
    for name, family in tomllib.loads(file.read_text("utf-8")).items():
        yield row(f"`{name}`", family["models"], family["supported"])


def rooms_table(_: str) -> Iterable[str]:
    """A row for each room of the import contract, the top floor first, from its docstring."""
    yield from head("room", "what it does", "must not know")
    for room in " | ".join(read_floors()).split(" | "):
        package = SOURCE / room
        file = package / "__init__.py" if package.is_dir() else package.with_suffix(".py")
        docstring = ast.get_docstring(ast.parse(file.read_text("utf-8"))) or ""
        name = f"`{room}/`" if package.is_dir() else f"`{room}`"
        yield row(name, " ".join(docstring.split("\n\n")[0].split()), unknown_to(docstring))


def unknown_to(docstring: str) -> str:
    """The end of a room's docstring: what the room must not know."""
    return " ".join(docstring.split("Must not know: ")[1].split()).removesuffix(".")


def floors_block(_: str) -> Iterable[str]:
    """The floors of the import contract, the top one first."""
    return ["```text", *read_floors(), "```"]


def read_floors() -> list[str]:
    """The layers of the first contract of `pyproject.toml`."""
    project = tomllib.loads((DOCS.parent / "pyproject.toml").read_text("utf-8"))
    return project["tool"]["importlinter"]["contracts"][0]["layers"]


def errors_table(_: str) -> Iterable[str]:
    """A row for each exception of the tree, with the first line of its docstring."""
    yield from head("exception", "code", "when")
    for error in (PellucidError, *PellucidError.__subclasses__()):
        if error.__module__ == PellucidError.__module__:
            first_line = (error.__doc__ or "").partition("\n")[0].removesuffix(".")
            yield row(f"`{error.__name__}`", str(int(error.exit_code)), first_line)


def limits(upper: float | None, lower: float | None) -> str:
    """`above 100 or below 0.01`, with a dash for a word that is never said."""
    pairs = (("above", upper), ("below", lower))
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
    "families": families_table,
    "rooms": rooms_table,
    "floors": floors_block,
    "errors": errors_table,
}
NAMES = ("diagnosis", "vitals", "notation", "huggingface", "architecture", "exit-codes")
PAGES = tuple(DOCS / f"{name}.md" for name in NAMES)

if __name__ == "__main__":
    for page in PAGES:
        page.write_text(draw(page.read_text("utf-8")), "utf-8")
