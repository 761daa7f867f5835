"""A whole run and its plan as values, and the file that holds a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from pellucid.config.checks import Checked, Count
from pellucid.config.codec import Table, assignment, decode, encode, overlay, to_toml
from pellucid.config.model import Transformer
from pellucid.config.objective_requirements import check_cut, check_growth, check_needs
from pellucid.config.objectives import ElasticNet, Objective
from pellucid.config.old_names import with_new_kinds
from pellucid.config.optimisers import AdamW, Muon, Optimiser
from pellucid.config.parallel import Parallelism
from pellucid.config.text import Text
from pellucid.config.trained import Trained
from pellucid.config.training import Schedule, Training
from pellucid.errors import ConfigError
from pellucid.version import FORMAT, READABLE

_REPLICATED = Parallelism()


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """All choices that decide what a run computes.

    Attributes:
        seed: from 0 to 2^63 - 1: it decides the first weights, the order of the text and the
            dropout.
        text: the source of the text.
        model: the architecture.
        objective: the loss.
        optimiser: how updates change the weights.
        schedule: how the learning rate changes.
        training: how long, how large, how often.
        start: the run or Hugging Face directory whose weights and tokenizer the run starts from, as
            with `--from`. A new head keeps its random weights; the rest of the model is the same.
            The run's folder keeps a copy. Without it all weights are random.
        trained: the weights to train; without it all.
        penalties: terms of the loss for weights that are not 0.
        parallel: where the numbers lie if many processes train.
    """

    seed: int
    text: Text
    model: Transformer
    objective: Objective
    optimiser: Optimiser
    schedule: Schedule
    training: Training
    start: str | None = None
    trained: Trained | None = None
    penalties: tuple[ElasticNet, ...] = ()
    parallel: Parallelism = _REPLICATED

    def __post_init__(self) -> None:
        if not 0 <= self.seed < 2**63:
            raise ConfigError(f"seed must be between 0 and 2^63 - 1, was {self.seed}")
        check_growth(self.training, self.model)
        if self.training.ema_decay is not None and self.parallel.shard != "none":
            raise ConfigError(
                "training.ema_decay averages whole weights, and parallel.shard leaves each rank a "
                "share of them: pass --set parallel.shard=none, or --set training.ema_decay=none"
            )
        if self.training.rounding is not None:
            check_rounded_weights(self)

    def check_objective(self) -> None:
        """Refuse a model or data that the objective cannot use.

        Making a `Run` does not check this: you can show, compare and count it all the same.

        Raises:
            ConfigError: says what the objective takes.
        """
        check_needs(self.objective, self.model, self.text.corpus, self.start)
        check_cut(self.training.growth, self.objective)


def check_rounded_weights(run: Run) -> None:
    """Refuse what weights in bfloat16 cannot train with.

    Raises:
        ConfigError: names the first such key, the reason, and what to set.
    """
    settings, parallel = run.training, run.parallel
    computed = any(stack.reparametrisation is not None for stack in run.model.stacks)
    refusals = (
        (
            settings.precision == "float32",
            'training.precision is "float32", and products of bfloat16 weights are in bfloat16: '
            "pass --set training.precision=bfloat16",
        ),
        (
            settings.accumulation > 1,
            f"training.accumulation is {settings.accumulation}, and gradients of parts would add "
            "up in bfloat16, which loses small ones: pass --set training.accumulation=1 and, to "
            "save memory, training.recompute=full",
        ),
        (
            not isinstance(run.optimiser, AdamW | Muon),
            f"the optimiser is {type(run.optimiser).__name__}, and only AdamW and Muon update the "
            "exact weights: take one of them",
        ),
        (
            settings.ema_decay is not None,
            "training.ema_decay averages the rounded weights: pass --set training.ema_decay=none",
        ),
        (bool(run.penalties), "penalties act on the rounded weights: leave them out"),
        (run.trained is not None, "`trained` freezes weights: leave it out"),
        (
            computed,
            "`reparametrisation` computes matrices from other weights: leave it out",
        ),
        (
            parallel.shard != "none" or parallel.tensor > 1,
            "shares of weights are updated in float32: pass --set "
            "parallel.shard=none and parallel.tensor=1",
        ),
    )
    for is_refused, reason in refusals:
        if is_refused:
            raise ConfigError(
                f'training.weights is "{settings.weights}", but {reason}; or pass --set '
                "training.weights=float32"
            )


#: The type in which Muon orthogonalises; fused, a polynomial is one operation (since 0.2).
Orthogonal = Literal["float32", "bfloat16", "fused float32", "fused bfloat16"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(Checked):
    """Values that a resumed run reuses, and facts about the machine that it must find again.

    Plans written before a key existed get its default.

    Attributes:
        total_steps: the number of updates that the budget allows.
        threads: threads of torch on the CPU.
        device: the device.
        precision: the type of matrix products.
        compile: whether blocks are compiled.
        compile_loss: whether torch compiles the loss where no C code computes it.
        device_name: the GPU's name, or the processor's vector instructions and its model.
        torch_version: the version of torch.
        attention: the kernel of attention that pellucid measured to be faster in training: torch's
            own, "fused", or "products" of matrices.
        native: whether the C code runs.
        orthogonal: how Muon orthogonalises: in bfloat16 if the device multiplies it natively, else
            in float32. The fused ones compute a polynomial in one operation, in half of the time
            and closer. Older runs keep the others.
        growth_steps: the number of updates for `training.growth`, if `--steps` changed
            `total_steps`.
        ranks: the number of processes that train together.
        parts: the number of equal parts of each batch, if the ranks need more than
            `training.accumulation`.
        seeding: "by_part": each part of a batch but the first has random numbers of its own, on one
            rank too. "by_update": the parts share one stream, as in runs of 0.1.
        replanned: whether the run is by minutes, and `replans.jsonl` changes its length; false in
            runs of 0.1.
    """

    total_steps: Count
    threads: Count
    device: str
    precision: Literal["float32", "bfloat16"]
    compile: bool
    device_name: str
    torch_version: str
    attention: Literal["fused", "products"] = "fused"
    native: bool = False
    orthogonal: Orthogonal = "bfloat16"
    growth_steps: Count | None = None
    ranks: Count = 1
    parts: Count | None = None
    seeding: Literal["by_update", "by_part"] = "by_update"
    replanned: bool = False
    compile_loss: bool = False

    @property
    def grows_over(self) -> int:
        """The number of updates that `training.growth.until` is a share of."""
        return self.growth_steps or self.total_steps


def run_to_toml(run: Run) -> str:
    """A run as TOML, with all its values and no base."""
    return f"format = {FORMAT}\n" + to_toml(run)


def run_from_table(
    table: Table, find_base: Callable[[str], Run], assignments: Iterable[str] = ()
) -> Run:
    """The run that a table describes: its base, then its own settings, then each `--set`.

    A table of format 1 may have the old names of kinds; you see one warning.

    Args:
        table: a config as TOML gives it.
        find_base: finds the preset that `base` names.
        assignments: texts such as "training.batch_size=16".

    Raises:
        ConfigError: an unknown base, key or kind, or a value of the wrong type or range.
    """
    table = with_new_kinds(table, warn_for="the config")
    saved_format = table.pop("format", FORMAT)
    if saved_format not in READABLE:
        raise ConfigError(
            f"format: this config has format {saved_format!r}, this version of pellucid reads "
            f"{' and '.join(map(str, READABLE))}: use the version that wrote it, or start from a "
            "preset"
        )
    base = base_of(table)
    if base is not None:
        table = overlay(encode(find_base(base)), table)
    for text in assignments:
        table = overlay(table, with_new_kinds(assignment(text), warn_for=f"--set {text}"))
    return decode(Run, table, "")


def base_of(table: Table) -> str | None:
    """Take the preset that a table starts from out of it.

    Raises:
        ConfigError: it is no name.
    """
    base = table.pop("base", None)
    if base is None or isinstance(base, str):
        return base
    raise ConfigError(f"base: expected the name of a preset, was {base!r}")
