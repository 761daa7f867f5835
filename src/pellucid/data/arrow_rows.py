"""Rows of Arrow files, and the folders of them that the library `datasets` saves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, cast

from pellucid.errors import TextError
from pellucid.extras import import_extra
from pellucid.reader import read_json_table, short

#: The files that `save_to_disk` writes next to its Arrow files.
_STATE, _SPLITS = "state.json", "dataset_dict.json"
#: The first bytes of an Arrow file; a stream, which `datasets` writes, has none.
_MAGIC = b"ARROW1"
#: Rows in memory at a time.
_ROWS = 256


def read_arrow(name: str, stream: BinaryIO) -> Iterator[tuple[int, Mapping[str, object]]]:
    """The number of each row, from 1, and its values by column.

    Args:
        name: the name of the file in messages.
        stream: its bytes.

    Raises:
        TextError: it is damaged.
        LibraryError: pyarrow is not installed.
    """
    arrow: Any = import_extra("parquet", "pyarrow")
    number = 0
    try:
        for batch in _batches(arrow, stream):
            for first in range(0, batch.num_rows, _ROWS):
                rows = batch.slice(first, _ROWS).to_pylist()
                for values in cast("list[dict[str, object]]", rows):
                    number += 1
                    yield number, values
    except UnicodeDecodeError as error:
        raise not_utf8(name, number, error) from None
    except (arrow.ArrowException, OSError) as error:
        raise TextError(
            f"{name}, after row {number}: is not a whole Arrow file ({error}): make it again"
        ) from None


def not_utf8(name: str, number: int, error: UnicodeDecodeError) -> TextError:
    """The refusal of a text that is not UTF-8.

    Args:
        name: of the file.
        number: of the last row before it.
        error: what the library said.
    """
    return TextError(
        f"{name}: a text after row {number} is not UTF-8 ({error}): correct it where you make the "
        "file"
    )


def _batches(arrow: Any, stream: BinaryIO) -> Iterator[Any]:
    is_file = stream.read(len(_MAGIC)) == _MAGIC
    stream.seek(0)
    if not is_file:
        yield from arrow.ipc.open_stream(stream)
        return
    file = arrow.ipc.open_file(stream)
    for number in range(file.num_record_batches):
        yield file.get_batch(number)


def saved_dataset(folder: Path) -> list[Path] | None:
    """The Arrow files of a folder that `datasets` saved, in order; None if it is no such folder.

    Args:
        folder: the folder of a dataset, or of one with splits.

    Raises:
        TextError: it has several splits, a file is missing, or its rows have another order than
            their file.
    """
    if (folder / _SPLITS).is_file():
        splits = _names(read_json_table(folder / _SPLITS, refusal=TextError).get("splits"))
        if len(splits) != 1:
            choices = ", ".join(str(folder / split) for split in splits) or "none"
            raise TextError(
                f"{folder} is a dataset with {len(splits)} splits: choose one of them: {choices}"
            )
        return saved_dataset(folder / splits[0])
    if not (folder / _STATE).is_file() or not any(folder.glob("*.arrow")):
        return None
    state = read_json_table(folder / _STATE, refusal=TextError)
    if state.get("_indices_data_files"):
        raise TextError(
            f"{folder} is a selection of rows, saved by an old version of datasets: open it there "
            "and save it again with flatten_indices()"
        )
    entries = cast("list[object]", state.get("_data_files") or [])
    names = _names([cast("Any", e).get("filename") for e in entries if isinstance(e, dict)])
    files = [folder / name for name in names]
    for file in files:
        if file.parent != folder or not file.is_file():
            raise TextError(
                f"{folder / _STATE} names {short(file.name)}, which is not in the folder: save the "
                "dataset again"
            )
    if not files:
        raise TextError(f"{folder / _STATE} names no data files: save the dataset again")
    return files


def _names(values: object) -> list[str]:
    return [value for value in cast("list[object]", values or []) if isinstance(value, str)]
