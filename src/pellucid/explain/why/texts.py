"""Other texts to compare a sentence with: held-out text of the run, and a contrast sentence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch

from pellucid.catalogue import message
from pellucid.data import open_prepared
from pellucid.errors import PellucidError
from pellucid.explain.sentence import Sentence, encode_sentence
from pellucid.explain.trace_types import Trace
from pellucid.runs import Run, RunFolder
from pellucid.saved_runs.folder import is_published
from pellucid.typed import to_list

_SEED = 0


def held_out_windows(run: Run | None, n_windows: int, length: int) -> list[tuple[int, ...]]:
    """Stretches of a run's held-out text, evenly spaced; none if it keeps no data.

    Args:
        run: the run.
        n_windows: how many, at most.
        length: tokens of each.
    """
    if run is None or is_published(run.folder) or not RunFolder(run.folder).text.exists():
        return []
    column = next(iter(open_prepared(RunFolder(run.folder).text).held_out.columns.values()))
    n_starts = len(column.flat) // length
    window_numbers = np.unique(np.arange(min(n_windows, n_starts)) * n_starts // max(1, n_windows))
    starts = [int(number) * length for number in window_numbers]
    return [tuple(map(int, column.flat[start : start + length])) for start in starts]


def resample_sentence(trace: Trace) -> tuple[Sentence, str]:
    """Another text of as many tokens, and what it is: held-out text, or else random tokens."""
    sentence, time = trace.sentence, len(trace.ids)
    windows = held_out_windows(trace.run, 1, time)
    if windows:
        return _with_ids(trace, (sentence.ids[0], *windows[0][1:])), message(
            "why.held-out-text-of-the"
        )
    rows = trace.model.token_embedding.num_embeddings
    random_ids = torch.randint(rows, (time,), generator=torch.Generator().manual_seed(_SEED))
    id_list: list[int] = to_list(random_ids)
    ids = (sentence.ids[0], *id_list[1:])
    return _with_ids(trace, ids), message("why.random-tokens-of-the-vocabulary", seed=_SEED)


def contrast_sentence(trace: Trace, text: str | None) -> tuple[Sentence, str]:
    """The sentence to patch from, and what it is.

    Without a text: the same tokens in another order, the first and the last in their places.

    Raises:
        PellucidError: the text has another number of tokens, so that positions do not align; or
            the trace was made of ids, and so reads no text.
    """
    sentence = trace.sentence
    if text is None:
        inner = list(sentence.ids[1:-1])
        generator = torch.Generator().manual_seed(_SEED)
        order: list[int] = to_list(torch.randperm(len(inner), generator=generator))
        shuffled = (inner[place] for place in order)
        ids = (sentence.ids[0], *shuffled, *sentence.ids[1:][-1:])
        return _with_ids(trace, ids), message("why.the-same-sentence-its-tokens")
    if trace.run is None:
        raise PellucidError(message("why.a-contrast-is-text-and"))
    other = encode_sentence(trace.run, text)
    if sentence.source_ids is not None:
        assert other.source_ids is not None
        other = replace(other, ids=sentence.ids, pieces=sentence.pieces)
        return other, message("why.the-source", text=repr(text))
    if len(other.ids) != len(sentence.ids):
        raise PellucidError(
            message(
                "why.the-contrast-has-tokens-and",
                contrast=message("count-tokens", n=len(other.ids)),
                sentence=message("count-tokens", n=len(sentence.ids)),
                pieces=list(other.pieces),
            )
        )
    return other, repr(text)


def repeated_tokens(n_rows: int, length: int, n_tokens: int) -> Iterator[tuple[int, ...]]:
    """Rows in which random tokens come again and again, from a seed.

    The period differs from row to row, from a quarter of the length to a half: so a head that looks
    back at a fixed distance is no induction head.

    Args:
        n_rows: how many rows.
        length: tokens of a row.
        n_tokens: ids are below it.
    """
    generator = torch.Generator().manual_seed(_SEED)
    shortest, longest = max(2, length // 4), max(2, length // 2)
    for row in range(n_rows):
        period = shortest + row * (longest - shortest) // max(1, n_rows - 1)
        random_ids: list[int] = to_list(torch.randint(n_tokens, (period,), generator=generator))
        yield tuple(random_ids * (length // period + 1))[:length]


def _with_ids(trace: Trace, ids: tuple[int, ...]) -> Sentence:
    pieces = map(str if trace.spelling is None else trace.spelling.any_piece, ids)
    return replace(trace.sentence, text="", ids=ids, pieces=tuple(pieces), masks=())
