"""Chapters and numbers for the page: JSON, with matrices as bytes in it.

A matrix is sent as float32, so the page shows the model's own numbers. One that is too large is
pooled: each cell is the largest value of a tile by size, and a note says so.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pellucid.catalogue import Message, message
from pellucid.explain.chapter_types import Chapter, Film, Frames, Matrix, Picture, Receipt
from pellucid.explain.expressions import to_plain
from pellucid.explain.receipt_text import format_receipt

#: Most bytes of an interaction, and most cells of a matrix in it.
LARGEST_ANSWER = 150_000
#: Most bytes of any response.
LARGEST_RESPONSE = 2_000_000
_MOST_CELLS = 16_384
#: Most rows of a table or bars; a note counts the others.
_MOST_ROWS = 400

Plain = dict[str, Any]


def chapter_payload(chapter: Chapter) -> Plain:
    """A chapter as JSON."""
    notes = list(chapter.notes)
    pictures = [picture_payload(picture, notes) for picture in chapter.pictures]
    return {
        "id": chapter.id,
        "number": chapter.number,
        "part": chapter.part,
        "title": chapter.title,
        "sentence": chapter.sentence,
        "pictures": pictures,
        "receipts": [_receipt(receipt) for receipt in chapter.receipts],
        "notes": notes,
    }


def packed(values: np.ndarray[Any, Any]) -> str:
    """An array's bytes, little endian, as text."""
    return base64.b64encode(values.tobytes()).decode()


def thumbnails(weights: Tensor, side: int) -> Plain:
    """Each head's map as bytes from 0 to 255, the largest of each tile, at most `side` a side."""
    small = torch.nn.functional.adaptive_max_pool2d(
        weights.float(), (min(side, weights.shape[-2]), min(side, weights.shape[-1]))
    )
    shades = (small.clamp(0, 1) * 255).round().to(torch.uint8).cpu().numpy()
    return {
        "shape": list(shades.shape),
        "data": packed(shades),
        "pooled": tuple(small.shape[-2:]) != tuple(weights.shape[-2:]),
    }


def finite(value: float) -> float | str:
    """A number, or its name if JSON has no number for it."""
    return value if math.isfinite(value) else str(value)


def with_messages(answer: Plain) -> Plain:
    """An answer with a list of its messages: the path of each, its key and its values.

    The answer itself has them in English; the page shows them in the language of its reader.
    """
    messages_inside = list(_find_messages(answer, ()))
    return answer | {"messages": messages_inside} if messages_inside else answer


def text_of(error: Exception) -> str:
    """What an error says: a message if it was raised with one."""
    return error.args[0] if error.args and isinstance(error.args[0], Message) else str(error)


def _find_messages(tree: Any, path: tuple[str | int, ...]) -> Iterator[list[Any]]:
    if isinstance(tree, Message):
        yield [list(path), *_plain_message(tree)]
    elif isinstance(tree, dict):
        for key, value in tree.items():  # pyright: ignore[reportUnknownVariableType]
            yield from _find_messages(value, (*path, str(key)))  # pyright: ignore[reportUnknownArgumentType]
    elif isinstance(tree, list | tuple):
        for place, value in enumerate(tree):  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
            yield from _find_messages(value, (*path, place))


def _plain_message(text: Message) -> list[Any]:
    values = {
        name: _plain_message(value)
        if isinstance(value, Message)
        else (finite(value) if isinstance(value, float) else value)
        for name, value in text.values.items()
    }
    return [text.key, values]


def _receipt(receipt: Receipt) -> Plain:
    line = format_receipt(receipt)
    return {
        "title": receipt.title,
        "formula": receipt.formula,
        "expression": _finite_tree(to_plain(receipt.expression)),
        "spelled": line.operands,
        "digits": line.digits,
        "places": line.places,
        "model": finite(receipt.model),
        "tolerance": receipt.tolerance,
        "address": receipt.address,
        "source": receipt.source,
        "dtype": receipt.dtype,
    }


def _finite_tree(tree: Any) -> Any:
    """A tree whose numbers are all `finite`."""
    if isinstance(tree, dict):
        return {key: _finite_tree(value) for key, value in tree.items()}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(tree, list):
        return [_finite_tree(value) for value in tree]  # pyright: ignore[reportUnknownVariableType]
    return finite(tree) if isinstance(tree, float) else tree


def picture_payload(picture: Picture, notes: list[str]) -> Plain:
    """A picture as JSON; a note joins `notes` if it is too large to be sent whole."""
    if isinstance(picture, Matrix):
        return _matrix(picture)
    if isinstance(picture, Film):
        return _film(picture)
    if isinstance(picture, Frames):
        plain_fields = asdict(picture)
        return plain_fields | {"frames": packed(np.array(picture.frames, dtype=np.uint8))}
    table: Plain = _finite_tree(asdict(picture))
    for key in ("rows", "names"):
        rows: Sequence[Any] = table.get(key, ())
        if len(rows) > _MOST_ROWS and picture.kind != "lines":
            text = message("first-rows", title=picture.title, most=_MOST_ROWS, n=len(rows))
            notes.append(text)
            table[key] = rows[:_MOST_ROWS]
            if "values" in table:
                table["values"] = table["values"][:_MOST_ROWS]
    return table


def _film(picture: Film) -> Plain:
    """Numbers as float32: curve after curve, rung after rung; NaN means none."""
    rungs = [rung for snapshot in picture.rungs for rung in snapshot]
    numbers = [[math.nan if x is None else x for x in rung[1:]] for rung in rungs]
    words = list(dict.fromkeys(rung[0] for rung in rungs))
    return {
        "kind": "film",
        "title": picture.title,
        "steps": list(picture.steps),
        "names": list(picture.names),
        "curves": packed(np.array(picture.curves, dtype="<f4")),
        "chosen": picture.chosen,
        "losses": packed(np.array(picture.losses, dtype="<f4")),
        "layers": list(picture.layers),
        "words": words,
        "says": [words.index(rung[0]) for rung in rungs],
        "rungs": packed(np.array(numbers, dtype="<f4")),
    }


def _matrix(picture: Matrix) -> Plain:
    """float32 in row order; NaN is a value that a mask hides."""
    n_rows, n_columns = len(picture.rows), len(picture.columns)
    flat = [math.nan if value is None else value for row in picture.values for value in row]
    values = np.array(flat, dtype="<f4").reshape(n_rows, n_columns)
    rows, columns, pooled = list(picture.rows), list(picture.columns), picture.pooled
    address = picture.address
    if values.size > _MOST_CELLS:
        values, tall, wide = _largest_by_size(values)
        rows = [_stretch(rows, n * tall, tall) for n in range(values.shape[0])]
        columns = [_stretch(columns, n * wide, wide) for n in range(values.shape[1])]
        shape = {"tall": tall, "wide": wide, "rows": n_rows, "columns": n_columns}
        note = message("pooled-cells", **shape)
        pooled, address = message("both-notes", first=pooled, second=note) if pooled else note, ""
    return {
        "kind": "matrix",
        "title": picture.title,
        "rows": rows,
        "columns": columns,
        "data": packed(values),
        "scale": picture.scale,
        "first": [picture.first_row, picture.first_column],
        "patch": picture.patch,
        "address": address,
        "pooled": pooled,
    }


def _largest_by_size(
    values: np.ndarray[Any, Any],
) -> tuple[np.ndarray[Any, Any], int, int]:
    tall = wide = 1
    while math.ceil(values.shape[0] / tall) * math.ceil(values.shape[1] / wide) > _MOST_CELLS:
        if values.shape[0] / tall >= values.shape[1] / wide:
            tall += 1
        else:
            wide += 1
    shape = (math.ceil(values.shape[0] / tall) * tall, math.ceil(values.shape[1] / wide) * wide)
    padded = np.full(shape, np.nan, dtype="<f4")
    padded[: values.shape[0], : values.shape[1]] = values
    tiles = padded.reshape(shape[0] // tall, tall, shape[1] // wide, wide)
    tiles = tiles.transpose(0, 2, 1, 3).reshape(shape[0] // tall, shape[1] // wide, -1)
    largest = np.where(np.isnan(tiles), -1.0, np.abs(tiles)).argmax(-1)
    return np.take_along_axis(tiles, largest[..., None], -1)[..., 0], tall, wide


def _stretch(names: list[str], start: int, length: int) -> str:
    last = min(start + length, len(names)) - 1
    return names[start] if last == start else f"{names[start]}…{names[last]}"
