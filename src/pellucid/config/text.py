"""Where the text comes from, how it is cut into tokens, and what is held out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pellucid.config.checks import at_least
from pellucid.config.corpora import Rows
from pellucid.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class StandardLibrary:
    """The docstrings of Python's standard library: real English that is already there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """Text files and tables, folders of them, patterns, or "-" for standard input.

    `field` is what holds the text of a row in a table: JSON Lines, JSON, CSV, TSV and Parquet.
    """

    paths: tuple[str, ...]
    field: str | None = None

    def __post_init__(self) -> None:
        if not self.paths:
            raise ConfigError("paths must name at least one file or folder")


Documents = StandardLibrary | Files
Corpus = Documents | Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Bytes:
    """One token per UTF-8 byte."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Characters:
    """One token per character that occurs in the training text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BytePairs:
    """Byte-level BPE: the most frequent pairs of bytes merged until `vocab_size` is reached."""

    vocab_size: int

    def __post_init__(self) -> None:
        # 256 bytes and the two tokens that begin and end a text
        at_least("vocab_size", self.vocab_size, 258)


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """The most frequent words, each with the blank before it; any other is unknown."""

    vocab_size: int

    def __post_init__(self) -> None:
        # begin, end, unknown, and one word
        at_least("vocab_size", self.vocab_size, 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class WordPiece:
    """BERT's WordPiece: words cut into the longest pieces known; white space is not kept."""

    vocab_size: int
    lowercase: bool

    def __post_init__(self) -> None:
        # begin, end, unknown, and a letter that begins a word or goes on with it
        at_least("vocab_size", self.vocab_size, 5)


@dataclass(frozen=True, slots=True, kw_only=True)
class FromFile:
    """A tokenizer that is already there: tokenizer.json, GPT-2's two files, BERT's vocab.txt."""

    path: str


Tokenizer = Bytes | Characters | BytePairs | Words | WordPiece | FromFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A corpus, its tokenizer, and the share of its bytes kept out of training.

    With `drop_duplicates`, of documents with exactly the same text the first is kept. Rows with the
    same prompt, source or text always come to the same side. `special` says what the
    tokenizer must have besides: a "mask" for hidden tokens, "sentinels" for spans that are cut out.
    """

    corpus: Corpus
    tokenizer: Tokenizer
    held_out: float
    drop_duplicates: bool
    special: tuple[Literal["mask", "sentinels"], ...] = ()

    def __post_init__(self) -> None:
        if not 0 < self.held_out <= 0.5:
            raise ConfigError(
                f"held_out must be greater than 0 and at most 0.5, was {self.held_out}: "
                "without held-out text nobody can tell learning from memorising"
            )
