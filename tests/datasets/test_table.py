"""The table says the truth where it can be checked, and nothing where it cannot."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest
from rich.filesize import decimal

from pellucid.datasets import DATASETS, address_of, find
from pellucid.errors import TextError


@pytest.mark.parametrize("name", DATASETS)
def test_each_dataset_says_all_there_is_to_say_before_it_is_loaded(name: str) -> None:
    dataset = DATASETS[name]
    assert dataset.description
    assert dataset.licence
    assert dataset.train in [part.name for part in dataset.parts]
    assert (dataset.field is not None) == dataset.train.endswith(".parquet")
    for part in dataset.parts:
        assert address_of(dataset, part).startswith("https://")
        # pinned to a commit: what lies there does not change
        assert re.search(r"/[0-9a-f]{40}/", address_of(dataset, part))
        assert part.sha256 is None or re.fullmatch("[0-9a-f]{64}", part.sha256)
        assert "/" not in part.name


def test_what_the_table_says_of_files_that_are_here_is_true(shared_data: Path) -> None:
    checked = 0
    for name, folder in (("tinyshakespeare", "tinyshakespeare"), ("wikitext-2", "wikitext-2")):
        for part in DATASETS[name].parts:
            file = shared_data / folder / part.name
            if file.exists():
                content = file.read_bytes()
                assert part.n_bytes == len(content)
                assert part.sha256 == hashlib.sha256(content).hexdigest()
                checked += 1
    assert checked == 3


def test_an_unknown_name_is_refused_with_those_there_are() -> None:
    with pytest.raises(TextError, match=r"did you mean 'tinystories'\? there are: tinyshakespeare"):
        find("tinystorys")


def test_a_mirror_has_the_files_under_their_published_paths() -> None:
    dataset = find("fineweb-edu")
    (part,) = dataset.parts
    published = address_of(dataset, part)
    mirrored = address_of(dataset, part, "https://example.org/hub/")
    assert mirrored == published.replace("https://huggingface.co", "https://example.org/hub")


@pytest.mark.parametrize("mirror", ["ftp://example.org", "file:///etc", "example.org", "http://"])
def test_a_mirror_that_is_no_web_address_is_refused(mirror: str) -> None:
    dataset = find("wikitext-2")
    with pytest.raises(TextError, match="is no address to download from"):
        address_of(dataset, dataset.parts[0], mirror)


def test_the_page_shows_the_table() -> None:
    page = (Path(__file__).parents[2] / "docs" / "datasets.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| `([\w-]+)` \|.*\| ([\d.]+ [MG]B) \|", page, re.M))
    assert rows == {name: decimal(dataset.n_bytes or 0) for name, dataset in DATASETS.items()}
