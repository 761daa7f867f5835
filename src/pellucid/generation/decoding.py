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
from pellucid.model.packed.layers import unpack
from pellucid.native import Call, Instruction, Kernel, Operation, decode
from pellucid.typed import named_modules, to_list

_log = logging.getLogger(__name__)
#: Tokens of a prompt that are taken through all layers in one call.
_READ_AT_ONCE = 64


def decoder(model: Transformer) -> Decoder | None:
    """Compiled code that computes this model's logits; None if only the model can.

    A packed model that has to do so itself gets its matrices back in float32: torch multiplies
    these faster than it could widen them for each token.
    """
    compiled = _compiled(model) if model.device.type == "cpu" else None
    if compiled is None:
        unpack(model)
    return compiled


def _compiled(model: Transformer) -> Decoder | None:
    if (run := decode()) is None:
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
        #: how 4 bits are multiplied; all kernels give the same bits
        self.kernel = Kernel.BEST
        self._run = run
        self._program = program
        self._hooks = hooks_of(model)
        products = [i for i in program.instructions if i.operation == Operation.PRODUCT]
        self._attention = [
            instruction.attention.contents
            for instruction in program.instructions
            if instruction.operation == Operation.ATTEND
        ]
        self._n_logits = products[-1].n_out  # the head's
        self._n_ids = model.token_embedding.num_embeddings
        self._context = model.context_length
        n = len(program.instructions)
        self._instructions = (Instruction * n)(*program.instructions)
        self._part_counters = torch.zeros(n, dtype=torch.int32)
        #: at least as many floats as any product reads, with room for the scales of its blocks
        self._widest = max(instruction.n_in for instruction in program.instructions) + 40
        self._thread_scratch = self._scratch = torch.empty(0)

    @property
    def steps_aside(self) -> bool:
        """Whether the model itself has to compute: it has hooks, or autocast is on."""
        return any(self._hooks) or torch.is_autocast_enabled("cpu")

    def make_rooms(self, caches: Sequence[KeyValueCache], rows: int) -> None:
        """Give caches that are still empty their buffers, in float32."""
        if caches[0].room is None:
            for cache, layer in zip(caches, self._attention, strict=True):
                shape = (rows, layer.n_kv_heads, layer.context)
                keys, values = (torch.empty(*shape, d) for d in (layer.d_head, layer.d_value))
                cache.move_to(KeysAndValues(keys, values))

    def logits(
        self, ids: Int[Tensor, " rows"], caches: Sequence[KeyValueCache]
    ) -> Float[Tensor, "rows vocab"] | None:
        """The logits after `ids`; their keys and values go into the caches.

        It does nothing and returns None if the model has hooks, autocast is on, the caches are not
        in float32, or the model would refuse the ids.
        """
        n = len(ids)
        rooms = _rooms(caches, n)
        if rooms is None:
            return None
        logits = self.row_logits(ids, [caches[0].length] * n, range(n), rooms)
        if logits is not None:
            for cache in caches:
                cache.advance(1)
        return logits

    def read(self, ids: Int[Tensor, "rows time"], caches: Sequence[KeyValueCache]) -> bool:
        """Put the keys and values of several tokens of each row into the caches, without logits.

        Returns whether it did; see `logits`.
        """
        rows, time = ids.shape
        rooms, start = _rooms(caches, rows), caches[0].length
        if rooms is None:
            return False
        slots = [row for row in range(rows) for _ in range(time)]
        was_read = self.read_rows(ids.flatten(), [*range(start, start + time)] * rows, slots, rooms)
        if was_read:
            for cache in caches:
                cache.advance(time)
        return was_read

    def read_rows(
        self,
        ids: Int[Tensor, " tokens"],
        positions: Sequence[int],
        slots: Sequence[int],
        rooms: Sequence[KeysAndValues],
    ) -> bool:
        """The same for tokens of any texts; the tokens of each text are in order.

        Args:
            ids: the tokens.
            positions: how many tokens of its text are before each.
            slots, rooms: as in `row_logits`.
        """
        if not self._can_read(ids, max(positions), rooms):
            return False
        for first in range(0, len(ids), _READ_AT_ONCE):
            part = slice(first, first + _READ_AT_ONCE)
            self._call(ids[part], positions[part], slots[part], rooms, logits=None)
        return True

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
        if not self._can_read(ids, max(lengths), rooms):
            return None
        logits = torch.empty(len(ids), self._n_logits)
        self._call(ids, lengths, slots, rooms, logits)
        return logits

    def head_logits(
        self, states: Float[Tensor, "rows d_model"]
    ) -> Float[Tensor, "rows vocab"] | None:
        """The logits of the model's last states; None if the model itself has to compute.

        Args:
            states: (rows, d_model), as `Transformer.states` gives them for one token of each row.
        """
        if self.steps_aside:
            return None
        rows, width = states.shape
        self._make_scratch(rows)
        place = self._program.states
        self._scratch.view(rows, -1)[:, place : place + width] = states
        logits = torch.empty(rows, self._n_logits)
        unused = [0] * rows  # only the layers read tokens, positions and slots
        ids = torch.tensor(unused)
        self._call(ids, unused, unused, (), logits, first=self._program.logits_at)
        return logits

    def _can_read(self, ids: Tensor, longest: int, rooms: Sequence[KeysAndValues]) -> bool:
        if self.steps_aside or any(room.keys.dtype != torch.float32 for room in rooms):
            return False
        # the model's own error explains the others
        return longest < self._context and all(0 <= token < self._n_ids for token in to_list(ids))

    def _call(
        self,
        ids: Tensor,
        lengths: Sequence[int],
        slots: Sequence[int],
        rooms: Sequence[KeysAndValues],
        logits: Tensor | None,
        first: int = 0,
    ) -> None:
        """Run the program from its instruction `first`; without logits, up to the head."""
        ids = ids.contiguous()
        rows, threads = len(ids), torch.get_num_threads()
        self._make_scratch(rows)
        n_own = max(rows * self._widest, self._context)
        if self._thread_scratch.numel() != threads * n_own:
            self._thread_scratch = torch.empty(threads * n_own)
        # these live until the call is over
        positions, places = (c_int32 * rows)(*lengths), (c_int32 * rows)(*slots)
        keys, values = (_addresses([room[part] for room in rooms]) for part in (0, 1))
        end = len(self._instructions) if logits is not None else self._program.head_at
        self._run(
            Call(
                program=ctypes.pointer(self._instructions[first]),
                length=end - first,
                rows=rows,
                width=self._program.width,
                ids=ids.data_ptr(),
                positions=ctypes.addressof(positions),
                slots=ctypes.addressof(places),
                keys=ctypes.addressof(keys),
                values=ctypes.addressof(values),
                scratch=self._scratch.data_ptr(),
                logits=None if logits is None else logits.data_ptr(),
                own=self._thread_scratch.data_ptr(),
                n_logits=self._n_logits,
                widest=self._widest,
                n_own=n_own,
                n_threads=threads,
                kernel=self.kernel,
                taken=self._part_counters.data_ptr(),
            )
        )

    def _make_scratch(self, rows: int) -> None:
        if self._scratch.numel() != rows * self._program.width:
            self._scratch = torch.zeros(rows * self._program.width)


def _rooms(caches: Sequence[KeyValueCache], rows: int) -> list[KeysAndValues] | None:
    """The buffers of caches; None if they have none for so many rows."""
    rooms = [cache.room for cache in caches]
    if any(room is None or len(room.keys) != rows for room in rooms):
        return None
    return cast("list[KeysAndValues]", rooms)


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
