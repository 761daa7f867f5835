"""The parts that the arguments of a call play: ids, their mask, labels, an encoder's source."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from torch import Tensor, nn

from pellucid.vitals.taps.recorded_call import Call

#: The place of an argument in a call: a position, or a keyword.
Place = int | str

_LABELS = ("labels", "label", "targets", "target", "y")
#: A vocabulary of so many tokens is one of texts.
_TEXT = 256
_MASKS = ("attention_mask", "padding_mask", "key_padding_mask", "mask")
#: Ids with a special meaning in a Hugging Face config: models may search their inputs for them.
_SPECIAL = ("pad", "bos", "eos", "sep", "cls", "mask", "decoder_start", "image", "video", "audio")


@dataclass(frozen=True, slots=True)
class Arguments:
    """A call of a model, with the places of the arguments that probes change or read.

    Attributes:
        call: All arguments.
        ids: The place of the ids that outputs follow, the decoder's if there are two texts, or of
            vectors in their place.
        source: The place of an encoder's ids, if a decoder follows.
        labels: The place of the labels.
        mask: The place of the (rows, time) mask of the padded text, 1 for real tokens: of `source`
            if there is one, else of `ids`.
        pad: The id of padding that a config names.
        room: The most tokens of a row, as a config says.
        special: Ids that are neither changed nor put in the place of others.
        ends: Ids that end a text, as a config names them.
        starts: Ids that begin a text, and end none.
        positions: The place of the (rows, time) positions.
        is_of_model: Whether a model of transformers is called itself: the first axis holds the
            rows, and arguments have the names that it gives them.
    """

    call: Call
    ids: Place
    source: Place | None = None
    labels: Place | None = None
    mask: Place | None = None
    pad: int | None = None
    room: int | None = None
    special: tuple[int, ...] = ()
    ends: tuple[int, ...] = ()
    starts: tuple[int, ...] = ()
    positions: Place | None = None
    is_of_model: bool = False

    def tensor(self, place: Place | None) -> Tensor | None:
        """The argument at a place; None if there is none, or no tensor."""
        if place is None:
            return None
        args, kwargs = self.call.args, self.call.kwargs
        value: Any = kwargs.get(place) if isinstance(place, str) else args[place]
        return value if isinstance(value, Tensor) else None

    @property
    def inputs(self) -> Tensor:
        """The ids (rows, time), or vectors (rows, time, features)."""
        tensor = self.tensor(self.ids)
        assert tensor is not None
        return tensor

    @property
    def masked(self) -> Place:
        """Where the ids are that the mask of padding is about: those of an encoder, if it has."""
        return self.ids if self.source is None else self.source

    def with_inputs(self, place: Place, tensor: Tensor) -> Arguments:
        """The same call with another tensor at a place."""
        args, kwargs = list(self.call.args), dict(self.call.kwargs)
        if isinstance(place, str):
            kwargs[place] = tensor
        else:
            args[place] = tensor
        return replace(self, call=Call(tuple(args), kwargs))

    def map(self, change: Callable[[Tensor], Tensor]) -> Arguments:
        """The same call with every tensor changed."""
        return replace(self, call=self.call.map(change))

    def with_rows(self, rows: Tensor) -> Arguments:
        """The same call with these of its rows; a row may come several times."""
        n = self.inputs.shape[0]

        def choose(tensor: Tensor) -> Tensor:
            return tensor[rows.to(tensor.device)] if tensor.ndim and len(tensor) == n else tensor

        return self.map(choose)


def arguments_of(model: nn.Module, call: Call) -> Arguments | None:
    """The parts of a call's arguments; None if it has no ids or vectors of tokens.

    Args:
        model: The model that was called.
        call: Its arguments.
    """
    places = dict(_place_names(model, call))
    config = foreign_config(model)
    is_foreign = config is not None
    is_wrapped = is_foreign and getattr(model, "config", None) is not config
    two_texts = bool(getattr(config, "is_encoder_decoder", False))
    special = _ids_named(config, _SPECIAL) if is_foreign else ()
    labels = _first(places, _LABELS)
    ids = _find_ids(places, labels)
    if ids is None:
        return None
    pad = getattr(config, "pad_token_id", None) if is_foreign else None
    ends = end_ids(model)
    room = _room(config) if is_foreign else None
    arguments = Arguments(
        call,
        ids,
        labels=labels,
        pad=pad if isinstance(pad, int) else None,
        room=room,
        special=special,
        ends=ends,
        starts=start_ids(model),
        positions=places.get("position_ids"),
        is_of_model=is_foreign and not is_wrapped,
    )
    mask = _first(places, _MASKS)
    value = arguments.tensor(mask)
    if value is not None and value.shape == arguments.inputs.shape[:2] and is_foreign:
        arguments = replace(arguments, mask=mask)
    if two_texts and is_wrapped:
        return _with_second_text(arguments, places)
    return _with_decoder(model, replace(arguments, source=ids), places) if two_texts else arguments


def _with_second_text(arguments: Arguments, places: dict[str, Place]) -> Arguments:
    """The arguments of a module around an encoder-decoder, with the second text that it takes.

    The names are the module's own. Labels that it moves itself are known by its outputs, which do
    not depend on the label at their own place.
    """
    texts = [place for place in places.values() if is_text(arguments.tensor(place))]
    if len(texts) != 2 or texts[0] != arguments.ids:
        return arguments
    return replace(arguments, ids=texts[1], source=texts[0], labels=None)


def is_text(tensor: Tensor | None) -> bool:
    """Whether these are ids (rows, time), and no mask; and no labels if some are ignored."""
    if tensor is None or tensor.ndim != 2 or tensor.dtype != torch.long or not tensor.numel():
        return False
    return int(tensor.min()) >= 0 and int(tensor.max()) > 1


def has_source(model: nn.Module) -> bool:
    """Whether a model writes one text and reads another, as an encoder-decoder with a head does."""
    if not getattr(foreign_config(model), "is_encoder_decoder", False):
        return False
    return getattr(model, "get_output_embeddings", lambda: None)() is not None


def end_ids(model: nn.Module) -> tuple[int, ...]:
    """The ids that end a text, by the config of a model of transformers; empty without one."""
    config = foreign_config(model)
    return () if config is None else _ids_named(config, ("eos",))


def start_ids(model: nn.Module) -> tuple[int, ...]:
    """The ids that begin a text and end none, by the config of a model of transformers."""
    config, ends = foreign_config(model), end_ids(model)
    starts = () if config is None else _ids_named(config, ("bos",))
    return tuple(id for id in starts if id not in ends)


def foreign_config(model: nn.Module) -> Any:
    """The config of a model of transformers, or of one that is a part of it; None without one."""
    configs: list[Any] = [getattr(module, "config", None) for module in (model, *model.children())]
    return next((c for c in configs if isinstance(getattr(c, "model_type", None), str)), None)


def _room(config: Any) -> int | None:
    """The most tokens of a row; without a limit in the config, more than any row has.

    None for models of few tokens, whose rows may be short by nature.
    """
    room, size = (getattr(config, name, None) for name in ("max_position_embeddings", "vocab_size"))
    if isinstance(room, int):
        return room
    return sys.maxsize if isinstance(size, int) and size >= _TEXT else None


def _with_decoder(
    model: nn.Module, arguments: Arguments, places: dict[str, Place]
) -> Arguments | None:
    """The arguments, with the ids that the decoder reads; a model may make them from labels."""
    place = places.get("decoder_input_ids")
    if place is None:
        labels = arguments.tensor(arguments.labels)
        ids = (
            None
            if labels is None or labels.ndim != 2
            else _decoder_ids(model, labels, arguments.pad)
        )
        if ids is None:
            return None
        place = "decoder_input_ids"
        arguments = arguments.with_inputs(place, ids)
    return replace(arguments, ids=place)


def _decoder_ids(model: nn.Module, labels: Tensor, pad: int | None) -> Tensor | None:
    """What a decoder reads for its labels: a start, and the labels up to the last but one.

    None if the model has no method for it, and its config no start or no padding.
    """
    make: Any = getattr(model, "prepare_decoder_input_ids_from_labels", None)
    if make is not None:
        return make(labels=labels)
    start: Any = getattr(foreign_config(model), "decoder_start_token_id", None)
    if not isinstance(start, int) or pad is None:
        return None
    earlier = labels[:, :-1]
    return nn.functional.pad(earlier.masked_fill(earlier < 0, pad), (1, 0), value=start)


def _place_names(model: nn.Module, call: Call) -> Iterator[tuple[str, Place]]:
    """The names of the arguments that are tensors, with their places."""
    names = [
        name
        for name, parameter in inspect.signature(model.forward).parameters.items()
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    for i, value in enumerate(call.args):
        if isinstance(value, Tensor):
            yield names[i] if i < len(names) else str(i), i
    for name, value in call.kwargs.items():
        if isinstance(value, Tensor):
            yield name, name


def _first(places: dict[str, Place], names: tuple[str, ...]) -> Place | None:
    return next((places[name] for name in names if name in places), None)


def _find_ids(places: dict[str, Place], labels: Place | None) -> Place | None:
    first_place = _first(places, ("input_ids", "inputs_embeds", "ids", "idx", "tokens"))
    # a decoder may be called with its encoder's outputs and a mask: that is no text
    others = (place for name, place in places.items() if place != labels and name not in _MASKS)
    return next(others, None) if first_place is None else first_place


def _ids_named(config: Any, names: tuple[str, ...]) -> tuple[int, ...]:
    """The ids that a config gives to tokens of these names."""
    values = (getattr(config, f"{name}_token_id", None) for name in names)
    ids = [cast("list[Any]", v) if isinstance(v, list) else [v] for v in values]
    return tuple({i for group in ids for i in group if isinstance(i, int)})


def other_ids(ids: Tensor, special: tuple[int, ...]) -> Tensor:
    """For each id another one of the same tensor; special ids, and an only id, stay.

    Args:
        ids: Whole numbers of any shape.
        special: Ids that stay as they are, and replace no other.
    """
    candidates: Tensor = cast("Any", torch).unique(ids)
    excluded = torch.tensor(special, dtype=ids.dtype, device=ids.device)
    candidates = candidates[(candidates >= 0) & ~torch.isin(candidates, excluded)]
    if len(candidates) < 2:
        return ids
    is_usual = torch.isin(ids, candidates)
    places = torch.searchsorted(candidates, ids.contiguous())
    return torch.where(is_usual, candidates[(places + 1) % len(candidates)], ids)


def ids_of_vectors(model: nn.Module, vectors: Tensor) -> Tensor | None:
    """The ids whose embeddings the vectors (rows, time, features) are; None if they are none.

    Args:
        model: A model with `get_input_embeddings`, as in transformers.
        vectors: The vectors.
    """
    find: Any = getattr(model, "get_input_embeddings", None)
    weight: Any = getattr(None if find is None else find(), "weight", None)
    if not isinstance(weight, Tensor) or vectors.ndim != 3 or weight.shape[1] != vectors.shape[2]:
        return None
    flat = vectors.detach().flatten(0, 1).float()
    ids = torch.cdist(flat, weight.detach().float()).argmin(1)
    is_exact = (weight.detach()[ids].float() - flat).abs().amax(1) < 1e-6
    return ids.view(vectors.shape[:2]) if bool(is_exact.all()) else None
