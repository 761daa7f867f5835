"""Shares of tensors, a file for each rank: put together by one process, refused if damaged."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from pellucid.checkpoints import Checkpoint, Place, Shares, load, save, write_own
from pellucid.checkpoints.files import MANIFEST
from pellucid.cli import main
from pellucid.errors import CheckpointError
from pellucid.reader import file_sha256
from support.ranks import finish, start_ranks
from support.tiny import ADAMW, SHARING, TINY, flags_of, write_text

WEIGHT = torch.arange(15.0).view(5, 3)


def checkpoint_of(rank: int) -> Checkpoint:
    """Rank 0 has the first three rows and a number, rank 1 the last two rows."""
    rows = WEIGHT[:3] if rank == 0 else WEIGHT[3:]
    places = {"w": Place((5, 3), (3 * rank, 0)), "w::exp_avg": Place((5, 3), (3 * rank, 0))}
    count: dict[str, Tensor] = {} if rank else {"w::step": torch.tensor(7.0)}
    places |= {} if rank else {"w::step": Place((), ())}
    return Checkpoint({"w": rows}, {"w::exp_avg": rows * 2, **count}, {}, {}, Shares(places, 2))


def save_shares(folder: Path) -> None:
    def write(partial: Path) -> dict[str, str]:
        sums = [write_own(partial, checkpoint_of(rank), rank) for rank in (1, 0)]
        return {name: value for shares in sums for name, value in shares.items()}

    whole_checkpoint = checkpoint_of(0)
    assert whole_checkpoint.shares is not None
    save(
        folder,
        replace(whole_checkpoint, shares=whole_checkpoint.shares._replace(write=write)),
        replace=True,
    )


def test_one_process_puts_the_shares_of_all_ranks_together(tmp_path: Path) -> None:
    save_shares(tmp_path / "step-1")
    loaded = load(tmp_path / "step-1")
    assert torch.equal(loaded.model["w"], WEIGHT)
    assert torch.equal(loaded.optimiser["w::exp_avg"], WEIGHT * 2)
    assert float(loaded.optimiser["w::step"]) == 7
    save(tmp_path / "step-1", Checkpoint({"w": WEIGHT}, {}, {}, {}), replace=True)
    assert not list((tmp_path / "step-1").glob("*.rank-*"))
    assert torch.equal(load(tmp_path / "step-1").model["w"], WEIGHT)


def forge(folder: Path, name: str, header: object) -> None:
    """Give a file another header, and the manifest its checksum."""
    save_file(load_file(folder / name), folder / name, metadata={"places": json.dumps(header)})
    manifest = json.loads((folder / MANIFEST).read_text())
    manifest["sha256"][name] = file_sha256(folder / name)
    (folder / MANIFEST).write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ({}, "has no place"),
        ({"w": [[5, 3], [4, 0]]}, "is no share of"),
        ({"w": [[4, 3], [2, 0]]}, "is no share of"),
        ({"w": [[5, 3], [-1, 0]]}, "two lists of whole numbers"),
        ({"w": 3}, "two lists of whole numbers"),
        ([], "must be an object"),
    ],
)
def test_a_header_that_makes_no_sense_is_refused(
    tmp_path: Path, header: object, message: str
) -> None:
    save_shares(tmp_path / "step-1")
    forge(tmp_path / "step-1", "model.rank-1.safetensors", header)
    with pytest.raises(CheckpointError, match=message):
        load(tmp_path / "step-1")


def test_a_manifest_without_a_rank_or_with_a_path_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "step-1"
    save_shares(folder)
    manifest = json.loads((folder / MANIFEST).read_text())
    for change in ("drop", "path"):
        sums = dict(manifest["sha256"])
        digest = sums.pop("model.rank-1.safetensors")
        if change == "path":
            sums["../model.rank-1.safetensors"] = digest
        (folder / MANIFEST).write_text(json.dumps(manifest | {"sha256": sums}))
        with pytest.raises(CheckpointError, match="has no checksums of"):
            load(folder)


@pytest.mark.nightly
@pytest.mark.parametrize(
    "layout",
    [("parallel.shard=full",), ("parallel.shard=full", "parallel.tensor=2")],
    ids=["two ranks", "four ranks that share products"],
)
def test_ranks_write_a_file_each_and_any_number_goes_on(
    tmp_path: Path, layout: tuple[str, ...]
) -> None:
    size = 2 * len(layout)
    heads = "model.decoder.attention.n_kv_heads=2"  # ranks that share products have whole heads
    sizes = (heads, "training.batch_size=8", "training.accumulation=4")
    flags = flags_of((*TINY, *ADAMW, *layout, *sizes))
    words = ["train", str(write_text(tmp_path)), "--no-vitals", "--steps", "8", *flags]
    words += ["--out", "run"]
    ends = finish(start_ranks(size, ["-c", SHARING, *words], tmp_path))
    assert [code for code, _, _ in ends] == [0] * size, ends
    run = tmp_path / "run"
    latest = run / "checkpoints" / "step-8"
    for rank in range(size):  # everyone holds a share of the matrices
        assert len(load_file(latest / f"model.rank-{rank}.safetensors")) > 10
    assert main(["evaluate", str(run)]) == 0
    resume_command = [
        "train",
        "--resume",
        str(run),
        "--steps",
        "10",
        "--allow-drift",
        "--no-vitals",
    ]
    ends = finish(start_ranks(size, ["-c", SHARING, *resume_command], tmp_path))
    assert [code for code, _, _ in ends] == [0] * size, ends
    assert main([*resume_command[:3], "--steps", "12", *resume_command[5:]]) == 0
