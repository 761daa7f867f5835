"""Arrow files, and the folders that the library `datasets` saves, are read as tables."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pellucid.data import documents_from
from pellucid.data.sources import tables_in
from pellucid.errors import TextError

arrow: Any = pytest.importorskip("pyarrow")


def write_arrow(file: Path, texts: list[str], make: Callable[..., Any] | None = None) -> None:
    """A file of three rows a batch; a stream unless `make` says otherwise."""
    table = arrow.table({"text": texts, "label": list(range(len(texts)))})
    with (make or arrow.ipc.new_stream)(str(file), table.schema) as writer:
        writer.write_table(table, max_chunksize=3)


def save_to_disk(folder: Path, shards: list[list[str]], **state: Any) -> Path:
    """What `datasets` writes, as its version 5.2.0 does."""
    folder.mkdir(parents=True)
    names = [f"data-{n:05}-of-{len(shards):05}.arrow" for n in range(len(shards))]
    for name, texts in zip(names, shards, strict=True):
        write_arrow(folder / name, texts)
    files = [{"filename": name} for name in names]
    (folder / "state.json").write_text(json.dumps({"_data_files": files, **state}))
    (folder / "dataset_info.json").write_text("{}")
    return folder


def texts_in(path: Path, field: str = "text") -> list[str]:
    return [document.text for document in documents_from([str(path)], field)]


@pytest.mark.parametrize("make", [arrow.ipc.new_stream, arrow.ipc.new_file])
def test_a_stream_and_a_file_give_their_rows_in_order(
    tmp_path: Path, make: Callable[..., Any]
) -> None:
    texts = [f"row {number}" for number in range(7)]
    write_arrow(tmp_path / "a.arrow", texts, make)
    assert texts_in(tmp_path / "a.arrow") == texts


def test_a_saved_dataset_is_read_shard_by_shard(tmp_path: Path) -> None:
    folder = save_to_disk(tmp_path / "saved", [["one", "two"], ["three"]])
    (folder / "cache-1234.arrow").write_bytes(b"what a map has left")
    assert texts_in(folder) == ["one", "two", "three"]
    assert [file.name[:10] for file in tables_in([folder])] == ["data-00000", "data-00001"]


def test_datasets_itself_writes_what_is_read(tmp_path: Path) -> None:
    library = pytest.importorskip("datasets")
    texts = [f"row {number}" for number in range(20)]
    shuffled = library.Dataset.from_dict({"text": texts}).shuffle(seed=1)
    shuffled.save_to_disk(str(tmp_path / "saved"), num_shards=2)
    assert texts_in(tmp_path / "saved") == list(shuffled["text"])


def test_one_split_is_read_and_of_several_you_choose(tmp_path: Path) -> None:
    for split in ("train", "test"):
        save_to_disk(tmp_path / "both" / split, [[split]])
    splits = tmp_path / "both" / "dataset_dict.json"
    splits.write_text(json.dumps({"splits": ["train", "test"]}))
    with pytest.raises(TextError, match=r"2 splits: choose one of them: .*both/train, .*both/test"):
        texts_in(tmp_path / "both")
    assert texts_in(tmp_path / "both" / "test") == ["test"]
    splits.write_text(json.dumps({"splits": ["train"]}))
    assert texts_in(tmp_path / "both") == ["train"]


def test_what_is_wrong_with_a_saved_dataset_is_told(tmp_path: Path) -> None:
    folder = save_to_disk(tmp_path / "saved", [["one"]])
    with pytest.raises(TextError, match="has no field 'body'; it has: 'text', 'label'"):
        texts_in(folder, "body")
    file = folder / "data-00000-of-00001.arrow"
    file.write_bytes(file.read_bytes()[:-100] + b"\xff" * 100)
    with pytest.raises(TextError, match=r"arrow, after row \d+: is not a whole Arrow file"):
        texts_in(folder)
    file.unlink()
    write_arrow(folder / "other.arrow", ["x"])
    with pytest.raises(TextError, match=r"names 'data-00000-of-00001.arrow', which is not in"):
        texts_in(folder)
    old = save_to_disk(tmp_path / "old", [["one"]], _indices_data_files=[{"filename": "i.arrow"}])
    with pytest.raises(TextError, match="flatten_indices"):
        texts_in(old)
    broken = save_to_disk(tmp_path / "away", [["one"]], _data_files=[{"filename": "../b.arrow"}])
    with pytest.raises(TextError, match="not in the folder"):
        texts_in(broken)
