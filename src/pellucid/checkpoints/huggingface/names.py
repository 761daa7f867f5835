"""The published tensor of each parameter, and its layout.

    "decoder.blocks.{n}.attention.query.weight": Source("model.layers.{n}.self_attn.q_proj.weight")

Each family has one table, which works in both directions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from pellucid import config
from pellucid.errors import CheckpointError

Shape = tuple[int, ...]
#: In how many groups of rows a tensor holds its members: queries, keys and values one after another
#: are "one" group; one group for each head, or for each key/value head; one for each row.
Groups = Literal["one", "heads", "kv_heads", "rows"] | int


@dataclass(frozen=True, slots=True)
class Source:
    """A published tensor that contains a parameter.

    Attributes:
        name: of the tensor.
        transposed: whether it is stored as (in, out).
        members: the parameters whose rows it contains, in order; empty if it is this one alone.
        index: the place of this one among them.
        groups: in how many groups their rows come; a group has a share of each member. A vector
            without other members is published as a matrix with a row for each group.
        spread: whether each group is a tensor of its own; {h} in the name is its number.
        stacked: whether the tensor holds all experts of a layer, one after another.
        expert: the expert of this parameter, if they are stacked.
    """

    name: str
    transposed: bool = False
    members: tuple[str, ...] = ()
    index: int = 0
    groups: Groups = "one"
    spread: bool = False
    stacked: bool = False
    expert: int | None = None


Names = Mapping[str, Source]


def linear(path: str, published: str, *, transposed: bool = False) -> Iterator[tuple[str, Source]]:
    """The rows of a linear layer: weight and bias, even if it has no bias."""
    for part in ("weight", "bias"):
        yield f"{path}.{part}", Source(f"{published}.{part}", transposed)


def fused(
    path: str,
    members: Sequence[str],
    published: str,
    *,
    groups: Groups = "one",
    transposed: bool = False,
) -> Iterator[tuple[str, Source]]:
    """The rows of several linear layers that are published as one.

    Args:
        path: of the module that has the layers.
        members: their names, in the order of their rows.
        published: the path of the one layer.
        groups: in how many groups the rows come.
        transposed: whether it is stored as (in, out).
    """
    for part in ("weight", "bias"):
        paths = tuple(f"{path}.{member}.{part}" for member in members)
        for index, parameter in enumerate(paths):
            yield parameter, Source(f"{published}.{part}", transposed, paths, index, groups)


def norm(path: str, published: str) -> Iterator[tuple[str, Source]]:
    """The rows of a norm: the gain is published as weight."""
    yield f"{path}.gain", Source(f"{published}.weight")
    yield f"{path}.bias", Source(f"{published}.bias")


def stacked(rows: Iterable[tuple[str, Source]]) -> Iterator[tuple[str, Source]]:
    """The rows of one expert, published as tensors with all experts of a layer."""
    for parameter, source in rows:
        yield parameter, replace(source, stacked=True)


_LAYER = re.compile(r"\.blocks\.(\d+)\.")
_EXPERT = re.compile(r"\.experts\.(\d+)\.")


def source_of(parameter: str, names: Names) -> Source | None:
    """The source of a parameter; None if the family has no such parameter.

    In the names of the table, {n} is a number of a block, and {e} a number of an expert.
    """
    if parameter in names:
        return names[parameter]
    layer, expert = _LAYER.search(parameter), _EXPERT.search(parameter)
    pattern = _LAYER.sub(".blocks.{n}.", parameter, count=1)
    source = names.get(_EXPERT.sub(".experts.{e}.", pattern, count=1))
    if source is None or layer is None:
        return None
    numbers = {"{n}": layer[1], "{e}": "" if expert is None else expert[1]}

    def fill(name: str) -> str:
        for placeholder, number in numbers.items():
            name = name.replace(placeholder, number)
        return name

    return replace(
        source,
        name=fill(source.name),
        members=tuple(map(fill, source.members)),
        expert=int(expert[1]) if source.stacked and expert is not None else None,
    )


def untransposed(names: Names) -> Names:
    """The names as if every matrix were stored as (out, in)."""
    return {name: replace(source, transposed=False) for name, source in names.items()}


class Layout:
    """Where the parameters of one model are in the tensors of a family.

    Attributes:
        sources: of each parameter; None if the family has no such parameter.
    """

    def __init__(
        self, model: config.Transformer, names: Names, shapes: Mapping[str, Shape]
    ) -> None:
        """From the names of the family, and the shapes of all parameters."""
        self.sources = {parameter: source_of(parameter, names) for parameter in shapes}
        self._model = model
        self._shapes = shapes
        #: the experts in each stacked tensor
        self._n_experts: dict[str, int] = {}
        for source in self.sources.values():
            if source is not None and source.expert is not None:
                n = self._n_experts.get(source.name, 0)
                self._n_experts[source.name] = max(n, source.expert + 1)

    def source(self, parameter: str) -> Source:
        """The source of a parameter.

        Raises:
            CheckpointError: the family has no such parameter.
        """
        source = self.sources[parameter]
        if source is None:
            raise CheckpointError(f"there is no tensor for {parameter}")
        return source

    def tensor_names(self, parameter: str) -> tuple[str, ...]:
        """The names of the tensors with a parameter: one, or one for each of its groups."""
        source = self.source(parameter)
        if not source.spread:
            return (source.name,)
        numbers = range(self._n_groups(parameter))
        return tuple(source.name.replace("{h}", str(number)) for number in numbers)

    def sizes(self, parameter: str) -> list[int]:
        """The rows of each member of a parameter's tensor, in order."""
        members = self.source(parameter).members or (parameter,)
        return [self._shapes[member][0] for member in members]

    def published_shape(self, parameter: str) -> Shape:
        """The shape of the tensor that contains a parameter, or a group of it."""
        source = self.source(parameter)
        shape = (sum(self.sizes(parameter)), *self._shapes[parameter][1:])
        if self._is_cut(parameter):
            n_groups = self._n_groups(parameter)
            width = shape[0] // n_groups
            return (width,) if source.spread else (n_groups, width)
        shape = shape[::-1] if source.transposed else shape
        return shape if source.expert is None else (self._n_experts[source.name], *shape)

    def take(self, parameter: str, published: Tensor) -> Tensor:
        """A parameter in its published tensor: the same memory if the layout is the same.

        Of a tensor with all experts, `published` is the part of the parameter's own; of tensors
        with a group each, it is the matrix of all.
        """
        source = self.source(parameter)
        tensor = published.t() if source.transposed and published.ndim == 2 else published
        if self._is_cut(parameter):
            return tensor.flatten()
        if not source.members:
            return tensor
        return self._member(parameter, tensor).flatten(0, 1)

    def _member(self, parameter: str, tensor: Tensor) -> Tensor:
        """(groups, rows of this member in a group, ...), a view."""
        index, n_groups = self.source(parameter).index, self._n_groups(parameter)
        rows = [size // n_groups for size in self.sizes(parameter)]
        groups = tensor.reshape(n_groups, -1, *tensor.shape[1:])
        return groups.narrow(1, sum(rows[:index]), rows[index])

    def join(self, parameter: str, members: Sequence[Tensor]) -> Tensor:
        """The published tensor of all of its members, `parameter` and the others."""
        source = self.source(parameter)
        if self._is_cut(parameter):
            tensor = members[0].reshape(self._n_groups(parameter), -1)
        elif not source.members:
            (tensor,) = members
        else:
            n_groups = self._n_groups(parameter)
            groups = [member.reshape(n_groups, -1, *member.shape[1:]) for member in members]
            tensor = torch.cat(groups, dim=1).flatten(0, 1)
        return tensor.t() if source.transposed and tensor.ndim == 2 else tensor

    def publish(self, tensors: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
        """All published tensors, by their full names."""
        for parameter in tensors:
            source = self.source(parameter)
            if source.index or source.expert:
                continue
            published = self._published(parameter, source, tensors)
            yield from zip(
                self.tensor_names(parameter),
                published if source.spread else (published,),
                strict=True,
            )

    def _published(self, parameter: str, source: Source, tensors: Mapping[str, Tensor]) -> Tensor:
        if source.expert is None:
            members = source.members or (parameter,)
            return self.join(parameter, [tensors[member] for member in members])
        experts: list[Tensor] = []
        for number in range(self._n_experts[source.name]):
            member = _EXPERT.sub(f".experts.{number}.", parameter)
            members = self.source(member).members or (member,)
            experts.append(self.join(member, [tensors[name] for name in members]))
        return torch.stack(experts)

    def _is_cut(self, parameter: str) -> bool:
        """Whether a vector is published as a matrix."""
        source = self.source(parameter)
        return not source.members and source.groups != "one"

    def _n_groups(self, parameter: str) -> int:
        groups = self.source(parameter).groups
        if isinstance(groups, int):
            return groups
        if groups == "one":
            return 1
        if groups == "rows":
            return self._shapes[parameter][0]
        attention = _attention_of(self._model, parameter)
        if groups == "heads" or isinstance(attention, config.LatentAttention):
            return attention.n_heads
        return attention.n_kv_heads


def _attention_of(
    model: config.Transformer, parameter: str
) -> config.MultiHead | config.LatentAttention:
    """The attention that a parameter belongs to."""
    name, layer = parameter.split(".")[0], _LAYER.search(parameter)
    stack = model.encoder if name == "encoder" else model.decoder
    assert stack is not None
    assert layer is not None
    attention = stack.cross_attention if ".cross_attention." in parameter else None
    attention = stack.layers[int(layer[1])].attention if attention is None else attention
    # no other kind has fused projections
    assert isinstance(attention, config.MultiHead | config.LatentAttention)
    return attention


def shapes_of(parameters: Iterable[tuple[str, Tensor]]) -> dict[str, Shape]:
    """The shape of each parameter."""
    return {name: tuple(parameter.shape) for name, parameter in parameters}
