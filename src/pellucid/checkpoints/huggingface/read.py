"""Open a published model: from a Hugging Face directory to a config, and to weights one by one.

All checks use the headers of the files, before any weight is read. Then the model, which is built
without memory, gets its tensors one at a time. A tensor with the same layout shares the file's
memory; any other is copied, and the file's memory is released. So memory holds at most the model
and one tensor.
"""

from __future__ import annotations

import difflib
import math
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import assert_never, cast

import torch
from torch import Tensor, nn

from pellucid import config
from pellucid.checkpoints.finite import refuse_non_finite
from pellucid.checkpoints.huggingface.attributes import Table, read_attributes
from pellucid.checkpoints.huggingface.directory import CONFIG, GENERATION, Shards, Stored, read_json
from pellucid.checkpoints.huggingface.families import FAMILIES, REFUSED
from pellucid.checkpoints.huggingface.family import Family
from pellucid.checkpoints.huggingface.mapping import DirectoryContents
from pellucid.checkpoints.huggingface.match_tensors import (
    check_computed,
    check_copies,
    check_shapes,
    find_copies,
    find_ignored,
    find_places,
)
from pellucid.checkpoints.huggingface.names import Layout, shapes_of
from pellucid.checkpoints.huggingface.own import OWN_TYPE, own_family, read_own
from pellucid.errors import CheckpointError, ConfigError
from pellucid.model import Transformer, Weights, assemble, can_be_half, widen_on_use
from pellucid.model.build.shared_layers import tie_weights
from pellucid.model.packed.layers import packed_of
from pellucid.model.packed.packer import Packer
from pellucid.reader import short

_WINDOWS = os.name == "nt"
#: The types of half precision, as files name them.
_HALF = {"BF16": torch.bfloat16, "F16": torch.float16}


@dataclass(frozen=True, slots=True)
class Published:
    """A published model.

    Attributes:
        folder: its directory.
        family: its `model_type`.
        model: its config.
        attributes: the `config.json`, with begin and end tokens from `generation_config.json`.
        ignored_tensors: tensors without a parameter, with the reason.
        layout: where each parameter is in its tensor.
        places: the names of each parameter's tensors in the files.
        shards: the files.
    """

    folder: Path
    family: str
    model: config.Transformer
    attributes: Table
    ignored_tensors: dict[str, str]
    layout: Layout
    places: dict[str, tuple[str, ...]]
    shards: Shards

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that the model is made from."""
        shards = sorted({stored.file for stored in self.shards.stored.values()})
        return (self.folder / CONFIG, *shards)

    def tensor(self, parameter: str, dtype: torch.dtype = torch.float32) -> Tensor:
        """The tensor of a parameter in a dtype, which is that of the file if it needs no copy."""
        expert = self.layout.source(parameter).expert
        published, tensor = self._published(parameter, dtype)
        shared = tensor.untyped_storage().data_ptr() == published.untyped_storage().data_ptr()
        if shared and (tensor is not published or expert is not None or _WINDOWS):
            # a copy of a part or a transpose releases the file's memory; and Windows can neither
            # replace nor delete a file whose memory is in use
            tensor = tensor.clone(memory_format=torch.contiguous_format)
        return tensor

    def _published(self, parameter: str, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """The published tensor of a parameter in a dtype, and the parameter, which may share it."""
        expert = self.layout.source(parameter).expert
        parts = [self.shards.read_float(name, dtype, expert) for name in self.places[parameter]]
        published = parts[0] if len(parts) == 1 else torch.stack(parts)
        return published, self.layout.take(parameter, published)

    def fill(
        self, model: Transformer, weights: Weights = "float32", packer: Packer | None = None
    ) -> None:
        """Fill a model that was built on the meta device, one tensor at a time.

        Args:
            model: the model.
            weights: the type of its matrices. They stay in half precision if they are so in the
                file, or if you ask for float16; all other tensors become float32.
            packer: takes the matrices that stay in few bits alone, some rows at a time.

        Raises:
            NonFiniteError: a matrix that is packed has NaN or an infinity.
        """
        constants = dict(model.named_buffers()).keys() & model.state_dict().keys()
        for parameter in self.places:
            if packer is not None and self._packs(model, parameter, packer):
                continue
            module, _, leaf = parameter.rpartition(".")
            dtype = self._dtype(parameter, weights) if can_be_half(model, parameter) else None
            owner = model.get_submodule(module)
            tensor = self.tensor(parameter, torch.float32 if dtype is None else dtype)
            if packer is not None:  # a copy releases the file, whose pages around it are resident
                tensor = tensor.clone()
            is_constant = leaf in dict(owner.named_buffers(recurse=False))
            setattr(owner, leaf, tensor if is_constant else nn.Parameter(tensor))
        for stack in (model.encoder, model.decoder):
            if stack is not None:
                tie_weights(stack)
        for name in constants - self.places.keys():
            path, _, leaf = name.rpartition(".")
            shape = model.get_buffer(name).shape
            setattr(model.get_submodule(path), leaf, torch.zeros(shape))
        widen_on_use(model)

    def _packs(self, model: Transformer, parameter: str, packer: Packer) -> bool:
        """Whether the packer has the parameter now."""
        layer, _, leaf = parameter.rpartition(".")
        if parameter in packer.kinds and self._dtype(parameter, packer.weights) is None:
            packer.take(parameter, self._rows_of(parameter))
        return leaf == "weight" and packed_of(model.get_submodule(layer)) is not None

    def _rows_of(self, parameter: str) -> Callable[[int, int], Tensor]:
        """What reads rows of a matrix in float32, and refuses those that are not finite.

        They come from the file as they are needed, if they lie in it as in the parameter.
        """
        source, names = self.layout.source(parameter), self.places[parameter]
        in_place = not (source.transposed or source.members or source.spread)
        direct = in_place and source.expert is None and len(names) == 1
        tensor = None if direct else self._published(parameter, torch.float32)[1]

        def rows(first: int, last: int) -> Tensor:
            read = (
                self.shards.read_rows(names[0], first, last)
                if tensor is None
                else tensor[first:last].contiguous()
            )
            refuse_non_finite({parameter: read}, self.folder)
            return read

        return rows

    def is_half(self, weights: Weights) -> bool:
        """Whether most of the model's numbers stay in half precision."""
        largest = max(self.places, key=lambda name: math.prod(self._stored(name).shape))
        return self._dtype(largest, weights) is not None

    def _dtype(self, parameter: str, weights: Weights) -> torch.dtype | None:
        """The half precision in which a matrix stays; None if it becomes float32."""
        stored = _HALF.get(self._stored(parameter).dtype)
        match weights:
            case "stored":
                return stored
            case "bfloat16":
                return None if stored is None else torch.bfloat16
            case "float16":
                return torch.float16
            case "float32" | "int8" | "int4":
                return None
            case _:
                assert_never(weights)

    def _stored(self, parameter: str) -> Stored:
        """The first tensor of a parameter."""
        return self.shards.stored[self.places[parameter][0]]


def open_published(
    folder: Path, *, fits: Callable[[config.Transformer], None] = lambda _: None
) -> Published:
    """Check the model in a Hugging Face directory; no weight is read.

    Args:
        folder: the directory.
        fits: may refuse a config before the model is built.

    Raises:
        CheckpointError: the family, the architecture, an attribute or a tensor is not handled, or
            files are missing or damaged; says which.
    """
    table = read_json(folder / CONFIG)
    shards = Shards(folder)
    try:
        family, model = _describe_model(table, frozenset(shards.stored), fits)
        with torch.device("meta"):
            built = assemble(model, seed=0)
    except ConfigError as error:
        raise CheckpointError(f"{folder / CONFIG} describes no model: {error}") from None
    stored = _full_names(shards.stored, family)
    # parameters, and constants that belong to the model
    shapes = shapes_of(built.state_dict().items())
    layout = Layout(model, family.names_in(model, shapes, stored), shapes)
    places = find_places(layout, stored, family.zero_if_missing, folder)
    check_shapes(places, layout, shards)
    copies = find_copies(family, model)
    ignored_tensors = find_ignored(stored, places, family, copies, folder)
    check_copies(copies, stored, shards)
    check_computed(family.computed, built, stored, shards)
    attributes = _with_ends(folder, table)
    return Published(
        folder, family.model_type, model, attributes, ignored_tensors, layout, places, shards
    )


def _describe_model(
    table: Table, stored: frozenset[str], fits: Callable[[config.Transformer], None]
) -> tuple[Family, config.Transformer]:
    """The family that a `config.json` names, and the model that it describes.

    Args:
        table: the `config.json`.
        stored: the names of the tensors in the files.
        fits: may refuse the model.
    """
    if table.get("model_type") == OWN_TYPE:
        model = read_own(table)
        fits(model)
        return own_family(model), model
    family = _family(table)
    attributes = read_attributes(table, family.rules, family=family.model_type)
    architecture = _architecture(table, family)
    full_names = frozenset(_full_names(stored, family))
    model = family.read(attributes, DirectoryContents(architecture, full_names))
    fits(model)
    return family, model


def _family(table: Table) -> Family:
    kind = table.get("model_type")
    family = FAMILIES.get(kind) if isinstance(kind, str) else None
    if isinstance(kind, str) and kind in REFUSED:
        raise CheckpointError(f"config.json names the family {kind!r}, {REFUSED[kind]}")
    if family is None:
        fault = f"names the family {short(kind)}" if kind is not None else "has no model_type"
        similar = difflib.get_close_matches(str(kind), (*FAMILIES, OWN_TYPE), n=3)
        names = (
            f"those with a similar name are {', '.join(similar)}" if similar else "such as llama"
        )
        raise CheckpointError(
            f"config.json {fault}; docs/huggingface.md lists the {len(FAMILIES)} families that are "
            f"handled, {names}"
        )
    return family


def _architecture(table: Table, family: Family) -> str:
    architectures = table.get("architectures") or family.architectures[:1]
    if not isinstance(architectures, list | tuple):
        raise CheckpointError(
            f"config.json: architectures must be a list of names of classes, was {architectures!r}"
        )
    if architectures[0] not in family.architectures:
        raise CheckpointError(
            f"config.json: the architecture {architectures[0]!r} is not handled; of "
            f"{family.model_type} those that are: {', '.join(family.architectures)}"
        )
    return cast("str", architectures[0])


def _full_names(stored: Iterable[str], family: Family) -> dict[str, str]:
    """From the full, recent name of each tensor to its name in these files."""
    names = list(stored)
    bare = family.prefix and not any(name.startswith(family.prefix) for name in names)
    full: dict[str, str] = {}
    for name in names:
        recent = name
        for old, new in family.older.items():
            if name.endswith(old):
                recent = name.removesuffix(old) + new
        full[family.prefix + recent if bare else recent] = name
    return full


def _with_ends(folder: Path, table: Table) -> Table:
    generation = read_json(folder / GENERATION) if (folder / GENERATION).is_file() else {}
    names = ("bos_token_id", "eos_token_id", "decoder_start_token_id")
    return {**table, **{n: generation[n] for n in names if generation.get(n) is not None}}
