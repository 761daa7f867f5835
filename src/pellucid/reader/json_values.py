"""The values in a JSON file, one after another, without holding the file in memory."""

from __future__ import annotations

import json
from collections.abc import Iterator

from pellucid.errors import PellucidError
from pellucid.reader.opening import Refusal
from pellucid.reader.values import TOO_DEEP, decoder

_BLANK = " \t\r\n"
#: An error this close to the end of the buffer may only mean that more text must be read.
_EXCERPT = 16


def json_values(
    name: str, blocks: Iterator[str], longest: int, *, refusal: Refusal = PellucidError
) -> Iterator[object]:
    """Each value of a list, or of values one after another, in order.

    Args:
        name: what errors call the text.
        blocks: the text, in pieces.
        longest: the largest number of characters of a value.
        refusal: the kind of error to raise.

    Raises:
        PellucidError: it is not JSON; names the value before the error.
    """
    text = _Text(name, blocks, longest, refusal)
    if text.next_sign() != "[":
        while text.next_sign():
            yield text.value()
        return
    text.skip()
    if text.next_sign() == "]":
        text.skip()
    else:
        while True:
            yield text.value()
            sign = text.next_sign()
            text.skip()
            if sign == "]":
                break
            if sign != ",":
                raise text.refused("expected , or ] there")
    if text.next_sign():
        raise text.refused("there is text after the end of the list")


class _Text:
    """The buffered text, and the position of the next value in it."""

    def __init__(self, name: str, blocks: Iterator[str], longest: int, refusal: Refusal) -> None:
        self._name = name
        self._blocks = blocks
        self._longest = longest
        self._refusal = refusal
        self._text = ""
        self._place = 0
        self._number = 0
        self._decode = decoder(lenient=True).raw_decode

    def next_sign(self) -> str:
        """The next sign after blanks; "" at the end."""
        while True:
            while self._place < len(self._text):
                if self._text[self._place] not in _BLANK:
                    return self._text[self._place]
                self._place += 1
            if not self._read_more(1):
                return ""

    def skip(self) -> None:
        """Move past the next sign, if there is one."""
        self._place = min(self._place + 1, len(self._text))

    def value(self) -> object:
        """The value that begins at the next sign."""
        self.next_sign()
        while True:
            try:
                value, self._place = self._decode(self._text, self._place)
            except RecursionError:
                raise self.refused(TOO_DEEP) from None
            except json.JSONDecodeError as error:
                # the value may continue in text that is not read yet: double the buffer, so that
                # the work stays proportional to the length
                n_buffered = len(self._text) - self._place
                cut = error.pos > len(self._text) - _EXCERPT or error.msg.startswith("Unterminated")
                if cut and n_buffered > self._longest:
                    raise self.refused(f"more than {self._longest:,} characters") from None
                if not cut or not self._read_more(n_buffered):
                    raise self.refused(error.msg) from None
            except ValueError as error:  # of a number
                raise self.refused(str(error)) from None
            else:
                self._number += 1
                return value

    def refused(self, reason: str) -> PellucidError:
        return self._refusal(
            f"{self._name}, row {self._number + 1}: is not valid JSON ({reason}): mend it"
        )

    def _read_more(self, n_wanted: int) -> bool:
        """Read at least so many characters more; whether there were any."""
        parts = [self._text[self._place :]]
        n_before = n_characters = len(parts[0])
        while n_characters < n_before + max(1, n_wanted):
            try:
                block = next(self._blocks, None)
            except EOFError:
                raise self._refusal(
                    f"{self._name} is cut short after row {self._number}: the archive ends before "
                    "its text does; fetch or make it again"
                ) from None
            if block is None:
                break
            parts.append(block)
            n_characters += len(block)
        self._text, self._place = "".join(parts), 0
        return n_characters > n_before
