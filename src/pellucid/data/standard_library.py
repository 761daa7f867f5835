"""The default corpus: the documentation inside Python's standard library, 2.5 MB of English.

The text differs a little between Python versions.
"""

from __future__ import annotations

import ast
import os
import sysconfig
import tokenize
import warnings
from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path
from textwrap import indent

from pellucid.data.documents import Document
from pellucid.errors import TextError

Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef

TOPICS = "pydoc_data/topics.py"

# Shorter documents are one-liners, half of them the same sentence about some codec. They would be a
# quarter of all documents, and so a quarter of all beginnings that a model learns.
SHORTEST = 200

# Folders with packages of others, tests, caches or the record of a build.
SKIPPED_FOLDERS = frozenset(
    {"test", "tests", "idle_test", "site-packages", "dist-packages", "lib-dynload", "__pycache__"}
)


def standard_library_docs() -> list[Document]:
    """The docstrings of the standard library and the topics of `pydoc`, as documents.

    A docstring that occurs in several places is used once, at the first place.

    Raises:
        TextError: the library came without its sources (zipped, frozen or stripped).
    """
    return documentation_under(_library())


def library_files() -> list[Path]:
    """The files that `standard_library_docs` reads."""
    return [_library() / name for name in source_files(_library())]


def _library() -> Path:
    return Path(sysconfig.get_paths()["stdlib"])


def documentation_under(library: Path) -> list[Document]:
    """As `standard_library_docs`, for the library at `library`."""
    seen_paragraphs: set[str] = set()
    documents: list[Document] = []
    for name in source_files(library):
        tree = parse_file(library / name)
        if tree is None or name == TOPICS:
            continue
        text = documentation(tree, module_name(name), seen_paragraphs)
        if len(text) >= SHORTEST:
            documents.append(Document(name, text))
    documents.extend(pydoc_topics(library, seen_paragraphs))
    if not documents:
        raise TextError(
            f"the default corpus is the documentation in the sources of Python's standard "
            f"library, but no documented source file (*.py) lies under {library}: this "
            f"Python seems to come without its sources (zipped, frozen or stripped). Name a text "
            f"file or a folder of text files instead: pellucid train PATH."
        )
    return documents


def source_files(library: Path) -> list[str]:
    """Paths of the library's source files relative to it, with forward slashes, sorted."""
    names: list[str] = []
    for folder, subfolders, files in os.walk(library):
        # skipped while walking: site-packages can be larger than the library itself
        subfolders[:] = [name for name in subfolders if not is_skipped(name)]
        names += [
            (Path(folder) / file).relative_to(library).as_posix()
            for file in files
            if file.endswith(".py")
        ]
    return sorted(names)


def is_skipped(folder: str) -> bool:
    """Whether a folder of the sources holds no documentation."""
    return folder in SKIPPED_FOLDERS or folder.startswith("config-")


def parse_file(path: Path) -> ast.Module | None:
    """The syntax tree of a source file; None when it cannot be read, decoded or parsed."""
    try:
        with tokenize.open(path) as file:  # honours the file's own coding line
            source = file.read()
        with warnings.catch_warnings():
            # the user cannot change an invalid escape in a library file
            warnings.simplefilter("ignore")
            return ast.parse(source)
    except (OSError, SyntaxError, ValueError, RecursionError):
        return None


def module_name(name: str) -> str:
    """`json/__init__.py` -> `json`; `json/decoder.py` -> `json.decoder`."""
    return name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def documentation(tree: ast.Module, module: str, known_texts: set[str]) -> str:
    """A module's docstrings as one text: its own, then a heading and a body for each definition."""
    parts: list[str] = []
    summary = drop_repeated(ast.get_docstring(tree, clean=False), known_texts)
    if summary:
        parts.append(f"module {module}\n\n{summary}")
    for heading, docstring in definitions(tree):
        body = drop_repeated(docstring, known_texts)
        if body:
            parts.append(f"{heading}\n{indent(body, '    ')}")
    return "\n\n".join(parts)


def definitions(parent: ast.AST, owner: str = "") -> Iterator[tuple[str, str]]:
    """Heading and docstring of each class and function under `parent`, in source order."""
    for node in ast.iter_child_nodes(parent):
        if isinstance(node, ast.expr):
            continue  # most of the tree, and nothing is defined there
        if not isinstance(node, Definition):
            yield from definitions(node, owner)  # a definition may be under an `if` or a `try`
            continue
        docstring = ast.get_docstring(node, clean=False)
        if docstring:
            yield heading_of(node, owner), docstring
        yield from definitions(node, f"{owner}{node.name}.")


def heading_of(node: Definition, owner: str) -> str:
    """`class TextWrapper`, or `TextWrapper.wrap(text)` as the manual writes a method."""
    if isinstance(node, ast.ClassDef):
        return f"class {owner}{node.name}"
    return f"{owner}{node.name}({parameters(node.args)})"


def parameters(arguments: ast.arguments) -> str:
    """A signature without annotations and without the `self` that no caller writes."""
    bare = ast.arguments(
        posonlyargs=[ast.arg(argument.arg) for argument in arguments.posonlyargs],
        args=[ast.arg(argument.arg) for argument in arguments.args],
        vararg=ast.arg(arguments.vararg.arg) if arguments.vararg else None,
        kwonlyargs=[ast.arg(argument.arg) for argument in arguments.kwonlyargs],
        kw_defaults=arguments.kw_defaults,
        kwarg=ast.arg(arguments.kwarg.arg) if arguments.kwarg else None,
        defaults=arguments.defaults,
    )
    first, _, remaining = ast.unparse(bare).partition(", ")
    return (
        remaining if first in {"self", "cls"} else f"{first}, {remaining}" if remaining else first
    )


def pydoc_topics(library: Path, known_texts: set[str]) -> Iterator[Document]:
    """One document per topic that `help()` knows, sorted by name; none where they are absent.

    A topic is often a section of a longer one ("for" is one of "compound"), reflowed. Such a topic
    is skipped, so that no held-out document repeats text of a training document.
    """
    tree = parse_file(library / TOPICS)
    topics = {name: tidy(text) for name, text in topics_in(tree).items()} if tree else {}
    distinct: dict[str, str] = {}
    for name in sorted(topics, key=lambda topic: (-len(topics[topic]), topic)):
        paragraphs = topics[name].split("\n\n")
        repeated = sum(len(paragraph) for paragraph in paragraphs if paragraph in known_texts)
        known_texts.update(paragraphs)
        if len(topics[name]) >= SHORTEST and 2 * repeated < len(topics[name]):
            distinct[name] = topics[name]
    for name, text in sorted(distinct.items()):
        yield Document(f"{TOPICS}:{name}", text)


def topics_in(tree: ast.Module) -> dict[str, str]:
    """The dictionary that the topics' file assigns, read as a literal: nothing is executed."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict):
            try:
                topics: dict[object, object] = ast.literal_eval(node.value)
            except ValueError:
                continue
            return {k: v for k, v in topics.items() if isinstance(k, str) and isinstance(v, str)}
    return {}


def drop_repeated(docstring: str | None, known_texts: set[str]) -> str:
    """The tidy docstring, or "" if it is empty or in `known_texts`, to which it is added."""
    text = tidy(docstring or "")
    if text in known_texts:
        return ""
    known_texts.add(text)
    return text


def tidy(docstring: str) -> str:
    """Margin removed, newlines alike, no blanks at the end of lines or of the text."""
    lines = cleandoc("\n".join(docstring.splitlines())).split("\n")
    # A lone surrogate is legal in a Python string and has no UTF-8.
    text = "\n".join(line.rstrip() for line in lines).strip()
    return text.encode("utf-8", "replace").decode("utf-8")
