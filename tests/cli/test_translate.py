"""`pellucid translate`: its output, its refusals, and the commands that a run names at its end."""

from __future__ import annotations

import argparse
import io
import sys
from pathlib import Path
from typing import Any

import pytest

import pellucid
from pellucid import runs
from pellucid.cli.output.train_summary import TrainSummary, print_summary
from pellucid.training import Sampled
from support.pairs import TINY_PAIR, train_pairs, words, write_pairs
from support.tiny import train_tiny, write_text


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> runs.Run:
    place = tmp_path_factory.mktemp("pairs")
    file = write_pairs(place / "pairs.tsv", [(word, word[::-1]) for word in words(120)])
    return train_pairs(place / "run", file, steps=2)


def said_after(run: runs.Run, sentence: str, capsys: pytest.CaptureFixture[str]) -> str:
    result = TrainSummary()
    result(Sampled(step=1, sentence=sentence, next_tokens=(("a", 1.0),), continuation="b"))
    print_summary(argparse.Namespace(json=False), run, result)
    return capsys.readouterr().out


def test_one_text_comes_after_another(run: runs.Run, stdout_of: Any, json_of: Any) -> None:
    texts = ["abc", "de"]
    facts = json_of("translate", run.folder, *texts, "--beams", 2, "--max-new-tokens", 5)
    assert [translation["source"] for translation in facts] == texts
    lines = stdout_of("translate", run.folder, *texts, "--beams", 2, "--max-new-tokens", 5)
    for translation in facts:
        assert translation["best"][0]["text"] in lines


def test_a_text_may_come_through_a_pipe(
    run: runs.Run, json_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"abc"), encoding="utf-8"))
    (facts,) = json_of("translate", run.folder, "--max-new-tokens", 3)
    assert facts["source"] == "abc"


def test_what_cannot_be_translated_is_refused(run: runs.Run, tmp_path: Path, refused: Any) -> None:
    assert "context holds 8: pass fewer" in refused("translate", run.folder, "abcdefgh" * 3)
    assert "n_beams must be at least 1" in refused("translate", run.folder, "abc", "--beams", 0)
    assert "max_new_tokens" in refused("translate", run.folder, "abc", "--max-new-tokens", 0)
    train_tiny(tmp_path / "decoder", steps=1)
    message = refused("translate", tmp_path / "decoder", "abc")
    assert "is a run of a decoder" in message
    assert "--objective seq2seq" in message


def test_a_short_source_can_be_typed_and_a_page_of_text_is_not_shown(
    run: runs.Run, capsys: pytest.CaptureFixture[str]
) -> None:
    short = said_after(run, "it's here", capsys)
    assert f"pellucid translate {run.folder} 'it'\"'\"'s here'" in short
    long = said_after(run, "word " * 200, capsys)
    assert f"pellucid translate {run.folder} TEXT" in long
    assert max(map(len, long.splitlines())) < 200
    assert f"pellucid translate {run.folder} TEXT" in said_after(run, "two\nlines", capsys)


def test_spans_are_shown_by_their_names_and_lead_to_pairs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    samples: list[Sampled] = []
    run = pellucid.train(
        [write_text(tmp_path)],
        objective="span-corruption",
        out=tmp_path / "run",
        steps=1,
        settings=[*TINY_PAIR, "text.tokenizer=Bytes", "model.context_length=64"],
        observers=[lambda event: samples.append(event) if isinstance(event, Sampled) else None],
        show=False,
    )
    assert "<extra_id_0>" in samples[0].sentence
    assert len(samples[0].sentence) < 120
    printed = said_after(run, samples[0].sentence, capsys)
    assert f"pellucid train --objective seq2seq --from {run.folder} PATH" in printed
