"""The result of a comparison as a file, which others can put beside theirs: `result.json`.

It carries the digest of its corpus. Two results compare only if the digests are equal: the same
texts, and the same share of them held out.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pellucid.checkpoints import write_text
from pellucid.errors import RunError
from pellucid.json_text import json_text
from pellucid.lab.comparison import Comparison
from pellucid.lab.files import comparison_facts
from pellucid.reader import read_json_table

#: The file in the folder of a comparison.
RESULT = "result.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A result that was read: its file, the digest of its corpus, its measure, and all facts."""

    file: Path
    corpus: str
    measure: str
    facts: dict[str, Any]

    @property
    def rows(self) -> list[tuple[str, float | None, list[float] | None, int]]:
        """Each variant: its name, its mean, the interval, and how many seeds it has."""
        return [(v["name"], v["mean"], v["interval"], v["n"]) for v in self.facts["variants"]]


def write_result(comparison: Comparison) -> Path:
    """Write the result into the folder of a comparison; its path.

    Args:
        comparison: the comparison.
    """
    file = comparison.out / RESULT
    write_text(file, json_text(comparison_facts(comparison), indent=1))
    return file


def read_result(path: Path) -> Result:
    """The result in a file, or in the folder of a comparison.

    Args:
        path: the file or the folder.

    Raises:
        RunError: there is none, or it is not a result.
    """
    file = path / RESULT if path.is_dir() else path
    facts = read_json_table(file, refusal=RunError)
    try:
        result = Result(
            file=file, corpus=str(facts["corpus"]), measure=str(facts["measure"]), facts=facts
        )
        _ = result.rows
    except (KeyError, TypeError) as error:
        raise RunError(
            f"{file} is not the result of a comparison ({error!r}): `pellucid compare` writes it "
            "when all runs are finished"
        ) from None
    return result


def check_same_corpus(corpus: str, other: Result) -> None:
    """Refuse a result on another corpus.

    Args:
        corpus: the digest of the corpus here.
        other: the result to put beside it.

    Raises:
        RunError: the digests differ.
    """
    if other.corpus != corpus:
        raise RunError(
            f"{other.file} was measured on another corpus (digest {other.corpus}, here {corpus}): "
            "results compare only on the same texts with the same share held out"
        )
