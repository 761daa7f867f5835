"""What a model shows before its first update.

Equal units, trained gains, slow rotary positions, new tokens or a new table of them, a known text.
"""

from __future__ import annotations

import math
from typing import Any, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from pellucid.typed import named_modules

#: A layer has so many units at least; so many of them are compared, by so many numbers.
_FEWEST, _UNITS, _NUMBERS = 8, 8, 64
#: Rows and features of a table that are looked at; of fewer, chance hides what was trained.
_ROWS, _FEATURES, _FEWEST_ROWS = 256, 128, 16
#: Random numbers have a fourth moment within these bounds, and a largest singular value below so
#: many times the edge.
_FLATTEST, _STEEPEST, _EDGE = 1.6, 3.6, 1.1
#: Fewer places say nothing, and so many are enough.
_FEWEST_PLACES, _MOST_PLACES = 64, 256
#: A row that is so much nearer to the mean of all rows than usual was made from it.
_AT_MEAN = 0.05
#: So many rows of a table give its mean.
_FOR_MEAN = 4096
#: The name that rotary parts give their angles for each place.
_NAME = "inv_freq"


def equal_units(model: nn.Module) -> float | None:
    """The share of linear layers whose units all have the same weights; None without layers.

    A layer of zeros does not count: it opens a residual path later.

    Args:
        model: As it is before its first update.
    """
    weights = [
        module.weight.detach()
        for module in model.modules()
        if isinstance(module, nn.Linear) and min(module.weight.shape) >= _FEWEST
    ]
    readable = [weight for weight in weights if not weight.is_meta and type(weight) is Tensor]
    if not readable:
        return None
    return sum(map(_is_alike, readable)) / len(readable)


def _is_alike(weight: Tensor) -> bool:
    part = weight[:_UNITS, :_NUMBERS]
    return bool((part == part[:1]).all()) and bool(part.any())


def trained_gains(model: nn.Module) -> float | None:
    """The share of norms whose gains are no constant: they were trained; None without norms.

    Gains begin as one number, nearly always 1. An update moves each by its own gradient.

    Args:
        model: As it is before its first update.

    Source:
        Ba et al. 2016 (1607.06450), supplement: "we initialise the gain to 1"
    """
    gains = [
        parameter.detach()
        for module in model.modules()
        if "norm" in type(module).__name__.lower()
        for name, parameter in module.named_parameters(recurse=False)
        if name == "weight" and not is_lazy(parameter) and not parameter.is_meta
    ]
    # a part of a sharded gain is no plain tensor
    readable = [g for g in gains if type(g) is Tensor and g.ndim == 1 and len(g) > 1]
    if not readable:
        return None
    return sum(bool((gain != gain[0]).any()) for gain in readable) / len(readable)


def has_new_table(model: nn.Module) -> bool | None:
    """Whether the token embedding, or the head over its tokens, holds random numbers.

    None without an embedding that can be read.

    Args:
        model: As it is before its first update.
    """
    tables = _tables_of_tokens(model)
    return any(map(is_drawn, tables)) if tables else None


def has_new_heads(model: nn.Module) -> bool:
    """Whether the token embedding was trained, and every head over its tokens is as it was drawn.

    Args:
        model: As it is before its first update.
    """
    tables = _tables_of_tokens(model)
    return len(tables) > 1 and not is_drawn(tables[0]) and all(map(is_drawn, tables[1:]))


def _tables_of_tokens(model: nn.Module) -> list[Tensor]:
    """The token embedding and the heads over its tokens, as far as they can be read."""
    _, table = _largest_table(model)
    if table is None:
        return []
    heads = (m for m in model.modules() if isinstance(m, nn.Linear))
    tables = [table.weight, *(m.weight for m in heads if len(m.weight) == table.num_embeddings)]
    return [t for t in tables if type(t.detach()) is Tensor and not t.is_meta]


def added_rows(model: nn.Module, ids: Int[Tensor, " n"]) -> int | None:
    """How many ids have the mean of a frozen table as their embedding: they were added to it.

    Such rows tell no token from another, and what does not train stays so. None if the table
    trains, or an adapter of it.

    Args:
        model: As it is before its first update.
        ids: Ids that are read, of text.

    Source:
        Hewitt 2021, "Initializing new word embeddings for pretrained language models": the mean of
        all rows, as `resize_token_embeddings` draws new ones
    """
    name, embedding = _largest_table(model)
    if embedding is None:
        return None
    table, modules = embedding.weight.detach(), named_modules(model)
    # an adapter's own module is around the table
    while (parent := name.rpartition(".")[0]) and type(modules[parent]).__module__[:5] == "peft.":
        name = parent
    is_plain = type(table) is Tensor and not table.is_meta and table.is_floating_point()
    if not is_plain or any(weight.requires_grad for weight in modules[name].parameters()):
        return None
    ids = cast("Any", torch).unique(ids)
    padding = -1 if embedding.padding_idx is None else embedding.padding_idx
    ids = ids[(ids >= 0) & (ids < len(table)) & (ids != padding)]
    sample = table[:: max(1, len(table) // _FOR_MEAN)].float()
    mean = sample.mean(0)
    usual = (sample - mean).square().sum(1).median()
    return int(((table[ids].float() - mean).square().sum(1) < _AT_MEAN**2 * usual).sum())


def _largest_table(model: nn.Module) -> tuple[str, nn.Embedding | None]:
    """The embedding with the most rows, and its name; None without one."""
    modules = named_modules(model).items()
    tables = [(name, module) for name, module in modules if isinstance(module, nn.Embedding)]
    return max(tables, key=lambda table: table[1].num_embeddings, default=("", None))


def is_drawn(table: Tensor) -> bool | None:
    """Whether a table holds independent random numbers; None of one that is too small.

    The largest singular value of m rows of n such numbers, of deviation s, is s (sqrt m + sqrt n)
    but for a few percent, and training adds directions that are far larger.

    Args:
        table: The numbers (rows, features).

    Source:
        Martin and Mahoney 2018 (1810.01075), section 3: the edge of Marchenko and Pastur
    """
    rows = table.detach()[:: max(1, len(table) // _ROWS)][:_ROWS, :_FEATURES].double()
    centred, size = rows - rows.mean(), rows.std()
    if min(rows.shape) < _FEWEST_ROWS or not size > 0:
        return None
    peak = float((centred**4).mean() / size**4)  # 1.8 of uniform numbers, 3 of normal ones
    edge = float(size) * (len(rows) ** 0.5 + rows.shape[1] ** 0.5)
    largest = float(cast("Any", torch.linalg).matrix_norm(rows, 2))
    return _FLATTEST < peak < _STEEPEST and largest < _EDGE * edge


def longest_wavelength(model: nn.Module, time: int) -> float | None:
    """The longest wavelength of rotary positions, of a row's length; None without known ones.

    Angles of w for each place come round after 2 pi / w places. The least of the modules.

    Args:
        model: Its modules keep the angles as `inv_freq`, as those of transformers do.
        time: The places of a row.

    Source:
        Su et al. 2021, RoFormer, section 3.3.
    """
    frequencies: list[Any] = [getattr(module, _NAME, None) for module in model.modules()]
    slowest = [
        float(values.min())
        for values in frequencies
        if isinstance(values, Tensor) and values.ndim == 1 and len(values) > 1
    ]
    lengths = [2 * math.pi / (value * time) for value in slowest if value > 0]
    return min(lengths, default=None)


def recognised(
    tokens: Int[Tensor, "rows time"],
    logits: Float[Tensor, "rows time vocab"],
    counts: Tensor,
) -> dict[str, float]:
    """`targets.recognised` and `targets.text_nats`, of the places that count.

    The first is how often a place finds its own next token likelier than another one (a
    half by chance); pairs with one token do not count. The other is the mean of -log p. A trained
    model that reads the ids of another tokenizer is sure of tokens that do not come. Text of a kind
    that it has never read may surprise it as much, but its tokens mean what they meant in training,
    and so they are likelier at their own places than at others.

    Args:
        tokens: The ids of the rows.
        logits: What the model gives at each place.
        counts: Whether the next token of each place but the last is text (rows, time - 1).
    """
    # equal ids at the start of a row may be padding
    is_behind_start = (tokens != tokens[:, :1]).cumsum(1) > 0
    places = (counts & is_behind_start[:, 1:]).nonzero()
    places = places[:: max(1, len(places) // _MOST_PLACES)]
    if len(places) < _FEWEST_PLACES:
        return {}
    rows, columns = places.unbind(1)
    following = tokens[rows, columns + 1].long()
    log_p = logits[rows, columns].float().log_softmax(-1)[:, following]
    own_log_p = log_p.diagonal()
    is_other = following[:, None] != following[None]
    if not bool(is_other.any()):
        return {}
    is_higher = (own_log_p[:, None] > log_p).double() + 0.5 * (own_log_p[:, None] == log_p).double()
    return {
        "targets.recognised": float(is_higher[is_other].mean()),
        "targets.text_nats": float(-own_log_p.mean()),
    }
