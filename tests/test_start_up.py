"""What a start does not pay for: torch's compiler takes a second and 70 MB to load."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support.tiny import TINY, write_text

#: Runs the command line as a process of its own would, and says whether the compiler is there.
SAYS = """
import sys
from pellucid.cli import main
sys.argv = ["pellucid", *sys.argv[1:]]
try:
    code = main()
except SystemExit as exit:
    code = exit.code
print(code or 0, "torch" in sys.modules, "torch._dynamo" in sys.modules)
"""


def ends(cwd: Path, *words: str) -> list[str]:
    process = subprocess.run(
        [sys.executable, "-c", SAYS, *words], cwd=cwd, capture_output=True, text=True, timeout=300
    )
    return process.stdout.splitlines()[-1].split()


@pytest.mark.parametrize(
    "optimiser",
    [
        "optimiser.learning_rate=0.01",  # Muon, with AdamW for the rest
        'optimiser={kind="Adam", learning_rate=0.01, betas=[0.9, 0.95], eps=1e-8, l2=0.1}',
        'optimiser={kind="SGD", learning_rate=0.1, momentum=0.9, l2=0.0}',
    ],
    ids=["Muon", "Adam", "SGD"],
)
def test_a_training_that_compiles_nothing_does_not_load_the_compiler(
    tmp_path: Path, optimiser: str
) -> None:
    text = write_text(tmp_path / "text")
    settings = [*TINY, "text.held_out=0.2", "training.compile=off", optimiser]
    flags = [word for setting in settings for word in ("--set", setting)]
    words = ("train", str(text), "--steps", "3", "--out", "run", *flags)
    assert ends(tmp_path, *words) == ["0", "True", "False"]


@pytest.mark.parametrize(
    "words",
    [
        ("generate", "RUN", "--prompt", "the"),
        ("explain", "RUN", "the cat sat"),
        ("evaluate", "RUN", "TEXT"),
        ("check", "RUN"),
    ],
    ids=lambda words: words[0],
)
def test_opening_a_model_does_not_load_the_compiler(
    tmp_path: Path, trained: Path, words: tuple[str, ...]
) -> None:
    text = write_text(tmp_path / "text")
    paths = {"RUN": str(trained), "TEXT": str(text)}
    assert ends(tmp_path, *(paths.get(word, word) for word in words)) == ["0", "True", "False"]


#: Seeds the generators, imports all that a loop may, and says whether they go on as before.
SEEDED = """
import random, numpy, torch
random.seed(0), numpy.random.seed(0), torch.manual_seed(0)
states = random.getstate(), str(numpy.random.get_state()), torch.get_rng_state().tolist()
import pellucid, pellucid.api, pellucid.cli, pellucid.diagnosis, pellucid.vitals
print(states == (random.getstate(), str(numpy.random.get_state()), torch.get_rng_state().tolist()))
"""


def test_an_import_draws_no_random_number() -> None:
    process = subprocess.run(
        [sys.executable, "-c", SEEDED], capture_output=True, text=True, timeout=300, check=True
    )
    assert process.stdout.strip() == "True"
