"""The source of the text, its tokenizer, and the held-out share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pellucid.config.checks import AtLeast, Checked, Interval, Paths, Positive
from pellucid.config.corpora import Rows
from pellucid.errors import ConfigError

#: Each source of a mixture has at least one row in so many.
_SMALLEST_SHARE = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class StandardLibrary:
    """The documentation in the sources of Python's standard library, and the topics of `help()`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Files(Checked):
    """Text files and tables, folders of them, patterns, or "-" for standard input.

    Attributes:
        paths: files, folders, patterns such as `data/**/*.jsonl`; "-" is standard input.
        field: the column with the text of a row. Tables need it, and pellucid refuses it if there
            is no table.
    """

    paths: Paths
    field: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Source(Checked):
    """One of several sources of text: as `Files`, with its weight.

    Attributes:
        paths: as in `Files`, but not "-".
        weight: how many rows, beside the weights of the others: at least one row in 512.
        field: the column with the text of a row, as in `Files`.
    """

    paths: Paths
    weight: Positive
    field: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixture(Checked):
    """Several sources, mixed by weight: one of weight 3 fills three times the rows of one of 1.

    The shares hold in every 1,024 rows, whatever the sizes of the sources. A source that is small
    for its weight comes again sooner than the others. The held-out text is not mixed: it is a share
    of all documents.

    Attributes:
        sources: at least two.
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

    From a URL such as `s3://bucket/folder` a run fetches shards as it needs them. The tokenizer has
    to be a `FromFile` with the same path, or an equal one.

    Attributes:
        path: the folder, or its URL.
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
    """One token per UTF-8 byte: 256, and 2 for begin and end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Characters:
    """One token per character of the training text, and 3: begin, end, unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BytePairs(Checked):
    """Byte-level BPE: the most frequent pairs of bytes merged until `vocab_size` is reached.

    No text is unknown.

    Attributes:
        vocab_size: the most tokens; 256 are bytes, and two begin and end a text.
    """

    vocab_size: Annotated[int, AtLeast(258)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Words(Checked):
    """The most frequent words, each with the blank before it; any other is unknown.

    Attributes:
        vocab_size: the most tokens, with begin, end, unknown, and at least one word.
    """

    vocab_size: Annotated[int, AtLeast(4)]


@dataclass(frozen=True, slots=True, kw_only=True)
class WordPiece(Checked):
    """BERT's WordPiece: words cut into the longest pieces known; white space is not kept.

    Attributes:
        vocab_size: the most tokens, with begin, end, unknown, and a letter at the start of a word
            and inside one.
        lowercase: whether capitals and accents are lost too.
    """

    vocab_size: Annotated[int, AtLeast(5)]
    lowercase: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FromFile:
    """An existing tokenizer: tokenizer.json, GPT-2's two files, BERT's vocab.txt, or SentencePiece.

    Attributes:
        path: the file, or the folder that holds it. A run keeps its own copy and does not need it
            again.
    """

    path: str


#: Tokens that an objective needs of a tokenizer.
SpecialTokens = tuple[Literal["mask", "sentinels"], ...]
#: How text becomes token ids.
Tokenizer = Bytes | Characters | BytePairs | Words | WordPiece | FromFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Text(Checked):
    """A corpus, its tokenizer, and the share of its bytes kept out of training.

    Attributes:
        corpus: the documents or the rows.
        tokenizer: how to cut them into tokens.
        held_out: the share of all bytes that the run does not train on, but evaluates on: without
            it you cannot tell learning from memorising. Rows with the same prompt, source or text
            always go to the same side.
        drop_duplicates: whether to use only the first of documents with exactly the same text.
            pellucid counts them in both cases.
        special: special tokens of a trained tokenizer: a mask for hidden tokens, which `MLM` needs,
            and a hundred sentinels for missing spans, which `SpanCorruption` needs.
    """

    corpus: Corpus
    tokenizer: Tokenizer
    held_out: Annotated[float, Interval(gt=0, le=0.5)]
    drop_duplicates: bool
    special: SpecialTokens = ()
