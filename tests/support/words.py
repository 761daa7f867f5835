"""Count vague names, mannered English and missing sections of docstrings, by file and line.

`PYTHONPATH=tests python -m support.words [ROOM]` lists them; `--lower` writes the counts of today
into `word_limits.json` where they are below its limits. `tests/test_words.py` holds the limits.
"""

from __future__ import annotations

import argparse
import ast
import gc
import inspect
import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path

from support.source import FILES, FILES_AROUND, ROOT

LISTED = Path(__file__).with_name("vague_names.txt")
LIMITS = Path(__file__).with_name("word_limits.json")

#: The kinds of text that we hold to the same English.
KINDS = ("page", "docstring", "message", "comment")
LONGEST_SENTENCE = 40
LEAST_PARAMETERS = 3

MANNERED = re.compile(
    r"""\b(?:
        (?:is|are|was|were|be|been|being)\s+(?:said|handed|told)
      | what\s+(?:is|are|was|were|there)
      | (?:that|those)\s+of
      | where\s+(?:there|none)
      | of\s+which
      | beside
      | (?:go|goes|going|went|gone)\s+on
      | (?:stand|stands|stood)
      | (?:some|no|any|every)body
      | by\s+(?:itself|themselves)
    )\b""",
    re.VERBOSE | re.IGNORECASE,
)
QUESTION = re.compile(r"\bwhat\s+(?:is|are|was|were)\b[^.?!]*\?", re.IGNORECASE)
#: Style sheets, pages and templates among the texts of the code.
MARKUP = re.compile(r"[;{]\s*\n|</|\{%|\w\(\);|=>")
WORD = re.compile(r"[A-Za-z][\w'-]*")
SENTENCE_END = re.compile(r"(?<=[.!?])[)\"'*`]*\s+(?=[A-Z`\"'(*\[\d-])")
SECTION = re.compile(r"^(Args|Raises|Returns|Yields|Attributes|Source|Fails|Example|Examples):")


@dataclass(frozen=True, slots=True)
class Finding:
    """One place that a rule counts.

    Attributes:
        room: Folder of the package, `pages`, `benchmarks` or `docs`.
        file: Path from the root of the checkout.
        line: Line of the file, from 1.
        text: The name or the piece of text.
    """

    room: str
    file: str
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Passage:
    """A paragraph of a page, a docstring, a message or a comment.

    Attributes:
        kind: One of `KINDS`.
        room: As in `Finding`.
        file: As in `Finding`.
        line: Where it starts.
        text: Its words, without code blocks.
    """

    kind: str
    room: str
    file: str
    line: int
    text: str


# names


@cache
def vague_words() -> tuple[frozenset[str], dict[str, frozenset[str]]]:
    """The listed words, and of some of them the rooms that may use them."""
    words: set[str] = set()
    allowed: dict[str, frozenset[str]] = {}
    for line in LISTED.read_text(encoding="utf-8").splitlines():
        if line.startswith("!"):
            word, *rooms = line[1:].partition(":")[0].split()
            allowed[word] = frozenset(rooms)
        elif not line.startswith("#"):
            words |= set(line.split())
    return frozenset(words), allowed


def is_vague(name: str, room: str) -> bool:
    """Whether no word of a name says what the value is."""
    vague, allowed = vague_words()
    words = re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+", name)
    words = [word.lower() for word in words]
    if "*" in allowed.get("_".join(words), ()):
        return False
    if len(words) > 1 and "_".join(words) in vague:
        return True
    return bool(words) and all(
        word in vague and room not in allowed.get(word, ()) for word in words
    )


def bindings(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Every name that a file binds: variables, arguments, fields, functions, classes, `as`."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name, node.lineno
            case ast.arg():
                yield node.arg, node.lineno
            case ast.Name(ctx=ast.Store()):
                yield node.id, node.lineno
            case ast.Attribute(ctx=ast.Store()):
                yield node.attr, node.lineno
            case ast.alias(asname=str(name)):
                yield name, node.lineno
            case ast.ExceptHandler(name=str(name)):
                yield name, node.lineno
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield name, node.lineno
            case _:
                pass


# English


#: A cell with code, numbers and remarks in brackets alone: an index, and no sentence.
_LIST_OF_NAMES = re.compile(
    r"(?:`[^`]*`|\([^()]*(?:\([^()]*\))?[^()]*\)|[\s,;=\d.]|true|false|null)*"
)


def _markdown(path: Path) -> Iterator[tuple[int, str]]:
    """Paragraphs, list items and table cells of a page, without code, outputs, generated tables."""
    fenced = generated = False
    start, lines = 1, list[str]()
    for number, line in enumerate([*path.read_text(encoding="utf-8").splitlines(), ""], start=1):
        fence = line.lstrip().startswith(("```", "~~~"))
        if fence:
            fenced = not fenced
        generated = line.startswith("<!-- tables: begin") or (
            generated and not line.startswith("<!-- tables: end")
        )
        indented = line.startswith("    ") and not lines
        text = "" if fenced or fence or generated or indented else line.strip()
        cells = text.startswith("|")
        if lines and (not text or cells or re.match(r"([-*+#>]|\d+\.)\s", text)):
            yield start, " ".join(lines)
            lines = []
        if cells:
            sentence_cells = (
                cell for cell in re.split(r"(?<!\\)\|", text) if not _LIST_OF_NAMES.fullmatch(cell)
            )
            yield from ((number, cell) for cell in sentence_cells)
        elif text:
            start = start if lines else number
            lines.append(text)


def _docstring(text: str, line: int) -> Iterator[tuple[int, str]]:
    """Paragraphs and entries of sections, without formulas and examples."""
    section, start, lines = "", line, list[str]()
    for number, row in enumerate([*inspect.cleandoc(text).splitlines(), ""], start=line):
        heading = SECTION.match(row)
        indent = len(row) - len(row.lstrip())
        if lines and (not row.strip() or heading or (section and indent == 4)):
            yield start, " ".join(lines)
            lines = []
        if heading:
            section = heading[1]
            row = row[heading.end() :]
        elif row.strip() and not indent:
            section = ""
        formula = (indent >= 4 and not section) or section.startswith("Example")
        if row.strip() and not formula:
            start = start if lines else number
            lines.append(row.strip())


def _message(node: ast.expr) -> str:
    """The fixed words of a text or a formatted text; `x` replaces a value."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(_message(part) for part in parts)
        case _:
            return "x"


def _documented(tree: ast.AST) -> Iterator[ast.Constant]:
    """The docstrings of a file, and the texts below its fields."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for child in node.body:
            match child:
                case ast.Expr(value=ast.Constant(value=str()) as constant):
                    yield constant
                case _:
                    pass


def _passages_of_code(tree: ast.AST, source: str) -> Iterator[tuple[str, int, str]]:
    documented = list(_documented(tree))
    for constant in documented:
        for line, text in _docstring(str(constant.value), constant.lineno):
            yield "docstring", line, text
    inner = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        for part in node.values
    } | {id(constant) for constant in documented}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr | ast.Constant) and id(node) not in inner:
            text = _message(node)
            if len(WORD.findall(text)) >= 4 and not MARKUP.search(text):
                for paragraph in re.split(r"\n\s*\n", text):
                    yield "message", node.lineno, " ".join(paragraph.split())
    start, lines = 0, list[str]()
    for number, row in enumerate([*source.splitlines(), ""], start=1):
        comment = re.match(r"\s*#:?\s+(.*)", row)
        if comment and not re.match(r"(type|noqa|pyright|ruff)\b", comment[1]):
            start = start if lines else number
            lines.append(comment[1])
        elif lines:
            yield "comment", start, " ".join(lines)
            lines = []


def sentences(text: str) -> list[str]:
    """The sentences of a passage; code in backticks is one word, and so is a list of it."""
    plain = re.sub(r"`[^`]*`", "`x`", re.sub(r"\]\([^)]*\)", "]", text))
    return SENTENCE_END.split(re.sub(r"`x`(; `x`)+", "`x`", plain))


def mannered(text: str) -> list[str]:
    """The constructions of a passage that the guide asks to avoid; a real question is none."""
    return MANNERED.findall(QUESTION.sub("", re.sub(r"`[^`]*`", "`x`", text)))


# docstrings of public functions


def public_functions(
    room: str, tree: ast.Module, names: frozenset[str]
) -> Iterator[ast.FunctionDef]:
    """Functions that a room exports, and the public methods of the classes that it exports."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name in names:
            yield node
        elif isinstance(node, ast.ClassDef) and node.name in names:
            for child in node.body:
                if isinstance(child, ast.FunctionDef) and child.name[0] != "_":
                    yield child


def parameters(function: ast.FunctionDef) -> list[str]:
    """The names of its parameters, without `self` and `cls`."""
    arguments = function.args
    declared = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return [argument.arg for argument in declared if argument.arg not in ("self", "cls")]


def raises(function: ast.FunctionDef) -> bool:
    """Whether its own body raises an exception by name."""
    inner = {
        id(child)
        for node in ast.walk(function)
        if isinstance(node, ast.FunctionDef | ast.Lambda) and node is not function
        for child in ast.walk(node)
    }
    return any(
        isinstance(node, ast.Raise) and node.exc is not None and id(node) not in inner
        for node in ast.walk(function)
    )


def has_section(function: ast.FunctionDef, section: str) -> bool:
    """Whether its docstring has this section."""
    return f"\n{section}:" in f"\n{ast.get_docstring(function) or ''}"


# the survey


@dataclass(frozen=True, slots=True)
class Survey:
    """All counts of a checkout.

    Attributes:
        n_bindings: Bindings per room.
        vague: Bindings whose name says nothing.
        n_words: Words per kind and room.
        mannered: Mannered constructions by kind.
        long: Sentences above `LONGEST_SENTENCE` words, by kind.
        n_documented: Exported functions with enough parameters to need `Args`.
        without_args: Those that lack it.
        without_raises: Exported functions that raise and do not say so.
        widest: Exported functions by their count of parameters.
    """

    n_bindings: Counter[str]
    vague: list[Finding]
    n_words: Counter[tuple[str, str]]
    mannered: dict[str, list[Finding]]
    long: dict[str, list[Finding]]
    n_documented: int
    without_args: list[Finding]
    without_raises: list[Finding]
    widest: Counter[str]


def _room(name: str) -> str:
    return name.partition("/")[0] if "/" in name else "root"


@cache
def survey() -> Survey:
    """Read every source file and page once."""
    collects = gc.isenabled()
    gc.disable()  # a tree is many small objects at once: the collector would look at all of them
    try:
        return _survey()
    finally:
        if collects:
            gc.enable()


def _exports(tree: ast.Module) -> frozenset[str]:
    return frozenset(
        alias.asname or alias.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    )


def _survey() -> Survey:
    n_bindings, widest = Counter[str](), Counter[str]()
    n_words = Counter[tuple[str, str]]()
    vague, without_args, without_raises = list[Finding](), list[Finding](), list[Finding]()
    mannered_findings: dict[str, list[Finding]] = {kind: [] for kind in KINDS}
    long_findings: dict[str, list[Finding]] = {kind: [] for kind in KINDS}
    n_documented = 0
    exports = {
        _room(name): _exports(ast.parse(path.read_text(encoding="utf-8")))
        for name, path in FILES.items()
        if name.count("/") == 1 and name.endswith("__init__.py")
    }

    def read_passage(passage: Passage) -> None:
        n_words[passage.kind, passage.room] += len(WORD.findall(passage.text))
        place = (passage.room, passage.file, passage.line)
        mannered_findings[passage.kind] += [
            Finding(*place, f"{construction!r}: {passage.text}")
            for construction in mannered(passage.text)
        ]
        for sentence in sentences(passage.text):
            length = len(WORD.findall(sentence))
            if length > LONGEST_SENTENCE:
                long_findings[passage.kind].append(Finding(*place, f"{length} words: {sentence}"))

    def read_file(room: str, file: str, path: Path) -> ast.Module:
        source = path.read_text(encoding="utf-8")
        tree = ast.parse(source)
        for binding, line in bindings(tree):
            n_bindings[room] += 1
            if is_vague(binding, room):
                vague.append(Finding(room, file, line, binding))
        for kind, line, text in _passages_of_code(tree, source):
            read_passage(Passage(kind, room, file, line, text))
        return tree

    for file, path in FILES_AROUND.items():
        read_file(_room(file), file, path)
    for name, path in FILES.items():
        room, file = _room(name), f"src/pellucid/{name}"
        tree = read_file(room, file, path)
        for function in public_functions(room, tree, exports.get(room, frozenset())):
            count = len(parameters(function))
            finding = Finding(room, file, function.lineno, function.name)
            widest[f"{file}:{function.lineno} {function.name}"] = count
            if count >= LEAST_PARAMETERS:
                n_documented += 1
                if not has_section(function, "Args"):
                    without_args.append(finding)
            if raises(function) and not has_section(function, "Raises"):
                without_raises.append(finding)
    for path in pages():
        for line, text in _markdown(path):
            read_passage(Passage("page", "pages", path.relative_to(ROOT).as_posix(), line, text))
    return Survey(
        n_bindings,
        vague,
        n_words,
        mannered_findings,
        long_findings,
        n_documented,
        without_args,
        without_raises,
        widest,
    )


def pages() -> list[Path]:
    """The pages that people read; the changelog keeps the words of its time."""
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


# the shape of the house

#: Names that say nothing of a file's topic.
GENERIC = frozenset({"rows", "data", "table", "parts", "rules", "text", "numbers", "choose"})
LARGEST_FOLDER = 30
SHORTEST_FILE = 40
MOST_PARAMETERS = 12


def files_by_folder() -> Counter[str]:
    """How many Python files each folder holds."""
    return Counter(name.rpartition("/")[0] for name in FILES)


def short_files() -> list[Finding]:
    """Files under `SHORTEST_FILE` lines; a room's door may be as short as it is."""
    lengths = {
        name: len(path.read_text(encoding="utf-8").splitlines()) for name, path in FILES.items()
    }
    return [
        Finding(_room(name), f"src/pellucid/{name}", 1, f"{length} lines")
        for name, length in lengths.items()
        if length < SHORTEST_FILE and not name.endswith(("__init__.py", "__main__.py"))
    ]


def generic_files() -> Counter[str]:
    """How often each generic file name occurs."""
    return Counter(path.stem for path in FILES.values() if path.stem in GENERIC)


# limits


def counts() -> dict[str, dict[str, int]]:
    """What `word_limits.json` limits: per topic, a count per room."""
    read = survey()
    topics = {
        "vague names": read.vague,
        "mannered constructions": list(chain(*read.mannered.values())),
        "long sentences": list(chain(*read.long.values())),
        "functions without Args": read.without_args,
        "functions without Raises": read.without_raises,
        "short files": short_files(),
    }
    return {
        topic: dict(sorted(Counter(finding.room for finding in findings).items()))
        for topic, findings in topics.items()
    }


def limits() -> dict[str, dict[str, int]]:
    """The limits as they are written."""
    return json.loads(LIMITS.read_text(encoding="utf-8"))


def lower() -> None:
    """Write today's counts where they are below their limits."""
    old_limits, today = limits(), counts()
    lowered = {
        topic: {
            room: min(limit, today[topic].get(room, 0))
            for room, limit in rooms.items()
            if today[topic].get(room, 0)
        }
        for topic, rooms in old_limits.items()
    }
    LIMITS.write_text(json.dumps(lowered, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    """Print the findings of a room, or of all."""
    parser = argparse.ArgumentParser(description="List vague names, mannered English and the like.")
    parser.add_argument("room", nargs="?", help="a folder of the package, `pages`, `root`, ...")
    parser.add_argument("--lower", action="store_true", help="lower the limits to today's counts")
    arguments = parser.parse_args()
    if arguments.lower:
        lower()
        return
    read = survey()
    lists = [
        ("vague name", read.vague),
        *((f"mannered {kind}", read.mannered[kind]) for kind in KINDS),
        *((f"long sentence in a {kind}", read.long[kind]) for kind in KINDS),
        ("no Args", read.without_args),
        ("no Raises", read.without_raises),
        ("short file", short_files()),
    ]
    for title, findings in lists:
        for finding in findings:
            if arguments.room in (None, finding.room):
                print(f"{finding.file}:{finding.line}: {title}: {finding.text}")
    for title, findings in lists:
        n = sum(arguments.room in (None, finding.room) for finding in findings)
        print(f"{n:6} {title}")


if __name__ == "__main__":
    main()
