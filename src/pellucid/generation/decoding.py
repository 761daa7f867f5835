"""Generate token by token with compiled code, which shares the caches with the model."""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable, Sequence
from ctypes import c_int32
from typing import Any, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.modules import module as torch_modules

from pellucid.generation.compile_decoder import compile_decoder
from pellucid.generation.decode_program import CannotCompile, DecodeProgram
from pellucid.model import KeysAndValues, KeyValueCache, Transformer
from pellucid.native import Call, Instruction, decode
from pellucid.typed import named_modules, to_list

_log = logging.getLogger(__name__)


def decoder(model: Transformer) -> Decoder | None:
    """Compiled code that computes this model's logits; None if only the model can."""
    if model.device.type != "cpu" or (run := decode()) is None:
        return None
    try:
        return Decoder(model, compile_decoder(model), run)
    except CannotCompile as error:
        _log.info("the model itself decodes: there is no instruction for %s", error)
        return None


class Decoder:
    """A program and its scratch memory.

    The program reads the model's weights in place. If you replace a weight tensor or a module, make
    a new decoder.
    """

    def __init__(
        self, model: Transformer, program: DecodeProgram, run: Callable[[Call], None]
    ) -> None:
        self._run = run
        self._program = program
        self._hooks = hooks_of(model)
        self._n_logits = model.head_weight.shape[0]
        self._n_ids = model.token_embedding.weight.shape[0]
        self._context = model.context_length
        n = len(program.instructions)
        self._instructions = (Instruction * n)(*program.instructions)
        self._part_counters = torch.zeros(n, dtype=torch.int32)
        #: at least as many floats as any product reads, with room for the scales of its blocks
        self._widest = max(instruction.n_in for instruction in program.instructions) + 16
        self._thread_scratch = self._scratch = torch.empty(0)

    def logits(
        self, ids: Int[Tensor, " rows"], caches: Sequence[KeyValueCache]
    ) -> Float[Tensor, "rows vocab"] | None:
        """The logits after `ids`; their keys and values go into the caches.

        It does nothing and returns None if the model has hooks, autocast is on, the caches are not
        in float32, or the model would refuse the ids.
        """
        rooms = [cache.room for cache in caches]
        if any(room is None or len(room.keys) != len(ids) for room in rooms):
            return None
        n = len(ids)
        logits = self.row_logits(
            ids, [caches[0].length] * n, range(n), cast("Sequence[KeysAndValues]", rooms)
        )
        if logits is not None:
            for cache in caches:
                cache.advance(1)
        return logits

    def row_logits(
        self,
        ids: Int[Tensor, " rows"],
        lengths: Sequence[int],
        slots: Sequence[int],
        rooms: Sequence[KeysAndValues],
    ) -> Float[Tensor, "rows vocab"] | None:
        """The logits after `ids`, the next tokens of texts of different lengths.

        The logits of a row are the same bits whatever the other rows are. Returns None as `logits`.

        Args:
            ids: (rows,), a token for each row.
            lengths: how many tokens of each row are in the buffers.
            slots: the place of each row in the buffers.
            rooms: each layer's buffers, (slots, heads, context, width); they get the new keys.
        """
        if any(self._hooks) or torch.is_autocast_enabled("cpu"):
            return None
        if any(room.keys.dtype != torch.float32 for room in rooms):
            return None
        ids = ids.contiguous()
        if max(lengths) >= self._context or any(
            not 0 <= token < self._n_ids for token in to_list(ids)
        ):
            return None  # the model's own error explains it
        rows, threads = len(ids), torch.get_num_threads()
        if self._scratch.numel() != rows * self._program.width:
            self._scratch = torch.zeros(rows * self._program.width)
        n_own = max(rows * self._widest, self._context)
        if self._thread_scratch.numel() != threads * n_own:
            self._thread_scratch = torch.empty(threads * n_own)
        logits = torch.empty(rows, self._n_logits)
        # these live until the call is over
        positions, places = (c_int32 * rows)(*lengths), (c_int32 * rows)(*slots)
        keys, values = (_addresses([room[part] for room in rooms]) for part in (0, 1))
        self._run(
            Call(
                program=self._instructions,
                length=len(self._instructions),
                rows=rows,
                width=self._program.width,
                ids=ids.data_ptr(),
                positions=ctypes.addressof(positions),
                slots=ctypes.addressof(places),
                keys=ctypes.addressof(keys),
                values=ctypes.addressof(values),
                scratch=self._scratch.data_ptr(),
                logits=logits.data_ptr(),
                own=self._thread_scratch.data_ptr(),
                n_logits=self._n_logits,
                widest=self._widest,
                n_own=n_own,
                n_threads=threads,
                taken=self._part_counters.data_ptr(),
            )
        )
        return logits


def _addresses(tensors: Sequence[Tensor]) -> ctypes.Array[ctypes.c_void_p]:
    return (ctypes.c_void_p * len(tensors))(*(tensor.data_ptr() for tensor in tensors))


def hooks_of(model: Transformer) -> list[Any]:
    """The hook tables of every module; if one is not empty, an observer watches the model."""
    untyped_torch = cast("Any", torch_modules)
    hooks = [untyped_torch._global_forward_hooks, untyped_torch._global_forward_pre_hooks]
    for module in named_modules(model).values():
        untyped = cast("Any", module)
        hooks += [untyped._forward_hooks, untyped._forward_pre_hooks]
    return hooks
