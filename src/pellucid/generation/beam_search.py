"""Beam search with a model: likely texts, not only likely next tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import torch
from torch import Tensor

from pellucid.errors import PellucidError
from pellucid.generation.beams import Beams, Hypothesis, Search
from pellucid.generation.generate import Continuation
from pellucid.generation.incremental import Reader
from pellucid.generation.prompts import start
from pellucid.generation.row_text import text_stream
from pellucid.model import Encoded, Transformer
from pellucid.tokenizers import Tokenizer


@dataclass(frozen=True, slots=True)
class BeamContinuation(Continuation):
    """A text of a beam search, with its score.

    `total_log_p` is log P of the whole text, including its end token if it ended.

    Attributes:
        text: the continuation, without the prompt.
        ids: its token ids.
        stopped: "end", "stop" or "length".
        log_p: log P of each token, in nats.
        score: log P divided by length^length_penalty, by which beams are ranked.
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
    """The best continuations of each prompt, best first.

    Prompts of equal length are searched in one batch.

    Args:
        model: the model.
        prompts: token ids of each prompt.
        beams: the settings of the search.
        end_id: the token that ends a text.
        encoded: the encoder's states of each row's source.
        cache: whether to keep keys and values of earlier tokens.
        when_outgrown: called once, when a text first outgrows the context.

    Raises:
        PellucidError: a prompt is empty.
    """
    if not all(prompts):
        raise PellucidError("a prompt has no tokens: pass at least the begin-of-text token")
    hypotheses: list[list[Hypothesis]] = [[] for _ in prompts]
    for batch in _group_by_length(prompts):
        reader = Reader(model, cached=cache, encoded=encoded)
        reader.take(torch.tensor(batch, device=model.device))
        ids = torch.tensor([list(prompts[row]) for row in batch], device=model.device)
        searches = [Search(beams, end_id=end_id) for _ in batch]
        _run(reader, ids, searches)
        if when_outgrown is not None and reader.start > 0:
            when_outgrown()
            when_outgrown = None
        for row, search in zip(batch, searches, strict=True):
            hypotheses[row] = search.best
    return hypotheses


def _group_by_length(prompts: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    rows = sorted(range(len(prompts)), key=lambda row: len(prompts[row]))
    for _, group in groupby(rows, key=lambda row: len(prompts[row])):
        yield list(group)


def _run(reader: Reader, ids: Tensor, searches: Sequence[Search]) -> None:
    """Advance the searches until all are finished; finished ones leave the batch."""
    while any(not search.finished for search in searches):
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
) -> list[list[BeamContinuation]]:
    """The best continuations of each prompt, best first.

    Args:
        model: the model.
        tokenizer: its tokenizer.
        prompts: texts to continue; an encoder-decoder reads them and generates new texts.
        beams: the settings of the search.
        when_outgrown: called once, when a text first outgrows the context.

    Raises:
        TextError: a prompt is not text.
        PellucidError: the model cannot generate text.
    """
    ids, encoded = start(model, tokenizer, prompts)
    hypotheses = beam_search_ids(
        model, ids, beams, end_id=tokenizer.end_id, encoded=encoded, when_outgrown=when_outgrown
    )
    return [
        [_decode(tokenizer, prompt, text) for text in texts]
        for prompt, texts in zip(ids, hypotheses, strict=True)
    ]


def _decode(tokenizer: Tokenizer, prompt: Sequence[int], text: Hypothesis) -> BeamContinuation:
    n_shown = len(text.ids) - text.ended
    emit = text_stream(tokenizer, prompt)
    return BeamContinuation(
        text="".join(emit(token_id) for token_id in text.ids[:n_shown]),
        ids=text.ids[:n_shown],
        stopped="end" if text.ended else "length",
        log_p=text.log_p[:n_shown],
        score=text.score,
        total_log_p=sum(text.log_p),
    )
