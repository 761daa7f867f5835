"""The source of the text, its tokenizer, and the held-out share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pellucid.config.checks import AtLeast, Checked, Paths, Positive
from pellucid.config.corpora import Rows
from pellucid.errors import ConfigError

#: Each source of a mixture has at least one row in so many.
_SMALLEST_SHARE = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class StandardLibrary:
    """The docstrings of Python's standard library: real English on every machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Files(Checked):
    """Text files and tables, folders of them, patterns, or "-" for standard input.

    `field` names the text column of a table: JSON Lines, JSON, CSV, TSV and Parquet.
    """

    paths: Paths
    field: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Source(Checked):
    """One of several sources of text: as `Files`, with its weight."""

    paths: Paths
    weight: Positive
    field: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixture(Checked):
    """Several sources, mixed by weight: one of weight 3 fills three times the rows of one of 1.

    The shares hold in every thousand rows. A source that is small for its weight comes again sooner
    than the others. The held-out text is not mixed: it is a share of all documents.
    """

    sources: tuple[Source, ...]

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths of all sources."""
        return tuple(path for source in self.sources for path in source.paths)

    def _check(self) -> None:
        if len(self.sources) < 2:
            raise ConfigError(
                f"sources: a mixture has at least two, was {len(self.sources)}: for one, choose "
                "Files"
            )
        if "-" in self.paths:
            raise ConfigError("sources: standard input cannot be mixed: write it to a file first")
        smallest = min(source.weight for source in self.sources)
        total = sum(source.weight for source in self.sources)
        if smallest * _SMALLEST_SHARE < total:
            raise ConfigError(
                f"sources: a weight of {smallest:g} among {total:g} is less than 1 row in "
                f"{_SMALLEST_SHARE}: raise it, or leave the source out"
            )


#: A corpus of plain texts.
Documents = StandardLibrary | Files | Mixture


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared(Checked):
    """Encoded text with its tokenizer: a folder that `pellucid data prepare` made, or its URL.

    From a URL such as `s3://bucket/folder` a run fetches shards as it needs them. The tokenizer
    has to be a `FromFile` with the same path, or an equal one.
    """

    path: str

    @property
    def paths(self) -> tuple[str, ...]:
        """The path, as other corpora have it."""
        return (self.path,)


#: What a model learns from.
Corpus = Documents | Prepared | Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Bytes:
    """One token per UTF-8 byte."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Characters:
    """One token per character that occurs in the training text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BytePairs(Checked):
    """Byte-level BPE: the most frequent pairs of bytes merged until `vocab_size` is reached."""

    #: at least 256 bytes and the two tokens that begin and end a text
    vocab_size: Annotated[int, AtLeast(258)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Words(Checked):
    """The most frequent words, each with the blank before it; any other is unknown."""

    #: at least begin, end, unknown, and one word
    vocab_size: Annotated[int, AtLeast(4)]


@dataclass(frozen=True, slots=True, kw_only=True)
class WordPiece(Checked):
    """BERT's WordPiece: words cut into the longest pieces known; white space is not kept."""

    #: at least begin, end, unknown, and a letter at the start of a word and inside one
    vocab_size: Annotated[int, AtLeast(5)]
    lowercase: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FromFile:
    """An existing tokenizer: tokenizer.json, GPT-2's two files, or BERT's vocab.txt."""

    path: str


#: Tokens that an objective needs of a tokenizer.
SpecialTokens = tuple[Literal["mask", "sentinels"], ...]
#: How text becomes token ids.
Tokenizer = Bytes | Characters | BytePairs | Words | WordPiece | FromFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Text(Checked):
    """A corpus, its tokenizer, and the share of its bytes kept out of training.

    `drop_duplicates` keeps only the first of documents with exactly the same text. Rows with the
    same prompt, source or text always go to the same side. `special` names tokens that the
    tokenizer must have: a "mask" for hidden tokens, "sentinels" for corrupted spans.
    """

    corpus: Corpus
    tokenizer: Tokenizer
    held_out: float
    drop_duplicates: bool
    special: SpecialTokens = ()

    def _check(self) -> None:
        if not 0 < self.held_out <= 0.5:
            raise ConfigError(
                f"held_out must be greater than 0 and at most 0.5, was {self.held_out}: "
                "without held-out text you cannot tell learning from memorising"
            )
