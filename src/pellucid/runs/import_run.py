"""A run that was not trained here: its description, and writing its folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from torch import Tensor

from pellucid import config
from pellucid.checkpoints import Checkpoint, refuse_non_finite, write_text
from pellucid.config import run_to_toml
from pellucid.saved_runs.folder import preparing
from pellucid.saved_runs.requirements import Kind
from pellucid.tokenizers import Tokenizer


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """A run made of a published model; `left_out` has tensors without a place, and the reasons.

    Attributes:
        folder: the new run's folder.
        family: the published family of the architecture.
        kind: decoder, encoder or encoder-decoder.
        parameters: how many numbers the model has.
    """

    folder: Path
    family: str
    kind: Kind
    parameters: int
    left_out: Mapping[str, str] = field(default_factory=dict[str, str])


def write_run(
    out: Path,
    run: config.Run,
    tensors: Mapping[str, Tensor],
    words: Tokenizer,
    family: str,
    *,
    template: str | None = None,
) -> None:
    """Write the folder of a run, at step 0.

    Args:
        out: the folder.
        run: the config.
        tensors: the weights.
        words: the tokenizer.
        family: where the weights come from, for messages.
        template: the source of its chat template, if it has one.

    Raises:
        RunError: `out` exists.
        NonFiniteError: a tensor holds NaN or an infinity.
    """
    refuse_non_finite(tensors, f"the {family} model")
    with preparing(out) as (_, work):
        words.save(work.tokenizer)
        if template is not None:
            work.template.write_text(template, encoding="utf-8")
        checkpoint = Checkpoint(tensors, {}, {}, {"imported": family})
        work.shelf.save(0, checkpoint, best=False, keep=1)
        # last: a folder with a config is a run
        write_text(work.config, run_to_toml(run))
