"""Text encoded in several processes.

In one process the library encodes on all processors, but Python takes its ids one text after the
other: about ten processors are busy. Here each process encodes on one processor. They get texts as
lines of JSON, and answer with a line of lengths and the ids behind it.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple, cast

import numpy as np

from pellucid import children
from pellucid.errors import TextError
from pellucid.json_text import json_text
from pellucid.reader import parse_json
from pellucid.tokenizers.tokenizer import Ids, Tokenizer

_CODE = (
    "import os; os.environ['TOKENIZERS_PARALLELISM'] = 'false'; "
    "from pellucid.tokenizers.processes import answer_requests; answer_requests({file!r})"
)


class EncodedText(NamedTuple):
    """The ids of a text without begin and end, and whether they decode to another text."""

    ids: Ids
    is_lossy: bool


#: Encodes some texts; several threads may call it at once.
Encode = Callable[[Sequence[str]], list[EncodedText]]


@contextmanager
def encoder(tokenizer: Tokenizer, n_processes: int = 1) -> Generator[Encode]:
    """Within it, a function that encodes texts in so many processes, with the same ids.

    Args:
        tokenizer: encodes them.
        n_processes: 1 is this process alone, with all processors; more are processes beside it.
    """
    if n_processes == 1:
        is_exact = tokenizer.exact
        yield lambda texts: _encode(tokenizer, texts, is_exact)
        return
    idle: SimpleQueue[children.Child] = SimpleQueue()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        file = Path(folder) / "tokenizer.json"
        tokenizer.save(file)
        for _ in range(n_processes):
            child = stack.enter_context(
                children.start(children.python(_CODE.format(file=str(file))))
            )
            stack.callback(child.kill)
            idle.put(child)

        def encode(texts: Sequence[str]) -> list[EncodedText]:
            child = idle.get()
            try:
                return _ask(child, texts)
            finally:
                idle.put(child)

        yield encode


def answer_requests(file: str) -> None:
    """What each process does: encode the texts of each line of its input, until it ends."""
    tokenizer = Tokenizer.load(Path(file))
    is_exact, output = tokenizer.exact, sys.stdout.buffer
    for line in sys.stdin.buffer:
        texts = _encode(tokenizer, parse_json(line.decode(), "the texts"), is_exact)
        facts = [[len(text.ids), text.is_lossy] for text in texts]
        output.write(json_text(facts).encode() + b"\n")
        for text in texts:
            output.write(text.ids.astype(np.uint32).tobytes())
        output.flush()


def _encode(tokenizer: Tokenizer, texts: Sequence[str], is_exact: bool) -> list[EncodedText]:
    return [
        EncodedText(ids, not is_exact and tokenizer.decode(ids.tolist()) != text)
        for ids, text in zip(tokenizer.encode_batch(texts), texts, strict=True)
    ]


def _ask(child: children.Child, texts: Sequence[str]) -> list[EncodedText]:
    """What a process answers.

    Raises:
        TextError: it has ended.
    """
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        child.stdin.write(json_text(texts).encode() + b"\n")
        child.stdin.flush()
        line = child.stdout.readline()
        facts = cast("list[tuple[int, bool]]", parse_json(line.decode(), "the ids")) if line else []
        n_bytes = sum(length for length, _ in facts) * np.dtype(np.uint32).itemsize
        content = child.stdout.read(n_bytes)
        if len(facts) != len(texts) or len(content) != n_bytes:
            raise BrokenPipeError
    except BrokenPipeError:
        with suppress(BrokenPipeError):
            child.stdin.close()  # or what is still in the pipe is an error again later
        raise TextError(
            f"a process that encodes text has ended (code {child.wait()}), perhaps because it "
            "found no memory: the same command continues; pass fewer --processes"
        ) from None
    ends = np.cumsum([length for length, _ in facts])
    ids_by_text = np.split(np.frombuffer(content, dtype=np.uint32), ends[:-1])
    return [
        EncodedText(ids, is_lossy) for ids, (_, is_lossy) in zip(ids_by_text, facts, strict=True)
    ]
