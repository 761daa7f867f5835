"""What rows are paid for: the end of a text, padding, and a start that all of them share."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from pellucid.batches import IGNORED
from pellucid.vitals.call import answer_texts
from pellucid.vitals.call.alignment import alignment
from pellucid.vitals.call.arguments import Arguments
from pellucid.vitals.call.first_model import recognised
from pellucid.vitals.call.paid_targets import PaidTargets
from pellucid.vitals.call.text_rows import various
from pellucid.vitals.ledger.batch_rows import last_places

#: Fewer rows, and fewer tokens behind a start, say nothing.
_FEWEST, _FEWEST_TOKENS = 2, 4
#: A mean of fewer tokens says nothing.
_FEWEST_PLACES = 16


def measure(
    arguments: Arguments,
    tokens: Int[Tensor, "rows time"] | None,
    targets: Int[Tensor, "rows time"] | None,
    all_targets: Int[Tensor, "batch time"] | None = None,
) -> dict[str, float]:
    """The signs of rows whose targets are the next tokens.

    Args:
        arguments: The call, of a model without an encoder.
        tokens: The ids that the outputs follow.
        targets: The target of each place, `IGNORED` where nothing is paid for.
        all_targets: The same of all rows of the batch.
    """
    if tokens is None or targets is None or arguments.source is not None or len(tokens) < _FEWEST:
        return {}
    aligned = alignment(tokens, targets)
    if not aligned.is_clear or aligned.offset != 1:
        return {}
    signs = {
        "targets.shared": float(shared_start(targets)),
        "targets.padding": paid_padding(arguments, tokens, targets),
        "targets.head": paid_heads(arguments, tokens, targets),
    }
    signs |= answer_texts.measure(arguments, tokens, targets)
    unended = unended_rows(arguments, tokens, targets, all_targets)
    return signs if unended is None else signs | unended


def unpaid_rows(arguments: Arguments, paid: PaidTargets | None) -> float | None:
    """The share of rows without any target; None if it does not show.

    Args:
        arguments: The call.
        paid: The targets that the loss pays for; None if unknown.
    """
    labels = arguments.tensor(arguments.labels)
    if labels is not None and (labels.ndim != 2 or labels.is_floating_point()):
        return None
    if paid is not None and paid.names_targets:
        is_unpaid = paid.all == IGNORED  # of all rows: labels are those of the first ones
        return float(is_unpaid.all(1).double().mean())
    return None if labels is None else float((labels < 0).all(1).double().mean())


def shared_start(targets: Int[Tensor, "rows time"]) -> int:
    """How many targets from the first place on are paid for, and the same in all rows."""
    is_same = (targets == targets[:1]).all(0) & (targets[0] != IGNORED)
    return int(is_same.long().cumprod(0).sum())


def only_targets_start(
    arguments: Arguments, source: Int[Tensor, "rows length"], targets: Int[Tensor, "rows time"]
) -> float:
    """The share of rows that pay first for a start token; 0 if a text of the encoder has one.

    Args:
        arguments: The call of an encoder-decoder.
        source: The ids that the encoder reads.
        targets: The target of each place, `IGNORED` where nothing is paid for.
    """
    starts = targets.new_tensor(arguments.starts)
    if bool(torch.isin(source, starts).any()):
        return 0.0
    first = (targets != IGNORED).long().argmax(1, keepdim=True)
    return float(torch.isin(targets.gather(1, first), starts).double().mean())


def paid_heads(
    arguments: Arguments, tokens: Int[Tensor, "rows time"], targets: Int[Tensor, "rows time"]
) -> float:
    """The share of rows whose start is paid for, and nothing of the text that follows it.

    Args:
        arguments: The call.
        tokens: The ids that the outputs follow.
        targets: The next token of each place, `IGNORED` where nothing is paid for.
    """
    mask, is_paid = arguments.tensor(arguments.mask), targets != IGNORED
    places = torch.arange(tokens.shape[1], device=tokens.device)
    first = torch.where(is_paid, places, tokens.shape[1]).amin(1)
    last = torch.where(is_paid, places, -1).amax(1)
    is_one_run = (first <= 1) & (is_paid.sum(1) == last - first + 1)
    special = tokens.new_tensor((*arguments.special, *arguments.ends))
    is_unpaid_text = (places > last[:, None] + 1) & ~torch.isin(tokens, special)
    if mask is not None and mask.shape == tokens.shape:
        is_unpaid_text &= mask.bool()
    is_text = (is_unpaid_text.sum(1) >= _FEWEST_TOKENS) & various(tokens, is_unpaid_text)
    return float((is_one_run & is_text).double().mean())


def judge_outputs(
    arguments: Arguments,
    tokens: Int[Tensor, "rows time"] | None,
    targets: Int[Tensor, "rows time"] | None,
    outputs: Tensor,
) -> dict[str, float]:
    """The signs that also need the outputs: how many classes, and what prompts and answers cost.

    Args:
        arguments: The call.
        tokens: The ids that the outputs follow.
        targets: The target of each place, `IGNORED` where nothing is paid for.
        outputs: What the call gives.
    """
    signs = count_classes(arguments, outputs)
    if tokens is None or targets is None or arguments.source is not None or outputs.ndim != 3:
        return signs
    aligned = alignment(tokens, targets)
    if not aligned.is_clear or aligned.offset != 1 or outputs.shape[:2] != tokens.shape:
        return signs
    return signs | prompt_and_answer_nats(tokens, targets, outputs)


def prompt_and_answer_nats(
    tokens: Int[Tensor, "rows time"], targets: Int[Tensor, "rows time"], logits: Tensor
) -> dict[str, float]:
    """-log p of the tokens of prompts, which nothing pays for, and of answers, in nats a token.

    Args:
        tokens: The ids.
        targets: The next id of each place, `IGNORED` where nothing is paid for.
        logits: What the model gives at each place.
    """
    is_paid = targets[:, :-1] != IGNORED
    is_prompt = (is_paid.long().cumsum(1) == 0) & is_paid.any(1, keepdim=True)
    signs = recognised(tokens, logits, is_paid | is_prompt)
    if min(int(is_paid.sum()), int(is_prompt.sum())) < _FEWEST_PLACES:
        return signs
    log_p = logits[:, :-1].float().log_softmax(-1)
    nats = -log_p.gather(-1, tokens[:, 1:, None])[..., 0]
    prompt, answer = float(nats[is_prompt].mean()), float(nats[is_paid].mean())
    return signs | {"targets.prompt_nats": prompt, "targets.answer_nats": answer}


def count_classes(arguments: Arguments, outputs: Tensor) -> dict[str, float]:
    """How many classes a row's label is one of.

    Args:
        arguments: The call.
        outputs: What it gives, (rows, classes) if a row has one label.
    """
    labels = arguments.tensor(arguments.labels)
    if labels is None or labels.ndim != 1 or labels.is_floating_point() or outputs.ndim != 2:
        return {}
    n = outputs.shape[-1]
    return {"targets.classes": float(n)} if n > 1 and int(labels.max()) < n else {}


def paid_padding(
    arguments: Arguments, tokens: Int[Tensor, "rows time"], targets: Int[Tensor, "rows time"]
) -> float:
    """The share of the targets that are paid for at places of padding."""
    mask, is_paid = arguments.tensor(arguments.mask), targets != IGNORED
    is_padding = torch.zeros_like(is_paid)
    if mask is not None and mask.shape == tokens.shape:
        is_text = mask != 0
        is_padding |= ~is_text
        is_padding[:, :-1] &= ~is_text[:, 1:]  # padding may come before a text, and is no target
    if arguments.pad is not None:
        is_pad = (tokens == arguments.pad).long()
        ends = is_pad.cumprod(1) + is_pad.flip(1).cumprod(1).flip(1)
        # the first one may be the end of the text
        is_padding |= (ends > 0) & (targets == arguments.pad)
    return float((is_padding & is_paid).sum() / is_paid.sum().clamp_min(1))


def padding_for_text(
    arguments: Arguments,
    tokens: Int[Tensor, "rows time"],
    targets: Int[Tensor, "rows time"],
    paid: PaidTargets | None,
) -> float:
    """The share of the targets that are padding, at places that hold a token and end no text.

    0 if targets are not known to be tokens: a class may have the number of padding.

    Args:
        arguments: The call.
        tokens: The ids that the outputs follow.
        targets: The token of each place, `IGNORED` where nothing is paid for.
        paid: Says whether outputs are of tokens.
    """
    if arguments.pad is None or paid is None or paid.unbalanced is None:
        return 0.0
    is_inner = (tokens[:, :-1] != arguments.pad) & (tokens[:, 1:] != arguments.pad)
    wrong = (is_inner & (targets[:, :-1] == arguments.pad)).sum()
    return float(wrong / (targets != IGNORED).sum().clamp_min(1))


def any_padding(
    arguments: Arguments,
    tokens: Int[Tensor, "rows time"],
    targets: Int[Tensor, "rows time"],
    paid: PaidTargets | None,
) -> float:
    """The larger of `paid_padding` and `padding_for_text`, of the same arguments."""
    of_text = padding_for_text(arguments, tokens, targets, paid)
    return max(paid_padding(arguments, tokens, targets), of_text)


def unended_rows(
    arguments: Arguments,
    tokens: Int[Tensor, "rows time"],
    targets: Int[Tensor, "rows time"],
    all_targets: Int[Tensor, "batch time"] | None = None,
) -> dict[str, float] | None:
    """The share of texts that end in their row and are not paid for an end token.

    `targets.unended` counts those that have one, `targets.endless` those that have none. None if
    too few texts end in their row, or no end token is known.
    """
    if not arguments.ends:
        return None
    is_end = torch.isin(tokens, tokens.new_tensor(arguments.ends))
    lengths = _lengths(arguments, tokens, is_end)
    if lengths is None:
        return None
    places = torch.arange(tokens.shape[1], device=tokens.device)
    is_paid = targets != IGNORED
    ends_here = (lengths > 1) & (lengths < tokens.shape[1]) & is_paid.any(1)
    if int(ends_here.sum()) < _FEWEST:
        return None
    is_learnt = (torch.isin(targets, targets.new_tensor(arguments.ends)) & is_paid).any(1)
    # a teacher's targets are shares of several tokens: the place before an end is paid for at least
    is_learnt |= (_paid_at_all(targets, all_targets)[:, :-1] & is_end[:, 1:]).any(1)
    has_end = (is_end & (places > last_places(is_paid))).any(1)
    own_end = _own_end(targets if all_targets is None else all_targets)
    last = targets.gather(1, last_places(is_paid))[:, 0]
    is_long = is_paid.sum(1) >= _FEWEST_TOKENS  # a class may be an answer of one token
    is_endless = ~is_learnt & ~has_end & (last != own_end) & is_long
    n = float(ends_here.sum())
    return {
        "targets.unended": float((ends_here & ~is_learnt & has_end).sum()) / n,
        "targets.endless": float((ends_here & is_endless).sum()) / n,
    }


def _paid_at_all(
    targets: Int[Tensor, "rows time"], all_targets: Int[Tensor, "batch time"] | None
) -> Bool[Tensor, "rows time"]:
    """The places that are paid for, whether they have one target or several."""
    if all_targets is None or all_targets.shape[1] != targets.shape[1]:
        return targets != IGNORED
    return all_targets[: len(targets)] != IGNORED


def _own_end(targets: Int[Tensor, "batch time"]) -> int:
    """The token that most rows' targets end with, and that stands nowhere else; -1 without one.

    Such a token ends texts, whatever the config says.
    """
    is_paid = targets != IGNORED
    targets, is_paid = targets[is_paid.any(1)], is_paid[is_paid.any(1)]
    last = targets.gather(1, last_places(is_paid))[:, 0]
    usual = last.mode().values
    n_ends, n_all = int((last == usual).sum()), int((targets == usual).sum())
    return int(usual) if 2 * n_ends > len(last) and n_all == n_ends else -1


def _lengths(
    arguments: Arguments, tokens: Int[Tensor, "rows time"], is_end: Bool[Tensor, "rows time"]
) -> Int[Tensor, " rows"] | None:
    """The length of each text; None without a mask and without a known padding."""
    mask = arguments.tensor(arguments.mask)
    places = torch.arange(tokens.shape[1], device=tokens.device)
    if mask is not None:
        return torch.where(mask.bool(), places + 1, 0).amax(1)
    if arguments.pad is None:
        return None
    # where padding is the end token too, the first of them ends the text
    lengths = torch.where(tokens != arguments.pad, places + 1, 0).amax(1)
    is_both = arguments.pad in arguments.ends
    return torch.where(is_end.any(1) & is_both & (lengths < len(places)), lengths + 1, lengths)
