"""A Hugging Face directory without a tokenizer: work on ids is possible, and text is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import pellucid
from pellucid import runs
from pellucid.cli import main
from pellucid.diagnosis import check
from pellucid.errors import TextError
from pellucid.explain import read_sentence
from pellucid.vitals import watch
from support.published import VOCAB, write

IDS = [3, 1, 4, 1, 5, 9, 2, 6]


def directory(folder: Path, family: str = "llama", **extra: Any) -> Path:
    write(folder, family, **extra)
    for file in ("tokenizer.json", "tokenizer_config.json"):
        (folder / file).unlink()
    return folder


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return directory(tmp_path_factory.mktemp("place") / "dir")


def message(capsys: pytest.CaptureFixture[str]) -> str:
    return " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("family", ["llama", "bert", "t5"])
def test_a_directory_without_a_tokenizer_is_loaded(family: str, tmp_path: Path) -> None:
    run = pellucid.load(directory(tmp_path / "dir", family))
    assert run.tokenizer is None
    model, tokenizer = run
    assert model is run.model
    assert tokenizer is None


def test_the_model_is_that_with_a_tokenizer(tmp_path: Path) -> None:
    model = write(tmp_path / "with")
    run = pellucid.load(directory(tmp_path / "without"))
    ids = torch.tensor([IDS])
    assert torch.equal(run.model(ids), model(ids))


@pytest.mark.parametrize(
    "ids",
    [
        IDS,
        tuple(IDS),
        torch.tensor(IDS),
        torch.tensor([IDS]),
        np.array(IDS),
        np.array([IDS]),
        [IDS],
    ],
    ids=["list", "tuple", "tensor", "batch", "array", "array of one", "rows"],
)
def test_ids_are_traced_by_place_and_by_name(ids: Any, place: Path) -> None:
    run = pellucid.load(place)
    by_place, by_name = pellucid.trace(run, ids), pellucid.trace(run, ids=ids)
    bare = pellucid.trace(run.model, ids)
    assert by_place.ids.tolist() == IDS
    assert torch.equal(by_place["logits"], by_name["logits"])
    assert torch.equal(by_place["logits"], bare["logits"])
    assert torch.equal(by_place["logits"], run.model(torch.tensor([IDS]))[0])
    assert by_place.pieces("decoder") == tuple(map(str, IDS))
    assert by_place.receipt("logits[2, 7]").agrees


def test_ids_of_both_texts_are_traced(tmp_path: Path) -> None:
    run = pellucid.load(directory(tmp_path / "dir", "t5"))
    trace = pellucid.trace(run, [0, 7, 8], source_ids=IDS)
    assert trace.ids.tolist() == [0, 7, 8]
    assert trace.pieces("encoder") == tuple(map(str, IDS))


@pytest.mark.parametrize(
    ("ids", "said"),
    [
        ([], "ids of one text"),
        ([[]], "at least one"),
        ([[1, 2], [3]], "was 2 texts"),
        ([1.5], "whole numbers"),
        ([True], "whole numbers"),
        ([VOCAB], f"between 0 and {VOCAB - 1}"),
        ([-1], "one is -1"),
        ([2**70], "whole numbers"),
        (torch.ones(2, 2, 2, dtype=torch.long), "ids of one text"),
        ([0] * 33, "reads at most 32"),
    ],
)
def test_ids_that_are_none_are_refused(ids: Any, said: str, place: Path) -> None:
    run = pellucid.load(place)
    with pytest.raises(TextError, match=said):
        pellucid.trace(run, ids)


def test_a_sentence_and_ids_are_refused_together(place: Path) -> None:
    run = pellucid.load(place)
    with pytest.raises(pellucid.PellucidError, match="both given"):
        pellucid.trace(run, "a text", ids=IDS)
    with pytest.raises(pellucid.PellucidError, match="target was given with ids"):
        pellucid.trace(run, ids=IDS, target="a text")


def test_ids_are_evaluated_as_the_mean_of_their_surprisals(place: Path) -> None:
    run = pellucid.load(place)
    result = pellucid.evaluate(run, ids=IDS)
    assert result.loss_nats == pytest.approx(float(pellucid.trace(run, IDS)["loss"]))
    assert (result.tokens, result.n_bytes, result.bits_per_byte) == (7, None, None)
    assert not result.comparable
    assert pellucid.evaluate(run, torch.tensor(IDS)).loss_nats == result.loss_nats


def test_texts_of_ids_do_not_see_each_other(place: Path) -> None:
    run = pellucid.load(place)
    evaluation = pellucid.evaluate(run, [IDS, [7, 8]])
    single_losses = [float(pellucid.trace(run, ids)["surprisal"].sum()) for ids in (IDS, [7, 8])]
    assert evaluation.tokens == 8
    assert evaluation.loss_nats == pytest.approx(sum(single_losses) / 8)


def test_ids_longer_than_the_context_are_evaluated_in_windows(place: Path) -> None:
    result = pellucid.evaluate(pellucid.load(place), [n % VOCAB for n in range(100)])
    assert result.tokens == 99


def test_each_token_is_read_with_its_probability(place: Path) -> None:
    run = pellucid.load(place)
    reading = read_sentence(run, IDS)
    assert [token.token for token in reading.tokens] == [str(i) for i in IDS[1:]]
    surprisal = pellucid.trace(run, IDS)["surprisal"]
    assert [token.probability for token in reading.tokens] == pytest.approx(
        (-surprisal).exp().tolist()
    )


def test_check_and_watch_work(place: Path) -> None:
    run = pellucid.load(place)
    codes = {finding.code for finding in check(run.model, torch.tensor([IDS]))}
    assert not {code for code in codes if code.startswith("SEE")}
    optimiser = torch.optim.SGD(run.model.parameters(), lr=1e-3)
    with watch(run.model, optimiser) as watched:
        ids = torch.tensor([IDS])
        loss = torch.nn.functional.cross_entropy(run.model(ids[:, :-1])[0], ids[0, 1:])
        loss.backward()
        optimiser.step()
        watched.step(loss)
    assert not watched.guard.off


TEXT_ONLY = {
    "generate": ["--prompt", "a"],
    "score": ["a"],
    "explain": ["a"],
    "evaluate": ["text.txt"],
    "check": ["text.txt"],
    "embed": ["a"],
    "answer": ["a"],
}


@pytest.mark.parametrize("verb", TEXT_ONLY)
def test_what_needs_text_says_what_is_missing_where_and_what_to_do(
    verb: str, place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place.parent)
    Path("text.txt").write_text("some words " * 50)
    assert main([verb, str(place), *TEXT_ONLY[verb]]) == 2
    message_text = message(capsys)
    assert f"the folder {place} holds no tokenizer: expected tokenizer.json" in message_text
    assert "--tokenizer PATH" in message_text
    assert "pellucid.trace(run, ids)" in message_text


def test_other_families_refuse_text_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for family, verb in (("bert", "fill"), ("t5", "translate")):
        folder = directory(tmp_path / family, family)
        assert main([verb, str(folder), "some [MASK]"]) == 2
        assert "holds no tokenizer" in message(capsys)


def test_serving_is_refused_before_the_server_starts(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", str(place)]) == 2
    assert "holds no tokenizer" in message(capsys)


def test_importing_and_training_need_a_tokenizer(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(place.parent / "run")
    assert main(["import", str(place), folder]) == 2
    assert "holds no tokenizer" in message(capsys)
    text = place.parent / "text.txt"
    text.write_text("some words " * 500)
    assert main(["train", "--from", str(place), str(text), "--out", folder]) == 2
    assert "holds no tokenizer" in message(capsys)
    assert not Path(folder).exists()


def test_commands_take_ids(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = pellucid.load(place)
    file = place.parent / "ids.txt"
    file.write_text("3 1 4 1 5 9 2 6\n\n7,8\n")
    assert main(["evaluate", str(place), str(file), "--ids", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["loss_nats"] == pytest.approx(runs.evaluate(run, [IDS, [7, 8]]).loss_nats)
    assert result["bits_per_byte"] is None
    file.write_text("[[3, 1, 4, 1, 5, 9, 2, 6],\n [7, 8]]")
    assert main(["evaluate", str(place), str(file), "--ids"]) == 0
    assert "over        8 tokens" in capsys.readouterr().out
    assert main(["explain", str(place), "3 1 4 1 5 9 2 6", "--ids"]) == 0
    assert "'9'" in capsys.readouterr().out
    assert main(["explain", str(place), "[3, 1, 4]", "--ids", "--chapter", "tokens"]) == 0
    assert "the pieces are the ids themselves" in capsys.readouterr().out
    file.write_text("\n".join(["3 1 4 1 5 9 2 6"] * 40))
    assert main(["check", str(place), str(file), "--ids"]) == 0
    assert f"tokens of {file}" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["explain", "DIR", "a b", "--ids"], "one is 'a'"),
        (["explain", "DIR", "3 999", "--ids"], f"between 0 and {VOCAB - 1}"),
        (["explain", "DIR", "", "--ids"], "there is none"),
        (["explain", "DIR", "3 4", "--ids", "--target", "5"], "--target is for an encoder-decoder"),
        (["explain", "DIR", "3 4", "--ids", "--html", "x.html"], "for the terminal"),
        (["evaluate", "DIR", "--ids"], "must name files"),
        (["evaluate", "DIR", "one.txt", "--ids"], "at least two tokens"),
        (["evaluate", "DIR", "bad.json", "--ids"], "whole numbers"),
        (["check", "nano", "one.txt", "--ids"], "has no weights yet"),
        (["check", "DIR", "--ids"], "must name files"),
    ],
)
def test_ids_on_the_command_line_are_refused_in_words(
    words: list[str],
    said: str,
    place: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(place.parent)
    Path("one.txt").write_text("3\n4\n")
    Path("bad.json").write_text('[["a"], [3, 4]]')
    assert main([str(place) if word == "DIR" else word for word in words]) == 2
    assert said in message(capsys)


def test_an_encoder_decoder_explains_ids_of_both_texts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = directory(tmp_path / "dir", "t5")
    assert main(["explain", str(folder), "3 1 4", "--ids"]) == 2
    assert "--target too" in message(capsys)
    assert main(["explain", str(folder), "3 1 4", "--ids", "--target", "0 7"]) == 0
    assert "7" in capsys.readouterr().out
