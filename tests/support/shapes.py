"""Shape annotations are checked at run time in tests: an int is a float, as in typing."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from types import FunctionType
from typing import Any

import jaxtyping._import_hook as hook
from beartype import BeartypeConf, beartype

ROOMS = ["pellucid.model", "pellucid.objectives", "pellucid.optim", "pellucid.batches"]

_check = beartype(conf=BeartypeConf(is_pep484_tower=True))


def check_shapes(function: FunctionType) -> Any:
    """The checker of arguments, or of a returned value together with the arguments.

    The hook has both for each function. The arguments have passed when the value is there.
    """
    returned = function.__annotations__.get("return", Any)
    if returned is not Any:
        function.__annotations__ = {"return": returned}
    return _check(function)


def _annotations(function: ast.FunctionDef) -> Iterator[ast.AST]:
    for part in (function.args, function.returns):
        if part is not None:
            yield from ast.walk(part)


class _Decorators(hook.JaxtypingTransformer):
    """Leaves a function without shapes as it is inside of another one.

    Such a function is made anew at every call of the other, and its checker would be compiled anew:
    half of the time of a forward pass. The type checker proves types that are no shapes.
    """

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:  # noqa: N802
        is_inner = any(isinstance(parent, ast.FunctionDef) for parent in self._parents)
        shapes = any(isinstance(part, ast.Constant) for part in _annotations(node))
        return super().visit_FunctionDef(node) if shapes or not is_inner else node


def check_at_run_time() -> None:
    """Check the shapes of the rooms that are imported from now on."""
    hook.JaxtypingTransformer = _Decorators
    # the hook looks the checker up by its name, and keeps compiled files by it
    hook.install_import_hook(ROOMS, "support.shapes.check_shapes")
