"""Everything that a prediction is made from: a run, a kind of device, a layout, assumptions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

from pellucid.config import Run, count_parts, decode
from pellucid.config.checks import Checked
from pellucid.counting import Layout, with_vocabulary
from pellucid.counting.activations import Pass, Precision, bytes_of
from pellucid.counting.conditions import Conditions, Logits
from pellucid.counting.layout import check_tensor
from pellucid.counting.peak import pass_of
from pellucid.errors import ConfigError
from pellucid.planning.kinds import Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumptions(Checked):
    """Choices of a loop that no config has; the defaults describe our own loop.

    Attributes:
        logits: Whether the loss computes logits in "chunks", holds the "whole" of a pass, or holds
            them in one "fused" kernel.
        selective: Whether selective recomputation keeps all "products" of matrices, or
            "alternate" ones, as torchtitan does. None: all with chunks of logits, as in our loop;
            alternate ones in a loop that holds all logits.
        residual: The type of the residual stream: one of two, or the type of the "weights" in use.
    """

    logits: Logits = "chunks"
    selective: Literal["products", "alternate"] | None = None
    residual: Literal["weights", "float32", "bfloat16"] = "weights"

    @property
    def alternate(self) -> bool:
        """Whether selective recomputation keeps every second product."""
        if self.selective is None:
            return self.logits != "chunks"
        return self.selective == "alternate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A training, divided among devices of a kind.

    Attributes:
        run: The config, with the size of its vocabulary.
        kind: The kind of each device.
        layout: How the work is divided.
        precision: Of matrix products.
        compiled: Whether operations without matrices are fused.
        assumptions: Choices of the loop.
    """

    run: Run
    kind: Kind
    layout: Layout
    precision: Precision
    compiled: bool
    assumptions: Assumptions

    @property
    def parts(self) -> int:
        """The passes of a device in an update."""
        return max(1, self.run.training.accumulation // self.layout.data)

    @property
    def size(self) -> Pass:
        """A pass of a device."""
        return pass_of(self.run, None, self.layout.data)

    @property
    def step_tokens(self) -> int:
        """The tokens that an update reads on all devices."""
        size = self.size
        return size.sequences * max(size.encoder, size.decoder) * self.parts * self.layout.data

    @property
    def conditions(self) -> Conditions:
        """The same for the estimate of memory."""
        residual = self.assumptions.residual
        return Conditions(
            precision=self.precision,
            kernel="flash" if self.kind.gpu else None,
            layout=self.layout,
            on_gpu=self.kind.gpu,
            logits=self.assumptions.logits,
            compiled=self.compiled,
            residual=None if residual == "weights" else bytes_of(residual),
        )


def make_setting(run: Run, kind: Kind, layout: Layout, assume: Iterable[str] = ()) -> Setting:
    """A setting that was checked.

    Args:
        run: The config.
        kind: The kind of each device.
        layout: How the work is divided.
        assume: Assumptions, such as "logits=whole".

    Raises:
        ConfigError: an assumption that there is none of; a vocabulary that only the data decide;
            a batch, heads or units that the layout does not divide; weights that only one device
            can train.
    """
    run, assumptions = with_vocabulary(run), _read_assumptions(assume)
    _ = run.model.rows  # for its refusal
    if run.training.rounding is not None and layout.devices > 1:
        raise ConfigError(
            f'training.weights is "{run.training.weights}", which trains on one device alone: '
            "plan for one, or with --set training.weights=float32"
        )
    if layout.recompute == "selective" and assumptions.alternate:
        layout = replace(layout, recompute="alternate")
    check_tensor(run.model, layout.tensor)
    count_parts(run.training, layout.data)  # refuses sizes that do not divide
    return Setting(
        run=run,
        kind=kind,
        layout=layout,
        precision=_precision(run),
        compiled=run.training.compiles(on_gpu=kind.gpu),
        assumptions=assumptions,
    )


def layout_of(run: Run, kind: Kind, devices: int, **changes: Any) -> Layout:
    """The layout that a config describes, on some devices.

    The config has it in `parallel` and `training.recompute`.
    Weights are gathered in the precision of products, unless `changes` say another type.

    Args:
        run: The config.
        kind: The kind of the devices.
        devices: How many.
        **changes: Fields of `Layout` that replace the config's; None replaces nothing.

    Raises:
        ConfigError: the numbers of devices do not divide each other.
    """
    names = ("shard", "tensor", "offload", "gather", "reduce")
    fields: dict[str, Any] = {name: getattr(run.parallel, name) for name in names}
    fields["recompute"] = run.training.recompute
    fields |= {name: value for name, value in changes.items() if value is not None}
    if fields["gather"] == "auto":
        fields["gather"] = _precision(run)
    return Layout(devices=devices, node=kind.node, **fields)


def _precision(run: Run) -> Precision:
    precision = run.training.precision
    return "bfloat16" if precision == "auto" else precision


def _read_assumptions(assume: Iterable[str]) -> Assumptions:
    table: dict[str, str] = {}
    for text in assume:
        name, equals, value = text.partition("=")
        if not equals:
            raise ConfigError(f"--assume {text}: expected NAME=VALUE, such as logits=whole")
        table[name] = value
    return decode(Assumptions, table, "--assume")
