"""Beam search with a model: the likeliest texts, and not only the likeliest next tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import torch
from torch import Tensor

from pellucid.errors import PellucidError
from pellucid.generation.beams import Beams, Hypothesis, Search
from pellucid.generation.generate import Continuation, writer
from pellucid.generation.incremental import Reader
from pellucid.generation.prompts import start
from pellucid.model import Encoded, Transformer
from pellucid.tokenizers import Tokenizer


@dataclass(frozen=True, slots=True)
class Found(Continuation):
    """A text that a beam search found, and what it was ranked by.

    `total_log_p` is the whole text's, the token that ends it included where it ended.
    """

    score: float
    total_log_p: float


def beam_search_ids(
    model: Transformer,
    prompts: Sequence[Sequence[int]],
    beams: Beams,
    *,
    end_id: int,
    encoded: Encoded | None = None,
    cache: bool = True,
    when_outgrown: Callable[[], None] | None = None,
) -> list[list[Hypothesis]]:
    """The best ways in which each prompt goes on, best first.

    Prompts of one length are searched together. `when_outgrown` as in `continue_tokens`.

    Raises:
        PellucidError: a prompt is empty.
    """
    if not all(prompts):
        raise PellucidError("a prompt has no tokens: pass at least the begin-of-text token")
    hypotheses: list[list[Hypothesis]] = [[] for _ in prompts]
    for together in _of_one_length(prompts):
        rows = torch.tensor(together, device=model.device)
        reader = Reader(model, cached=cache, encoded=encoded)
        reader.take(rows)
        ids = torch.tensor([list(prompts[row]) for row in together], device=model.device)
        searches = [Search(beams, end_id=end_id) for _ in together]
        _run(reader, ids, searches)
        if when_outgrown is not None and reader.start > 0:
            when_outgrown()
            when_outgrown = None
        for row, search in zip(together, searches, strict=True):
            hypotheses[row] = search.best
    return hypotheses


def _of_one_length(prompts: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    rows = sorted(range(len(prompts)), key=lambda row: len(prompts[row]))
    for _, group in groupby(rows, key=lambda row: len(prompts[row])):
        yield list(group)


def _run(reader: Reader, ids: Tensor, searches: Sequence[Search]) -> None:
    """Advance the searches until all are done; those that are leave the batch."""
    while any(not search.done for search in searches):
        log_p = _log_p(reader.next_logits(ids))
        rows: list[int] = []
        tokens: list[int] = []
        first = 0
        for search in searches:
            n = search.n_alive
            if n:
                parents = search.advance(log_p[first : first + n])
                rows += [first + parent for parent in parents]
                tokens += search.tokens
            first += n
        parent_rows = torch.tensor(rows, dtype=torch.long, device=ids.device)
        added = torch.tensor(tokens, dtype=torch.long, device=ids.device)
        ids = torch.cat((ids[parent_rows], added[:, None]), dim=1)
        reader.take(parent_rows)


def _log_p(logits: Tensor) -> Tensor:
    # MPS has no float64
    wide = logits if logits.device.type == "mps" else logits.double()
    return torch.log_softmax(wide, dim=-1)


def beam_search(
    model: Transformer,
    tokenizer: Tokenizer,
    prompts: Sequence[str],
    beams: Beams,
    *,
    when_outgrown: Callable[[], None] | None = None,
) -> list[list[Found]]:
    """The best continuations of each prompt, best first; of an encoder-decoder, what it writes.

    `when_outgrown` as in `continue_tokens`.

    Raises:
        TextError: a prompt is not text.
        PellucidError: the model is an encoder.
    """
    ids, encoded = start(model, tokenizer, prompts)
    hypotheses = beam_search_ids(
        model, ids, beams, end_id=tokenizer.end_id, encoded=encoded, when_outgrown=when_outgrown
    )
    return [
        [_in_words(tokenizer, prompt, text) for text in texts]
        for prompt, texts in zip(ids, hypotheses, strict=True)
    ]


def _in_words(tokenizer: Tokenizer, prompt: Sequence[int], text: Hypothesis) -> Found:
    n_shown = len(text.ids) - text.ended
    emit = writer(tokenizer, prompt)
    return Found(
        text="".join(emit(token_id) for token_id in text.ids[:n_shown]),
        ids=text.ids[:n_shown],
        stopped="end" if text.ended else "length",
        log_p=text.log_p[:n_shown],
        score=text.score,
        total_log_p=sum(text.log_p),
    )
