"""A calibration text is refused in words where nothing can be made of it."""

from __future__ import annotations

from pathlib import Path

import pytest

import pellucid
from pellucid.cli import main
from pellucid.errors import ConfigError, PellucidError, TextError
from support.published import write


@pytest.fixture
def text(tmp_path: Path) -> str:
    file = tmp_path / "text.txt"
    file.write_text("the cat sat on the mat. " * 20, encoding="utf-8")
    return str(file)


@pytest.mark.parametrize("packed", [True, False])
def test_what_makes_no_sense_is_refused(packed: bool, text: str, tmp_path: Path) -> None:
    write(tmp_path / "llama", "llama")
    with pytest.raises(ConfigError, match="is for weights int4, and weights was 'int8'"):
        pellucid.load(tmp_path / "llama", weights="int8", packed=packed, calibrate=[text])
    short = tmp_path / "short.txt"
    short.write_text("short", encoding="utf-8")
    with pytest.raises(TextError, match="has 7 tokens; the widest matrix of this model has 24"):
        pellucid.load(tmp_path / "llama", weights="int4", packed=packed, calibrate=[str(short)])
    for family, reason in (("bert", "encoder: it sees"), ("t5", "encoder-decoder: what it writes")):
        write(tmp_path / family, family)
        with pytest.raises(PellucidError, match=reason):
            pellucid.load(tmp_path / family, weights="int4", packed=packed, calibrate=[text])
    for file in (tmp_path / "llama").glob("tokenizer*"):
        file.unlink()
    with pytest.raises(TextError, match="so no calibration text can be read"):
        pellucid.load(tmp_path / "llama", weights="int4", packed=packed, calibrate=[text])


@pytest.mark.parametrize(
    ("verb", "words"), [("generate", ["a"]), ("chat", []), ("evaluate", []), ("serve", [])]
)
def test_commands_pass_the_text_on(
    verb: str, words: list[str], text: str, trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([verb, str(trained), *words, "--weights", "int8", "--calibrate", text]) == 2
    assert "a calibration text is for weights int4" in " ".join(capsys.readouterr().err.split())
