"""What the decoder of a model with an encoder reads, and what its rows are paid for."""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from pellucid.batches import IGNORED
from pellucid.vitals.call import target_rows
from pellucid.vitals.call.alignment import alignment, renamed, unrelated
from pellucid.vitals.call.arguments import Arguments, is_text
from pellucid.vitals.call.kinship import kinship
from pellucid.vitals.call.paid_targets import PaidTargets
from pellucid.vitals.call.text_rows import various
from pellucid.vitals.ledger.batch_rows import last_places

#: Fewer targets of a row say nothing, and fewer rows.
_FEWEST_TARGETS, _FEWEST_ROWS = 4, 2
#: Targets are cut short if the model has room for so many times their number.
_ROOM = 4
#: Two texts are of one kind from this kinship on, as far as a few rows show it; a decoder that is
#: given its source is meant, from such a share of it on.
_KIN, _COPIED = 0.2, 0.5


def with_decoder(arguments: Arguments, targets: Tensor | None) -> Arguments:
    """The arguments of any model, with the second of two texts as a decoder's if targets say so.

    They are the next tokens of the second text, and not of the first one.

    Args:
        arguments: The call.
        targets: The target of each place (rows, time) of the outputs; None if unknown.
    """
    call = arguments.call
    places = [p for p in (*range(len(call.args)), *call.kwargs) if p != arguments.labels]
    texts = [place for place in places if is_text(arguments.tensor(place))]
    if targets is None or arguments.source is not None or len(texts) != 2:
        return arguments
    first, second = (arguments.tensor(place) for place in texts)
    if texts[0] != arguments.ids or first is None or second is None:
        return arguments
    if second.shape != targets.shape or len(first) != len(second):
        return arguments
    read_first, read_second = alignment(first, targets), alignment(second, targets)
    if read_first.is_clear or not read_second.is_clear or read_second.offset < 1:
        return arguments
    return replace(arguments, ids=texts[1], source=texts[0])


def measure(
    arguments: Arguments,
    source: Int[Tensor, "rows length"],
    tokens: Int[Tensor, "rows time"] | None,
    targets: Int[Tensor, "rows time"] | None,
    paid: PaidTargets | None = None,
) -> dict[str, float]:
    """The signs of a decoder's rows.

    Args:
        arguments: The call.
        source: The ids that the encoder reads.
        tokens: The ids that the decoder reads.
        targets: The target of each place, `IGNORED` where nothing is paid for.
        paid: The targets of all rows; None if these are all.
    """
    aligned = None if tokens is None or targets is None else alignment(tokens, targets)
    if not (arguments.is_of_model or (aligned is not None and aligned.follows)):
        return {}  # the second text of a module around the model may be its labels
    signs: dict[str, float] = {}
    if targets is not None and arguments.starts:
        signs["targets.started"] = target_rows.only_targets_start(arguments, source, targets)
    if tokens is None or targets is None or aligned is None:
        return signs
    is_paid = targets != IGNORED
    # the mask of the call is the encoder's
    signs["targets.padding"] = target_rows.paid_padding(
        replace(arguments, mask=None), tokens, targets
    )
    signs["batch.decoder"] = blind_rows(tokens, targets, is_paid)
    if arguments.ends:
        # a few texts may all end with a full stop
        rows = targets if paid is None else paid.all
        signs["targets.unclosed"] = unclosed_rows(arguments, rows, rows != IGNORED)
    if aligned.is_clear:
        return signs
    signs["targets.swapped"] = alignment(source, targets).share
    signs["targets.renamed"] = renamed(tokens, targets)
    is_copy = alignment(source, tokens).share > _COPIED
    if not is_copy and float(kinship(tokens, targets, is_paid, is_paid)) > _KIN:
        signs["targets.unread"] = unrelated(tokens, targets)
    return signs


def blind_rows(
    tokens: Int[Tensor, "rows time"],
    targets: Int[Tensor, "rows time"],
    is_paid: Bool[Tensor, "rows time"],
) -> float:
    """The share of rows whose decoder reads one token again and again, for various targets.

    Args:
        tokens: The ids that the decoder reads; the first is a start.
        targets: The target of each place.
        is_paid: The places that are paid for.
    """
    is_inner = is_paid.clone()
    is_inner[:, 0] = False
    is_known = (is_inner.sum(1) >= _FEWEST_TARGETS) & various(targets, is_inner)
    if int(is_known.sum()) < _FEWEST_ROWS:
        return 0.0
    return float((is_known & ~various(tokens, is_inner)).sum() / is_known.sum())


def unclosed_rows(
    arguments: Arguments, targets: Int[Tensor, "rows time"], is_paid: Bool[Tensor, "rows time"]
) -> float:
    """The share of rows whose targets stop without an end token, before they have to.

    A row has to stop if no row is longer, and the model has hardly room for more. If all rows stop
    with the same token, it is their end.

    Args:
        arguments: The call, of a model whose config names an end token.
        targets: The target of each place.
        is_paid: The places that are paid for.
    """
    n_paid = is_paid.sum(1)
    last_targets = targets.gather(1, last_places(is_paid))
    if len(targets) < _FEWEST_ROWS or bool((last_targets == last_targets[0]).all()):
        return 0.0
    has_end = (torch.isin(targets, targets.new_tensor(arguments.ends)) & is_paid).any(1)
    is_cut = bool((n_paid == n_paid[0]).all()) and (arguments.room or 0) >= _ROOM * int(n_paid[0])
    stops = (n_paid < n_paid.max()) | is_cut
    return float((stops & ~has_end & (n_paid > 0)).double().mean())
