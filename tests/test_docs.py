"""The pages say what the code does: each of their facts is held against it."""

from __future__ import annotations

import dataclasses
import re
import runpy
import shlex
import typing
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import pellucid.config
from pellucid import errors
from pellucid.cli.main import main, parser
from pellucid.config import encode, parse_toml, run_from_table
from pellucid.counting import parameter_count
from pellucid.model import assemble
from pellucid.presets import FAMILIES, find, find_objective
from pellucid.training import Event

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [
    *(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "AGENTS")),
    *sorted(DOCS.rglob("*.md")),
]
#: Their commands name parts that the pages themselves add: `tests/test_extending.py` runs them.
EXTENDING = DOCS / "extending"
KINDS: dict[str, type[Any]] = {
    kind.__name__: kind
    for kind in vars(pellucid.config).values()
    if isinstance(kind, type) and dataclasses.is_dataclass(kind)
}


def named(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def fenced(page: Path, language: str) -> list[str]:
    """The blocks of a page that are fenced as `language`."""
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text("utf-8"), re.M | re.S)


def prose(page: Path) -> str:
    """A page without its fenced blocks."""
    return re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.M | re.S)


def rows(lines: Iterable[str]) -> Iterator[list[str]]:
    """The cells of each row of each table."""
    for line in lines:
        if line.startswith("|"):
            yield [cell.strip() for cell in line.strip().strip("|").split("|")]


def quoted(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_the_tables_of_other_pages_are_what_the_source_says() -> None:
    """To write them anew: `python docs/source_tables.py`."""
    script = runpy.run_path(str(DOCS / "source_tables.py"))
    pages = [page.read_text("utf-8") for page in script["PAGES"]]
    assert [mark for page in pages for mark in script["MARK"].findall(page)] == [
        "codes",
        "signs",
        "papers",
        "families",
        "rooms",
        "floors",
        "errors",
    ]
    assert [script["draw"](page) for page in pages] == pages


def test_the_tables_of_the_config_page_are_what_the_classes_say() -> None:
    """To write them anew: `python docs/config_tables.py`."""
    script = runpy.run_path(str(DOCS / "config_tables.py"))
    page = script["PAGE"].read_text("utf-8")
    assert script["draw"](page) == page
    described_kinds = {
        kind
        for mark, names in script["MARK"].findall(page)
        for kind in script["kinds_of"](names)
        if mark == "fields" or not dataclasses.fields(kind)
    }
    assert described_kinds == set(KINDS.values())


@pytest.mark.parametrize("block", fenced(DOCS / "config.md", "toml"))
def test_every_toml_block_of_the_config_page_is_a_run(block: str) -> None:
    run_from_table(parse_toml(block, "docs/config.md"), find)


def test_the_bigger_model_has_the_parameters_that_the_page_says() -> None:
    (block,) = (b for b in fenced(DOCS / "config.md", "toml") if "d_model = 384" in b)
    run = run_from_table(parse_toml(block, "docs/config.md"), find, ["model.vocab_size=8192"])
    page = (DOCS / "config.md").read_text("utf-8")
    assert f"{parameter_count(run.model) / 1e6:.1f} million parameters" in page


def test_the_architecture_without_a_preset_can_be_built() -> None:
    (block,) = (b for b in fenced(DOCS / "config.md", "toml") if "[model.encoder]" in b)
    run = run_from_table(parse_toml(block, "docs/config.md"), find, ["model.vocab_size=50"])
    assert {type(stack.residual).__name__ for stack in run.model.stacks} == {"SandwichNorm"}
    model = assemble(run.model, seed=0).eval()
    ids = torch.arange(6).reshape(2, 3)
    assert model(ids, encoded=model.encode(ids)).shape == (2, 3, 50)
    assert parameter_count(run.model) == sum(p.numel() for p in model.parameters())


def test_the_config_page_names_every_preset_in_its_family() -> None:
    table = rows((DOCS / "config.md").read_text("utf-8").splitlines())
    listed_presets = {cells[0]: quoted(cells[1]) for cells in table if cells[0] in FAMILIES}
    assert listed_presets == {family: list(presets) for family, presets in FAMILIES.items()}


def commands(page: Path) -> list[str]:
    """The `pellucid` commands in a page's shell blocks, up to a pipe."""
    text = "".join(fenced(page, "(?:sh|bash|console)")).replace("\\\n", " ")
    lines = (line.removeprefix("$ ").split(" | ")[0] for line in text.splitlines())
    return [line for line in lines if line.startswith("pellucid ")]


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(command, id=f"{named(page)}: {command}")
        for page in PAGES
        if page.parent != EXTENDING
        for command in commands(page)
    ],
)
def test_every_command_on_a_page_is_one_that_there_is(command: str) -> None:
    words = shlex.split(command, comments=True)[1:]
    if words[-1] in ("--help", "--version"):
        with pytest.raises(SystemExit) as end:
            parser().parse_args(words)
        assert end.value.code == 0
        return
    arguments = parser().parse_args(words)  # ends the test where a word is not known
    name = "distill" if hasattr(arguments, "teacher") else getattr(arguments, "objective", None)
    table: dict[str, Any] = {"base": "nano"}
    if name is not None:
        goal = find_objective(name)
        table = {"base": goal.preset, "objective": encode(goal.objective)}
    run_from_table(table, find, getattr(arguments, "set", []))


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_relative_link_leads_to_a_file(page: Path) -> None:
    targets = re.findall(r"\]\(([^)\s]+)\)", prose(page))
    relative_links = [t for t in targets if not re.match(r"[a-z]+:", t)]
    for target in relative_links:
        path, _, anchor = target.partition("#")
        file = page.parent / path if path else page
        assert file.exists(), f"{named(page)} links to {target}"
        if anchor:
            assert anchor in anchors(file), f"{named(page)} links to {target}"


def anchors(page: Path) -> set[str]:
    """The names under which a page's headings can be linked to."""
    headings = re.findall(r"^#+ (.*)$", prose(page), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_source_file_that_a_page_names_is_there(page: Path) -> None:
    names = re.findall(r"`([a-z_]+(?:/[a-z_]+)+\.py)`", prose(page))
    places = (ROOT / "src" / "pellucid", ROOT)
    missing = [name for name in names if not any((place / name).is_file() for place in places)]
    assert missing == []


def test_the_picture_of_the_rooms_is_that_of_the_import_contract() -> None:
    """To draw it anew: `python docs/pictures/rooms.py`."""
    script = DOCS / "pictures" / "rooms.py"
    picture = runpy.run_path(str(script))["draw"]()
    assert picture == script.with_suffix(".svg").read_text("utf-8")


def test_the_list_of_pages_for_agents_is_whole() -> None:
    """To write it anew: `python docs/llms.py`."""
    script = runpy.run_path(str(DOCS / "llms.py"))
    assert script["draw"]() == script["FILE"].read_text("utf-8")
    linked_pages = re.findall(r"\]\(([^)]+)\)", script["draw"]())
    assert {ROOT / name for name in linked_pages} == {*PAGES, ROOT / "CHANGELOG.md"}


def test_the_architecture_page_says_which_file_to_open_for_forty_changes() -> None:
    page = (DOCS / "architecture.md").read_text("utf-8")
    table = page.split("| I want to change | open |")[1]
    changes = [cells for cells in rows(table.splitlines()) if quoted(cells[-1])]
    assert len(changes) >= 40
    files = [file for cells in changes for file in quoted(cells[1])]
    assert [file for file in files if not (ROOT / "src" / "pellucid" / file).exists()] == []


def test_the_design_page_says_when_each_event_comes() -> None:
    table = rows((DOCS / "design.md").read_text("utf-8").splitlines())
    event_names = {name for cells in table if len(cells) == 2 for name in quoted(cells[0])}
    assert event_names == {kind.__name__ for kind in typing.get_args(Event)}


def test_the_folder_on_its_page_is_that_of_a_run(trained: Path) -> None:
    (tree,) = (b for b in fenced(DOCS / "run-folder.md", "text") if b.startswith("runs/"))
    described_names = {word.strip("/") for word in tree.split()}
    real_names = {re.sub(r"step-\d+", "step-100", path.name) for path in trained.rglob("*")}
    assert real_names - described_names == set()
    # what a healthy run that is over does not have
    assert {"non-finite/step-N", ".lock-owner.json"} <= described_names - real_names


def test_the_drawing_on_its_page_is_the_one_of_the_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """To write it anew: `pellucid draw gpt2`."""
    assert main(["draw", "gpt2"]) == 0
    assert capsys.readouterr().out in fenced(DOCS / "drawing.md", "text")


def exit_codes() -> list[list[str]]:
    return list(rows((DOCS / "exit-codes.md").read_text("utf-8").splitlines()))


def test_the_exit_code_table_is_the_one_of_the_code() -> None:
    codes = {cells[1].strip("`"): int(cells[0]) for cells in exit_codes() if cells[0].isdigit()}
    assert codes == {code.name: code.value for code in errors.ExitCode}


def test_the_table_of_exceptions_is_the_tree_of_the_code() -> None:
    exit_codes_by_name = {
        cells[0].strip("`"): int(cells[1])
        for cells in exit_codes()
        if cells[0].startswith("`") and cells[1].isdigit()
    }
    tree = [errors.PellucidError, *errors.PellucidError.__subclasses__()]
    own_errors = [error for error in tree if error.__module__ == "pellucid.errors"]
    assert exit_codes_by_name == {error.__name__: int(error.exit_code) for error in own_errors}
