"""CSV from outside becomes rows of texts, or is refused."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator

from pellucid.errors import PellucidError
from pellucid.reader.opening import Refusal

#: A longer value means a quote that is never closed.
LONGEST_VALUE = 64 * 2**20


def csv_rows(
    lines: Iterable[str],
    name: str,
    delimiter: str,
    *,
    strict: bool = True,
    refusal: Refusal = PellucidError,
) -> Iterator[tuple[int, list[str]]]:
    """The rows of a table with any separator, each with the number of its last line.

    Args:
        lines: the text.
        name: what errors call it.
        delimiter: the separator of columns.
        strict: refuse text after a closing quote, and a quote that is never closed.
        refusal: the kind of error to raise.

    Raises:
        PellucidError: a row cannot be read; names its line.
    """
    csv.field_size_limit(LONGEST_VALUE)
    reader = csv.reader(lines, delimiter=delimiter, strict=strict)
    try:
        for row in reader:
            yield reader.line_num, row
    except csv.Error as error:
        raise refusal(
            f"{name}, line {reader.line_num}: cannot be read ({error}): mend it"
        ) from None
