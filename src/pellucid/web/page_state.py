"""The parts of the page around the open chapter: the layers, and the next token."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from pellucid.catalogue import message
from pellucid.errors import PellucidError
from pellucid.explain.chapters import CHAPTERS, ChapterEntry
from pellucid.web.json_payload import Plain, packed, thumbnails
from pellucid.web.sentence_view import Attention, SentenceView

#: Most bytes of heads' maps; the page requests further layers when they become visible.
_THUMBNAIL_BYTES = 90_000
_SIDE = 24
#: The likeliest logits are sent one by one, the others as averages of bins.
_EXACT = 256
#: Tokens that a token looks at, the most of them.
_MAX_ATTENDED = 8
_BINS = 512


def overview(sentence: SentenceView) -> Plain:
    """Tokens, layers with their heads' maps, lengths of the residual stream, the chapters."""
    bytes_left = _THUMBNAIL_BYTES
    stacks: list[Plain] = []
    for attention, heads in sentence.heads.items():
        norms = sentence.norms(attention.stack)
        layers: list[Plain] = []
        for layer, n_heads in enumerate(heads):
            maps = (
                head_thumbnails(sentence, attention, layer) if bytes_left > 0 and n_heads else None
            )
            bytes_left -= len(maps["data"]) if maps else 0
            layers.append({"heads": n_heads, "thumbnails": maps})
        norm = norms.float().mean(-1)
        name, crosses = attention
        stack: Plain = {"name": name, "cross": crosses, "layers": layers}
        stacks.append(stack | {"norms": [float(n) for n in norm]})
    return {
        "pieces": list(sentence.pieces),
        "ids": list(sentence.ids),
        "spare": list(sentence.spare),
        "notes": list(sentence.notes),
        "side": _SIDE,
        "stacks": stacks,
        "surprisals": list(sentence.surprisals()),
        "contents": [_heading(number, entry) for number, entry in enumerate(CHAPTERS, 1)],
        "backward": {
            "there": sentence.has_loss,
            "large": sentence.large,
            "done": sentence.has_gradients,
        },
    }


def _heading(number: int, entry: ChapterEntry) -> Plain:
    names = ("id", "part", "title", "walks")
    fields: Plain = {name: getattr(entry, name) for name in names}
    return fields | {"number": number, "axes": list(entry.axes), "once": entry.at_one_place}


def backward(sentence: SentenceView) -> Plain:
    """The lengths of the gradients at each layer, and the weights to choose from."""
    stacks = dict.fromkeys(attention.stack for attention in sentence.heads)
    return {
        "stacks": {stack: list(sentence.gradients(stack)) for stack in stacks},
        "weights": [[name, *shape] for name, shape in sentence.parameters().items()],
    }


def head_thumbnails(sentence: SentenceView, attention: Attention, layer: int) -> Plain | None:
    """Small maps of one layer's heads; None if it has none."""
    weights = sentence.weights(attention, layer)
    return None if weights is None else thumbnails(weights, _SIDE)


def token_attention(sentence: SentenceView, token: int) -> Plain:
    """What a token looks at: the mean of the attention of all heads of all layers, by token.

    Args:
        sentence: The view.
        token: The index of the token.

    Raises:
        PellucidError: There is no such token.
    """
    n = len(sentence.ids)
    if not 0 <= token < n:
        raise PellucidError(message("no-token-there", token=token, n=n))
    attention = Attention("decoder")
    layers = range(len(sentence.heads.get(attention, ())))
    maps = [w for layer in layers if (w := sentence.weights(attention, layer)) is not None]
    if not maps:
        return {"rows": [], "heads": 0}
    heads = torch.cat([weights[:, token, :].float() for weights in maps])
    shares, places = heads.mean(0).topk(min(_MAX_ATTENDED, n))
    rows: list[Any] = [
        [int(place), sentence.pieces[int(place)], float(share)]
        for share, place in zip(shares, places, strict=True)
        if share > 0
    ]
    return {"rows": rows, "heads": len(heads)}


def prediction(sentence: SentenceView, token: int, base: SentenceView | None) -> Plain:
    """The prediction after a token: the likeliest tokens, the lens of each layer, the changes.

    Args:
        sentence: The view.
        token: The index of the token.
        base: The view to compare with: the same sentence without scaled heads, or another one.

    Raises:
        PellucidError: There is no such token.
    """
    n = len(sentence.ids)
    if not -n <= token < n:
        raise PellucidError(message("no-token-there", token=token, n=n))
    token %= n
    logits = sentence.logits(token)
    if logits is None:
        return {"token": token, "likely": [], "lens": [], "target": None, "tail": None}
    wide = logits.double()
    log_p = wide.log_softmax(-1)
    target = sentence.ids[token + 1] if token + 1 < n else None
    answer: Plain = {"token": token, **_likely(sentence, logits), "target": None}
    answer["entropy"] = float(-(log_p.exp() * log_p).sum())
    if target is not None:
        answer["target"] = _line(sentence, target, log_p)
    answer["lens"] = _ladder(sentence, token, target)
    if base is not None:
        answer["changed"] = _changes(sentence, log_p, base, token, target)
    return answer


def _likely(sentence: SentenceView, logits: Tensor) -> Plain:
    """The likeliest tokens with their exact logits; the others as averages of narrow bins."""
    count = min(_EXACT, logits.shape[-1])
    values, ids = logits.float().topk(count)
    likely = [
        [int(i), sentence.token_text(int(i)), float(v)] for i, v in zip(ids, values, strict=True)
    ]
    in_tail = torch.ones_like(logits, dtype=torch.bool).index_fill(0, ids, False)
    return {
        "vocabulary": logits.shape[-1],
        "likely": likely,
        "tail": _tail(logits[in_tail].double()),
    }


def _tail(logits: Tensor) -> Plain | None:
    if logits.numel() == 0:
        return None
    low, high = logits.min(), logits.max()
    width = torch.clamp((high - low) / _BINS, min=1e-12)
    bins = ((logits - low) / width).long().clamp(0, _BINS - 1)
    counts = torch.zeros(_BINS, dtype=torch.float64).index_add(0, bins, torch.ones_like(logits))
    sums = torch.zeros(_BINS, dtype=torch.float64).index_add(0, bins, logits)
    full = counts > 0
    return {
        "means": packed((sums[full] / counts[full]).numpy().astype("<f4")),
        "counts": packed(counts[full].numpy().astype("<f4")),
    }


def _line(sentence: SentenceView, token_id: int, log_p: Tensor) -> Plain:
    return {
        "id": token_id,
        "text": sentence.token_text(token_id),
        "p": float(log_p[token_id].exp()),
        "rank": int((log_p > log_p[token_id]).sum()) + 1,
    }


def _ladder(sentence: SentenceView, token: int, target: int | None) -> list[Plain]:
    lens = sentence.lens(token)
    if lens is None:
        return []
    ladder: list[Plain] = []
    for row in lens.double().log_softmax(-1):
        best = _line(sentence, int(row.argmax()), row)
        best["target"] = None if target is None else _line(sentence, target, row)
        ladder.append(best)
    return ladder


def _changes(
    sentence: SentenceView, log_p: Tensor, base: SentenceView, token: int, target: int | None
) -> Plain:
    """The changes from `base`: KL(base || now) and the largest ones, or why there are none."""
    place = sentence.match_token(token, base)
    base_logits = None if isinstance(place, str) else base.logits(place)
    if base_logits is None:
        return {"kl": None, "rows": [], "why": place}
    base_log_p = base_logits.double().log_softmax(-1)
    change = log_p.exp() - base_log_p.exp()
    largest = change.abs().topk(min(8, change.shape[-1])).indices
    token_ids = sorted({int(i) for i in largest}, key=lambda i: -abs(float(change[i])))
    if target is not None and target not in token_ids:
        token_ids.append(target)
    rows: list[Any] = [
        [i, sentence.token_text(i), float(base_log_p[i].exp()), float(log_p[i].exp())]
        for i in token_ids
    ]
    return {"kl": float((base_log_p.exp() * (base_log_p - log_p)).sum()), "rows": rows}
