"""Adapters alone: out of a run, and in again as a run of their base with them.

Comes in: a run that was trained with LoRA, or a directory that `peft` wrote and a base. Goes out: a
directory that `peft` reads, or a run. It does not know families, nor what the adapters are good at.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch

from pellucid import config
from pellucid.checkpoints import load_model_tensors, refuse_non_finite, write_folder
from pellucid.checkpoints.huggingface import (
    ADAPTER_FILES,
    base_of_adapter,
    read_adapter,
    write_adapter,
)
from pellucid.errors import RunError
from pellucid.model import assemble, assemble_trained, merged
from pellucid.runs.import_run import Exported, Imported, write_run
from pellucid.saved_runs.folder import RunFolder, existing_folder, is_published, refuse_taken
from pellucid.saved_runs.load import fill, load, read_config
from pellucid.saved_runs.published import around
from pellucid.saved_runs.requirements import kind_of


def export_adapter(run: str | Path, out: str | Path, *, base: str | None = None) -> Exported:
    """Write a run's adapters alone, at its latest checkpoint or at the one named, for `peft`.

    `base` is where `peft` will look for the base if nobody says: its exported folder, or a name.

    Raises:
        RunError: there is no run, it has no adapters, or `out` is taken.
        CheckpointError: no family can say the base; says which parts.
    """
    folder, named = existing_folder(Path(run))
    out = Path(out)
    refuse_taken(out)
    config_of_run = read_config(folder)
    lora = config_of_run.trained
    if not isinstance(lora, config.LoRA):
        raise RunError(
            f"{run} has no adapters to write alone: it was not trained with --lora RANK; leave "
            "--adapter out to write the whole model"
        )
    checkpoint = named or folder.shelf.latest()
    tensors = load_model_tensors(checkpoint)
    refuse_non_finite(tensors, checkpoint)
    family = ""

    def write(place: Path) -> None:
        nonlocal family
        family = write_adapter(place, config_of_run.model, lora, tensors, base=base)

    write_folder(out, ADAPTER_FILES, write)
    return Exported(folder=out, family=f"LoRA of rank {lora.rank} for a {family}")


def import_adapter(source: Path, out: Path, *, base: str | Path | None) -> Imported:
    """Make the run `out` of a base and the adapters in `source`.

    The base is a run or a published model; adapters that it has itself are merged. Without `base`
    it is the folder that the adapters' own files name.

    Raises:
        CheckpointError: something in it is not handled, or is of another base; says what.
        RunError: there is no base, or `out` is taken.
    """
    below = Path(base) if base is not None else _named_base(source)
    begun = load(below)
    adapter = read_adapter(source, begun.config.model)
    tensors = merged(begun.model) | adapter.tensors
    with torch.device("meta"):
        model = assemble(begun.config.model, seed=0)
        assemble_trained(model, adapter.lora, seed=0)
    fill(model, tensors, torch.device("cpu"))
    plain = around(begun.config.model, RunFolder(out).tokenizer)
    run = replace(plain, objective=begun.config.objective, trained=adapter.lora)
    template = None if is_published(below) else existing_folder(below)[0].template
    write_run(out, run, tensors, begun.tokenizer, "adapter", template=template)
    return Imported(
        folder=out,
        family=f"LoRA of rank {adapter.lora.rank} on {below}",
        kind=kind_of(run.model),
        parameters=sum(tensor.numel() for tensor in adapter.tensors.values()),
    )


def _named_base(source: Path) -> Path:
    named = base_of_adapter(source)
    if named is not None and Path(named).is_dir():
        return Path(named)
    reason = "name none" if named is None else f"name {named}, which is no folder here"
    raise RunError(
        f"{source} holds adapters and no model, and its files {reason}: say what they were trained "
        "on with --base, a run or an exported model"
    )
