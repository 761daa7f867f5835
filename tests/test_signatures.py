"""Functions have few parameters; `pellucid.train` takes every keyword that it took in 0.1."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

import pellucid
from pellucid import config
from pellucid.runs.resolve_config import RunChoices, resolve_config

SOURCE = Path(pellucid.__file__).parent
MOST_PARAMETERS = 12

#: The parameters of `pellucid.train` in 0.1.
TRAIN_0_1 = frozenset(
    ("paths", "objective", "start", "teacher", "reward", "lora", "field", "columns", "preset")
    + ("config_file", "out", "steps", "tokens", "minutes", "epochs", "seed", "device", "settings")
    + ("observers", "watchers", "show", "interrupts", "force")
)


def parameter_counts(source: str) -> Iterator[tuple[str, int]]:
    """Each public function and method, and how many parameters it has besides `self`."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if node.name.startswith("_") and node.name != "__init__":
            continue
        arguments = node.args
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        names = [argument.arg for argument in every if argument.arg not in ("self", "cls")]
        yield (
            node.name,
            len(names) + sum(star is not None for star in (arguments.vararg, arguments.kwarg)),
        )


def test_no_public_function_has_more_than_twelve_parameters() -> None:
    counts = {
        f"{file.relative_to(SOURCE).as_posix()}:{name}": count
        for file in sorted(SOURCE.rglob("*.py"))
        for name, count in parameter_counts(file.read_text("utf-8"))
    }
    assert len(counts) > 2000
    assert {name: n for name, n in counts.items() if n > MOST_PARAMETERS} == {}


def test_parameters_are_counted() -> None:
    source = "class A:\n    def f(self, a, /, b, *c, d=1, **e): ...\n    def _g(self, *a): ..."
    assert list(parameter_counts(source)) == [("f", 5)]


def test_train_takes_what_it_took_in_0_1() -> None:
    parameters = inspect.signature(pellucid.train).parameters
    assert TRAIN_0_1 == (parameters.keys() - {"choices"}) | RunChoices.__annotations__.keys()
    assert parameters["paths"].kind is inspect.Parameter.POSITIONAL_OR_KEYWORD


def test_a_choice_that_does_not_exist_is_a_type_error(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"'stpes' is no choice of a run; the choices are: objec"):
        pellucid.train(["a.txt"], out=tmp_path / "run", stpes=3)  # pyright: ignore[reportCallIssue]
    assert not (tmp_path / "run").exists()


def test_a_choice_of_none_chooses_nothing() -> None:
    plain = resolve_config(["a.txt"])
    nothing = dict.fromkeys(RunChoices.__annotations__) | {"columns": (), "settings": ()}
    assert resolve_config(["a.txt"], **nothing) == plain  # pyright: ignore[reportArgumentType]
    chosen = resolve_config(["a.txt"], minutes=5, seed=7)
    assert chosen.training.budget == config.Minutes(count=5)
    assert chosen.seed == 7
