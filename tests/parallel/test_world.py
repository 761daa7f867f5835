"""One process alone needs no other; sizes that ranks cannot share are refused by name."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import pellucid
from pellucid import config
from pellucid.cli import main
from pellucid.errors import ConfigError
from pellucid.parallel import World, count_ranks, joined, leads, own_command
from pellucid.presets import find
from pellucid.training.randomness import seed_part, seed_step

TRAINING = replace(find("nano").training, batch_size=12, accumulation=4)


@pytest.mark.parametrize("size", [None, "1"])
def test_one_process_alone_joins_nothing(size: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    if size is not None:
        monkeypatch.setenv("WORLD_SIZE", size)
    with joined(config.Parallelism()) as world:
        assert type(world) is World
        assert leads()
    assert not torch.distributed.is_initialized()


@pytest.mark.parametrize(("ranks", "parts"), [(1, 4), (2, 4), (4, 4), (6, 6), (12, 12)])
def test_a_batch_has_as_many_parts_as_asked_or_one_a_rank(ranks: int, parts: int) -> None:
    assert config.count_parts(TRAINING, ranks) == parts


@pytest.mark.parametrize(
    ("training", "ranks", "message"),
    [
        (TRAINING, 3, "training.accumulation: 4 parts .* by 3 ranks alike: .* 3 and 6"),
        (TRAINING, 5, "training.batch_size: 12 rows .* 5 equal parts .*: .* 10 and 15"),
        (
            replace(TRAINING, growth=config.GrowingBatch(first=3, until=0.5), accumulation=1),
            2,
            "training.growth.first: 3 rows .*: .* 2 and 4",
        ),
    ],
)
def test_sizes_that_ranks_cannot_share_are_refused_with_the_nearest(
    training: config.Training, ranks: int, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        config.count_parts(training, ranks)


def test_a_missing_variable_of_torchrun_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "0")
    monkeypatch.delenv("MASTER_ADDR", raising=False)
    assert count_ranks() == 2
    assert main(["train", "text.txt"]) == 2
    assert "MASTER_ADDR" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("size", "local", "command"),
    [
        ("1", None, "pellucid"),
        ("2", None, "torchrun --nproc-per-node 2 -m pellucid"),
        ("8", "8", "torchrun --nproc-per-node 8 -m pellucid"),
        ("16", "8", "torchrun --nnodes 2 ... --nproc-per-node 8 -m pellucid"),
    ],
)
def test_advice_starts_as_many_processes_as_there_are(
    size: str, local: str | None, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", size)
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    if local is not None:
        monkeypatch.setenv("LOCAL_WORLD_SIZE", local)
    assert own_command() == command


def test_the_first_part_has_the_random_numbers_of_the_update_and_others_their_own() -> None:
    draws: list[float] = []
    for seed in (lambda: seed_step(3, 5), lambda: seed_part(3, 5, 0), lambda: seed_part(3, 5, 1)):
        seed()
        draws.append(float(torch.rand(())))
    assert draws[0] == draws[1] != draws[2]


def test_only_this_room_imports_torch_distributed() -> None:
    root = Path(pellucid.__file__).parent
    users = {
        file.relative_to(root).parts[0]
        for file in root.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if any(name.startswith("torch.distributed") for name in _modules_of(node))
    }
    assert users == {"parallel"}


def _modules_of(node: ast.AST) -> list[str]:
    match node:
        case ast.Import():
            return [alias.name for alias in node.names]
        case ast.ImportFrom(module=str(module)):
            return [module, *(f"{module}.{alias.name}" for alias in node.names)]
        case _:
            return []
