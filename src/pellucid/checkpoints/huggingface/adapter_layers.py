"""The linear layers of a base under both names, and updates of several that are one of theirs.

Comes in: a base's config; updates by our names or by theirs. Goes out: the same updates under the
other name. It does not know files.

Where a family keeps queries, keys and values in one matrix, their updates become one whose `down`
is theirs, one below the other, and whose `up` has a block for each:

    up = [Uq 0 0; 0 Uk 0; 0 0 Uv],  down = [Dq; Dk; Dv],  rank and alpha times 3

which is the same update, exactly.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from pellucid import config
from pellucid.checkpoints.huggingface.family import multi_head
from pellucid.checkpoints.huggingface.names import Source, source_of
from pellucid.checkpoints.huggingface.write import choose_family
from pellucid.errors import CheckpointError
from pellucid.model import adaptable, assemble, names_matching


class Base:
    """The linear layers of a base: ours by path, and which of them stand in a layer of theirs."""

    def __init__(self, model: config.Transformer) -> None:
        with torch.device("meta"):
            built = assemble(model, seed=0)
        family, _ = choose_family(model, [name for name, _ in built.named_parameters()])
        self.layers: dict[str, nn.Linear] = adaptable(built)
        self.family = family.model_type
        self.prefix = family.prefix
        self.n_heads = multi_head(model.stacks[0]).n_heads
        self.sources: dict[str, Source] = {}
        self.modules: dict[str, list[str]] = {}
        self.transposed = False
        bare, names = isinstance(model.head, config.NoHead), family.names_for(model)
        for ours in self.layers:
            source = source_of(f"{ours}.weight", names)
            assert source is not None  # choose_family has looked
            module = source.name.removesuffix(".weight")
            self.modules.setdefault(
                module.removeprefix(family.prefix) if bare else module, []
            ).append(ours)
            # updates lie as ours do, also where the matrix lies the other way
            self.sources[ours] = replace(source, transposed=False)
            self.transposed |= source.transposed

    def ours(self, module: str) -> list[str]:
        """Our layers in theirs, queries before keys before values; with or without the prefix.

        Raises:
            CheckpointError: there are none.
        """
        for name in (module, self.prefix + module, module.removeprefix(self.prefix)):
            if name in self.modules:
                return sorted(self.modules[name], key=lambda ours: self.sources[ours].third or 0)
        patterns = dict.fromkeys(re.sub(r"\.\d+\.", ".*.", name) for name in self.modules)
        raise CheckpointError(
            f"the adapter has an update of {module}, which is no linear layer of this base (a "
            f"{self.family}) that can be adapted; those that can: {', '.join(patterns)}"
        )


def joined(
    there: Base, layers: Sequence[str], updates: Sequence[tuple[Tensor, Tensor]]
) -> tuple[Tensor, Tensor]:
    """One update of theirs from those of ours that stand in it."""
    if there.sources[layers[0]].third is None:
        return updates[0]
    downs = torch.cat([down for down, _ in updates])
    wide = downs.shape[0]
    blocks = [updates[0][1].new_zeros(updates[0][1].shape[0], wide) for _ in range(3)]
    start = 0
    for ours, (_, up) in zip(layers, updates, strict=True):
        rank = up.shape[1]
        blocks[there.sources[ours].third or 0][:, start : start + rank] = up
        start += rank
    return downs, there.sources[layers[0]].join(blocks, n_heads=there.n_heads)


def blocks_apart(
    there: Base, layers: Sequence[str], down: Tensor, up: Tensor, what: str
) -> list[tuple[Tensor, Tensor]]:
    """What `joined` was made of.

    Raises:
        CheckpointError: there is more than these blocks.
    """
    rank = down.shape[0] // max(1, len(layers))
    parts = [slice(i * rank, (i + 1) * rank) for i in range(len(layers))]
    updates = [
        (down[part], there.sources[ours].take(up, n_heads=there.n_heads)[:, part])
        for ours, part in zip(layers, parts, strict=True)
    ]
    if not layers or not torch.equal(joined(there, layers, updates)[1], up):
        raise CheckpointError(
            f"{what} is not of the blocks that the file's metadata names: it was changed after it "
            "was written; take the metadata out to have it read as one update"
        )
    return updates


def shortest_targets(adapted: Iterable[str], layers: Iterable[str]) -> tuple[str, ...]:
    """The names that mean these layers and no others; whole paths where there are none."""
    adapted = set(adapted)
    short = tuple(dict.fromkeys(n.rpartition(".")[2] for n in layers if n in adapted))
    meant = {name for target in short for name in names_matching(layers, target)}
    return short if meant == adapted else tuple(n for n in layers if n in adapted)
