"""Everything public says what it is."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import pkgutil
import re
from importlib import import_module
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest

import pellucid

SOURCE = Path(pellucid.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))
METHODS = (FunctionType, property, classmethod, staticmethod)
ROOMS = sorted(room.name for room in pkgutil.iter_modules(pellucid.__path__) if room.ispkg)


def opening(file: Path) -> str:
    """The first paragraph of a module's docstring."""
    docstring = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8")))
    return (docstring or "").split("\n\n")[0]


def test_every_module_opens_with_a_sentence() -> None:
    files = {file.relative_to(SOURCE).as_posix(): file for file in FILES}
    assert [name for name, file in files.items() if not opening(file).endswith((".", ":"))] == []


def public(room: str) -> dict[str, Any]:
    if room == "transformers":  # the one room that needs a library which nothing installs
        pytest.importorskip(
            "transformers.modeling_outputs", reason="needs the library transformers"
        )
    module = import_module(f"pellucid.{room}")
    return {name: getattr(module, name) for name in module.__all__}


def described(thing: Any) -> bool:
    """Whether it has a docstring of its own: dataclasses are given their signature as one."""
    docstring = inspect.getdoc(thing) if inspect.isclass(thing) else thing.__doc__
    return bool(docstring) and not docstring.startswith(f"{thing.__name__}(")


@pytest.mark.parametrize("room", ROOMS)
def test_every_public_function_and_class_is_described(room: str) -> None:
    public_values = {
        name: value
        for name, value in public(room).items()
        if inspect.isfunction(value) or inspect.isclass(value)
    }
    assert [name for name, value in public_values.items() if not described(value)] == []


@pytest.mark.parametrize("room", ROOMS)
def test_every_public_method_is_described(room: str) -> None:
    bare = [
        f"{name}.{attribute}"
        for name, value in public(room).items()
        if inspect.isclass(value)
        for attribute, member in vars(value).items()
        if not attribute.startswith("_") and isinstance(member, METHODS) and not member.__doc__
    ]
    assert bare == []


def fields(thing: type[Any]) -> list[str]:
    """The public fields of a dataclass or a named tuple."""
    if dataclasses.is_dataclass(thing):
        names = [field.name for field in dataclasses.fields(thing)]
    else:
        names = list(getattr(thing, "_fields", ()))
    return [name for name in names if not name.startswith("_")]


def is_described(field: str, docstring: str) -> bool:
    """Whether a docstring has the field in its list of attributes, or quotes it in its text."""
    return bool(re.search(rf"`{field}\b[^`]*`|^ *(\w+, )*{field}(, \w+)*:", docstring, re.M))


@pytest.mark.parametrize("room", [room for room in ROOMS if room != "transformers"])
def test_every_field_of_a_public_class_is_described(room: str) -> None:
    """`transformers` holds classes of that library, whose fields it describes itself."""
    bare = [
        f"{name}.{field}"
        for name, value in public(room).items()
        if inspect.isclass(value)
        for field in fields(value)
        if not is_described(field, inspect.getdoc(value) or "")
    ]
    assert bare == []


@pytest.mark.parametrize(
    ("field", "expected"), [("a", True), ("b", True), ("c", True), ("d", True), ("e", False)]
)
def test_a_field_is_described_by_a_list_or_a_quoted_name(field: str, expected: bool) -> None:
    docstring = "Holds `a`, `b(i)` and e.\n\nAttributes:\n    c, d: both."
    assert is_described(field, docstring) is expected


@pytest.mark.parametrize("room", ROOMS)
def test_every_public_constant_is_described(room: str) -> None:
    """A comment `#:` precedes it: the reference has no other text for it."""
    source = "\n".join(file.read_text("utf-8") for file in FILES)
    bare = [
        name
        for name, value in public(room).items()
        if not (isinstance(value, FunctionType | ModuleType) or inspect.isclass(value))
        and not hasattr(value, "__wrapped__")  # a function with a cache
        and not re.search(rf"^#: .*\n(?:#: .*\n)*{name}(?: =|: )", source, re.M)
    ]
    assert bare == []


@pytest.mark.parametrize("room", ROOMS)
def test_door_of_a_room_holds_its_docstring_and_public_names_alone(room: str) -> None:
    tree = ast.parse((SOURCE / room / "__init__.py").read_text(encoding="utf-8"))
    _, *statements = tree.body
    # an import may be inside a `with`, which handles signals while it loads
    statements = [
        inner
        for node in statements
        for inner in (node.body if isinstance(node, ast.With) else [node])
    ]
    imported = [
        alias.asname or alias.name
        for node in statements
        if isinstance(node, ast.ImportFrom) and node.module != "__future__"
        for alias in node.names
    ]
    calls = [ast.unparse(node) for node in statements if isinstance(node, ast.Expr)]
    assert calls in ([], ["_take_old_words(__name__, globals())"])
    assert all(isinstance(node, ast.ImportFrom | ast.Assign | ast.Expr) for node in statements)
    # `maths` also imports, under a private name, what puts its public names behind their door
    assert sorted(name for name in imported if name[0] != "_") == sorted(public(room))
