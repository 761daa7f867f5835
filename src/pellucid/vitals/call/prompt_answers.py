"""Whether answers belong to the prompts before them, from what both say.

Answers often repeat rare pieces of their own prompt. If they repeat none of it, and
many pieces of other prompts, one of both columns was shuffled, sorted or shifted.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from statistics import fmean, pstdev
from typing import Any, NamedTuple

from torch import Tensor

from pellucid.typed import to_list
from pellucid.vitals.call.answer_texts import is_copied, times_in
from pellucid.vitals.taps.recorded_call import is_plain

#: Most calls whose rows are kept, rows of a call, and ids of prompts: evaluations read more.
_CALLS, _ROWS, _MOST_IDS = 64, 16, 2**16
#: Tokens of a prompt (its last ones) and of an answer (its first ones) that are compared.
_TOKENS = 96
#: Pieces are runs of up to so many tokens; one that more of the prompts have than this is common.
_LONGEST, _COMMON = 3, 0.02
#: An answer is another prompt's if both share so many rare pieces, and no third text half as much.
#: They are in two places of the answer or more: one rare word can be many pieces.
_PIECES, _CLEAR, _PLACES = 4, 2.0, 2
#: Fewer rows, or prompts, say nothing.
_FEWEST = 64
#: A template closes an answer by one of its last two tokens. Shorter answers may be names.
_LAST, _SHORTEST = 2, 8
#: Answers of more kinds are no classes.
_CLASSES = 8
#: Prompts of fewer lengths may be of one form, and so may answers.
_LENGTHS = 4


class Matches(NamedTuple):
    """How answers match prompts.

    Attributes:
        n_answers: The answers that were compared.
        n_others: The answers that clearly match another row's prompt.
        own_match: How much better they match their own prompt than others, in standard errors.
    """

    n_answers: int
    n_others: int
    own_match: float


class PromptAnswers:
    """Collects the rows of the first training calls whose labels leave out a prompt."""

    def __init__(self) -> None:
        self._calls: list[tuple[Tensor, Tensor]] = []
        #: the ids of calls without gradients, from which the model may have written
        self._starts: list[Tensor] = []

    @property
    def is_full(self) -> bool:
        """Whether it collects no more."""
        return len(self._calls) >= _CALLS

    @property
    def is_done(self) -> bool:
        """Whether it collects no more, or the first calls had no labels of this kind."""
        return self.is_full or not self._calls

    @property
    def has_prompts(self) -> bool:
        """Whether most rows of the first call begin with tokens that nothing pays for."""
        rows = list(_split(*self._calls[0])) if self._calls else []
        return bool(rows) and 2 * len(rows) > len(self._calls[0][0])

    def add(self, ids: Tensor | None, labels: Any) -> None:
        """Keep the rows of a training call.

        Args:
            ids: Its ids (rows, time).
            labels: Its labels, of the same shape: negative at the prompt, and the ids behind it.
        """
        if self.is_full or ids is None or not isinstance(labels, Tensor) or ids.ndim != 2:
            return
        if labels.shape == ids.shape and not labels.is_floating_point() and is_plain(labels):
            self._calls.append((ids[:_ROWS].clone(), labels[:_ROWS].detach().clone()))

    def on_writing(self, ids: Tensor | None) -> None:
        """Keep the ids of a call without gradients; one token behind a cache says nothing."""
        if self.is_full or len(self._starts) >= _CALLS or ids is None or ids.ndim != 2:
            return
        if ids.shape[1] > 1 and ids.numel() <= _MOST_IDS:
            self._starts.append(ids.clone())

    @property
    def are_own(self) -> bool:
        """Whether the model wrote most of these answers itself, behind their prompts."""
        starts = {tuple(row) for ids in self._starts for row in to_list(ids)}
        is_own = [tuple(run.prompt) in starts for run in self._runs()]
        return 2 * sum(is_own) > len(is_own)

    def share_copied(self) -> float | None:
        """The share of long answers that stand in their prompt; None of too few."""
        long_runs = [run for run in self._first_runs() if len(run.answer) >= _SHORTEST]
        if len(long_runs) < _FEWEST:
            return None
        return fmean(is_copied(run.prompt, run.answer) for run in long_runs)

    def share_told(self, closing: Collection[int]) -> float | None:
        """The share of answers that their prompt holds more often than any other answer.

        Only of a few answers that come again and again, such as the names of classes: an answer of
        its own may be quoted from a text. None of too few rows, or of other answers.

        Args:
            closing: Tokens that are no part of an answer's words.
        """
        runs = self._first_runs()
        words = [tuple(token for token in run.answer if token not in closing) for run in runs]
        counts = Counter(words)
        is_class = 1 < len(counts) <= _CLASSES and min(counts.values()) >= _COMMON * len(runs)
        if len(runs) < _FEWEST or not is_class or () in counts:
            return None
        mentions = [{word: times_in(word, run.prompt) for word in counts} for run in runs]
        return fmean(
            all(times[answer] > n for word, n in times.items() if word != answer)
            for answer, times in zip(words, mentions, strict=True)
        )

    def share_ended_by(self, tokens: Collection[int]) -> float | None:
        """The share of answers whose last token is one of some; None of too few answers."""
        last = [run.answer[-1] for run in self._first_runs()]
        return fmean(token in tokens for token in last) if len(last) >= _FEWEST else None

    def share_cut_off(self, ends: Collection[int]) -> float | None:
        """The share of rows whose answer runs into the end of its row, without an end.

        All rows have one length there, and their prompts have several: so answers are as long as
        the room that a prompt leaves. None if the rows are too few, or of several lengths.

        Args:
            ends: The tokens that end a text; without any, nothing is known.
        """
        widths = {ids.shape[1] for ids, _ in self._calls}
        n = sum(len(ids) for ids, _ in self._calls)
        if len(widths) != 1 or n < _FEWEST or not ends:
            return None
        cut_runs = [run for run in self._runs() if not run.is_inside and run.answer[-1] not in ends]
        starts = {run.first for run in cut_runs if run.is_first}
        n_cut = sum(run.is_first for run in cut_runs)
        return n_cut / n if len(starts) >= _LENGTHS else 0.0

    def share_without_end(self, ends: Collection[int]) -> float | None:
        """The share of answers that neither an end nor another closing token follows.

        A closing token is among the last two of half of the answers, and within next to none. None
        if few answers are followed by something else than an end: so they stop within their row.

        Args:
            ends: The tokens that end a text; without any, nothing is known.
        """
        runs = [
            run
            for run in self._runs()
            if len(run.answer) >= _SHORTEST and run.is_inside and run.following not in ends
        ]
        answers = [run.answer for run in runs]
        if len(answers) < _FEWEST or not ends:
            return None
        later_cues = Counter(run.prompt[-1] for run in runs if not run.is_first)
        if later_cues and 2 * max(later_cues.values()) < sum(later_cues.values()):
            return None  # no template stands between them: they are parts of a text
        n_earlier = Counter(token for answer in answers for token in {*answer[:-_LAST]})
        last = Counter(token for answer in answers for token in {*answer[-_LAST:]})
        is_closed = any(
            2 * n >= len(answers) and n_earlier[token] <= _COMMON * len(answers)
            for token, n in last.items()
        )
        n_open = sum(not {*ends} & {*answer[-_LAST:]} for answer in answers)
        return 0.0 if is_closed else n_open / len(answers)

    def _runs(self) -> Iterator[_Run]:
        """The answers of all calls."""
        for ids, labels in self._calls:
            yield from _runs(ids, labels)

    def _first_runs(self) -> list[_Run]:
        """The first answer of each row."""
        return [run for run in self._runs() if run.is_first]

    def measure(self) -> Matches | None:
        """How the answers match; None if the rows are too few, or have no prompts."""
        rows = [row for ids, labels in self._calls for row in _split(ids, labels)]
        return match(rows)


def _split(ids: Tensor, labels: Tensor) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """The prompt and the answer of each row that has both, if the labels are the ids."""
    all_ids: list[list[int]] = to_list(ids)
    all_labels: list[list[int]] = to_list(labels)
    for row, paid in zip(all_ids, all_labels, strict=True):
        places = [place for place, label in enumerate(paid) if label >= 0]
        if not places or places[0] < _LONGEST or any(row[p] != paid[p] for p in places):
            continue
        prompt, answer = row[: places[0]], [row[place] for place in places]
        yield tuple(prompt[-_TOKENS:]), tuple(answer[:_TOKENS])


class _Run(NamedTuple):
    """Tokens in turn that a loss pays for, behind a prompt.

    Attributes:
        answer: The tokens.
        first: The place of the first.
        is_first: Whether no other answer stands before it in its row.
        is_inside: Whether something else follows in the row.
        following: The token that follows; -1 at the end of a row.
        prompt: The tokens before it, of its whole row.
    """

    answer: list[int]
    first: int
    is_first: bool
    is_inside: bool
    following: int
    prompt: list[int]


def _runs(ids: Tensor, labels: Tensor) -> Iterator[_Run]:
    """The answers behind a prompt, also of several in one row, if their labels are the ids."""
    for row, paid in zip(to_list(ids), to_list(labels), strict=True):
        places = [place for place, label in enumerate(paid) if label >= 0]
        if any(row[place] != paid[place] for place in places):
            continue
        previous = -1
        for first in (place for place in places if place and paid[place - 1] < 0):
            end = first
            while end < len(row) and paid[end] >= 0:
                end += 1
            if first - previous > _LONGEST:
                yield _Run(
                    answer=row[first:end],
                    first=first,
                    is_first=previous < 0,
                    is_inside=end < len(row),
                    following=row[end] if end < len(row) else -1,
                    prompt=row[:first],
                )
            previous = end


def match(rows: Sequence[tuple[tuple[int, ...], tuple[int, ...]]]) -> Matches | None:
    """Match each answer with all prompts, by the rare pieces that both have.

    Args:
        rows: Prompts and answers, as ids.
    """
    pairs = list(dict.fromkeys(rows))
    prompts = list(dict.fromkeys(prompt for prompt, _ in pairs))
    if min(len(pairs), len(prompts)) < _FEWEST:
        return None
    index: dict[tuple[int, ...], list[int]] = {}
    for place, prompt in enumerate(prompts):
        for piece in {piece for _, piece in _placed_pieces(prompt)}:
            index.setdefault(piece, []).append(place)
    max_holders, total = max(2.0, _COMMON * len(prompts)), math.log(len(prompts))
    places = {prompt: place for place, prompt in enumerate(prompts)}
    n_others, gains = 0, list[float]()
    for prompt, answer in pairs:
        scores, counts = Counter[int](), Counter[int]()
        shared: dict[int, list[range]] = {}
        for piece, first in {piece: first for first, piece in _placed_pieces(answer)}.items():
            holders = index.get(piece, [])
            if len(holders) <= max_holders:
                for holder in holders:
                    scores[holder] += total - math.log(len(holders))  # type: ignore[assignment]
                    counts[holder] += 1
                    shared.setdefault(holder, []).append(range(first, first + len(piece)))
        own_score = scores.pop(places[prompt], 0.0)
        gains.append(own_score - sum(scores.values()) / (len(prompts) - 1))
        (best, score), (_, second) = (*scores.most_common(2), (0, 0.0), (0, 0.0))[:2]
        is_clear = counts[best] >= _PIECES and score >= _CLEAR * max(second, own_score)
        n_others += is_clear and _n_separate(shared[best]) >= _PLACES
    error = pstdev(gains) / math.sqrt(len(gains))
    return Matches(len(pairs), n_others, fmean(gains) / error if error else 0.0)


def _n_separate(spans: Sequence[range]) -> int:
    """In how many separate parts of a text spans lie that may overlap or touch."""
    covered = {place for span in spans for place in span}
    return sum(place - 1 not in covered for place in covered)


def _placed_pieces(ids: Sequence[int]) -> Iterator[tuple[int, tuple[int, ...]]]:
    """The runs of one to three tokens, each with its first place."""
    for length in range(1, _LONGEST + 1):
        for start in range(len(ids) - length + 1):
            yield start, tuple(ids[start : start + length])
