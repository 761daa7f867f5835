"""The adaptable layers of a base under both names, and the join of several layers' updates.

If a family publishes queries, keys and values as one matrix, their three updates become one. Its
`down` stacks theirs, and its `up` has a block for each:

    up = [Uq 0 0; 0 Uk 0; 0 0 Uv],  down = [Dq; Dk; Dv],  rank and alpha times 3

This is exactly the same update.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import islice

import torch
from torch import Tensor, nn

from pellucid import config
from pellucid.checkpoints.huggingface.completion import complete
from pellucid.checkpoints.huggingface.names import (
    Layout,
    Source,
    shapes_of,
    source_of,
    untransposed,
)
from pellucid.checkpoints.huggingface.write import choose_family, fitting_families
from pellucid.errors import CheckpointError
from pellucid.model import adaptable, assemble, names_matching


class Base:
    """The adaptable linear layers of a base by path, and the published modules that hold them."""

    def __init__(self, model: config.Transformer, model_type: str | None = None) -> None:
        """The names of a family; by default of the first that fits the model.

        A family may fit only with parts that change nothing: then `write_published` adds them too.
        """
        with torch.device("meta"):
            built = assemble(model, seed=0)
        completed = complete(model, dict(built.named_parameters()), model_type=model_type)
        model = completed.model
        family, _ = choose_family(model, completed.tensors, model_type=model_type)
        #: the model as the family holds it
        self.model = model
        self.layers: dict[str, nn.Linear] = adaptable(built)
        self.family = family.model_type
        self.prefix = family.prefix
        shapes = shapes_of(completed.tensors.items())
        #: in which updates are never transposed, even if the published matrix is
        self.layout = Layout(model, untransposed(family.names_for(model)), shapes)
        self.modules: dict[str, list[str]] = {}
        bare, names = isinstance(model.head, config.NoHead), family.names_for(model)
        published = [source_of(f"{path}.weight", names) for path in self.layers]
        self.transposed = any(source is not None and source.transposed for source in published)
        for path in self.layers:
            module = self.source(path).name.removesuffix(".weight")
            self.modules.setdefault(
                module.removeprefix(family.prefix) if bare else module, []
            ).append(path)
        for paths in self.modules.values():  # as their rows come
            paths.sort(key=lambda path: self.source(path).index)

    @classmethod
    def with_modules(cls, model: config.Transformer, modules: Iterable[str]) -> Base:
        """The names of the first family that fits and has these modules, else that fits."""
        first, modules = cls(model), list(modules)
        if all(map(first.own_name, modules)):
            return first
        fitting = islice(fitting_families(first.model, first.layout.sources), 1, None)
        others = (cls(model, family.model_type) for family in fitting)
        return next((base for base in others if all(map(base.own_name, modules))), first)

    def source(self, path: str) -> Source:
        """The source of a layer's matrix."""
        return self.layout.source(f"{path}.weight")

    def own_name(self, module: str) -> str | None:
        """The name here of a module, given with the family's prefix or without; None if absent."""
        names = (module, self.prefix + module, module.removeprefix(self.prefix))
        return next((name for name in names if name in self.modules), None)

    def paths_in(self, module: str) -> list[str]:
        """The paths of the layers in a published module: queries, keys, values.

        The module's name can have the family's prefix or not.

        Raises:
            CheckpointError: there are none.
        """
        if (name := self.own_name(module)) is not None:
            return self.modules[name]
        patterns = dict.fromkeys(re.sub(r"\.\d+\.", ".*.", name) for name in self.modules)
        raise CheckpointError(
            f"the adapter has an update of {module}, which is no linear layer of this base (a "
            f"{self.family}) that can be adapted; those that can: {', '.join(patterns)}"
        )


def join_updates(
    base: Base, layers: Sequence[str], updates: Sequence[tuple[Tensor, Tensor]]
) -> tuple[Tensor, Tensor]:
    """The update of a published module, from the updates (down, up) of the layers in it.

    Args:
        base: the base. layers: paths of layers in one module. updates: one per layer.
    """
    weight = f"{layers[0]}.weight"
    if not base.source(layers[0]).members:
        return updates[0]
    downs = torch.cat([down for down, _ in updates])
    blocks = [downs.new_zeros(rows, downs.shape[0]) for rows in base.layout.sizes(weight)]
    start = 0
    for path, (_, up) in zip(layers, updates, strict=True):
        rank = up.shape[1]
        blocks[base.source(path).index][:, start : start + rank] = up
        start += rank
    return downs, base.layout.join(weight, blocks)


def split_blocks(
    base: Base, layers: Sequence[str], down: Tensor, up: Tensor, *, source: str
) -> list[tuple[Tensor, Tensor]]:
    """The updates that `join_updates` joined.

    Args:
        base: the base. layers: paths of layers in one module. down, up: the joined update.
        source: the file and the module, for messages.

    Raises:
        CheckpointError: there are numbers outside of the blocks.
    """
    rank = down.shape[0] // max(1, len(layers))
    parts = [slice(i * rank, (i + 1) * rank) for i in range(len(layers))]
    updates = [
        (down[part], base.layout.take(f"{path}.weight", up)[:, part])
        for path, part in zip(layers, parts, strict=True)
    ]
    if not layers or not torch.equal(join_updates(base, layers, updates)[1], up):
        raise CheckpointError(
            f"{source} does not have the blocks that the file's metadata names, so it was changed "
            "later; remove the metadata to read it as one update"
        )
    return updates


def shortest_targets(adapted: Iterable[str], layers: Iterable[str]) -> tuple[str, ...]:
    """Short targets that match exactly the adapted layers; if there are none, their paths."""
    adapted = set(adapted)
    short = tuple(dict.fromkeys(n.rpartition(".")[2] for n in layers if n in adapted))
    matches = {name for target in short for name in names_matching(layers, target)}
    return short if matches == adapted else tuple(n for n in layers if n in adapted)
