"""Ranks that share a model never hold all of it: it is built, and read, share by share."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from pellucid.checkpoints import Checkpoint, Place, Shares, load, read_region, save, write_own
from pellucid.model import assemble, assemble_empty, draw_weights, has_own_matrices
from pellucid.parallel import World
from support.models import PAIRS, VARIANTS
from support.ranks import run_cases

MODELS = VARIANTS | PAIRS


@pytest.mark.parametrize("name", [n for n, m in MODELS.items() if has_own_matrices(m)])
def test_a_model_built_empty_has_the_numbers_of_one_that_was_not(name: str) -> None:
    model_config = MODELS[name]
    plain_model, own_model = assemble(model_config, seed=3), assemble_empty(model_config)
    matrices = [m for m in own_model.modules() if isinstance(m, nn.Linear | nn.Embedding)]
    assert all(p.is_meta for module in matrices for p in module.parameters(recurse=False))
    own_model._apply(lambda x: torch.full_like(x, torch.nan, device="cpu") if x.is_meta else x)
    draw_weights(own_model, model_config, seed=3, set_values=World().set_values)
    for own_tensors, plain_tensors in (
        (own_model.state_dict(), plain_model.state_dict()),
        (dict(own_model.named_buffers()), dict(plain_model.named_buffers())),
    ):
        assert own_tensors.keys() == plain_tensors.keys()
        assert all(torch.equal(tensor, plain_tensors[key]) for key, tensor in own_tensors.items())


def check_built(name: str, ranks: list[dict[str, int]]) -> None:
    for facts in ranks:
        assert facts["equal"], name
        if not name.startswith("tensor"):  # norms and embeddings are whole there
            small = 0.02 * facts["whole"]  # norms are whole until they are shared
            assert facts["peak"] <= facts["whole"] / 2 + facts["largest"] + small, (name, facts)


def test_a_rank_builds_its_shares_one_tensor_at_a_time_and_its_waiting_is_counted(
    tmp_path: Path,
) -> None:
    name = "full/built all weights"
    answers = run_cases(2, [name, "none/slow", "full/slow"], tmp_path, updates=1)
    check_built(name, answers[name])
    for layout in ("none", "full"):
        (speed, waited_seconds, memory), (slow_speed, slow_waited, slow_memory) = answers[
            f"{layout}/slow"
        ]
        assert speed > 1.5 * slow_speed > 0, layout
        assert waited_seconds > 0.9 > slow_waited, (
            layout
        )  # three times 0.4 s, and not the pause before
        assert (memory, slow_memory) == (1000, 1001)


@pytest.mark.nightly
def test_other_layouts_and_adapters_are_built_in_shares_too(tmp_path: Path) -> None:
    names = ["full/built all weights", "full/built adapters", "tensor/built all weights"]
    names += ["offload/built adapters", "full tensor/built all weights"]
    answers = run_cases(2, names, tmp_path, updates=1)
    answers |= run_cases(4, ["node/built all weights"], tmp_path, updates=1)
    for name, ranks in answers.items():
        check_built(name, ranks)
    trained = {name: ranks[0]["trained"] for name, ranks in answers.items()}
    assert 0 < trained["full/built adapters"] < trained["full/built all weights"]


def pages_in_memory(file: Path) -> int:
    """The bytes of a file's mappings that this process has read."""
    total, counts = 0, False
    for line in Path("/proc/self/smaps").read_text(encoding="utf-8").splitlines():
        words = line.split()
        if "-" in words[0] and not words[0].endswith(":"):
            counts = words[-1] == str(file)
        elif counts and words[0] == "Rss:":
            total += int(words[1]) * 1024
    return total


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lists the pages of a process")
@pytest.mark.parametrize("in_shares", [False, True])
def test_a_rank_reads_only_its_part_of_a_checkpoint(in_shares: bool, tmp_path: Path) -> None:
    matrix = torch.arange(2.0**24).view(4096, 4096)
    checkpoint, folder = Checkpoint({"w": matrix}, {}, {}, {}), tmp_path / "step-1"
    if in_shares:
        shares = Shares({"w": Place((4096, 4096), (0, 0))}, 1)
        checkpoint = Checkpoint({"w": matrix}, {}, {}, {}, shares)
        own_shares = shares._replace(write=lambda partial: write_own(partial, checkpoint, 0))
        save(folder, Checkpoint({}, {}, {}, {}, own_shares))
    else:
        save(folder, checkpoint)
    (file,) = folder.glob("model*.safetensors")
    opened = load(folder, is_verified=True)
    part = read_region(opened.model, "w", (slice(1024, 1536), slice(None)))
    assert torch.equal(part, matrix[1024:1536])
    # the system maps some pages around those that are read
    assert matrix.nbytes / 8 <= pages_in_memory(file) <= matrix.nbytes / 5
    assert torch.equal(read_region(opened.model, "w", (slice(5, 9), slice(7, 8))), matrix[5:9, 7:8])
