"""Every command with every kind of model: it works, or it is refused in plain words."""

from __future__ import annotations

import io
import math
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pellucid
from pellucid.config import Files
from pellucid.errors import ConfigError
from pellucid.presets import find
from pellucid.runs import train_config
from support.kinds import KINDS, write_bert_tokenizer, write_run

SHORT = ("--max-new-tokens", "5")
MASKED = "the capital of france is [MASK]."
TEXTS = ("the cat sat on the mat.", "a dog runs home", "the cat sat")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("kinds")
    tokenizer = write_bert_tokenizer(place / "tokenizer")
    runs_by_kind = {kind: write_run(place / kind, kind, tokenizer) for kind in KINDS}
    maskless = write_bert_tokenizer(place / "maskless", masks=False)
    runs_by_kind["encoder without mask"] = write_run(place / "no mask", "encoder", maskless)
    (place / "text.txt").write_text(" ".join(TEXTS) * 40, encoding="utf-8")
    runs_by_kind["text"] = place / "text.txt"
    return runs_by_kind


# -- what a kind cannot do

DOES: dict[str, tuple[str, ...]] = {
    "generate": ("generate", "RUN", "the cat", *SHORT),
    "beams": ("generate", "RUN", "the cat", *SHORT, "--beams", "2"),
    "score": ("score", "RUN", "the cat"),
    "next": ("score", "RUN", "the cat", "--next"),
    "explain": ("explain", "RUN", "the cat"),
    "evaluate": ("evaluate", "RUN", "TEXT"),
    "fill": ("fill", "RUN", MASKED),
    "embed": ("embed", "RUN", "the cat"),
    "classify": ("classify", "RUN", "the cat"),
    "resume": ("train", "--resume", "RUN"),
    "verify": ("verify-resume", "RUN"),
    "report": ("report", "RUN"),
}
REFUSED: dict[str, dict[str, str]] = {
    "decoder": {
        "fill": "this model is a decoder: it writes from left to right and fills no masks",
        "resume": "cannot be continued",
        "verify": "cannot be continued",
        "report": "has recorded nothing yet",
    },
    "encoder": {
        "generate": "which reads a text as a whole and cannot generate one",
        "beams": "which reads a text as a whole and cannot generate one",
        "score": "gives no token a probability from those before it",
        "next": "gives no token a probability from those before it",
        "evaluate": "gives no token a probability from those before it",
        "resume": "objective NextToken trains a decoder with a language head",
        "verify": "cannot be continued",
        "report": "has recorded nothing yet",
    },
    "encoder-decoder": {
        "score": "a text alone has no probability",
        "next": "a text alone has no probability",
        "evaluate": "a text alone has no probability",
        "fill": "this model is an encoder-decoder: it writes from left to right",
        "resume": "objective NextToken trains a decoder with a language head",
        "verify": "cannot be continued",
        "report": "has recorded nothing yet",
    },
}
for _refused in REFUSED.values():
    _refused["classify"] = "this model has no head for classes"
REFUSED["encoder with classes"] = REFUSED["encoder"] | {
    "fill": "this model is a classifier and has no token probabilities"
}
del REFUSED["encoder with classes"]["classify"]
REFUSED["decoder with classes"] = {
    **REFUSED["decoder"],
    **dict.fromkeys(
        ("generate", "beams", "score", "next", "evaluate"),
        "this model is a classifier and has no token probabilities",
    ),
    "resume": "objective NextToken trains a decoder with a language head",
}
del REFUSED["decoder with classes"]["classify"]
REFUSED["encoder without head"] = REFUSED["encoder"] | {"fill": "this model has no head"}
REFUSED["decoder without head"] = {
    **REFUSED["decoder"],
    **dict.fromkeys(("generate", "beams", "score", "next", "evaluate"), "this model has no head"),
    "resume": "objective NextToken trains a decoder with a language head",
}


@pytest.mark.parametrize(
    ("kind", "does"), [(kind, does) for kind in KINDS for does in DOES], ids=str
)
def test_a_command_works_or_is_refused_in_plain_words(
    kind: str, does: str, runs: dict[str, Path], stdout_of: Any, refused: Any
) -> None:
    stand_for = {"RUN": runs[kind], "TEXT": runs["text"]}
    words = [stand_for.get(word, word) for word in DOES[does]]
    if does in REFUSED[kind]:
        assert REFUSED[kind][does] in refused(*words)
    else:
        assert stdout_of(*words).strip()


@pytest.mark.parametrize("kind", ["encoder", "encoder-decoder"])
def test_training_on_plain_text_is_refused_before_the_text_is_read(
    kind: str, tmp_path: Path
) -> None:
    run = replace(find("nano"), model=KINDS[kind])
    run = replace(run, text=replace(run.text, corpus=Files(paths=("none.txt",), field=None)))
    with pytest.raises(ConfigError, match="NextToken trains a decoder with a language head"):
        train_config(run, name="none", out=tmp_path / "run", show=False)
    assert not (tmp_path / "run").exists()


# -- an encoder-decoder writes


def test_an_encoder_decoder_writes_its_own_text_and_not_the_source(
    runs: dict[str, Path], stdout_of: Any, json_of: Any
) -> None:
    run = runs["encoder-decoder"]
    (facts,) = json_of("generate", run, "the cat", *SHORT, "--greedy")
    assert facts["source"] == "the cat"
    assert len(facts["ids"]) == 5
    assert stdout_of("generate", run, "the cat", *SHORT, "--greedy") == facts["text"] + "\n"
    assert (
        stdout_of("generate", run, "--greedy", "--prompt", "the cat", *SHORT)
        == facts["text"] + "\n"
    )


def test_a_source_decides_what_is_written_and_neighbours_do_not(
    runs: dict[str, Path], json_of: Any
) -> None:
    texts_together = json_of("generate", runs["encoder-decoder"], *TEXTS, "--greedy", *SHORT)
    assert len({tuple(text["ids"]) for text in texts_together}) > 1
    for text, source in zip(texts_together, TEXTS, strict=True):
        assert json_of("generate", runs["encoder-decoder"], source, "--greedy", *SHORT) == [text]


def test_flags_may_stand_between_texts(runs: dict[str, Path], json_of: Any) -> None:
    run = runs["encoder-decoder"]
    a = json_of("generate", run, "--greedy", TEXTS[0], *SHORT, TEXTS[1])
    assert a == json_of("generate", run, *TEXTS[:2], "--greedy", *SHORT)


# -- beams


@pytest.mark.parametrize("kind", ["decoder", "encoder-decoder"])
def test_the_best_texts_are_given_in_order(kind: str, runs: dict[str, Path], json_of: Any) -> None:
    words = ("--beams", 4, "--n-best", 3, "--length-penalty", 0.6, "--early-stopping", "never")
    (facts,) = json_of("generate", runs[kind], "the cat", *SHORT, *words, "--logprobs")
    best = facts["best"]
    assert len(best) == 3
    assert [beam["score"] for beam in best] == sorted((o["score"] for o in best), reverse=True)
    for beam in best:
        length = len(beam["ids"]) + (beam["stopped"] == "end")
        assert beam["score"] == pytest.approx(beam["log_p"] / length**0.6)
        if beam["stopped"] == "length":
            assert beam["log_p"] == pytest.approx(sum(beam["logprobs"]))


def test_beams_are_shown_with_what_they_were_ranked_by(
    runs: dict[str, Path], stdout_of: Any
) -> None:
    text = stdout_of("generate", runs["decoder"], "the cat", *SHORT, "--beams", 3, "--n-best", 2)
    assert text.startswith("1. score -")
    assert "\n2. score -" in text
    assert text.count("the cat") == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--beams", 2, "--temperature", 0.5), "--temperature is for sampling token by token"),
        (("--beams", 2, "--greedy", "--seed", 1), "--greedy, --seed is for sampling"),
        (("--beams", 2, "--stop", "x"), "--stop is for sampling token by token"),
        (("--n-best", 2), "--n-best chooses among the texts of a beam search"),
        (("--early-stopping", "true"), "give --beams too"),
        (("--beams", 2, "--n-best", 3), "n_best must be 1 to n_beams, which is 2; was 3"),
        (("--beams", 0), "n_beams must be at least 1"),
        (("--beams", 2, "--min-new-tokens", 9), "min_new_tokens must be 0 to max_new_tokens"),
    ],
    ids=str,
)
def test_flags_that_contradict_each_other_are_refused(
    words: tuple[object, ...], said: str, runs: dict[str, Path], refused: Any
) -> None:
    assert said in refused("generate", runs["decoder"], "the cat", *SHORT, *words)


# -- fill


def test_fill_gives_the_likeliest_tokens_at_each_mask(runs: dict[str, Path], json_of: Any) -> None:
    facts = json_of("fill", runs["encoder"], "the [MASK] sat on the [MASK].", "--top", 3)
    assert [mask["position"] for mask in facts["masks"]] == [2, 6]
    for mask in facts["masks"]:
        shares = [token["probability"] for token in mask["likeliest"]]
        assert len(shares) == 3
        assert shares == sorted(shares, reverse=True)
        assert 0 < sum(shares) <= 1
    assert "[MASK]" not in facts["filled"]


def test_fill_says_that_several_masks_are_filled_each_by_itself(
    runs: dict[str, Path], stdout_of: Any
) -> None:
    single, double = (
        stdout_of("fill", runs["encoder"], text) for text in (MASKED, f"{MASKED} {MASKED}")
    )
    assert "by itself" not in single
    assert "each mask was filled while the others stayed masked" in double
    assert len(single.splitlines()) == 5 + 2


@pytest.mark.parametrize(
    ("kind", "words", "said"),
    [
        ("encoder", ("the cat",), "the text has no [MASK]: write [MASK] where a word is missing"),
        ("encoder", (MASKED, "--top", 0), "top must be at least 1, was 0"),
        ("encoder", (f"{MASKED} " * 5,), "the model's context holds 24"),
        ("encoder without mask", (MASKED,), "no mask token"),
    ],
)
def test_what_cannot_be_filled_is_refused(
    kind: str, words: tuple[object, ...], said: str, runs: dict[str, Path], refused: Any
) -> None:
    assert said in refused("fill", runs[kind], *words)


# -- embed


def test_embed_gives_a_vector_of_length_one_for_each_text(
    runs: dict[str, Path], json_of: Any, tmp_path: Path
) -> None:
    facts = json_of("embed", runs["encoder"], *TEXTS)
    vectors = np.array([row["vector"] for row in facts["texts"]])
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-6)
    for place, row in enumerate(facts["texts"]):
        cosines = vectors @ vectors[place]
        cosines[place] = -math.inf
        assert row["nearest"] == cosines.argmax()
        assert row["cosine"] == pytest.approx(cosines.max(), abs=1e-6)
    file = tmp_path / "vectors.npy"
    assert "vector" not in json_of("embed", runs["encoder"], *TEXTS, "--out", file)["texts"][0]
    np.testing.assert_allclose(np.load(file), vectors, rtol=1e-6)


def test_embed_reads_texts_from_a_file_and_a_pipe(
    runs: dict[str, Path], stdout_of: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = "\n".join(TEXTS) + "\n\n"
    (tmp_path / "texts.txt").write_text(lines, encoding="utf-8")
    expected = stdout_of("embed", runs["decoder"], *TEXTS)
    assert expected.count("\n") == 2 + 1 + len(TEXTS)
    assert stdout_of("embed", runs["decoder"], "--file", tmp_path / "texts.txt") == expected
    for words in ((), ("--file", "-")):
        monkeypatch.setattr(sys, "stdin", io.StringIO(lines))
        assert stdout_of("embed", runs["decoder"], *words) == expected


def test_embed_ranks_texts_by_nearness_to_one(
    runs: dict[str, Path], stdout_of: Any, json_of: Any
) -> None:
    words = ("embed", runs["encoder-decoder"], *TEXTS, "--like", TEXTS[1])
    first, *_ = stdout_of(*words).splitlines()[2:]
    assert first.split(maxsplit=1) == ["1.0000", TEXTS[1]]
    rows = json_of(*words)["texts"]
    assert sorted(row["rank"] for row in rows) == [1, 2, 3]
    assert rows[1]["rank"] == 1


@pytest.mark.parametrize(
    ("kind", "words", "said"),
    [
        ("encoder", ("a", "  "), "the text 2 is empty"),
        ("encoder", ("cat " * 30,), "the text has 32 tokens with what frames it"),
        ("encoder", ("a", "--pool", "max"), "pool must be mean, first, last, pooler; was 'max'"),
        ("decoder", ("a", "--pool", "first"), "pool by mean or last"),
        ("decoder", ("a", "--pool", "pooler"), "this model has none"),
        ("encoder", ("a", "--out", "v.csv"), "expected a name that ends in .npy"),
        ("encoder", ("--file", "none.txt"), "none.txt"),
    ],
)
def test_what_cannot_be_embedded_is_refused(
    kind: str, words: tuple[object, ...], said: str, runs: dict[str, Path], refused: Any
) -> None:
    assert said in refused("embed", runs[kind], *words)


def test_no_text_to_embed_is_refused(
    runs: dict[str, Path], refused: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n"))
    assert "there is no text to embed" in refused("embed", runs["encoder"])


def test_the_same_from_python(runs: dict[str, Path], json_of: Any) -> None:
    run = pellucid.load(runs["encoder"])
    filling = pellucid.fill(run, MASKED, top=2)
    assert filling.filled == json_of("fill", runs["encoder"], MASKED)["filled"]
    (row,) = json_of("embed", runs["encoder"], "the cat")["texts"]
    np.testing.assert_array_equal(pellucid.embed(run, "the cat")[0], np.float32(row["vector"]))
