"""Models in the format of llama2.c, versions before its header had a magic number.

    7 int32: d_model, d_ff, n_layers, n_heads, n_kv_heads, vocab_size, context_length
    float32: embedding; of all layers the attention norms, queries, keys, values, outputs, the
             feed-forward norms, gates, downs, ups; the final norm; cos and sin; the head

A negative vocab_size means that the file has an untied head.

llama2.c rotates adjacent features. Here, as in Llama's published weights, pairs are half a head
apart: reading reorders the rows of queries and keys, which changes no score.

Source: Karpathy 2023, llama2.c, `export.py` (legacy_export) and `run.c`; its eps and base of the
angles are fixed there.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from pellucid import config
from pellucid.errors import CheckpointError, ConfigError
from pellucid.reader import open_file
from pellucid.typed import from_numpy

_HEADER = struct.Struct("<7i")
_MAGIC = 0x616B3432  # "ak42": how files of version 1 and later begin


@dataclass(frozen=True, slots=True)
class _Header:
    d_model: int
    d_ff: int
    n_layers: int
    n_heads: int
    n_kv_heads: int
    vocab_size: int
    context_length: int

    @property
    def kv_width(self) -> int:
        return self.d_model // self.n_heads * self.n_kv_heads

    def groups(self) -> list[tuple[str, tuple[int, ...]]]:
        """What lies in the file, in its order: "{n}" is there for every layer."""
        wide, layers = self.d_model, "decoder.blocks.{n}"
        angles = (self.context_length, wide // self.n_heads // 2)
        head = [("head.weight", (-self.vocab_size, wide))] if self.vocab_size < 0 else []
        return [
            ("token_embedding.weight", (abs(self.vocab_size), wide)),
            (f"{layers}.attention_norm.gain", (wide,)),
            (f"{layers}.attention.query.weight", (wide, wide)),
            (f"{layers}.attention.key.weight", (self.kv_width, wide)),
            (f"{layers}.attention.value.weight", (self.kv_width, wide)),
            (f"{layers}.attention.output.weight", (wide, wide)),
            (f"{layers}.feed_forward_norm.gain", (wide,)),
            (f"{layers}.feed_forward.gate.weight", (self.d_ff, wide)),
            (f"{layers}.feed_forward.down.weight", (wide, self.d_ff)),
            (f"{layers}.feed_forward.up.weight", (self.d_ff, wide)),
            ("decoder.final_norm.gain", (wide,)),
            ("cos", angles),
            ("sin", angles),
            *head,
        ]

    def config(self) -> config.Transformer:
        """The model. Its weights were drawn as llama2.c's `model.py` does."""
        return config.Transformer(
            vocab_size=abs(self.vocab_size),
            context_length=self.context_length,
            d_model=self.d_model,
            embedding=config.Embedding(tied=self.vocab_size > 0, scaled=False),
            decoder=config.Stack(
                n_layers=self.n_layers,
                positions=config.Rotary(base=10_000.0),
                attention=config.MultiHead(
                    n_heads=self.n_heads,
                    n_kv_heads=self.n_kv_heads,
                    d_head=self.d_model // self.n_heads,
                    qkv_bias=False,
                    out_bias=False,
                    qk_norm=None,
                    dropout=0.0,
                ),
                feed_forward=config.GatedMLP(d_ff=self.d_ff, activation="silu", bias=False),
                norm=config.RMSNorm(eps=1e-5),
                residual=config.PreNorm(),
                final_norm=True,
                dropout=0.0,
            ),
            initialisation=config.Initialisation(
                weights=config.Normal(std=0.02), embedding_std=0.02, outputs="depth_scaled"
            ),
        )


def read_llama2c(
    file: Path, *, fits: Callable[[config.Transformer], None] = lambda _: None
) -> tuple[config.Transformer, dict[str, Tensor]]:
    """The model in a llama2.c file; `fits` can refuse its config before a weight is read.

    Raises:
        CheckpointError: it is of a later version, cut off, or something else.
    """
    try:
        with open_file(file, refusal=CheckpointError) as stream:
            start = stream.read(_HEADER.size)
        size = file.stat().st_size
    except OSError as error:
        raise CheckpointError(f"{file} cannot be read: {error.strerror}") from None
    header = _read_header(file, start)
    groups = header.groups()
    counts = [header.n_layers if "{n}" in name else 1 for name, _ in groups]
    numbers = sum(n * math.prod(shape) for n, (_, shape) in zip(counts, groups, strict=True))
    if size != _HEADER.size + 4 * numbers:
        raise CheckpointError(
            f"{file} has {size:,} bytes; a llama2.c model with its header "
            f"{_format_header(header)} has {_HEADER.size + 4 * numbers:,}: it was "
            "cut off, or is something else"
        )
    try:
        model = header.config()
    except ConfigError as error:
        raise CheckpointError(f"{file} describes no model: {error}") from None
    fits(model)
    data = np.memmap(file, dtype="<f4", mode="r", offset=_HEADER.size)
    return model, dict(_tensors(data, header))


def _read_header(file: Path, start: bytes) -> _Header:
    if len(start) < _HEADER.size:
        raise CheckpointError(f"{file} is too short for a llama2.c model: it has no header")
    numbers = _HEADER.unpack(start)
    if numbers[0] == _MAGIC:
        raise CheckpointError(
            f"{file} is a llama2.c model of version {numbers[1]}; version 0 is read: write it with "
            "export.py --version 0"
        )
    header = _Header(*numbers)
    sizes = (*numbers[:5], abs(header.vocab_size), header.context_length)
    if min(sizes) < 1 or max(sizes) > 2**24 or header.d_model % header.n_heads:
        raise CheckpointError(
            f"{file} is not a llama2.c model: its first seven numbers would say "
            f"{_format_header(header)}; pass such a .bin file, or a folder with config.json"
        )
    return header


def _format_header(header: _Header) -> str:
    return (
        f"d_model {header.d_model}, d_ff {header.d_ff}, n_layers {header.n_layers}, n_heads "
        f"{header.n_heads}, n_kv_heads {header.n_kv_heads}, vocab_size {header.vocab_size}, "
        f"context_length {header.context_length}"
    )


def _tensors(data: np.memmap, header: _Header) -> Iterator[tuple[str, Tensor]]:  # type: ignore[type-arg]
    place = 0
    d_head = header.d_model // header.n_heads
    for name, shape in header.groups():
        for layer in range(header.n_layers if "{n}" in name else 1):
            count = math.prod(shape)
            part = np.array(data[place : place + count], dtype=np.float32).reshape(shape)
            place += count
            if name in ("cos", "sin"):
                continue
            tensor = from_numpy(part)
            if ".query." in name or ".key." in name:
                tensor = _halves(tensor, d_head)
            yield name.replace("{n}", str(layer)), tensor


def _halves(weight: Tensor, d_head: int) -> Tensor:
    """Rows 0, 2, 4, ... of each head before its rows 1, 3, 5, ..."""
    order = torch.arange(weight.shape[0]).view(-1, d_head // 2, 2).transpose(1, 2).flatten()
    return weight[order]
