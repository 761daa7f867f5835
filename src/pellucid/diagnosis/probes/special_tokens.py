"""Probes of ids that need the tokenizer, and of texts that training must not hold."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from pellucid.batches import IGNORED
from pellucid.diagnosis.batches import Examples
from pellucid.diagnosis.finding import Finding, describe, limit
from pellucid.diagnosis.probes.labels import special_id
from pellucid.diagnosis.probes.token_ids import probe_duplicates, tokenizer_size
from pellucid.vitals.call.alignment import alignment


def probe_text(data: Examples, tokenizer: Any, held_out: Tensor | None = None) -> list[Finding]:
    """All probes of this file, and whether rows come twice.

    Args:
        data: the rows.
        tokenizer: the tokenizer that encoded them; None if unknown.
        held_out: (rows, time) ids of the texts that training must not hold.
    """
    findings = probe_duplicates(data)
    if tokenizer is not None:
        findings += [*probe_size(data, tokenizer), *probe_middle(data, tokenizer)]
        findings += probe_cut_off(data, tokenizer)
    return findings if held_out is None else findings + probe_held_out(data, held_out)


def probe_size(data: Examples, tokenizer: Any) -> list[Finding]:
    """Whether the tokenizer knows every id of the data."""
    size = tokenizer_size(tokenizer)
    if size is None or int(data.ids.max()) < size:
        return []
    n, highest = int((data.ids >= size).sum()), int(data.ids.max())
    return [describe("DAT017", n=n, highest=highest, size=size)]


def probe_middle(data: Examples, tokenizer: Any) -> list[Finding]:
    """Whether there is padding between real tokens."""
    pad, eos = special_id(tokenizer, "pad"), special_id(tokenizer, "eos")
    if pad is None or pad == eos:
        return []
    is_pad = data.ids == pad
    real = (~is_pad).long()
    is_inside = is_pad & (real.cumsum(1) > 0) & (real.flip(1).cumsum(1).flip(1) > 0)
    n = int(is_inside.any(1).sum())
    return [describe("DAT018", n=n, total=len(data.ids), pad=pad)] if n else []


def probe_cut_off(data: Examples, tokenizer: Any) -> list[Finding]:
    """Whether answers, which follow a prompt without labels, stop without an end token.

    An answer is read as it is written: its labels stand among the ids. A masked model is paid for
    tokens that it cannot read, and one that names the class of each token for no tokens at all.
    """
    eos = special_id(tokenizer, "eos")
    if eos is None or data.labels is None or not alignment(data.ids, data.labels).is_clear:
        return []
    is_paid = data.labels != IGNORED
    is_answer = is_paid.any(1) & ~is_paid[:, 0]
    time = is_paid.shape[1]
    last = time - 1 - is_paid.flip(1).long().argmax(1)
    ends = data.labels.gather(1, last[:, None])[:, 0]
    n, total = int((is_answer & (ends != eos)).sum()), int(is_answer.sum())
    if not total or n <= limit("DAT019", "share") * total:
        return []
    return [describe("DAT019", n=n, total=total, eos=eos)]


def probe_held_out(data: Examples, held_out: Tensor) -> list[Finding]:
    """Whether held-out rows share a long piece with rows that are trained on.

    Args:
        data: the rows that are trained on.
        held_out: (rows, time) ids.
    """
    width = min(int(limit("DAT020", "tokens")), held_out.shape[1], data.ids.shape[1])
    trained_pieces = {
        _key(piece) for ids in data.batches for piece in ids.unfold(1, width, 1).flatten(0, 1)
    }
    pieces = held_out.unfold(1, width, 1)
    n = sum(any(_key(piece) in trained_pieces for piece in row) for row in pieces)
    return [describe("DAT020", n=n, total=len(held_out), width=width)] if n else []


def _key(ids: Tensor) -> bytes:
    return ids.to("cpu", torch.long).contiguous().numpy().tobytes()
