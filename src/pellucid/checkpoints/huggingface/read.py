"""A published model, opened: what it is, and its weights one by one.

Comes in: a Hugging Face directory. Goes out: a `config.Transformer`, and a model filled with its
weights. It does not know runs or tokenizers.

Everything that can be refused is refused by what the headers of the files say, before a weight is
read. Then the model, built without memory, is given its tensors one at a time: a tensor that lies
in the file as it lies with us is the file's own memory, any other is made and the file's let go. So
at most the model and one tensor are in memory.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import torch
from torch import Tensor, nn

from pellucid import config
from pellucid.checkpoints.huggingface.attributes import Table, read_attributes
from pellucid.checkpoints.huggingface.directory import CONFIG, GENERATION, Shards, read_json
from pellucid.checkpoints.huggingface.families import FAMILIES
from pellucid.checkpoints.huggingface.family import Family, Found, multi_head
from pellucid.checkpoints.huggingface.names import Source, source_of
from pellucid.errors import CheckpointError, ConfigError
from pellucid.model import Transformer, assemble

_WINDOWS = os.name == "nt"


@dataclass(frozen=True, slots=True)
class Published:
    """A published model: its config, where each of its weights lies, and what was left out.

    `places` has for each of our parameters its source and the name it has in the files; `left_out`
    the tensors that have no place here, with the reason; `attributes` is the `config.json`, with
    what only `generation_config.json` says of begin and end of a text.
    """

    folder: Path
    family: str
    model: config.Transformer
    attributes: Table
    left_out: dict[str, str]
    places: dict[str, tuple[Source, str]]
    shards: Shards

    def tensor(self, ours: str) -> Tensor:
        """One of our parameters, as float32."""
        source, stored = self.places[ours]
        theirs = self.shards.read_float(stored)
        tensor = source.take(theirs, n_heads=multi_head(self.model.stacks[0]).n_heads)
        shared = tensor.untyped_storage().data_ptr() == theirs.untyped_storage().data_ptr()
        if shared and (tensor is not theirs or _WINDOWS):
            # a part, or turned: made anew, so that the file's memory is let go; and Windows can
            # neither replace nor delete a file whose memory is in use
            tensor = tensor.clone(memory_format=torch.contiguous_format)
        return tensor

    def fill(self, model: Transformer) -> None:
        """Give a model built on the meta device its weights, one tensor at a time."""
        for ours in self.places:
            module, _, leaf = ours.rpartition(".")
            held = model.get_submodule(module)
            setattr(held, leaf, nn.Parameter(self.tensor(ours)))


def open_published(
    folder: Path, *, fits: Callable[[config.Transformer], None] = lambda _: None
) -> Published:
    """The model in a Hugging Face directory, every check done but no weight read.

    `fits` may refuse what the config describes before anything of it is built.

    Raises:
        CheckpointError: the family, the architecture, an attribute or a tensor is not handled, or
            files are missing or damaged; says which.
    """
    table = read_json(folder / CONFIG)
    family = _family(table)
    attributes = read_attributes(table, family.rules, family=family.model_type)
    architecture = _architecture(table, family)
    shards = Shards(folder)
    stored = _full_names(shards.stored, family)
    try:
        model = family.read(attributes, Found(architecture, frozenset(stored)))
        _refuse_too_few(model, shards, folder)
        fits(model)
        with torch.device("meta"):
            built = assemble(model, seed=0)
    except ConfigError as error:
        raise CheckpointError(f"{folder / CONFIG} describes no model: {error}") from None
    except ZeroDivisionError:  # a width by a number of heads, before the config is there to refuse
        raise CheckpointError(
            f"{folder / CONFIG} describes no model: a number that another is divided by, such as "
            "that of heads, is 0"
        ) from None
    names = family.names_for(model)
    sources = {ours: source_of(ours, names) for ours, _ in built.named_parameters()}
    shapes = {ours: tuple(p.shape) for ours, p in built.named_parameters()}
    places = _places(sources, stored, folder)
    _check_shapes(places, shapes, shards)
    copies = _copies(family, model)
    left_out = _left_out(stored, places, family, copies, folder)
    _check_copies(copies, stored, shards)
    return Published(
        folder, family.model_type, model, _with_ends(folder, table), left_out, places, shards
    )


def _refuse_too_few(model: config.Transformer, shards: Shards, folder: Path) -> None:
    """A layer has a tensor at least: a config of more layers than that is of no model here."""
    n_layers, n_tensors = sum(stack.n_layers for stack in model.stacks), len(shards.stored)
    if n_layers > n_tensors:
        raise CheckpointError(
            f"{folder / CONFIG} describes {n_layers:,} layers, but the files hold {n_tensors:,} "
            "tensors in all: the files are of another model, or not all there"
        )


def _family(table: Table) -> Family:
    kind = table.get("model_type")
    family = FAMILIES.get(kind) if isinstance(kind, str) else None
    if family is None:
        fault = f"names the family {kind!r}" if kind is not None else "has no model_type"
        raise CheckpointError(f"config.json {fault}; those that are handled: {', '.join(FAMILIES)}")
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
    """From the name that a tensor has in a whole, recent file to the one that it has here."""
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


def _places(
    sources: dict[str, Source | None], stored: dict[str, str], folder: Path
) -> dict[str, tuple[Source, str]]:
    places: dict[str, tuple[Source, str]] = {}
    missing: list[str] = []
    for ours, source in sources.items():
        if source is None or source.name not in stored:
            missing.append(f"{ours} (there {'no name' if source is None else source.name})")
        else:
            places[ours] = (source, stored[source.name])
    if missing:
        suffix = f", and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise CheckpointError(
            f"{folder} has no tensor for {missing[0]}{suffix}: its config.json asks for it; the "
            "files are of another model, or not all there"
        )
    return places


def _check_shapes(
    places: dict[str, tuple[Source, str]], shapes: dict[str, tuple[int, ...]], shards: Shards
) -> None:
    for ours, (source, stored) in places.items():
        expected, actual = source.shape(shapes[ours]), shards.stored[stored].shape
        if actual != expected:
            raise CheckpointError(
                f"{shards.stored[stored].file}: {stored} has the shape {list(actual)}, "
                f"config.json asks for {list(expected)}"
            )


def _copies(family: Family, model: config.Transformer) -> dict[str, str]:
    """Tensors that may only repeat another one; the head's too, where it is the embedding."""
    copies = dict(family.copies)
    if model.embedding.tied and isinstance(model.head, config.LanguageHead):
        copies[family.names["head.weight"].name] = family.names["token_embedding.weight"].name
    return copies


def _left_out(
    stored: dict[str, str],
    places: dict[str, tuple[Source, str]],
    family: Family,
    copies: dict[str, str],
    folder: Path,
) -> dict[str, str]:
    used = {stored_name for _, stored_name in places.values()}
    left_out: dict[str, str] = {}
    for full, name in stored.items():
        if name in used or full in copies:
            continue
        why = next((w for pattern, w in family.left_out.items() if re.fullmatch(pattern, full)), "")
        if not why:
            raise CheckpointError(
                f"{folder} holds the tensor {name}, which a {family.model_type} with this "
                "config.json does not have: what it is for is unknown, so nothing is converted"
            )
        left_out[name] = why
    return left_out


def _check_copies(copies: dict[str, str], stored: dict[str, str], shards: Shards) -> None:
    for copy, original in copies.items():
        if copy not in stored or original not in stored:
            continue
        if not torch.equal(shards.read(stored[copy]), shards.read(stored[original])):
            raise CheckpointError(
                f"{shards.folder}: {stored[copy]} should repeat {stored[original]}, but it does "
                "not: the model has it once. If they are a head and an embedding that were "
                "trained apart, set tie_word_embeddings to false in config.json"
            )


def _with_ends(folder: Path, table: Table) -> Table:
    generation = read_json(folder / GENERATION) if (folder / GENERATION).is_file() else {}
    names = ("bos_token_id", "eos_token_id", "decoder_start_token_id")
    return {**table, **{n: generation[n] for n in names if generation.get(n) is not None}}
