"""Make small wrong changes to the source, one at a time, for `benchmarks.mutation`.

A mutant is a piece of a source file and what replaces it: another comparison or operator, a number
that is off, a condition turned round, a value that is not returned, a statement that is left out.
Texts, annotations and messages of exceptions stay as they are.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
}


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change to one file.

    Attributes:
        file: Path below `src/pellucid`, with slashes.
        line: Line of the change.
        function: Dotted name of the function or class that holds it; "" at the top of the file.
        start: First byte of the replaced piece.
        end: Byte behind it.
        before: The piece.
        after: Its replacement.
    """

    file: str
    line: int
    function: str
    start: int
    end: int
    before: str
    after: str

    def apply(self, source: bytes) -> bytes:
        """The source of the file with the change."""
        return source[: self.start] + self.after.encode() + source[self.end :]

    @property
    def key(self) -> str:
        """Names the mutant for as long as its line stays the same, wherever the line moves to."""
        return f"{self.file} {self.function}: {self.before} -> {self.after}"


def _expressions(node: ast.expr) -> Iterator[str]:
    """The replacements of an expression."""
    match node:
        case ast.Compare(ops=[operator], left=left, comparators=comparators):
            yield ast.unparse(ast.Compare(left, [COMPARISONS[type(operator)]()], comparators))
        case ast.BinOp(op=operator, left=left, right=right) if type(operator) in OPERATORS:
            yield ast.unparse(ast.BinOp(left, OPERATORS[type(operator)](), right))
        case ast.BoolOp(op=operator, values=values):
            other = ast.Or() if isinstance(operator, ast.And) else ast.And()
            yield ast.unparse(ast.BoolOp(other, values))
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            yield ast.unparse(operand)
        case ast.Constant(value=bool(value)):
            yield repr(not value)
        case ast.Constant(value=int(value) | float(value)):
            yield repr(value + 1)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            yield ast.unparse(ast.IfExp(test, orelse, body))
        case _:
            pass


def _statements(node: ast.stmt) -> Iterator[tuple[ast.AST, str]]:
    """Pieces of a statement, and their replacements."""
    match node:
        case ast.If(test=test) | ast.While(test=test):
            if not isinstance(test, ast.Compare | ast.UnaryOp):
                yield test, f"not ({ast.unparse(test)})"
        case ast.Return(value=ast.expr() as value):
            if not (isinstance(value, ast.Constant) and value.value is None):
                yield node, "return None"
        case ast.AugAssign() | ast.Expr(value=ast.Call()) | ast.Raise(exc=ast.expr()):
            yield node, "pass"
        case _:
            pass


class _Collector(ast.NodeVisitor):
    """Walks a file and notes the pieces that may change."""

    def __init__(self) -> None:
        self.pieces: list[tuple[ast.AST, str, str]] = []
        self._names: list[str] = []

    def visit(self, node: ast.AST) -> None:
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                self._names.append(node.name)
                if isinstance(node, ast.ClassDef):
                    children = node.body
                else:
                    defaults = [default for default in node.args.kw_defaults if default]
                    children = [*node.args.defaults, *defaults, *node.body]
                for child in children:
                    self.visit(child)
                self._names.pop()
                return
            case ast.JoinedStr() | ast.Import() | ast.ImportFrom():
                return
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                return
            case ast.AnnAssign():
                if node.value is not None:
                    self.visit(node.value)
                return
            case ast.Raise():
                self._note(node)
                return
            case _:
                self._note(node)
                self.generic_visit(node)

    def _note(self, node: ast.AST) -> None:
        name = ".".join(self._names)
        if isinstance(node, ast.expr):
            self.pieces += [(node, name, f"({text})") for text in _expressions(node)]
        elif isinstance(node, ast.stmt):
            self.pieces += [(piece, name, text) for piece, text in _statements(node)]


def mutants_of(root: Path, file: str) -> list[Mutant]:
    """All changes to a file that the tool knows.

    Args:
        root: The folder of the package.
        file: Path below it.
    """
    source = (root / file).read_bytes()
    lines = [0]
    for line in source.splitlines(keepends=True):
        lines.append(lines[-1] + len(line))
    collector = _Collector()
    collector.visit(ast.parse(source))
    mutants: list[Mutant] = []
    for node, function, after in collector.pieces:
        start = lines[node.lineno - 1] + node.col_offset
        end = lines[node.end_lineno - 1] + node.end_col_offset
        before = " ".join(source[start:end].decode().split())
        mutants.append(Mutant(file, node.lineno, function, start, end, before, after))
    return mutants
