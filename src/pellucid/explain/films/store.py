"""Films on disk: a folder for each sentence, a file for each snapshot, whole or absent.

    films/9f86d081884c/film.json     the sentence, its ids and pieces
    films/9f86d081884c/step-64.shot  SHA-256 of what follows, and that: safetensors

pellucid writes each file under another name and renames it, so a killed process loses at most one
snapshot. The checksum shows a bit that flipped later, and all other snapshots stay readable.
Nothing is ever unpickled.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import safetensors
import safetensors.torch

from pellucid import reader
from pellucid.catalogue import message
from pellucid.checkpoints import write_bytes, write_text
from pellucid.disk import remove_file
from pellucid.errors import PellucidError, RunError
from pellucid.explain.films.capture import Snapshot
from pellucid.explain.sentence import Sentence
from pellucid.json_text import json_text
from pellucid.runs import RunFolder

FORMAT = 1
_DESCRIPTION = "film.json"
_SHOT = re.compile(r"step-(\d+)\.shot")
_DIGEST = hashlib.sha256().digest_size


@dataclass(frozen=True, slots=True, kw_only=True)
class Film:
    """Snapshots of one sentence, in the order of the updates.

    `origin` says in words where they come from; `problems` lists the unreadable ones, and what to
    do.
    """

    sentence: str
    ids: tuple[int, ...]
    snapshots: tuple[Snapshot, ...]
    origin: str
    problems: tuple[str, ...] = ()


class Reel:
    """The film of one sentence in a run's folder, as it is written."""

    def __init__(self, run: RunFolder, sentence: str) -> None:
        name = hashlib.sha256(sentence.encode()).hexdigest()[:12]
        self.folder = run.films / name

    def begin(self, sentence: Sentence) -> None:
        """Begin the film on disk."""
        self.folder.mkdir(parents=True, exist_ok=True)
        description_file = {"format": FORMAT, "sentence": sentence.text, "ids": sentence.ids}
        write_text(
            self.folder / _DESCRIPTION,
            json_text(description_file, ensure_ascii=False, indent=1) + "\n",
        )

    def steps(self) -> list[int]:
        """The updates after which a snapshot was taken, in order."""
        matches = (_SHOT.fullmatch(file.name) for file in self.folder.glob("*.shot"))
        return sorted(int(match[1]) for match in matches if match)

    def file(self, step: int) -> Path:
        """The file of a snapshot."""
        return self.folder / f"step-{step}.shot"

    def add(self, snapshot: Snapshot) -> None:
        """Write a snapshot, all at once; it replaces one of the same update."""
        content = safetensors.torch.save(snapshot.tensors)
        write_bytes(self.file(snapshot.step), hashlib.sha256(content).digest() + content)

    def cut_after(self, step: int) -> None:
        """Drop all snapshots after `step`: a run that continues from there takes them again."""
        for later_step in self.steps():
            if later_step > step and self._body(later_step) is not None:
                remove_file(self.file(later_step))

    def snapshot(self, step: int) -> Snapshot:
        """One snapshot, checked.

        Raises:
            RunError: the file is damaged; says which, and what to do.
        """
        file = self.file(step)
        try:
            body = self._body(step)
            if body is None:
                raise ValueError("its checksum does not match")
            return Snapshot(step=step, tensors=reader.parse_tensors(body, file.name))
        except (ValueError, PellucidError) as error:
            raise RunError(
                message("film.the-snapshot-of-update-cannot", step=step, error=error, file=file)
            ) from None

    def _body(self, step: int) -> bytes | None:
        """The content of a snapshot file; None if its checksum does not match."""
        content = reader.read_bytes(self.file(step), limit=reader.LARGE)
        digest, body = content[:_DIGEST], content[_DIGEST:]
        return body if hashlib.sha256(body).digest() == digest else None

    def read(self) -> Film:
        """Read the whole film.

        Raises:
            RunError: it is too damaged to read; says what to do.
        """
        description_file = self.folder / _DESCRIPTION
        try:
            table = reader.read_json_table(description_file)
            if table["format"] != FORMAT:
                raise RunError(
                    message(
                        "film.has-format-and-this-pellucid",
                        description_file=description_file,
                        format=table["format"],
                        format2=FORMAT,
                        folder=self.folder,
                    )
                )
            sentence, ids = str(table["sentence"]), tuple(map(int, table["ids"]))
        except (ValueError, KeyError, TypeError, PellucidError) as error:
            raise self._damaged_error(
                message("film.says-nothing-that-can-be", name=description_file.name, error=error)
            ) from None
        snapshots: list[Snapshot] = []
        problems: list[str] = []
        for step in self.steps():
            try:
                snapshots.append(self.snapshot(step))
            except RunError as error:
                problems.append(str(error))
        if problems and not snapshots:
            raise self._damaged_error(message("film.none-of-its-snapshots-is"))
        return Film(
            sentence=sentence,
            ids=ids,
            snapshots=tuple(snapshots),
            origin=message("film.snapshots-taken-while-it-trained", n=len(snapshots)),
            problems=tuple(problems),
        )

    def _damaged_error(self, reason: str) -> RunError:
        return RunError(message("film.the-film-in-is-damaged", folder=self.folder, reason=reason))


def reels(run: RunFolder) -> Iterator[tuple[str, Reel]]:
    """The films of a run that say their sentence, with it."""
    for description_file in sorted(run.films.glob(f"*/{_DESCRIPTION}")):
        try:
            sentence = str(reader.read_json_table(description_file)["sentence"])
        except (KeyError, PellucidError):
            continue  # reading it reports the damage
        yield sentence, Reel(run, sentence)


def has_film(run: RunFolder, sentence: str) -> bool:
    """Whether there is a film of a sentence, whole or not."""
    return Reel(run, sentence).folder.is_dir()
