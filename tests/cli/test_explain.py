"""`pellucid explain --chapter`: one screen each, for every kind of model; refusals in words."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import pellucid
from pellucid.cli import main
from pellucid.cli.output.chapter import ink_for
from pellucid.cli.output.pictures import ASCII, BLOCKS, WIDTH
from pellucid.explain.chapters import CHAPTERS
from support.kinds import write_bert_tokenizer, write_run

IDS = [entry.id for entry in CHAPTERS]


@pytest.fixture(scope="session")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A run of each kind, never trained."""
    folder = tmp_path_factory.mktemp("kinds")
    tokenizer = write_bert_tokenizer(folder / "tokenizer")
    names = (
        "decoder",
        "encoder",
        "encoder-decoder",
        "encoder with classes",
        "decoder without head",
    )
    return {name: write_run(folder / name, name, tokenizer) for name in names}


def test_without_a_chapter_the_table_is_followed_by_the_list(trained: Path, stdout_of: Any) -> None:
    lines = stdout_of("explain", trained, "the fox").splitlines()
    assert [line.split()[1] for line in lines[-len(IDS) :]] == IDS
    assert lines[0].split() == ["token", "p", "bits", "expected"]


@pytest.mark.parametrize("name", IDS)
def test_each_chapter_is_plain_text_of_eighty_columns(
    name: str, trained: Path, stdout_of: Any
) -> None:
    text = stdout_of(
        "explain", trained, "the fox\x1b", "--chapter", name, "--layer", 1, "--token", 4
    )
    assert max(map(len, text.splitlines())) <= WIDTH
    assert len(text.splitlines()) < 75
    assert not {character for character in text if ord(character) < 32} - {"\n"}
    assert text.startswith(f"{1 + IDS.index(name)} · ")
    assert "✓" in text or name in ("tokens", "compare")
    assert "differs" not in text


def test_the_numbers_of_a_map_are_those_of_the_trace(trained: Path, stdout_of: Any) -> None:
    text = stdout_of(
        "explain", trained, "the fox", "--chapter", "softmax", "--layer", 1, "--head", 1
    )
    trace = pellucid.trace(pellucid.load(trained), "the fox")
    rows = [line for line in text.splitlines() if line[:6].strip() == "4"]
    shown_percents = [int("".join(c for c in cell if c.isdigit())) for cell in cells(rows[0])]
    traced_percents = (trace["L1.H1.weights"][4] * 100).round().int().tolist()
    assert shown_percents == traced_percents[:5]
    assert "units of 0.01" in text


def cells(line: str) -> list[str]:
    """The cells of a row that are not hidden."""
    body = line[14:]
    return [body[i : i + 4] for i in range(0, len(body), 4) if "·" not in body[i : i + 4]]


def test_json_has_everything_and_the_tree_of_each_receipt(trained: Path, json_of: Any) -> None:
    chapter_json = json_of(
        "explain", trained, "the fox", "--chapter", "scores", "--token", 3, "--other", 1
    )
    (receipt,) = chapter_json["receipts"]
    assert receipt["agrees"]
    assert receipt["recomputed"] == pytest.approx(receipt["model"], abs=1e-5)
    assert receipt["address"] == "L0.H0.scores[3, 1]"
    assert receipt["expression"]["op"] == "mul"
    trace = pellucid.trace(pellucid.load(trained), "the fox")
    assert receipt["model"] == float(trace["L0.H0.scores"][3, 1])
    assert {picture["kind"] for picture in chapter_json["pictures"]} == {"matrix", "bars"}
    chapters = json_of("explain", trained, "the fox", "--all")
    assert [chapter["id"] for chapter in chapters] == IDS
    assert [c["id"] for c in json_of("explain", trained, "the fox")["chapters"]] == IDS


def test_all_chapters_come_one_after_another(trained: Path, stdout_of: Any) -> None:
    text = stdout_of("explain", trained, "the fox", "--all")
    assert text.startswith("1 · Why this word")
    assert text.count("-" * 80) == len(IDS) - 1


def test_a_head_is_taken_away_and_what_changes_is_said(
    trained: Path, stdout_of: Any, json_of: Any
) -> None:
    text = stdout_of("explain", trained, "the fox", "--ablate", "L1.H0", "--ablate", "L0.H1=0.5")
    assert "KL(before, after)" in text
    ablation = json_of("explain", trained, "the fox", "--ablate", "L1.H0")
    assert ablation["kl"] > 0
    mean = json_of("explain", trained, "the fox", "--ablate", "L1.H0=mean")
    assert 0 < mean["kl"] != ablation["kl"]
    unchanged = json_of("explain", trained, "the fox", "--ablate", "L1.H0=1")
    assert unchanged["kl"] == pytest.approx(0, abs=1e-12)
    assert unchanged["before"] == unchanged["after"]
    chapter = json_of(
        "explain", trained, "the fox", "--ablate", "L1.H0", "--chapter", "softmax", "--layer", 1
    )
    assert chapter["receipts"][-1]["model"] == 0


def test_an_encoder_is_read_where_a_word_is_masked(kinds: dict[str, Path], stdout_of: Any) -> None:
    sentence = "the cat sat on the [MASK] ."
    text = stdout_of("explain", kinds["encoder"], sentence, "--chapter", "probabilities")
    assert "At '[MASK]' (6)" in " ".join(text.split())
    assert "an encoder sees every token" in stdout_of(
        "explain", kinds["encoder"], sentence, "--chapter", "loss"
    ).lower().replace("\n ", "")
    assert "chapters, for --chapter" in stdout_of("explain", kinds["encoder"], sentence)
    printed = stdout_of("explain", kinds["encoder"], sentence, "--all", "--layer", 1)
    assert max(map(len, printed.splitlines())) <= WIDTH
    assert 'trace["E1.H0.scores"]' in printed


def test_an_encoder_decoder_shows_its_three_kinds_of_attention(
    kinds: dict[str, Path], stdout_of: Any, json_of: Any
) -> None:
    run, source = kinds["encoder-decoder"], "the cat sat"
    for words, address in (
        ((), "L0.H0.weights"),
        (("--stack", "encoder"), "E0.H0.weights"),
        (("--cross",), "L0.H0.cross.weights"),
    ):
        result = json_of(
            "explain", run, source, "--target", "a dog runs", "--chapter", "softmax", *words
        )
        assert result["pictures"][0]["address"] == address
        assert all(receipt["agrees"] for receipt in result["receipts"])
    loss = json_of("explain", run, source, "--target", "a dog runs", "--chapter", "loss")
    assert loss["pictures"][0]["pieces"] == ["a", "dog", "runs", "[SEP]"]
    assert "no target was given" in " ".join(stdout_of("explain", run, source).split())


def test_models_without_logits_show_what_there_is(kinds: dict[str, Path], stdout_of: Any) -> None:
    classes = stdout_of(
        "explain", kinds["encoder with classes"], "the cat", "--chapter", "probabilities"
    )
    assert "names the class of the whole text" in classes
    printed = stdout_of("explain", kinds["decoder without head"], "the cat", "--all")
    assert "probabilities: this model has no head" in printed
    assert "lens: this model has no head" in printed


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("  ",), "the sentence is empty"),
        (("x" * 99,), "100 tokens with its special tokens, but the model reads at most 16"),
        (("the", "--layer", "7"), "no layer 7 of the decoder: there are 2 layers, counted from 0"),
        (("the", "--head", "9"), "no head 9 of layer 0: there are 2 heads"),
        (("the", "--token", "50"), "no token 50: there are 4 tokens"),
        (("the", "--other", "50"), "no token 50 to look at"),
        (("the", "--chapter", "softmx"), "did you mean 'softmax'"),
        (("the", "--all", "--chapter", "loss"), "leave one of them out"),
        (("the", "--cross"), "only the decoder of an encoder-decoder looks at another text"),
        (("the", "--rejected", "fox"), "without the chosen one"),
        (("the", "--ablate", "L0.H9"), "no head 9"),
        (("the", "--ablate", "H9"), "names no head"),
        (("the", "--ablate", "L0.H0=x"), "is no number"),
        (("\udce6",), "is not UTF-8"),
    ],
)
def test_what_cannot_be_shown_is_refused_in_plain_words(
    words: tuple[str, ...], said: str, trained: Path, refused: Any
) -> None:
    chapter = () if "--chapter" in words or "--ablate" in words else ("--chapter", "scores")
    assert said in refused("explain", trained, *words, *chapter)


def test_characters_that_the_tokenizer_does_not_know_are_said(
    kinds: dict[str, Path], stdout_of: Any, refused: Any
) -> None:
    run = kinds["encoder"]
    text = stdout_of("explain", run, "the 日 sat", "--chapter", "tokens")
    assert "the tokenizer does not know '日': the model reads [UNK] in its place" in " ".join(
        text.split()
    )
    # the table of a decoder says it too
    table = stdout_of("explain", kinds["decoder"], "the 日 sat")
    assert "does not know '日'" in " ".join(table.split())
    assert "knows nothing in this sentence" in refused("explain", run, "日本", "--all")


def test_a_model_without_a_tokenizer_is_refused(
    kinds: dict[str, Path], tmp_path: Path, refused: Any
) -> None:
    import shutil

    copy = tmp_path / "run"
    shutil.copytree(kinds["encoder"], copy)
    (copy / "tokenizer.json").unlink()
    assert "tokenizer.json does not exist" in refused(
        "explain", copy, "the cat", "--chapter", "tokens"
    )


def test_where_blocks_cannot_be_spelled_there_is_ascii() -> None:
    assert ink_for("utf-8") is BLOCKS
    assert ink_for("ascii") is ASCII
    assert ink_for(None) is ASCII
    assert "".join(ASCII.shades + ASCII.steps).isascii()


def test_a_place_without_a_chapter_is_refused(
    trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", str(trained), "the fox", "--layer", "1"]) == 2
    assert "add --chapter NAME" in capsys.readouterr().err
    assert main(["explain", str(trained), "the fox", "--layer", "1", "--chapter", "norm"]) == 0


def test_colours_only_where_a_terminal_has_them(
    trained: Path, stdout_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("explain", trained, "the fox", "--chapter", "softmax")
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    plain = stdout_of(*words)
    assert "\x1b" not in plain
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("FORCE_COLOR", "1")
    coloured = stdout_of(*words)
    assert "\x1b[32m✓" in coloured
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == plain
    monkeypatch.setenv("NO_COLOR", "1")
    assert stdout_of(*words) == plain
