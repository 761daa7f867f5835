"""Adapters alone: exported from a run, and imported as a run of their base."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch

from pellucid import config
from pellucid.checkpoints import load_model_tensors, refuse_non_finite, write_folder
from pellucid.checkpoints.huggingface import (
    ADAPTER_FILES,
    base_of_adapter,
    is_huggingface,
    open_published,
    read_adapter,
    write_adapter,
)
from pellucid.errors import RunError
from pellucid.exports import Exported
from pellucid.model import assemble, assemble_trained, merged
from pellucid.runs.import_run import Imported, write_run
from pellucid.saved_runs.folder import RunFolder, existing_folder, refuse_taken
from pellucid.saved_runs.load import fill, load, read_config
from pellucid.saved_runs.published import published_template, wrap_model
from pellucid.saved_runs.requirements import kind_of


def export_adapter(run: str | Path, out: str | Path, *, base: str | None = None) -> Exported:
    """Write the adapters of a run alone, for `peft`.

    Args:
        run: a run, or one of its checkpoints.
        out: the folder to write.
        base: where `peft` looks for the base by default: its exported folder, or a name. The
            updates get the names of a published model in this folder, and by default those of an
            exported base.

    Raises:
        RunError: there is no run, it has no adapters, or `out` exists.
        CheckpointError: no published family has a base like this, or the one in `base` has not;
            names the parts.
    """
    folder, checkpoint = existing_folder(Path(run))
    out = Path(out)
    refuse_taken(out)
    run_config = read_config(folder)
    lora = run_config.trained
    if not isinstance(lora, config.LoRA):
        raise RunError(
            f"{run} has no adapters to write alone: it was not trained with --lora RANK; leave "
            "--adapter out to write the whole model"
        )
    checkpoint = checkpoint or folder.shelf.latest()
    tensors = load_model_tensors(checkpoint)
    refuse_non_finite(tensors, checkpoint)
    family = None if base is None else _family_in(Path(base))

    def write(place: Path) -> None:
        nonlocal family
        family = write_adapter(place, run_config.model, lora, tensors, base=base, family=family)

    write_folder(out, ADAPTER_FILES, write)
    return Exported(folder=out, family=f"LoRA of rank {lora.rank} for a {family}")


def import_adapter(source: Path, out: Path, *, base: str | Path | None) -> Imported:
    """Make the run `out` of a base and the adapters in `source`.

    The base is a run or a published model; its own adapters are merged.

    Args:
        source: the folder of the adapters.
        out: the run's folder.
        base: the base; by default the folder that the files of the adapters name.

    Raises:
        CheckpointError: pellucid does not support a part of it, or it fits another base.
        RunError: there is no base, or `out` exists.
    """
    base_path = Path(base) if base is not None else _find_base(source)
    base_run = load(base_path)
    adapter = read_adapter(source, base_run.config.model)
    tensors = merged(base_run.model) | adapter.tensors
    with torch.device("meta"):
        model = assemble(base_run.config.model, seed=0)
        assemble_trained(model, adapter.lora, seed=0)
    fill(model, tensors, torch.device("cpu"))
    plain = wrap_model(base_run.config.model, RunFolder(out).tokenizer)
    run = replace(plain, objective=base_run.config.objective, trained=adapter.lora)
    template = published_template(base_run.folder)
    write_run(out, run, tensors, base_run.require_tokenizer(), "adapter", template=template)
    return Imported(
        folder=out,
        family=f"LoRA of rank {adapter.lora.rank} on {base_path}",
        kind=kind_of(run.model),
        parameters=sum(tensor.numel() for tensor in adapter.tensors.values()),
    )


def _family_in(base: Path) -> str | None:
    """The family of the published model in a folder; None if there is none."""
    return open_published(base).family if is_huggingface(base) else None


def _find_base(source: Path) -> Path:
    base = base_of_adapter(source)
    if base is not None and Path(base).is_dir():
        return Path(base)
    reason = "name none" if base is None else f"name {base}, which is no folder here"
    raise RunError(
        f"{source} holds adapters and no model, and its files {reason}: pass the run or exported "
        "model that they were trained on with --base"
    )
