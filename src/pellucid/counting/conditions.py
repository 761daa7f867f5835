"""What an estimate of memory has to know besides the config."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pellucid.counting.activations import Kernel, Precision, bytes_of
from pellucid.counting.layout import ONE_DEVICE, Layout

Logits = Literal["chunks", "whole", "fused"]
#: Python, torch and pellucid before any model.
PROCESS_BYTES = 240 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """Facts about the machine, the data and other models, which no config has.

    Attributes:
        precision: Of matrix products.
        kernel: How attention is computed; None to choose the faster one.
        longest: The longest rows of the data in the encoder and the decoder, if they are shorter
            than the context.
        frozen_parameters: Parameters of a teacher or a reference in memory.
        frozen_token_bytes: Bytes per token that the teacher or reference reads, also if it is the
            trained model without its adapters.
        process: Bytes of the process before any model.
        keeps_freed: Whether the allocator keeps freed memory, as the command line sets it.
        watched: Whether vital signs or other watchers run.
        layout: Over how many devices the training is divided; the memory is of one of them.
        on_gpu: Whether to count the memory that a GPU reserves; else the memory of the process.
        logits: Whether the loss computes logits in "chunks", as ours does, holds the "whole" of a
            pass, or holds them in one "fused" kernel.
        compiled: Whether a compiler fuses operations without matrices.
        residual: Bytes of a number of the residual stream; None for the type of the weights.
    """

    precision: Precision = "float32"
    kernel: Kernel | None = None
    longest: tuple[int, int] | None = None
    frozen_parameters: int = 0
    frozen_token_bytes: int = 0
    process: int = PROCESS_BYTES
    keeps_freed: bool = True
    watched: bool = True
    layout: Layout = ONE_DEVICE
    on_gpu: bool = False
    logits: Logits = "chunks"
    compiled: bool = False
    residual: int | None = None

    @property
    def residual_bytes(self) -> int:
        """Bytes of a number of the residual stream: gathered weights give it their type."""
        if self.residual is not None:
            return self.residual
        return bytes_of(self.layout.gather) if self.layout.shards > 1 else 4


#: For no particular machine or data.
UNKNOWN = Conditions()
