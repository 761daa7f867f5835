"""`pellucid tokenizer`: what it prints is what the tokenizer does, in 80 columns."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tokenizers.pre_tokenizers import ByteLevel

from pellucid.cli import main
from pellucid.tokenizers import Tokenizer, train_bytes
from support.tiny import train_tiny

TEXT = "The cat sat on the mat; the dog, too.\nThe  cats sit on lower mats.\n" * 12


@pytest.fixture
def page(tmp_path: Path) -> str:
    (tmp_path / "page.txt").write_text(TEXT + "Zebra!", encoding="utf-8")
    return str(tmp_path / "page.txt")


@pytest.mark.parametrize("kind", ["bytes", "characters", "words", "byte-pairs", "wordpiece"])
def test_trained_tokenizer_is_the_one_that_is_reported(
    kind: str, page: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(tmp_path / "t.json")
    words = ["tokenizer", "train", page, "--kind", kind, "--vocab-size", "270", "--out", file]
    assert main([*words, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    tokenizer = Tokenizer.load(Path(file))
    assert report["sha256"] == tokenizer.sha256
    assert report["tokens"] == len(tokenizer.encode(Path(page).read_text("utf-8")))
    assert main(words) == 2
    assert "is there already: name another file" in " ".join(capsys.readouterr().err.split())


def test_show_gives_ids_bytes_and_merges(
    page: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(tmp_path / "t.json")
    assert main(["tokenizer", "train", page, "--vocab-size", "300", "--out", file]) == 0
    capsys.readouterr()
    text = "The cat é"
    assert main(["tokenizer", "show", text, "--tokenizer", file, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    raw = bytes.fromhex("".join(token["bytes"] for token in report["tokens"]))
    assert raw.decode() == report["decoded"] == text
    assert report["round_trip"]
    assert report["merges"][0]["steps"][-1]["symbols"] == ["The"]
    assert main(["tokenizer", "show", text, "--tokenizer", file]) == 0
    printed = capsys.readouterr().out
    assert "54 68 65" in printed
    assert max(map(len, printed.splitlines())) <= 80


def test_show_reads_the_tokenizer_of_a_run(
    trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tokenizer", "show", "hé", "--tokenizer", str(trained), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [token["bytes"] for token in report["tokens"]] == ["68", "c3", "a9"]


def test_show_says_what_does_not_come_back(
    page: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(tmp_path / "t.json")
    words = ["--kind", "wordpiece", "--vocab-size", "90", "--lowercase", "--out", file]
    assert main(["tokenizer", "train", page, *words]) == 0
    assert main(["tokenizer", "show", "The  cat ж", "--tokenizer", file]) == 0
    printed = capsys.readouterr().out
    assert "changed by a round trip: 'the cat'" in printed
    assert "unknown" in printed


def test_compare_marks_what_cannot_be_compared(
    page: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tokenizer", "compare", page, "--vocab-size", "300", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    comparable = {kind for kind, row in rows.items() if row["bits_per_byte_comparable"]}
    assert {"bytes", "byte-pairs"} <= comparable
    assert not {"words", "wordpiece"} & comparable  # Zebra; white space
    assert rows["bytes"]["bytes_per_token"] == 1
    assert rows["byte-pairs"]["tokens"] < rows["bytes"]["tokens"]
    assert rows["words"]["unknown"] > 0
    assert main(["tokenizer", "compare", page, "--vocab-size", "300"]) == 0
    printed = capsys.readouterr().out
    assert "lower-cased" in printed
    assert max(map(len, printed.splitlines())) <= 80


def test_vocabulary_that_is_too_small_is_refused(
    page: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tokenizer", "train", page, "--vocab-size", "5", "--out", "never.json"]) == 2
    assert "vocab_size" in capsys.readouterr().err


BERT = """
[PAD] [UNK] [CLS] [SEP]
the cat sat on mat dog too s low ##er ##s ; , . !
"""


@pytest.fixture
def foreign(tmp_path: Path) -> list[str]:
    """A vocab.txt of BERT, a tokenizer.json of bytes, and GPT-2's pair of files."""
    (tmp_path / "vocab.txt").write_text("\n".join(BERT.split()), encoding="utf-8")
    train_bytes().save(tmp_path / "bytes.json")
    pair = tmp_path / "gpt2"
    pair.mkdir()
    alphabet = sorted(ByteLevel.alphabet())
    tokens = [*alphabet, "th", "the", "<|endoftext|>"]
    (pair / "encoder.json").write_text(json.dumps({token: i for i, token in enumerate(tokens)}))
    (pair / "vocab.bpe").write_text("#version: 0.2\nt h\nth e\n", encoding="utf-8")
    return [str(tmp_path / "vocab.txt"), str(tmp_path / "bytes.json"), str(pair)]


def test_compare_takes_tokenizers_from_elsewhere_and_marks_them_too(
    foreign: list[str], page: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["tokenizer", "compare", page, "--vocab-size", "300"]
    words += [word for path in foreign for word in ("--with", path)]
    assert main([*words, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    bert, own_bytes, gpt2 = (rows[path] for path in foreign)
    assert own_bytes == rows["bytes"] | {"trained_here": False}
    assert rows["bytes"]["trained_here"]
    assert gpt2["bits_per_byte_comparable"]
    assert gpt2["vocab_size"] == 259
    assert rows["byte-pairs"]["tokens"] < gpt2["tokens"] < own_bytes["tokens"]
    assert not bert["bits_per_byte_comparable"]
    assert bert["unknown"] > 0
    assert bert["lowercased"]
    assert main(words) == 0
    printed = capsys.readouterr().out
    assert any(
        line.startswith("file 1 ") and line.endswith("unknown, lower-cased")
        for line in printed.splitlines()
    )
    for number, path in enumerate(foreign, 1):
        assert f"file {number}  {path}" in printed
    assert max(len(line) for line in printed.splitlines() if "/" not in line) <= 80


def test_compare_refuses_a_tokenizer_that_is_none_before_it_reads_anything(
    page: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "t.json").write_text("[]")
    for path in (str(tmp_path / "t.json"), "no/such/file"):
        assert main(["tokenizer", "compare", "no text either", "--with", path]) == 2
        assert path in "".join(capsys.readouterr().err.split()).replace("error:", "")


@pytest.mark.parametrize("action", ["train", "compare"])
def test_rows_of_a_table_are_taken_as_in_training(
    action: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table, file = tmp_path / "a.jsonl", tmp_path / "t.json"
    rows = (json.dumps({"id": i, "text": f"{TEXT[i:]}"}) for i in range(20))
    table.write_text("\n".join(rows), encoding="utf-8")
    words = ["tokenizer", action, str(table), "--vocab-size", "270"]
    words += ["--out", str(file)] if action == "train" else []
    assert main(words) == 2
    assert "--field" in capsys.readouterr().err
    assert main([*words, "--field", "text", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    measured = report if action == "train" else report["byte-pairs"]
    assert measured["documents"] == (20 if action == "train" else 2)


def test_bytes_of_a_piece_that_goes_on_a_word_are_those_of_the_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nca\n##t\n", encoding="utf-8")
    assert main(["tokenizer", "show", "cat", "--tokenizer", str(vocabulary), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [token["token"] for token in report["tokens"]] == ["ca", "##t"]
    assert [token["bytes"] for token in report["tokens"]] == ["63 61", "74"]


def test_score_says_that_the_tokenizer_changed_the_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kind = 'text.tokenizer={kind = "WordPiece", vocab_size = 60, lowercase = false}'
    train_tiny(tmp_path / "run", steps=1, settings=[kind])
    words = ["score", str(tmp_path / "run")]
    for text, is_changed in (("the cat", False), ("the  cat", True)):
        capsys.readouterr()
        assert main([*words, text, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["changed"] is is_changed
        assert main([*words, text]) == 0
        assert ("does not come back" in capsys.readouterr().out) is is_changed
