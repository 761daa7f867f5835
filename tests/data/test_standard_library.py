from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from pellucid.data import Document, standard_library_docs
from pellucid.data.standard_library import (
    TOPICS,
    documentation_under,
    drop_repeated,
    module_name,
    source_files,
)
from pellucid.errors import TextError


@pytest.fixture(scope="module")
def documents() -> list[Document]:
    return standard_library_docs()


def test_there_is_more_than_a_megabyte_of_text(documents: list[Document]) -> None:
    assert sum(len(document.text.encode()) for document in documents) > 1_000_000
    assert len(documents) > 300


def test_documents_are_sorted_modules_first_and_then_topics(documents: list[Document]) -> None:
    names = [document.name for document in documents]
    modules = [name for name in names if not name.startswith(TOPICS)]
    topics = [name for name in names if name.startswith(TOPICS)]
    assert modules == sorted(modules)
    assert topics == sorted(topics)
    assert names == modules + topics
    assert "textwrap.py" in modules
    assert f"{TOPICS}:lambda" in topics
    assert len(set(names)) == len(names)


def test_no_tests_and_nobody_elses_packages_are_read(documents: list[Document]) -> None:
    folders = {part for document in documents for part in Path(document.name).parts[:-1]}
    assert "json" in folders
    assert not folders & {"test", "tests", "idle_test", "site-packages", "lib-dynload"}


def test_text_reads_like_documentation(documents: list[Document]) -> None:
    texts = {document.name: document.text for document in documents}
    text = texts["textwrap.py"]
    assert text.startswith("module textwrap\n\nText wrapping and filling.")
    assert "class TextWrapper\n    Object for wrapping" in text
    assert "\nTextWrapper.wrap(text)\n" in text


def test_nothing_is_imported_and_the_text_is_the_same_in_every_process(
    documents: list[Document], tmp_path: Path
) -> None:
    script = """if True:
        import hashlib, json, sys
        from pathlib import Path
        from pellucid.data import standard_library_docs
        from pellucid.data.standard_library import documentation_under
        import sysconfig
        # what reading itself needs is loaded by reading one file
        sysconfig.get_paths()
        documentation_under(Path(sys.argv[1]))
        before = set(sys.modules)
        texts = "\\0".join(document.text for document in standard_library_docs())
        digest = hashlib.sha256(texts.encode()).hexdigest()
        print(json.dumps([digest, sorted(set(sys.modules) - before)]))
    """
    small = written(tmp_path, small=f'def f(a):\n    """{LONG}"""\n')
    done = subprocess.run(
        [sys.executable, "-c", script, str(small)], capture_output=True, text=True, check=True
    )
    digest, imported = json.loads(done.stdout)
    texts = "\0".join(document.text for document in documents)
    assert digest == hashlib.sha256(texts.encode()).hexdigest()
    # codecs that a source file names in its first line are the reader's own
    assert [name for name in imported if not name.startswith("encodings.")] == []


def written(library: Path, **sources: str) -> Path:
    for name, source in sources.items():
        file = library / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(source, encoding="utf-8")
    return library


LONG = "A sentence that says something about what is done here. " * 5


def test_library_without_sources_is_refused_with_what_to_pass_instead(tmp_path: Path) -> None:
    written(tmp_path, bare="x = 1\n")
    with pytest.raises(TextError, match="no documented source file") as refusal:
        documentation_under(tmp_path)
    assert str(tmp_path) in str(refusal.value)
    assert "pellucid train PATH" in str(refusal.value)


def test_source_that_would_fail_when_run_or_parsed_does_no_harm(tmp_path: Path) -> None:
    written(
        tmp_path,
        raises=f'"""{LONG}"""\nraise SystemExit\n',
        broken='"""Broken."""\ndef (:\n',
        escape=f'r"""{LONG} once more"""\npattern = "\\d"\n',
    )
    names = [document.name for document in documentation_under(tmp_path)]
    assert names == ["escape.py", "raises.py"]


def test_docstring_that_occurs_twice_is_kept_where_it_comes_first(tmp_path: Path) -> None:
    written(tmp_path, a=f'"""{LONG}"""\n', b=f'"""{LONG}"""\n', c=f'"""Else. {LONG}"""\n')
    assert [document.name for document in documentation_under(tmp_path)] == ["a.py", "c.py"]


def test_definitions_are_headed_as_the_manual_writes_them(tmp_path: Path) -> None:
    source = f'''"""{LONG}"""
class Outer:
    """An outer class."""
    def method(self, a: int, *, b: str = "x") -> None:
        """Does something."""
    @classmethod
    def make(cls):
        """Makes one."""
if True:
    async def wait(*args, **options):
        """Waits."""
'''
    (document,) = documentation_under(written(tmp_path, module=source))
    headings = [part.split("\n")[0] for part in document.text.split("\n\n")[2:]]
    assert headings == [
        "class Outer",
        "Outer.method(a, *, b='x')",
        "Outer.make()",
        "wait(*args, **options)",
    ]


@pytest.mark.parametrize(
    ("path", "name"),
    [("json/__init__.py", "json"), ("json/decoder.py", "json.decoder"), ("ast.py", "ast")],
)
def test_modules_are_named_as_they_are_imported(path: str, name: str) -> None:
    assert module_name(path) == name


def test_a_docstring_that_was_there_before_is_left_out() -> None:
    known_texts: set[str] = set()
    assert drop_repeated("It adds.", known_texts) == "It adds."
    assert drop_repeated("It adds.", known_texts) == ""
    assert drop_repeated(None, known_texts) == ""


def test_installed_packages_are_no_part_of_the_library(tmp_path: Path) -> None:
    for name in ("json/decoder.py", "site-packages/other/module.py", "config-3.11/extra.py"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).touch()
    assert source_files(tmp_path) == ["json/decoder.py"]
