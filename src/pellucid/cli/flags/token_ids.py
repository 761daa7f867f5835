"""Token ids in place of a text, for a model without a tokenizer."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from pellucid.errors import ConfigError, TextError
from pellucid.reader import LARGE, json_lines, read_text

if TYPE_CHECKING:
    from pellucid.explain import Trace
    from pellucid.runs import Run


def add_ids(parser: Any, help_text: str) -> None:
    """Add `--ids`."""
    parser.add_argument("--ids", action="store_true", help=help_text)


def parse_ids(text: str, name: str) -> list[int]:
    """The ids in a text such as "5 17 9" or "[5, 17, 9]".

    Raises:
        TextError: it holds something else.
    """
    words = text.strip().removeprefix("[").removesuffix("]").replace(",", " ").split()
    wrong = next((word for word in words if not (word.isascii() and word.isdecimal())), None)
    if wrong is not None or not words:
        fault = "there is none" if wrong is None else f"one is {wrong!r}"
        raise TextError(f'with --ids, {name} must be token ids, such as "5 17 9"; {fault}')
    return [int(word) for word in words]


def read_texts(paths: Sequence[str]) -> list[list[int]]:
    """The texts of ids in files: a line for each, or one list of lists in JSON.

    Raises:
        TextError: a file cannot be read, or holds something else.
    """
    from pellucid.cli.flags.read_texts import read_stdin

    texts: list[list[int]] = []
    for path in paths:
        is_stdin = path == "-"
        text = read_stdin("ids") if is_stdin else read_text(path, limit=LARGE, refusal=TextError)
        name = "standard input" if is_stdin else path
        if text.lstrip().startswith("[["):
            texts += _lists(text, name)
        else:
            texts += [
                parse_ids(line, f"{name}, line {number}")
                for number, line in enumerate(text.splitlines(), start=1)
                if line.strip()
            ]
    if not texts:
        raise TextError(f"with --ids, {', '.join(paths) or 'PATH'} must name files of token ids")
    return texts


def _lists(text: str, name: str) -> list[list[int]]:
    (value,) = json_lines(text.replace("\n", " "), name, refusal=TextError)
    rows = cast("list[Any]", value)
    if not all(isinstance(row, list) for row in rows):
        raise TextError(f"{name} must hold lists of token ids, one for each text")
    return cast("list[list[int]]", rows)


def trace_request(
    arguments: argparse.Namespace, run: Run, sentence: str | None, *, target: str | None
) -> Trace:
    """The trace of a sentence, or with `--ids` of token ids.

    The ids of an encoder-decoder's source are its sentence, and the decoder's are its target.

    Raises:
        ConfigError: the ids of the target are missing.
    """
    from pellucid.explain import trace

    if not arguments.ids:
        return trace(
            run,
            sentence,
            target=target,
            rejected=arguments.rejected,
            example=arguments.example,
            reward=arguments.reward,
            force=arguments.force,
        )
    if sentence is None:
        raise ConfigError("--ids and --example were both given: leave one of them out")
    ids = parse_ids(sentence, "SENTENCE")
    if run.model.encoder is None or run.model.decoder is None:
        if target is not None:
            raise ConfigError("--target is for an encoder-decoder: leave it out")
        return trace(run, ids=ids, force=arguments.force)
    if target is None:
        raise ConfigError(
            "with --ids an encoder-decoder needs --target too: the ids that its decoder reads, "
            "beginning with its start token"
        )
    target_ids = parse_ids(target, "--target")
    return trace(run, ids=target_ids, source_ids=ids, force=arguments.force)
