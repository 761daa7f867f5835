"""What a mask of padding hides and shows: tokens, padding, or what other rows have there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from pellucid.vitals.call.arguments import Arguments
from pellucid.vitals.call.dependence import Repetition, change, with_changes
from pellucid.vitals.call.row_content import count_last
from pellucid.vitals.call.text_rows import various

#: Shorter rows say nothing; so many different ids are text, and not padding.
_SHORTEST, _TEXT = 4, 4
#: A mask is off by so many places at least, and a row so long: a few tokens may be left out.
_FEWEST, _LONG_ENOUGH = 3, 8
#: So many rows, and such a share of them, end with one token if it is an end token.
_LEAST_ROWS, _NEARLY_ALL = 4, 0.9
#: torch's modules that take a `key_padding_mask`, which is true, or -inf, where it hides a key.
_OF_TORCH = (
    nn.MultiheadAttention,
    nn.TransformerEncoder,
    nn.TransformerEncoderLayer,
    nn.TransformerDecoder,
    nn.TransformerDecoderLayer,
)


def measure(arguments: Arguments) -> dict[str, float]:
    """The signs of a call's mask of padding.

    Args:
        arguments: The call.
    """
    share = misfit(arguments)
    signs = {} if share is None else {"call.misfit": share}
    before = shown_before(arguments)
    signs |= {} if before is None else {"call.shown_before": before}
    return signs | hidden_tokens(arguments)


def _ids_and_mask(arguments: Arguments) -> tuple[Tensor, Tensor] | None:
    """The ids that the mask of padding is for (rows, time), and whether it shows each of them.

    None without ids, or without a mask of zeros and ones.
    """
    ids, mask = arguments.tensor(arguments.masked), arguments.tensor(arguments.mask)
    if ids is None or mask is None or ids.ndim != 2 or mask.shape != ids.shape:
        return None
    is_shown = mask == 1
    if ids.is_floating_point() or not bool((is_shown | (mask == 0)).all()):
        return None
    return ids, is_shown


def hidden_tokens(arguments: Arguments) -> dict[str, float]:
    """What a mask of zeros and ones hides, as shares of the rows; nothing without such a mask.

    `call.hidden` counts rows whose tokens are all hidden, or all but one id. `call.hidden_text`
    counts rows that hide several ids before others that they show, or before their end token.
    Padding is one id, and what a loop leaves behind the end of a text may be anything.
    """
    masked_ids = _ids_and_mask(arguments)
    if masked_ids is None or masked_ids[0].shape[1] < _SHORTEST:
        return {}
    ids, shown = masked_ids
    is_before = shown.flip(1).long().cumsum(1).flip(1) > 0
    is_before |= before_hidden_end(ids, shown)
    hidden = ids.masked_fill(shown | ~is_before, -1).sort(1).values
    n_kinds = ((hidden[:, 1:] != hidden[:, :-1]) & (hidden[:, 1:] >= 0)).sum(1)
    return {
        "call.hidden": turned_rows(ids, shown),
        "call.hidden_text": float((n_kinds >= _TEXT).double().mean()),
    }


def turned_rows(ids: Int[Tensor, "rows time"], shown: Bool[Tensor, "rows time"]) -> float:
    """The share of rows whose mask hides several ids, and shows at most one.

    Args:
        ids: The ids that the mask is for.
        shown: Whether it shows each of them.
    """
    return float((various(ids, ~shown) & ~various(ids, shown)).double().mean())


class KeyMaskNotes:
    """Notes the masks of padding that torch's own attention is given in one forward pass.

    Args:
        inputs: (rows, time, ...) of the call.
        source: The encoder's ids, if a decoder reads the inputs.
    """

    def __init__(self, inputs: Tensor, source: Tensor | None = None) -> None:
        texts = [inputs] if source is None else [inputs, source]
        # a mask of (time, time) is one of places that see each other
        self._texts = [
            text
            for text in texts
            if text.ndim == 2 and not text.is_floating_point() and len(text) != text.shape[1]
        ]
        self._shares: list[float] = []

    def note(self, name: str, module: nn.Module, arguments: Any) -> None:
        """Note the masks among the arguments of a module of torch's."""
        if not isinstance(module, _OF_TORCH):
            return
        for mask in arguments:
            hidden = _hidden_keys(mask)
            ids = next(
                (t for t in self._texts if hidden is not None and t.shape == mask.shape), None
            )
            if hidden is not None and ids is not None and ids.shape[1] >= _SHORTEST:
                self._shares.append(turned_rows(ids, ~hidden))

    def signs(self) -> dict[str, float]:
        """The share of rows whose tokens are hidden and whose padding is shown, the most of all."""
        return {"call.hidden_keys": max(self._shares)} if self._shares else {}


def _hidden_keys(mask: Any) -> Tensor | None:
    """Where a mask of padding hides keys; None if this is none."""
    if not isinstance(mask, Tensor) or mask.ndim != 2:
        return None
    if mask.dtype == torch.bool:
        return mask
    is_added = mask.is_floating_point() and bool(((mask == 0) | (mask == -torch.inf)).all())
    return mask == -torch.inf if is_added else None


def before_hidden_end(
    ids: Int[Tensor, "rows time"], shown: Bool[Tensor, "rows time"]
) -> Bool[Tensor, "rows time"]:
    """The places before the token that all rows end with, of rows that do not show it.

    None unless nearly all rows end with one token, as their padding begins behind it. Ids that
    are left from longer rows come behind an end token that is shown.

    Args:
        ids: The ids that the mask is for.
        shown: Whether it shows each of them.
    """
    time = ids.shape[1]
    n_pads = count_last(ids)
    n_pads = torch.where((n_pads >= _FEWEST) & ~shown[:, -1], n_pads, 0)
    last = (time - n_pads - 1).clamp_min(0)[:, None]
    ends = ids.gather(1, last)
    end = ends.mode(0).values
    shown_end = ((ids == end) & shown).any(1, keepdim=True)
    is_ended = (ends == end) & ~shown_end
    is_usual = ((ends == end).double().mean() >= _NEARLY_ALL) & (len(ids) >= _LEAST_ROWS)
    is_usual &= (n_pads > 0).any()
    return (torch.arange(time, device=ids.device) < last) & is_ended & is_usual


def forgotten_rows(arguments: Arguments, repeat: Repetition) -> dict[str, float]:
    """The share of padded rows whose outputs stay as they are when all of their text changes.

    So they say nothing of it: a recurrent model whose last state is taken has read padding since.
    Nothing without one output for each row, and without rows that end in padding.

    Args:
        arguments: The call.
        repeat: Repeats it.
    """
    ids, mask, pad = arguments.inputs, arguments.tensor(arguments.mask), repeat.id_of_padding()
    if ids.ndim != 2 or ids.is_floating_point() or arguments.source is not None:
        return {}
    if repeat.starts_at_zero or repeat.is_half:
        return {}  # no output moves behind a head of zeros, and small moves are lost in 16 bits
    places = torch.arange(1, ids.shape[1] + 1, device=ids.device)
    if mask is not None and mask.shape == ids.shape:
        is_text = mask != 0
    else:  # where no id is known for padding, what a row ends with again and again is as good
        is_text = places <= ids.shape[1] - count_last(ids)[:, None] if pad is None else ids != pad
    lengths = torch.where(is_text, places, 0).amax(1)
    is_padded = (lengths >= _SHORTEST) & (ids.shape[1] - lengths >= _FEWEST)
    variant = with_changes(arguments, arguments.ids, is_text)
    if variant is None or not bool(is_padded.any()):
        return {}
    before, after = repeat(arguments), repeat(variant)
    is_of_rows = before is not None and before.ndim == 2 and len(before) == len(ids)
    if before is None or after is None or not is_of_rows or after.shape != before.shape:
        return {}
    moves = [repeat.over_rounding(float(move)) for move in change(before, after)[is_padded]]
    return {"call.forgotten": moves.count(0.0) / len(moves)}


def shown_before(arguments: Arguments) -> float | None:
    """The share of rows that begin with padding which the call does not hide.

    None if no padding is known, or if rows do not begin with different numbers of it: a few tokens
    of the same id may be the form of a text. Where the mask of the call has another shape, it says
    itself what is hidden.

    Args:
        arguments: The call, of a model without an encoder.
    """
    ids, mask = arguments.tensor(arguments.ids), arguments.tensor(arguments.mask)
    if arguments.pad is None or arguments.source is not None or ids is None or ids.ndim != 2:
        return None
    if ids.is_floating_point() or ids.shape[1] < _LONG_ENOUGH:
        return None
    if mask is not None and mask.shape != ids.shape:
        return None
    is_pad = ids == arguments.pad if mask is None else (ids == arguments.pad) & (mask == 1)
    n = is_pad.long().cumprod(1).sum(1)
    is_various = int(n.max()) - int(n.min()) >= _FEWEST
    return float((n >= _FEWEST).double().mean()) if is_various else 0.0


def misfit(arguments: Arguments) -> float | None:
    """The smaller share of two: rows whose tokens the mask hides, and rows whose padding it shows.

    Of rows that are filled up at their end. None without a mask of zeros and ones, or without a row
    that ends in padding.

    Args:
        arguments: The call.
    """
    masked_ids = _ids_and_mask(arguments)
    counts = None if masked_ids is None else count_misfits(*masked_ids)
    if counts is None or not bool(counts[0] > 0):
        return None
    return float(share_of_misfits([counts]))


def count_misfits(
    ids: Int[Tensor, "rows time"], is_shown: Bool[Tensor, "rows time"]
) -> Float[Tensor, " 3"] | None:
    """How many rows there are, how many have tokens that are hidden, and how many shown padding.

    Zeros if rows are not filled up at their end, or if none ends in padding; None of short rows.

    Args:
        ids: The ids that the mask is for.
        is_shown: Whether it shows each of them.
    """
    time = ids.shape[1]
    if time < _LONG_ENOUGH:
        return None
    lengths = is_shown.sum(1)
    places = torch.arange(time, device=ids.device)
    n_pads = count_last(ids)
    is_padded = n_pads >= _FEWEST
    padding = ids[:, -1].where(is_padded, ids[:, -1].masked_fill(~is_padded, -1).amax())
    is_usable = (is_shown == (places < lengths[:, None])).all()
    is_usable &= is_padded.any() & (padding == padding[:1]).all()
    real = torch.where(ids[:, -1] == padding, time - n_pads, time)
    hides = (real - lengths >= _FEWEST).sum()
    shows = (lengths - real >= _FEWEST).sum()
    return torch.stack([torch.full_like(hides, len(ids)), hides, shows]).float() * is_usable


def share_of_misfits(counts: Sequence[Float[Tensor, " 3"]]) -> Float[Tensor, ""]:
    """The smaller share of rows with hidden tokens and of rows with shown padding.

    Args:
        counts: What `count_misfits` gives, of some batches.
    """
    n, hides, shows = torch.stack([*counts]).sum(0).unbind()
    return torch.minimum(hides, shows) / n.clamp_min(1)


def misfits(batches: Sequence[tuple[Tensor, Tensor | None] | None]) -> dict[str, Tensor]:
    """The sign of the masks of some batches: `call.misfit` of all their rows.

    Args:
        batches: The first ids of each, and whether its mask shows them.
    """
    counts = [
        count
        for batch in batches
        if batch is not None and batch[1] is not None
        if (count := count_misfits(batch[0], batch[1])) is not None
    ]
    return {"call.misfit": share_of_misfits(counts)} if counts else {}
