"""Split parameters by name and shape: which decay, and which are hidden matrices."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from torch import nn

#: torch's name for the lengths of the rows under weight norm: a matrix of one column.
_LENGTHS = ".parametrizations.weight.original0"
#: Matrices of output heads: a row for each token, or for each class.
_HEADS = ("head.", "classifier.")
#: Matrices of routers: a row for each expert.
_ROUTERS = (".router.weight", ".shared_gate.weight")


@dataclass(frozen=True, slots=True)
class Group:
    """Parameters with the same kind of update, by name.

    Attributes:
        label: what the group is called.
        decays: whether weight decay applies.
        parameters: by name.
    """

    label: str
    decays: bool
    parameters: dict[str, nn.Parameter]

    @property
    def count(self) -> int:
        """The number of scalars in the group."""
        return sum(parameter.numel() for parameter in self.parameters.values())


@dataclass(frozen=True, slots=True)
class Groups:
    """The three groups of a model's parameters; a group may be empty.

    Attributes:
        hidden: the matrices between the states.
        embeddings: tables, and the head.
        vectors: biases, gains and all else.
    """

    hidden: Group
    embeddings: Group
    vectors: Group

    @property
    def every(self) -> tuple[Group, Group, Group]:
        """All three, hidden matrices first."""
        return self.hidden, self.embeddings, self.vectors


def group(parameters: Iterable[tuple[str, nn.Parameter]]) -> Groups:
    """Split trainable parameters into hidden matrices, embeddings with the head, and vectors.

    Matrices decay; gains and biases do not, because their scale matters. Embeddings, tables of
    positions, routers and the head are matrices, but each of their rows is the vector of a token, a
    distance, an expert or a class: they decay, but Muon never orthogonalises them. The row lengths
    of weight norm count as gains.
    """
    hidden: dict[str, nn.Parameter] = {}
    embeddings: dict[str, nn.Parameter] = {}
    vectors: dict[str, nn.Parameter] = {}
    for name, parameter in parameters:
        if not parameter.requires_grad:
            continue
        if parameter.ndim < 2 or name.endswith(_LENGTHS):
            vectors[name] = parameter
        elif (
            "embedding" in name
            or ".positions." in name
            or name.startswith(_HEADS)
            or name.endswith(_ROUTERS)
        ):
            embeddings[name] = parameter
        else:
            # An adapter's two matrices are hidden too: each multiplies hidden states, so Muon fits.
            # Decay pulls their product to zero, and so the weights back to the base.
            hidden[name] = parameter
    return Groups(
        hidden=Group("hidden matrices", True, hidden),
        embeddings=Group("embeddings and head", True, embeddings),
        vectors=Group("gains and biases", False, vectors),
    )
