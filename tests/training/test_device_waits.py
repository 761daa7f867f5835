"""Code in an update reads no number from the device: a GPU would wait meanwhile."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import pellucid

_PACKAGE = Path(pellucid.__path__[0])
#: The code of an update: forward, loss, backward, optimiser.
_ROOMS = ("model", "objectives", "optim", "training/step.py")
#: Methods that wait for the device, or whose result has a size that only the device knows.
_WAITING = {"item", "tolist", "cpu", "numpy", "nonzero", "masked_select", "unique", "synchronize"}
#: Files that may, and why.
_ALLOWED = {
    "model/neural_memory_update.py": "cuts a text where documents begin; once a batch",
    "model/packed": "matrices in few bits are for processors",
}


def waiting_calls(source: str) -> Iterator[tuple[int, str]]:
    """The line and the name of each call that waits."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=ast.Attribute(attr=name)) if name in _WAITING:
                yield node.lineno, name
            case ast.Call(func=ast.Name(id="bool" | "float" | "int" as name), args=[ast.Call()]):
                inner = node.args[0]
                if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute):
                    yield node.lineno, f"{name}(... .{inner.func.attr}())"
            case _:
                pass


def code_of_updates() -> list[Path]:
    """The files of `_ROOMS`, without those that may wait."""
    files = [
        file
        for room in _ROOMS
        for file in (
            sorted((_PACKAGE / room).rglob("*.py"))
            if (_PACKAGE / room).is_dir()
            else [_PACKAGE / room]
        )
    ]
    return [
        file
        for file in files
        if not file.relative_to(_PACKAGE).as_posix().startswith(tuple(_ALLOWED))
    ]


def test_an_update_reads_no_number_from_the_device() -> None:
    files = code_of_updates()
    assert len(files) > 50
    waits = [
        f"{file.relative_to(_PACKAGE)}:{line}: {name}"
        for file in files
        for line, name in waiting_calls(file.read_text("utf-8"))
    ]
    assert waits == []


@pytest.mark.parametrize(
    "line", ["x.item()", "int(x.sum())", "bool(torch.isfinite(x).all())", "x.nonzero()", "x.cpu()"]
)
def test_the_rule_sees_what_waits(line: str) -> None:
    assert len(list(waiting_calls(line))) == 1
    assert list(waiting_calls("x.sum(); int(n); float(config.rate)")) == []
