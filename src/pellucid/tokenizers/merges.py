"""Every merge with which a BPE tokenizer makes the tokens of a word."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from pellucid.tokenizers.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Step:
    """One merge: its rank (0 is the first), its pair, and the symbols of the word after it.

    Attributes:
        rank: 0 is the first merge that was learnt.
        pair: the two symbols that become one.
        symbols: the word after the merge.
    """

    rank: int
    pair: tuple[str, str]
    symbols: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WordMerges:
    """A word as single symbols, and the merges that make its tokens.

    Attributes:
        symbols: the word before any merge.
        steps: the merges, in order.
    """

    symbols: tuple[str, ...]
    steps: tuple[Step, ...]

    @property
    def tokens(self) -> tuple[str, ...]:
        """The symbols after the last merge."""
        return self.steps[-1].symbols if self.steps else self.symbols


def replay(tokenizer: Tokenizer, text: str) -> list[WordMerges]:
    """The merges of each word of `text`; an empty list if the tokenizer has no merges.

    Each step merges the neighbours with the lowest rank, at every place from the left, until no
    merge applies.
    """
    ranks = tokenizer.merges()
    if not ranks:
        return []
    return [_replay_word(word, ranks) for word in tokenizer.words(text)]


def _replay_word(word: str, ranks: dict[tuple[str, str], int]) -> WordMerges:
    symbols = start = tuple(word)
    steps: list[Step] = []
    while mergeable := [pair for pair in pairwise(symbols) if pair in ranks]:
        pair = min(mergeable, key=ranks.__getitem__)
        symbols = _merge_pair(symbols, pair)
        steps.append(Step(ranks[pair], pair, symbols))
    return WordMerges(start, tuple(steps))


def _merge_pair(symbols: tuple[str, ...], pair: tuple[str, str]) -> tuple[str, ...]:
    merged: list[str] = []
    place = 0
    while place < len(symbols):
        step = 2 if symbols[place : place + 2] == pair else 1
        merged.append("".join(symbols[place : place + step]))
        place += step
    return tuple(merged)
