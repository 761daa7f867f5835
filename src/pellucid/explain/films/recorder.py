"""Filming a training: snapshots of sentences inside the model, from the first update on.

A film does not change the training: a snapshot is a forward pass in evaluation mode, without
gradients and without random numbers, and it only reads the weights.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from pellucid.errors import PellucidError
from pellucid.explain.films.capture import take_snapshot
from pellucid.explain.films.store import Reel, reels
from pellucid.explain.sentence import Sentence, encode_sentence
from pellucid.explain.tracing import ModelTrace
from pellucid.model import Transformer
from pellucid.runs import Run, RunFolder
from pellucid.saved_runs.load import read_config
from pellucid.saved_runs.requirements import kind_of
from pellucid.tokenizers import Tokenizer
from pellucid.training import Event, Guard, Job, Observer, Watcher, events
from pellucid.typed import eagerly

#: Snapshots at even distances; those at powers of two before them make it 64 at most, however long
#: the run (to 2^25 updates between two of them).
EVENLY = 36


def film(*sentences: str) -> Watcher:
    """A watcher for `pellucid.train(..., watchers=[...])` that films sentences.

    A resumed run continues all films that it has, and begins films of the sentences you name.

    Raises:
        PellucidError: a sentence is empty. While the run starts: one does not fit the model.
    """
    for sentence in sentences:
        if not sentence.strip():
            raise PellucidError("the sentence to film is empty: write a few words")

    def look_into(job: Job, build_chapter: Observer) -> AbstractContextManager[Observer]:
        del build_chapter  # a film is looked at afterwards
        return _filmed(job, sentences)

    return look_into


def is_due(step: int, total: int) -> bool:
    """Whether a snapshot is taken after so many updates: 0, 1, 2, 4, 8, ... and then evenly."""
    interval = max(1, -(-total // EVENLY))
    early = step < interval and step & (step - 1) == 0
    return early or step % interval == 0 or step == total


@contextmanager
def _filmed(job: Job, sentences: Sequence[str]) -> Generator[Observer]:
    open_reels: list[tuple[Reel, Sentence]] = []
    guard = Guard()

    def shoot(step: int) -> None:
        for reel, sentence in open_reels:
            if not reel.file(step).is_file():
                # hooks within a compiled block are heard only when it runs uncompiled
                with eagerly():
                    reel.add(take_snapshot(ModelTrace(job.model, sentence), step))

    def observe(event: Event) -> None:
        match event:
            case events.Started() | events.Resumed():
                folder = RunFolder(Path(event.folder))
                open_reels[:] = _begin_reels(folder, job.model, sentences, event.step)
                if is_due(event.step, job.total_steps):
                    guard("the film", shoot, event.step)
            case events.StepFinished() if is_due(event.step, job.total_steps):
                guard("the film", shoot, event.step)
            case _:
                pass

    yield observe


def _begin_reels(
    folder: RunFolder, model: Transformer, sentences: Sequence[str], step: int
) -> list[tuple[Reel, Sentence]]:
    """The existing and the new films, cut back to the first `step` updates."""
    reels_by_text = dict(reels(folder)) | {
        sentence: Reel(folder, sentence) for sentence in sentences
    }
    if not reels_by_text:
        return []
    tokenizer = Tokenizer.load(folder.tokenizer)
    run = Run(model, tokenizer, read_config(folder), folder.path, folder.path)
    open_reels: list[tuple[Reel, Sentence]] = []
    try:
        if kind_of(model) == "encoder-decoder":
            raise PellucidError(
                "there are no films of an encoder-decoder: its decoder would read another text in "
                "each snapshot"
            )
        for text, reel in reels_by_text.items():
            sentence = encode_sentence(run, text)
            reel.begin(sentence)
            reel.cut_after(step)
            open_reels.append((reel, sentence))
    except PellucidError as error:
        raise PellucidError(
            f"--film: {error}. Nothing is lost: train on without it with pellucid train --resume "
            f"{folder.path}, or with another --film"
        ) from None
    return open_reels
