"""The table of datasets: name, what it is, licence, and each file with its size and SHA-256.

Addresses name a commit, so that their content does not change. We computed the sizes and checksums
of tiny Shakespeare and of two of the three files of WikiText-2 from the files; the hosts publish
the others.

Sources: WikiText-2 is by Merity et al. 2016, "Pointer Sentinel Mixture Models"; TinyStories by
Eldan and Li 2023; FineWeb-Edu by Penedo et al. 2024.
"""

from __future__ import annotations

import difflib
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass

from pellucid.errors import TextError


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One file: its name, its size and its SHA-256; None if they are not published.

    Attributes:
        name: of the file.
        n_bytes: its size.
        sha256: of its content.
    """

    name: str
    n_bytes: int | None
    sha256: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """A dataset: `base` is the address of the folder of its files.

    `train` is the file to train on; if it is a table, `field` is the column with the text.

    Attributes:
        description: one line.
        licence: as its publishers name it.
        parts: its files.
    """

    description: str
    licence: str
    base: str
    parts: tuple[Part, ...]
    train: str
    field: str | None = None

    @property
    def n_bytes(self) -> int | None:
        """The size of all files; None if the size of one is unknown."""
        sizes = [part.n_bytes for part in self.parts]
        return None if None in sizes else sum(size for size in sizes if size is not None)


_GITHUB = "https://raw.githubusercontent.com/"
_HUGGING_FACE = "https://huggingface.co/datasets/"
_STORIES = f"{_HUGGING_FACE}roneneldan/TinyStories/resolve/f54c09fd23315a6f9c86f9dc80f725de7d8f9c64"
_FINEWEB = (
    f"{_HUGGING_FACE}HuggingFaceFW/fineweb-edu/resolve/87f09149ef4734204d70ed1d046ddc9ca3f2b8f9"
)
_WIKITEXT = f"{_GITHUB}pytorch/examples/77f55b912142e11fcfdf5b530231fb9c52f181e8"
_SHAKESPEARE = f"{_GITHUB}karpathy/char-rnn/6f9487a6fe5b420b7ca9afb0d7c078e37c1d1b4e"
_STORIES_LICENCE = "CDLA-Sharing-1.0"
_STORIES_VALID = Part(
    name="TinyStoriesV2-GPT4-valid.txt",
    n_bytes=22_502_601,
    sha256="6874bae9a4c1a4e7edcf0e53b86c17817e9cf881fc75ff2368da457b80c0585d",
)

#: Every public dataset by its name.
DATASETS: Mapping[str, Dataset] = {
    "tinyshakespeare": Dataset(
        description="40,000 lines from Shakespeare's plays, as one text",
        licence="public domain",
        base=f"{_SHAKESPEARE}/data/tinyshakespeare",
        parts=(
            Part(
                name="input.txt",
                n_bytes=1_115_394,
                sha256="86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
            ),
        ),
        train="input.txt",
    ),
    "wikitext-2": Dataset(
        description="Wikipedia articles, cut into words, rare ones written <unk>",
        licence="CC BY-SA 3.0 (name the source, share alike)",
        base=f"{_WIKITEXT}/word_language_model/data/wikitext-2",
        parts=(
            Part(
                name="train.txt",
                n_bytes=10_797_148,
                sha256="9e9fa1ad55b1c2c95b08e37dd8e653f638fac2c6de904b79e813611eefbc985f",
            ),
            Part(
                name="valid.txt",
                n_bytes=1_121_681,
                sha256="f0737ed31fc1329026e95cb8b98e19c2a182c39c240ab909dc31abf2f8af58e8",
            ),
            Part(
                name="test.txt",
                n_bytes=1_256_449,
                sha256="d790b833ef8cf03a90db7bf1271b7520b83c45ce07ba3c1a9699df81e239eca0",
            ),
        ),
        train="train.txt",
    ),
    "tinystories": Dataset(
        description="stories for small children, written by GPT-4 (version 2)",
        licence=_STORIES_LICENCE,
        base=_STORIES,
        parts=(
            Part(
                name="TinyStoriesV2-GPT4-train.txt",
                n_bytes=2_227_753_162,
                sha256="6418d412de72888f52b5142c761ac21a582f7d1166f0bfbdb5f03ccfdec90443",
            ),
            _STORIES_VALID,
        ),
        train="TinyStoriesV2-GPT4-train.txt",
    ),
    "tinystories-valid": Dataset(
        description="the held-out part of tinystories alone: enough for a first try",
        licence=_STORIES_LICENCE,
        base=_STORIES,
        parts=(_STORIES_VALID,),
        train="TinyStoriesV2-GPT4-valid.txt",
    ),
    "fineweb-edu": Dataset(
        description="educational web pages: the smallest of the 14 files of sample-10BT",
        licence="ODC-By 1.0, and Common Crawl's terms of use",
        base=f"{_FINEWEB}/sample/10BT",
        parts=(
            Part(
                name="013_00000.parquet",
                n_bytes=540_632_672,
                sha256="b393f51fefab26cd6f4c8f65707c1924f6666c4961a0ebebe04bb57f7ec832de",
            ),
        ),
        train="013_00000.parquet",
        field="text",
    ),
}


def find(name: str) -> Dataset:
    """The dataset called `name`.

    Raises:
        TextError: no dataset has that name; the message lists all names.
    """
    if name not in DATASETS:
        similar = difflib.get_close_matches(name, DATASETS, n=1)
        hint = f"; did you mean {similar[0]!r}?" if similar else ";"
        raise TextError(f"unknown dataset {name!r}{hint} there are: {', '.join(DATASETS)}")
    return DATASETS[name]


def address_of(dataset: Dataset, part: Part, mirror: str | None = None) -> str:
    """The address of a file: the published one, or the same path below `mirror`.

    Args:
        dataset: the dataset.
        part: one of its files.
        mirror: the address of another server.

    Raises:
        TextError: `mirror` is no http or https address.
    """
    published = f"{dataset.base}/{part.name}"
    if mirror is None:
        return published
    parts = urllib.parse.urlsplit(mirror)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise TextError(
            f"{mirror!r} is no address to download from: expected one such as https://example.org, "
            "with the files at their published paths"
        )
    return mirror.rstrip("/") + urllib.parse.urlsplit(published).path
