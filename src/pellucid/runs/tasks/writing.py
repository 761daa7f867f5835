"""What a model writes for examples, beside what was to be written.

Comes in: a model, and ids to go on from or to read. Goes out: texts with their references. It does
not know objectives.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pellucid.counting.temporaries import WRITTEN_AT_ONCE
from pellucid.generation import Beams, beam_search_ids, encode
from pellucid.runs.tasks.task import Given, Written

Ids = Sequence[int]


def written(
    given: Given, pairs: Sequence[tuple[Ids, Ids]], beams: Beams, *, reads: bool
) -> list[Written]:
    """What is written for the first half of each pair; the second half is what was to be written.

    What is given more than once is written for once, and any of its second halves would do. With
    `reads`, an encoder reads the first half and the text begins anew; else it goes on from there.
    """
    wanted: dict[tuple[int, ...], list[Ids]] = {}
    for before, after in pairs:
        wanted.setdefault(tuple(before), []).append(after)
    texts = dict(_searched(given, sorted(wanted, key=len), beams, reads=reads))
    return [
        Written(
            given=_words(given, before),
            text=_words(given, texts[before]),
            references=tuple(dict.fromkeys(_words(given, after) for after in afters)),
        )
        for before, afters in wanted.items()
    ]


def _searched(
    given: Given, givens: Sequence[tuple[int, ...]], beams: Beams, *, reads: bool
) -> Iterator[tuple[tuple[int, ...], Ids]]:
    model, tokenizer = given.model, given.tokenizer
    # of about the same length, so that little is padded
    for start in range(0, len(givens), WRITTEN_AT_ONCE):
        some = givens[start : start + WRITTEN_AT_ONCE]
        found = beam_search_ids(
            model,
            [[tokenizer.begin_id] for _ in some] if reads else some,
            beams,
            end_id=tokenizer.end_id,
            encoded=encode(model, some) if reads else None,
        )
        for each, (best, *_) in zip(some, found, strict=True):
            yield each, best.ids


def _words(given: Given, ids: Ids) -> str:
    return given.tokenizer.decode(ids).strip()  # which leaves out where it begins and ends
