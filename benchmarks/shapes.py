"""What every contestant of a training benchmark is given alike: a shape, token ids, and settings.

Comes in: names and numbers. Goes out: shapes with their FLOPs, ids in a file, batches of them. It
does not know the contestants. Torch is loaded only where batches are made.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pellucid import config
from pellucid.presets import find

if TYPE_CHECKING:
    from torch import Tensor

#: Of every contestant's update. A constant learning rate: nothing here is about learning well.
LEARNING_RATE, BETAS, EPS, WEIGHT_DECAY, CLIP_NORM = 3e-4, (0.9, 0.95), 1e-8, 0.1, 1.0
ADAMW = config.AdamW(learning_rate=LEARNING_RATE, betas=BETAS, eps=EPS, weight_decay=WEIGHT_DECAY)
#: Rows of the first batch on which the losses of the same weights are compared.
CHECKED = 2


@dataclass(frozen=True)
class Shape:
    """A GPT-2-like model and its batch: learned positions, biases, exact GELU, a tied head."""

    name: str
    vocab: int
    length: int
    batch: int
    layers: int
    heads: int
    width: int

    @property
    def tokens(self) -> int:
        """Of an update."""
        return self.batch * self.length

    def model(self) -> config.Transformer:
        """The shape as pellucid's config."""
        gpt2 = find("gpt2").model
        assert gpt2.decoder is not None
        attention = gpt2.decoder.attention
        assert isinstance(attention, config.MultiHead)
        heads = replace(
            attention,
            n_heads=self.heads,
            n_kv_heads=self.heads,
            d_head=self.width // self.heads,
            dropout=0.0,
        )
        feed_forward = config.MLP(d_ff=4 * self.width, activation="gelu", bias=True)
        stack = replace(
            gpt2.decoder,
            n_layers=self.layers,
            attention=heads,
            feed_forward=feed_forward,
            dropout=0.0,
        )
        return replace(
            gpt2,
            vocab_size=self.vocab,
            context_length=self.length,
            d_model=self.width,
            decoder=stack,
        )

    @property
    def flops(self) -> int:
        """Of an update, forward and backward, for every contestant alike.

        A token takes 6 (12 L d^2 + V d) for products with weights (the head's among them, though it
        is tied), and 6 L d (T + 1) for scores and sums over the keys that a causal query sees.
        """
        attention = self.layers * self.width * (self.length + 1)
        return self.tokens * 6 * (self.products + attention)

    @property
    def products(self) -> int:
        """Weights that a token is multiplied with: 12 L d^2 + V d."""
        return 12 * self.layers * self.width**2 + self.vocab * self.width

    def describe(self) -> str:
        """The shape in a line."""
        return (
            f"vocabulary {self.vocab:,}, length {self.length:,}, batch {self.batch}, "
            f"{self.layers} layers of {self.width} in {self.heads} heads"
        )


SHAPES = {
    shape.name: shape
    for shape in (
        Shape("char", vocab=65, length=64, batch=12, layers=4, heads=4, width=128),
        Shape("between", vocab=4096, length=128, batch=8, layers=4, heads=4, width=256),
        Shape("mid", vocab=50_257, length=256, batch=8, layers=6, heads=6, width=384),
        Shape("gpt2", vocab=50_257, length=256, batch=2, layers=12, heads=12, width=768),
        # padded as nanoGPT pads it, which GPUs like better; for all contestants
        Shape("gpt2-1024", vocab=50_304, length=1024, batch=16, layers=12, heads=12, width=768),
    )
}


#: What a flag can change of a named shape.
NUMBERS = ("vocab", "length", "batch", "layers", "heads", "width")


def add_numbers(parser: ArgumentParser, *excluded: str) -> None:
    """A flag for each number of a shape, but for those that a benchmark sets itself."""
    for name in NUMBERS:
        if name not in excluded:
            parser.add_argument(f"--{name}", type=int, help="instead of the shape's")


def as_asked(name: str, arguments: Namespace) -> Shape:
    """A named shape with the numbers that were given.

    Raises:
        SystemExit: it cannot be built.
    """
    all_numbers = {name: getattr(arguments, name, None) for name in NUMBERS}
    numbers = {name: number for name, number in all_numbers.items() if number is not None}
    shape = replace(SHAPES[name], **numbers)
    if any(number < 1 for number in numbers.values()) or shape.width % shape.heads:
        raise SystemExit(
            f"no model has {shape.describe()}: every number is at least 1, and --width is a "
            "multiple "
            "of --heads"
        )
    return shape


def write_ids(shape: Shape, text: Path | None, file: Path) -> str:
    """Write ids to `file`: of a text's bytes, or drawn; returns what they are.

    Raises:
        SystemExit: the text has more kinds of bytes than there are ids, or too few bytes.
    """
    n_ids = max(64 * shape.tokens, 2**20)
    if text is None:
        ids, describe = zipf(shape.vocab, n_ids), "drawn, the k-th likeliest with p ~ 1 / k"
    else:
        kinds, ids = np.unique(np.fromfile(text, dtype=np.uint8), return_inverse=True)
        describe = f"the bytes of a text of {len(ids):,} bytes, of {len(kinds)} kinds"
        if len(kinds) > shape.vocab:
            raise SystemExit(
                f"--text has {len(kinds)} kinds of bytes, and the vocabulary of {shape.name} is "
                f"{shape.vocab}: take another text, or --vocab {len(kinds)}"
            )
        if len(ids) < 2 * shape.tokens:
            raise SystemExit(
                f"--text has {len(ids)} bytes: give at least two batches, {2 * shape.tokens}"
            )
    np.save(file, ids[:n_ids].astype(np.int32))
    return describe


def zipf(vocab: int, count: int) -> np.ndarray[Any, Any]:
    """Ids drawn by Zipf's law, the likeliest ones anywhere in the vocabulary."""
    draws = np.random.default_rng(1)
    shares = np.cumsum(1 / np.arange(1, vocab + 1))
    ranks = np.searchsorted(shares, draws.random(count) * shares[-1])
    return draws.permutation(vocab)[ranks]


class Feed:
    """Batches of ids and targets, both (batch, length), window after window, round and round."""

    def __init__(self, shape: Shape, file: Path, device: str) -> None:
        import torch

        self._shape, self._device = shape, device
        self._ids = torch.from_numpy(np.load(file).astype(np.int64))

    def batch(self, step: int) -> tuple[Tensor, Tensor]:
        """The batch of an update."""
        shape, tokens = self._shape, self._shape.tokens
        place = step * tokens % (len(self._ids) - tokens)
        rows = self._ids[place : place + tokens].view(shape.batch, shape.length)
        targets = self._ids[place + 1 : place + tokens + 1].view(shape.batch, shape.length)
        if self._device == "cpu":
            return rows, targets
        return self._to_device(rows), self._to_device(targets)

    def _to_device(self, tensor: Tensor) -> Tensor:
        return tensor.pin_memory().to(self._device, non_blocking=True)


def as_json(shape: Shape) -> dict[str, Any]:
    """The shape as its numbers."""
    return asdict(shape)
