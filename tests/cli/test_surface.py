"""The words that scripts rely on: every promised flag is read as what it says."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from pellucid.cli import main
from pellucid.cli.examples import EXAMPLES
from pellucid.cli.main import parser
from pellucid.version import __version__

VERBS = (
    "train",
    "distill",
    "check",
    "diagnose",
    "generate",
    "translate",
    "fill",
    "embed",
    "classify",
    "answer",
    "chat",
    "explain",
    "serve",
    "mcp",
    "score",
    "evaluate",
    "data",
    "tokenizer",
    "presets",
    "import",
    "export",
    "push",
    "draw",
    "attach",
    "report",
    "vitals",
    "verify-resume",
    "compare",
    "sweep",
    "scaling",
    "plan",
    "runs",
    "experiment",
    "equations",
    "quiz",
    "learn",
    "doctor",
)
ACTIONS = ("list", "show", "diff", "count")

PROMISED: dict[str, dict[str, object]] = {
    "plan nano --devices 8 --device-kind h100 --json": {
        "source": "nano",
        "devices": 8,
        "device_kind": "h100",
        "assume": [],
        "json": True,
    },
    "train": {"paths": [], "preset": None, "config": None, "out": None, "json": False},
    "train a.txt b": {"paths": ["a.txt", "b"]},
    "train -": {"paths": ["-"]},
    "train --preset gpt2 --config c.toml --out r": {
        "preset": "gpt2",
        "config": "c.toml",
        "out": "r",
    },
    "train --steps 7": {"steps": 7, "tokens": None, "minutes": None},
    "train --tokens 9000": {"tokens": 9000, "steps": None},
    "train --minutes 2.5": {"minutes": 2.5},
    "train --seed 3 --device cpu --json": {"seed": 3, "device": "cpu", "json": True},
    "train --resume r": {"resume": "r"},
    "train --set a.b=1 --set c=2": {"set": ["a.b=1", "c=2"]},
    "check nano": {"what": "nano", "text": None, "fail_on": None, "ignore": [], "json": False},
    "check r t.txt --fail-on fault --ignore ATT001 --json": {
        "text": "t.txt",
        "fail_on": "fault",
        "ignore": ["ATT001"],
        "json": True,
    },
    "generate r --prompt x": {"run": "r", "prompt": ["x"], "greedy": False, "json": False},
    "generate r --prompt x --max-new-tokens 5": {"max_new_tokens": 5},
    "generate r --temperature 0.5 --top-k 4 --top-p 0.9": {
        "temperature": 0.5,
        "top_k": 4,
        "top_p": 0.9,
    },
    "generate r --min-p 0.1 --repetition-penalty 1.2 --logprobs": {
        "min_p": 0.1,
        "repetition_penalty": 1.2,
        "logprobs": True,
    },
    "generate r --greedy --seed 4 --json": {"greedy": True, "seed": 4, "json": True},
    "generate r --prompt x --prompt y": {"prompt": ["x", "y"]},
    "generate r x --greedy y": {"run": "r", "texts": ["x", "y"], "greedy": True},
    "generate r x --beams 4 --n-best 3 --length-penalty 0.6 --early-stopping never": {
        "beams": 4,
        "n_best": 3,
        "length_penalty": 0.6,
        "early_stopping": "never",
    },
    "generate r x --beams 4 --min-new-tokens 3": {"min_new_tokens": 3},
    "fill r text": {"run": "r", "text": "text", "top": 5, "json": False},
    "fill r - --top 3 --json": {"text": "-", "top": 3, "json": True},
    "embed r x y --pool first --no-normalise": {
        "texts": ["x", "y"],
        "pool": "first",
        "no_normalise": True,
    },
    "classify r x y --all --json": {"texts": ["x", "y"], "all": True, "json": True},
    "classify r --file f": {"texts": [], "file": "f", "all": False, "device": "cpu"},
    "answer r x y --json": {"texts": ["x", "y"], "temperature": 0.0, "json": True},
    "chat r": {"run": "r", "system": "", "temperature": 0.7, "max_new_tokens": 1024, "json": False},
    "chat r --system x --temperature 0 --top-p 0.9 --seed 3 --json": {
        "system": "x",
        "temperature": 0.0,
        "top_p": 0.9,
        "seed": 3,
        "json": True,
    },
    "serve r s --rows 4 --queue 9 --token t --port 1": {
        "runs": ["r", "s"],
        "rows": 4,
        "queue": 9,
        "token": "t",
        "port": 1,
    },
    "verify-resume r --reward m:f": {"run": "r", "reward": "m:f"},
    "embed r --file - --like x --out v.npy --json": {
        "file": "-",
        "like": "x",
        "out": "v.npy",
        "json": True,
    },
    "score r text": {"run": "r", "text": "text", "next": False, "top": 10, "json": False},
    "score r text --next --top 4 --json": {"next": True, "top": 4, "json": True},
    "score r -": {"text": "-"},
    "evaluate r a.txt": {"run": "r", "paths": ["a.txt"], "json": False},
    "evaluate r a.txt b.txt --json": {"paths": ["a.txt", "b.txt"], "json": True},
    "presets list": {"action": "list", "json": False},
    "presets list --json": {"json": True},
    "presets show nano --json": {"action": "show", "name": "nano", "json": True},
    "presets diff nano gpt2 --json": {"left": "nano", "right": "gpt2", "json": True},
    "presets count nano --json": {"action": "count", "name": "nano", "json": True},
    "import d r": {"source": "d", "run": "r", "tokenizer": None, "json": False},
    "import m.bin r --tokenizer t.bin --json": {"tokenizer": "t.bin", "json": True},
    "export r d --json": {"run": "r", "out": "d", "json": True},
    "push r a/b --public --json": {"run": "r", "name": "a/b", "public": True, "json": True},
    "draw": {"what": None, "config": None, "set": [], "svg": None, "json": False},
    "draw gpt2 --svg g.svg --json": {"what": "gpt2", "svg": "g.svg", "json": True},
    "draw --config c.toml --set a.b=1": {"config": "c.toml", "set": ["a.b=1"]},
    "attach r": {"run": ["r"], "json": False},
    "attach r --json": {"json": True},
    "report r": {"run": "r", "out": None, "json": False},
    "report r --out x.html --json": {"out": "x.html", "json": True},
    "tokenizer train a.txt --kind words --vocab-size 9 --out t.json": {
        "paths": ["a.txt"],
        "kind": "words",
        "vocab_size": 9,
        "out": "t.json",
    },
    "tokenizer show x --tokenizer r --json": {"text": "x", "tokenizer": "r", "json": True},
    "tokenizer compare a.txt --with t.json --with gpt2": {"others": ["t.json", "gpt2"]},
    "tokenizer compare a.txt --json": {"paths": ["a.txt"], "json": True},
    "data list --json": {"action": "list", "json": True},
    "data get tinyshakespeare": {"name": "tinyshakespeare", "to": None, "mirror": None},
    "data get x --to f --from u --yes --json": {"to": "f", "mirror": "u", "yes": True},
    "equations": {"name": [], "json": False},
    "equations batch layer normalisation --json": {
        "name": ["batch", "layer", "normalisation"],
        "json": True,
    },
    "quiz": {"number": None, "answers": None, "json": False},
    "learn": {"name": None, "folder": None, "run": None, "reader": None, "keep": "runs/learn"},
    "learn softmax --run r --sentence s --answers f --reader new --json": {
        "name": "softmax",
        "run": "r",
        "sentence": "s",
        "answers": "f",
        "reader": "new",
        "json": True,
    },
    "learn build d": {"name": "build", "folder": "d"},
    "train --parts m:f": {"parts": "m:f"},
    "experiment list --json": {"name": "list", "seeds": None, "quick": False, "json": True},
    "experiment temperature --seeds 3 --quick --out a.svg": {
        "name": "temperature",
        "seeds": 3,
        "quick": True,
        "out": "a.svg",
    },
    "quiz 3 --json": {"number": 3, "json": True},
    "verify-resume r": {"run": "r", "json": False},
    "verify-resume r --json": {"json": True},
}


@pytest.mark.parametrize("line", PROMISED)
def test_a_promised_command_line_is_understood(line: str) -> None:
    arguments = parser().parse_args(line.split())
    for name, value in PROMISED[line].items():
        assert getattr(arguments, name) == value
    assert callable(arguments.call)


def test_every_command_is_listed_here() -> None:
    (verbs,) = (a for a in parser()._actions if isinstance(a, argparse._SubParsersAction))
    assert sorted(verbs.choices) == sorted(VERBS)


def help_of(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as stop:
        main([*words, "--help"])
    assert stop.value.code == 0
    return capsys.readouterr().out


@pytest.mark.parametrize(
    "words", [[verb] for verb in VERBS] + [["presets", action] for action in ACTIONS], ids=" ".join
)
def test_every_command_explains_itself(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    text = help_of(words, capsys)
    head, usage, _ = text.partition(f"usage: pellucid {' '.join(words)}")
    assert usage
    if len(words) == 1:
        assert head == "examples:\n" + "".join(f"  {x}\n" for x in EXAMPLES[words[0]]) + "\n"
    if words not in (["presets"], ["tokenizer"], ["data"]):
        assert "--json" in text


def test_the_help_lists_the_commands_and_the_exit_codes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = " ".join(help_of([], capsys).split())
    for verb in VERBS:
        assert f" {verb} " in text
    for code in ("0 done", "2 bad input", "3 stopped", "130 stopped by Ctrl-C"):
        assert code in text


def test_the_version_is_said_by_command_and_module() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "pellucid", "--version"], capture_output=True, text=True, check=True
    )
    assert result.stdout == f"pellucid {__version__}\n"


def test_help_loads_only_what_flags_need() -> None:
    code = (
        "import sys\nfrom pellucid.cli import main\n"
        "try: main(['train', '--help'])\nexcept SystemExit: pass\n"
        "heavy = {'torch', 'rich', 'numpy', 'filelock', 'pellucid.counting', 'pellucid.drawing'}\n"
        "assert not heavy & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)


@pytest.mark.parametrize("words", [["equations"], ["equations", "softmax"], ["quiz", "--json"]])
def test_the_textbook_needs_no_torch(words: list[str]) -> None:
    code = (
        f"import sys\nfrom pellucid.cli import main\n"
        f"assert main({words!r}) == 0\nassert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)


def test_the_list_of_datasets_needs_no_torch() -> None:
    code = (
        "import sys\nfrom pellucid.cli import main\n"
        "assert main(['data', 'list']) == 0\nassert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)


def leaf_parsers(root: argparse.ArgumentParser) -> Iterator[tuple[list[str], Any]]:
    """Every command that can be called, with the words that choose it."""
    groups = [action for action in root._actions if isinstance(action, argparse._SubParsersAction)]
    if not groups:
        yield [], root
    for group in groups:
        for name, child in group.choices.items():
            for words, leaf in leaf_parsers(child):
                yield [name, *words], leaf


def positional_words(leaf: argparse.ArgumentParser) -> list[str]:
    """Some word for each positional argument; three for a list."""
    positionals = [action for action in leaf._actions if not action.option_strings]
    return [
        word
        for action in positionals
        for word in (("a", "b", "c") if action.nargs in ("*", "+") else ("1",))
    ]


@pytest.mark.parametrize("words", [words for words, _ in leaf_parsers(parser())], ids=" ".join)
def test_a_flag_may_come_anywhere_among_the_words_of_a_command(words: list[str]) -> None:
    leaf = next(leaf for names, leaf in leaf_parsers(parser()) if names == words)
    positionals = positional_words(leaf)
    root = parser()
    expected = root.parse_args([*words, *positionals, "--json"])
    assert expected.json
    for place in range(len(positionals) + 1):
        mixed = [*positionals[:place], "--json", *positionals[place:]]
        assert root.parse_args([*words, *mixed]) == expected


def test_evaluate_takes_files_behind_its_flags() -> None:
    arguments = parser().parse_args(["evaluate", "RUN", "--write", "FILE", "PATH"])
    assert (arguments.run, arguments.write, arguments.paths) == ("RUN", True, ["FILE", "PATH"])


def test_an_unknown_flag_is_refused_wherever_it_stands(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        parser().parse_args(["answer", "RUN", "--quick", "a text"])
    assert stop.value.code == 2
    assert "unrecognized arguments: --quick" in capsys.readouterr().err
