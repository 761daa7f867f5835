"""If you add a part of a new kind, the type checker tells you which code has to handle it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import pellucid

SOURCE = Path(pellucid.__file__).parent
#: The union of each slot that a contributor adds to, and the function that reads it.
SLOTS = {
    "NormPart": "norm_facts",
    "AttentionPart": "attention_facts",
    "PositionPart": "position_facts",
}
NEW = """

@dataclass(frozen=True, slots=True, kw_only=True)
class New{slot}Facts:
    '''A part of a kind that nobody knows yet.'''


"""


@pytest.fixture(scope="module")
def complaints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """Files with a `match` that leaves out a new kind, by the union that it was added to."""
    pytest.importorskip("basedpyright", reason="needs the package's `checks`")
    checkout = tmp_path_factory.mktemp("checkout")
    package = checkout / "src" / "pellucid"
    shutil.copytree(SOURCE, package, ignore=shutil.ignore_patterns("__pycache__"))
    for slot in SLOTS:
        add_kind(package / "model" / "facts", slot)
    config = {"include": sorted(readers()), "typeCheckingMode": "standard", "extraPaths": ["src"]}
    (checkout / "pyrightconfig.json").write_text(json.dumps(config), "utf-8")
    command = [sys.executable, "-m", "basedpyright", "--outputjson", "-p", str(checkout)]
    run = subprocess.run(
        [*command, "--pythonpath", sys.executable],
        cwd=checkout,
        capture_output=True,
        text=True,
        check=False,
    )
    files_by_slot: dict[str, set[str]] = {slot: set() for slot in SLOTS}
    for diagnostic in json.loads(run.stdout)["generalDiagnostics"]:
        for slot in SLOTS:
            if f'"New{slot}Facts" is not assignable to type "Never"' in diagnostic["message"]:
                files_by_slot[slot].add(
                    str(Path(diagnostic["file"]).relative_to(checkout.resolve()))
                )
    return files_by_slot


def add_kind(folder: Path, slot: str) -> None:
    """Add a class of facts to a union, in the file that has it."""
    union = re.compile(rf"^{slot} = \(?\s*", re.MULTILINE)
    ((file, text),) = (
        (file, text)
        for file in folder.glob("*.py")
        if union.search(text := file.read_text("utf-8"))
    )
    text = union.sub(rf"\g<0>New{slot}Facts | ", text)
    first = text.index(f"{slot} = ")
    file.write_text(text[:first].rstrip() + NEW.format(slot=slot) + text[first:], "utf-8")


def readers(function: str = "|".join(SLOTS.values())) -> set[str]:
    """The files outside `model` that read the facts of a slot."""
    call = re.compile(rf"\b({function})\(")
    return {
        str(Path("src/pellucid") / path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if path.relative_to(SOURCE).parts[0] != "model" and call.search(path.read_text("utf-8"))
    }


@pytest.mark.slow
@pytest.mark.parametrize("slot", SLOTS)
def test_the_type_checker_names_every_observer_of_a_new_kind(
    slot: str, complaints: dict[str, set[str]]
) -> None:
    assert complaints[slot] == readers(SLOTS[slot])
    assert len(complaints[slot]) >= 3
