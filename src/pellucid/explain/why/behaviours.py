"""Heads named by what they measurably do: over text of the run, and over repeated random tokens.

A score is the mean share of attention that a head gives to the keys of a behaviour. `chance` is
what it would give them if it looked evenly at all it sees. A head has a name if it is far enough
from chance: (score - chance) / (1 - chance) is at least `NAMED_FROM`.

Source:
    Olsson et al. 2022, "In-context Learning and Induction Heads" (previous tokens, induction on
    repeated random tokens); Wang et al. 2022, "Interpretability in the Wild" (duplicate tokens);
    Xiao et al. 2023, "Efficient Streaming Language Models with Attention Sinks" (the first token).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from pellucid.errors import PellucidError
from pellucid.explain.api import trace
from pellucid.explain.forward_pass import HeadPlace
from pellucid.explain.trace_types import Trace
from pellucid.explain.why.texts import held_out_windows, repeated_tokens
from pellucid.explain.why.types import head_name
from pellucid.model import Transformer
from pellucid.runs import Run

BehaviourName = Literal["previous token", "first token", "induction", "duplicate", "same class"]
BEHAVIOURS: tuple[BehaviourName, ...] = get_args(BehaviourName)
#: How far from chance, of the way to 1, a behaviour gives a head its name.
NAME_THRESHOLD = 0.3

#: (queries, keys), True where a key is one of the behaviour's.
_Keys = Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """How much of a head's attention goes to the keys of one behaviour."""

    name: BehaviourName
    score: float
    chance: float

    @property
    def above_chance(self) -> float:
        """0 for an even look, 1 for a head that looks nowhere else."""
        return (self.score - self.chance) / (1 - self.chance) if self.chance < 1 else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedHead:
    """A head with its measured behaviours; `names` are those that it shows, the clearest first."""

    head: str
    behaviours: tuple[Behaviour, ...]

    @property
    def names(self) -> tuple[BehaviourName, ...]:
        """The behaviours that are far enough from chance."""
        ranked = sorted(self.behaviours, key=lambda behaviour: -behaviour.above_chance)
        return tuple(
            behaviour.name for behaviour in ranked if behaviour.above_chance >= NAME_THRESHOLD
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadNames:
    """All heads of the stack that predicts; `text` says what they were measured on."""

    heads: tuple[NamedHead, ...]
    text: str


def name_heads(
    run: Run | Transformer,
    texts: Sequence[Sequence[int]] = (),
    *,
    n_windows: int = 8,
    length: int = 48,
) -> HeadNames:
    """Measure what each head does, and name it.

    Args:
        run: a run, or a bare model.
        texts: token ids to measure on; by default held-out text of the run, or else random tokens.
        n_windows: how many windows of held-out text, and of repeated random tokens.
        length: tokens of a window.

    Raises:
        PellucidError: the model reads another text too, or none of its heads can be read.
    """
    model = run.model if isinstance(run, Run) else run
    if model.encoder is not None and model.decoder is not None:
        raise PellucidError(
            "an encoder-decoder reads two texts: its heads are shown by the chapter heads of one "
            "sentence"
        )
    length = min(length, model.context_length)
    n_tokens = model.token_embedding.num_embeddings
    repeats = list(repeated_tokens(n_windows, length, n_tokens))
    own_windows = held_out_windows(run if isinstance(run, Run) else None, n_windows, length)
    windows = [tuple(text)[: model.context_length] for text in texts] or own_windows
    text_name = "the texts that you gave" if texts else "held-out text of the run"
    if not windows:
        windows, text_name = repeats, "random tokens: there is no text of the run"
    totals: dict[HeadPlace, dict[BehaviourName, list[tuple[float, float, int]]]] = {}
    for ids in windows:
        _measure(trace(run, ids=ids), _text_keys(run), totals)
    for ids in repeats:
        _measure(trace(run, ids=ids), _REPEAT_KEYS, totals)
    if not totals:
        raise PellucidError("no attention of this model has heads that pellucid can read")
    heads = [
        NamedHead(
            head=head_name(place),
            behaviours=tuple(_average(name, rows[name]) for name in BEHAVIOURS if rows.get(name)),
        )
        for place, rows in totals.items()
    ]
    return HeadNames(heads=tuple(heads), text=text_name)


def _average(name: BehaviourName, rows: list[tuple[float, float, int]]) -> Behaviour:
    n_queries = sum(count for _, _, count in rows)
    score, chance = (sum(row[index] for row in rows) / n_queries for index in (0, 1))
    return Behaviour(name=name, score=score, chance=chance)


@torch.no_grad()
def _measure(
    traced: Trace,
    keys_of: dict[BehaviourName, Callable[[Trace], _Keys]],
    totals: dict[HeadPlace, dict[BehaviourName, list[tuple[float, float, int]]]],
) -> None:
    """Add the sums of one text: of scores, of chances, and the number of queries."""
    keys: dict[BehaviourName, _Keys] = {name: make(traced) for name, make in keys_of.items()}
    for layer in range(traced.n_layers(traced.side)):
        attention = traced.layer(traced.side, layer).attentions.get("")
        if attention is None:
            continue
        for head in range(attention.n_heads):
            place = HeadPlace(traced.side, layer, head)
            address = head_name(place)
            weights, visible_keys = traced[f"{address}.weights"].double(), traced[f"{address}.mask"]
            rows = totals.setdefault(place, {})
            for behaviour, matching in keys.items():
                visible = matching & visible_keys
                # a query that sees nothing else has no choice, and one without a match none to make
                choosing_queries = visible.any(1) & (visible_keys.sum(1) > 1)
                score = (weights * visible).sum(1)[choosing_queries].sum()
                chance = (visible.sum(1) / visible_keys.sum(1))[choosing_queries].sum()
                count = int(choosing_queries.sum())
                if count:
                    rows.setdefault(behaviour, []).append((float(score), float(chance), count))


# the keys of each behaviour


def _previous(traced: Trace) -> _Keys:
    return torch.diag(torch.ones(len(traced.ids) - 1, dtype=torch.bool), -1)


def _first(traced: Trace) -> _Keys:
    time = len(traced.ids)
    keys = torch.zeros(time, time, dtype=torch.bool)
    keys[1:, 0] = True
    return keys


def _duplicate(traced: Trace) -> _Keys:
    """Earlier tokens that are the same as the query."""
    ids = traced.ids.cpu()
    return (ids[:, None] == ids[None, :]).tril(-1)


def _induction(traced: Trace) -> _Keys:
    """The tokens that came after these, the query itself left out."""
    keys = torch.zeros_like(_duplicate(traced))
    keys[:, 1:] = _duplicate(traced)[:, :-1]
    return keys.tril(-1)


def _same_class(traced: Trace) -> _Keys:
    """Earlier tokens of the same class, but not the same token."""
    classes = [_class_of(piece) for piece in traced.sentence.pieces]
    index = torch.tensor([sorted(set(classes)).index(name) for name in classes])
    same_class = (index[:, None] == index[None, :]).tril(-1)
    return same_class & ~_duplicate(traced)


def _class_of(piece: str) -> str:
    """Blank, digit, letters that begin a word, letters within one, or other signs."""
    text = piece.strip()
    if not text:
        return "blank"
    if all(character.isdigit() for character in text):
        return "number"
    if all(unicodedata.category(character)[0] in "LM" for character in text):
        return "word" if piece != text else "letters"
    return "signs"


_TEXT_KEYS: dict[BehaviourName, Callable[[Trace], _Keys]] = {
    "previous token": _previous,
    "first token": _first,
    "same class": _same_class,
}
_REPEAT_KEYS: dict[BehaviourName, Callable[[Trace], _Keys]] = {
    "induction": _induction,
    "duplicate": _duplicate,
}


def _text_keys(run: Run | Transformer) -> dict[BehaviourName, Callable[[Trace], _Keys]]:
    """The behaviours of text; without a tokenizer tokens have no class."""
    if isinstance(run, Run) and run.tokenizer is not None:
        return _TEXT_KEYS
    return {name: build for name, build in _TEXT_KEYS.items() if name != "same class"}
