"""The explanation shows the numbers that the model computes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import pellucid
from pellucid.cli import main
from pellucid.explain import read_sentence
from pellucid.explain.chapters import CHAPTERS


def test_every_number_equals_the_models_own(trained: Path) -> None:
    run = pellucid.load(trained)
    reading = read_sentence(run, "the fox")
    ids = torch.tensor([[run.tokenizer.begin_id, *run.tokenizer.encode("the fox")]])
    shares = run.model(ids)[0].softmax(-1)
    for place, token in enumerate(reading.tokens):
        assert token.probability == pytest.approx(shares[place, ids[0, place + 1]].item(), rel=1e-5)
        assert 2**-token.surprisal_bits == pytest.approx(token.probability)
        best = shares[place].max().item()
        assert token.expected[0][1] == pytest.approx(best, rel=1e-5)
    assert reading.follows[0][1] == pytest.approx(shares[-1].max().item(), rel=1e-5)
    assert "".join(token.token for token in reading.tokens) == "the fox"
    assert reading.bits == pytest.approx(sum(t.surprisal_bits for t in reading.tokens))


def test_a_sentence_that_cannot_be_read_is_refused(trained: Path) -> None:
    run = pellucid.load(trained)
    with pytest.raises(pellucid.PellucidError, match="empty"):
        read_sentence(run, "")
    with pytest.raises(pellucid.PellucidError, match=r"101 tokens.* at most 16"):
        read_sentence(run, "x" * 100)


def test_the_command_prints_it_in_eighty_columns(
    trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", str(trained), "the fox\n日本"]) == 0
    printed = capsys.readouterr().out
    assert len(printed.splitlines()) == 1 + 14 + 1 + 2 + 2 + len(CHAPTERS)
    assert max(map(len, printed.splitlines())) <= 80
    assert main(["explain", str(trained), "the fox", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["tokens"]) == 7
