"""The film of a sentence: as it was recorded, or else made from the run's checkpoints."""

from __future__ import annotations

from collections import OrderedDict

from pellucid import runs
from pellucid.catalogue import message
from pellucid.errors import PellucidError
from pellucid.explain.api import trace
from pellucid.explain.films.capture import Snapshot, take_snapshot
from pellucid.explain.films.store import Film, Reel, has_film, reels
from pellucid.explain.sentence import Sentence
from pellucid.runs import Run, RunFolder
from pellucid.saved_runs.folder import is_published

#: Films made of checkpoints, the last few: each took a model to load for each of its snapshots.
_CACHE_SIZE = 4
_cached_films: OrderedDict[tuple[object, ...], Film] = OrderedDict()


def footage(run: Run, sentence: Sentence) -> Film:
    """The recorded film of a sentence, or else one made from the run's checkpoints.

    Raises:
        RunError: the film is too damaged to read; says what to do.
    """
    empty_film = Film(
        sentence=sentence.text, ids=sentence.ids, snapshots=(), origin=message("word.nothing")
    )
    if is_published(run.folder):
        return empty_film
    folder = RunFolder(run.folder)
    if has_film(folder, sentence.text):
        return Reel(folder, sentence.text).read()
    steps = folder.shelf.steps()
    if len(steps) < 2:
        return empty_film
    key = (str(folder.path), sentence.text, sentence.ids, *steps)
    if key not in _cached_films:
        _cached_films[key] = _film_checkpoints(folder, sentence, steps)
        while len(_cached_films) > _CACHE_SIZE:
            _cached_films.popitem(last=False)
    return _cached_films[key]


def filmed_sentences(run: Run) -> list[str]:
    """The sentences that a run has films of."""
    return [sentence for sentence, _ in reels(RunFolder(run.folder))]


def _film_checkpoints(folder: RunFolder, sentence: Sentence, steps: list[int]) -> Film:
    """A snapshot from each checkpoint, and the problems of damaged ones."""
    snapshots: list[Snapshot] = []
    problems: list[str] = []
    for step in steps:
        try:
            run = runs.load(folder.shelf.path(step))
        except PellucidError as error:
            problems.append(str(error))
            continue
        snapshots.append(take_snapshot(trace(run, sentence.text), step))
    return Film(
        sentence=sentence.text,
        ids=sentence.ids,
        snapshots=tuple(snapshots),
        origin=message("film.saved-checkpoints", n=len(snapshots)),
        problems=tuple(problems),
    )
