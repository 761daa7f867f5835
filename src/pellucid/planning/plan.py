"""The prediction of a training on some devices: memory, time, transport, cost, by part."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pellucid.config import Run, Steps, Tokens
from pellucid.counting import Layout, MemoryEstimate, MemoryRow, flops_per_token, peak_memory
from pellucid.planning.kinds import Kind, find_kind
from pellucid.planning.setting import Setting, layout_of, make_setting
from pellucid.planning.transport import Collective, collectives, step_seconds
from pellucid.planning.work import Work, measure_work

#: Bytes that a GPU's driver and the library of its collectives take besides what torch reserves.
_RESERVED = 1.5 * 2**30
#: The share of a GPU's memory above which no weights are gathered ahead of their use: the allocator
#: frees blocks and waits for them. It is as near to full as the memory is predicted (docs/plan.md).
_CROWDED = 0.95
_LOGITS = {
    "chunks": "the loss never holds all logits",
    "whole": "the loss holds all logits of a pass",
    "fused": "the loss holds all logits of a pass, in one kernel",
}
#: What recomputation keeps, in words.
_RECOMPUTATION = {
    "selective": ("all products of matrices and attention are kept, the rest is computed again",),
    "alternate": ("every second product and attention are kept, the rest is computed again",),
    "full": ("the input of each block is kept, the rest is computed again",),
}


@dataclass(frozen=True, slots=True)
class TimeRow:
    """A part of an update in seconds, and its formula.

    Parts of a pass count for all passes of the update. Collectives run while the device computes:
    the row "waiting" has the seconds by which they delay the update.

    Attributes:
        part: the name of the part.
        seconds: of an update.
        formula: how they follow, in words.
    """

    part: str
    seconds: float
    formula: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What a training will need on each device, and how fast it will be.

    Attributes:
        setting: The training, the devices and the layout.
        memory: The peak of a device, by part.
        work: Seconds of a pass.
        transport: The collectives of an update.
        step_seconds: An update.
    """

    setting: Setting
    memory: MemoryEstimate
    work: Work
    transport: tuple[Collective, ...]
    step_seconds: float

    @property
    def memory_per_device(self) -> int:
        """Bytes at the peak: of a GPU what torch reserves, else of the process."""
        return self.memory.n_bytes

    @property
    def fits(self) -> bool:
        """Whether the memory of a device is enough."""
        return fits(self.setting, self.memory)

    @property
    def tokens_per_second(self) -> float:
        """Of all devices."""
        return self.setting.step_tokens / self.step_seconds

    @property
    def mfu(self) -> float:
        """The share of the peak that the model's own FLOPs reach: causal, nothing twice."""
        flops = sum(row.forward + row.backward for row in flops_per_token(self.setting.run.model))
        return self._share_of_peak(flops)

    @property
    def mfu_of_full_attention(self) -> float:
        """The same as many papers count it: attention to all T keys, not to half of them."""
        rows = flops_per_token(self.setting.run.model)
        flops = sum(row.forward + row.backward for row in rows)
        mixing = sum(row.forward + row.backward for row in rows if row.part.endswith("sums"))
        return self._share_of_peak(flops + mixing)

    def _share_of_peak(self, flops: int) -> float:
        peak = self.setting.kind.peak(self.setting.precision) * self.setting.layout.devices
        return flops * self.tokens_per_second / peak

    @property
    def dollars_per_hour(self) -> float:
        """The price of all devices."""
        return self.setting.kind.price * self.setting.layout.devices

    @property
    def dollars_per_billion_tokens(self) -> float:
        """The price of training on 10^9 tokens."""
        return self.dollars_per_hour / 3600 * 1e9 / self.tokens_per_second

    @property
    def run_tokens(self) -> int | None:
        """The tokens of the whole run; None if its budget does not say."""
        match self.setting.run.training.budget:
            case Tokens(count=count):
                return count
            case Steps(count=count):
                return count * self.setting.step_tokens
            case _:
                return None

    def time_rows(self) -> list[TimeRow]:
        """The parts of an update's seconds; they add up to it."""
        work, parts = self.work, self.setting.parts
        rows = [
            TimeRow("products, forward", parts * work.forward, "FLOPs / (share x peak), operands"),
            TimeRow("products, backward", parts * work.backward, "twice the forward pass"),
            TimeRow("recomputed", parts * work.recomputed, "what the backward pass repeats"),
            TimeRow("attention", parts * work.attention, "3.5 x FLOPs / (share x peak)"),
            TimeRow("elementwise", parts * work.elementwise, "bytes / (0.85 x bandwidth)"),
            TimeRow("head and loss", parts * work.head, "3 products, and bytes of logits"),
            TimeRow("optimiser", work.update, "bytes / (0.85 x bandwidth)"),
        ]
        waiting_seconds = self.step_seconds - sum(row.seconds for row in rows)
        waiting = TimeRow(
            "waiting", max(0.0, waiting_seconds), "for collectives, and for kernels to start"
        )
        return [row for row in (*rows, waiting) if row.seconds]

    def memory_rows(self) -> list[MemoryRow]:
        """The parts of a device's memory that are not empty."""
        return [row for row in self.memory.rows if row.n_bytes]

    def assumptions(self) -> list[str]:
        """What the numbers rest on, in words."""
        setting = self.setting
        residual = "float32" if setting.conditions.residual_bytes == 4 else "bfloat16"
        fused = "fused by a compiler" if setting.compiled else "in separate kernels"
        peak = setting.kind.peak(setting.precision)
        return [
            f"products in {setting.precision}, at most {setting.kind.products:.0%} of "
            f"{peak / 1e12:,.4g} TFLOP/s; attention at most {setting.kind.attention:.0%}",
            _LOGITS[setting.assumptions.logits],
            *_RECOMPUTATION.get(setting.layout.recompute, ()),
            f"the residual stream is {residual}",
            f"operations without matrices are {fused}",
            "weights, gradients and moments are float32",
            *self._gathering(),
            "rows are as long as the context; reading data, evaluations, samples and checkpoints "
            "take no time",
        ]

    def _gathering(self) -> list[str]:
        """When the weights of a group are gathered, in words; nothing if none are."""
        if self.setting.layout.shards == 1:
            return []
        if not is_crowded(self.setting, self.memory):
            return ["weights are gathered while the device computes with those before"]
        return [
            f"more than {_CROWDED:.0%} of the memory is full: nothing is gathered ahead, and the "
            "device waits for all transport"
        ]


def plan_training(
    run: Run,
    kind: str | Kind,
    layout: Layout | None = None,
    *,
    assume: Iterable[str] = (),
) -> Plan:
    """Predict the memory and the speed of a training. Nothing is built, and no device is asked.

    Args:
        run: The config.
        kind: The kind of each device, by name, or of a TOML file.
        layout: How the work is divided; by default one device, as the config says.
        assume: Assumptions about the loop, such as "logits=whole".

    Raises:
        ConfigError: an unknown kind or assumption; sizes that the layout does not divide.
    """
    device = find_kind(kind) if isinstance(kind, str) else kind
    return predict(make_setting(run, device, layout or layout_of(run, device, 1), assume))


def predict(setting: Setting) -> Plan:
    """The plan of a setting."""
    work, transport, memory = measure_work(setting), tuple(collectives(setting)), memory_of(setting)
    gathers_early = not is_crowded(setting, memory)
    seconds = step_seconds(setting, work, transport, gathers_early=gathers_early)
    return Plan(setting, memory, work, transport, seconds)


def memory_of(setting: Setting) -> MemoryEstimate:
    """The memory of a device."""
    return peak_memory(setting.run, setting.conditions)


def fits(setting: Setting, memory: MemoryEstimate) -> bool:
    """Whether the memory of a device is enough."""
    return _used_share(setting, memory) <= 1


def is_crowded(setting: Setting, memory: MemoryEstimate) -> bool:
    """Whether a GPU's memory is so full that it cannot gather weights ahead of their use."""
    return setting.kind.gpu and _used_share(setting, memory) > _CROWDED


def _used_share(setting: Setting, memory: MemoryEstimate) -> float:
    """The share of a device's memory that the training and the driver take."""
    reserved = _RESERVED if setting.kind.gpu else 0
    return (memory.n_bytes + reserved) / setting.kind.memory
