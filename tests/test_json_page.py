"""What `--json` prints has the keys that docs/json.md says."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pellucid.cli.groups import GROUPS
from pellucid.cli.main import main
from support.tiny import TINY, write_text
from test_docs import DOCS, fenced

PAGE = DOCS / "json.md"
#: The shapes of the page by command, as text.
SHAPES = {
    name: shape
    for block in fenced(PAGE, "text")
    for names, shape in (line.split(": ", 1) for line in re.sub(r"\n +", " ", block).splitlines())
    for name in names.split(", ")
}
SET = " ".join(f"--set {shlex.quote(setting)}" for setting in TINY)
#: Commands by the shape that they must have; the run and the text come from `place`.
QUICK = {
    "runs": "runs runs",
    "presets list": "presets list",
    "presets list --objectives": "presets list --objectives",
    "presets show": "presets show nano",
    "presets diff": "presets diff gpt2 gpt2-medium",
    "presets count": "presets count nano",
    "generate": "generate runs/my-run the --max-new-tokens 3",
    "score": "score runs/my-run 'the cat'",
    "evaluate": "evaluate runs/my-run text.txt",
    "embed": "embed runs/my-run 'the cat' 'the dog'",
    "explain": "explain runs/my-run 'the cat'",
    "explain --chapter": "explain runs/my-run 'the cat' --chapter scores",
    "explain --audit": "explain runs/my-run 'the cat' --audit",
    "diagnose": "diagnose log.csv",
    "report": "report runs/my-run",
    "draw": "draw nano",
    "experiment list": "experiment list",
    "learn list": "learn list",
    "equations": "equations",
    "equations TERM": "equations softmax",
    "quiz": "quiz",
    "export": "export runs/my-run exported",
    "data list": "data list",
    "data report": f"data report text.txt {SET}",
    "tokenizer train": "tokenizer train text.txt --vocab-size 300 --out tokenizer.json",
    "tokenizer show": "tokenizer show 'the cat' --tokenizer runs/my-run",
    "tokenizer compare": "tokenizer compare text.txt --vocab-size 300",
    "doctor": "doctor",
    "plan": "plan gpt2 --devices 8 --device-kind h100",
    "plan without --devices": "plan gpt2 --device-kind h100",
}
LONG = {
    "train": f"train text.txt --steps 2 --out runs/new {SET}",
    "vitals": "vitals runs/watched",
    "verify-resume": "verify-resume runs/my-run",
    "explain --html": "explain runs/my-run 'the cat' --html page.html",
    "check": "check nano text.txt",
    "compare": f"compare one.toml two.toml text.txt --steps 2 --seeds 2 {SET}",
    "sweep": f"sweep space.toml nano text.txt --steps 2 --trials 2 {SET}",
    "experiment": "experiment softmax-saturation --quick",
    "import": "import to-import runs/back",
}

#: What comes first.
NEEDS = {
    "import": "export runs/my-run to-import",
    "vitals": f"train text.txt --steps 2 --out runs/watched {SET}",
}


def parts(text: str) -> list[str]:
    """The words and signs of a shape."""
    return re.findall(r"\.\.\.|[\w-]+\??|[{}\[\]:]", text)


def parsed(words: Iterator[str]) -> Any:
    """A shape: a table of shapes by key, a list with the shape of its elements, or None."""
    match next(words):
        case "[":
            element = parsed(words)
            assert next(words) == "]"
            return [element]
        case "{":
            table: dict[str, Any] = {}
            key = ""
            for word in words:
                if word == "}":
                    return table
                if word == ":":
                    table[key] = parsed(words)
                else:
                    key = word
                    table[key] = None
            raise AssertionError("a table has no end")
        case _:
            return None


def differences(value: Any, shape: Any, where: str = "") -> Iterator[str]:
    """Keys that one has and the other has not."""
    match shape:
        case None:
            return
        case [element]:
            assert isinstance(value, list), where
            for inner in value:
                yield from differences(inner, element, f"{where}[]")
        case {"NAME": element}:
            for key, inner in value.items():
                yield from differences(inner, element, f"{where}.{key}")
        case _:
            known_keys = {key.rstrip("?"): inner for key, inner in shape.items()}
            required_keys = {key for key in shape if not key.endswith(("?", "..."))}
            if "..." not in shape:
                yield from (
                    f"{where}.{key} is not on the page" for key in value.keys() - known_keys
                )
            yield from (f"{where}.{key} is not printed" for key in required_keys - value.keys())
            for key in known_keys.keys() & value.keys():
                if value[key] is not None:
                    yield from differences(value[key], known_keys[key], f"{where}.{key}")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, trained: Path) -> Path:
    """A folder with a run, its export, texts, a log and configs."""
    folder = tmp_path_factory.mktemp("json")
    shutil.copytree(trained, folder / "runs" / "my-run")
    write_text(folder)
    (folder / "log.csv").write_text("step,loss\n1,3.0\n2,2.9\n3,nan\n")
    for name, seed in (("one", 1), ("two", 2)):
        table = f"[optimiser]\nlearning_rate = 0.0{seed}\n"
        (folder / f"{name}.toml").write_text(table)
    (folder / "space.toml").write_text('learning_rate = "1e-3..0.3"\n')
    return folder


def check(name: str, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = parts(SHAPES[name])
    capsys.readouterr()
    assert main([*shlex.split(line), "--json"]) in (0, None)
    printed = json.loads(capsys.readouterr().out)
    assert sorted(set(differences(printed, parsed(iter(words))))) == []


@pytest.mark.parametrize("name", QUICK)
def test_a_command_prints_the_keys_of_the_page(
    name: str, place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(place)
    check(name, QUICK[name], capsys)


@pytest.mark.nightly
@pytest.mark.parametrize("name", LONG)
def test_a_command_that_trains_prints_the_keys_of_the_page(
    name: str, place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(place)
    if name in NEEDS:
        main(shlex.split(NEEDS[name]))
    check(name, LONG[name], capsys)


def test_the_page_has_every_command() -> None:
    page = PAGE.read_text("utf-8")
    verbs = {name.split()[0] for name in SHAPES} | set(re.findall(r"`(\w+)`", page))
    modules = {module.__name__.rpartition(".")[2] for group in GROUPS.values() for module in group}
    names = {module.replace("import_model", "import").replace("_", "-") for module in modules}
    assert names - verbs == set()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"a": 1, "b": [{"c": 1}]}, []),
        ({"a": 1, "b": [{"c": 1}], "d": 1}, [".d is not on the page"]),
        ({"b": [{}]}, [".a is not printed", ".b[].c is not printed"]),
    ],
)
def test_a_difference_is_named_with_its_place(value: Any, expected: list[str]) -> None:
    shape = parsed(iter(parts("{a, b: [{c, e?}]}")))
    assert sorted(differences(value, shape)) == expected
