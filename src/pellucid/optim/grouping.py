"""Which parameters are shrunk by weight decay, and which are hidden matrices: by name and shape."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from torch import nn

#: How torch names the lengths of the rows under weight norm: a matrix of one column.
_LENGTHS = ".parametrizations.weight.original0"
#: What reads the last states: a row for each token, or for each class.
_HEADS = ("head.", "classifier.")


@dataclass(frozen=True, slots=True)
class Group:
    """Parameters that are updated alike, by name."""

    label: str
    decays: bool
    parameters: dict[str, nn.Parameter]

    @property
    def count(self) -> int:
        """How many numbers are in the group."""
        return sum(parameter.numel() for parameter in self.parameters.values())


@dataclass(frozen=True, slots=True)
class Groups:
    """The three groups of a model's parameters; a group may be empty."""

    hidden: Group
    embeddings: Group
    vectors: Group

    @property
    def every(self) -> tuple[Group, Group, Group]:
        """All three, hidden matrices first."""
        return self.hidden, self.embeddings, self.vectors


def group(parameters: Iterable[tuple[str, nn.Parameter]]) -> Groups:
    """Split trainable parameters into hidden matrices, embeddings with the head, and vectors.

    Matrices shrink under weight decay; gains and biases do not: their scale is their meaning.
    Embeddings, tables of positions and the head are matrices by shape, but each row is a vector of
    its own, of a token, a distance or a class: they decay, and are never orthogonalised. The
    lengths that weight norm keeps apart from directions are gains.
    """
    hidden: dict[str, nn.Parameter] = {}
    embeddings: dict[str, nn.Parameter] = {}
    vectors: dict[str, nn.Parameter] = {}
    for name, parameter in parameters:
        if not parameter.requires_grad:
            continue
        if parameter.ndim < 2 or name.endswith(_LENGTHS):
            vectors[name] = parameter
        elif "embedding" in name or ".positions." in name or name.startswith(_HEADS):
            embeddings[name] = parameter
        else:
            # The two matrices of an adapter are hidden ones too: each multiplies hidden states, so
            # Muon fits each of them. Decay draws their product towards
            # zero, and so the weights back to the base.
            hidden[name] = parameter
    return Groups(
        hidden=Group("hidden matrices", True, hidden),
        embeddings=Group("embeddings and head", True, embeddings),
        vectors=Group("gains and biases", False, vectors),
    )
