"""Evaluation on rows: the held-out ones of the run, or those in a file; and the refusals."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import pellucid
from pellucid import runs
from pellucid.checkpoints import load_model_tensors
from pellucid.data import open_prepared
from pellucid.errors import ConfigError, LibraryError, RunError, TextError
from pellucid.free_memory import Free
from pellucid.generation import Beams
from pellucid.saved_runs import memory_check
from support.pairs import train_pairs, words, write_pairs
from support.tiny import TINY, write_text

PAIRS = [(word, word[::-1]) for word in words(120)]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> runs.Run:
    place = tmp_path_factory.mktemp("pairs")
    return train_pairs(place / "run", write_pairs(place / "pairs.tsv", PAIRS), steps=2)


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> runs.Run:
    place = tmp_path_factory.mktemp("labels")
    # sorted by label, as files often are: the first rows alone would have one class
    rows = sorted((("b" if "b" in word else "other"), word) for word in words(200))
    file = place / "labels.tsv"
    file.write_text("label\ttext\n" + "".join(f"{a}\t{b}\n" for a, b in rows), encoding="utf-8")
    return pellucid.train(
        [file],
        objective="classify",
        out=place / "run",
        steps=2,
        settings=[
            *(setting.replace("decoder", "encoder") for setting in TINY),
            "text.held_out=0.2",
            "training.evaluate_tokens=20",
        ],
        show=False,
    )


def held_out_pairs(run: runs.Run) -> list[tuple[str, str]]:
    side = open_prepared(runs.RunFolder(run.folder).text).held_out
    decoded = [
        [run.tokenizer.decode(side.columns[name][place].tolist()) for place in range(len(side))]
        for name in ("source", "target")
    ]
    return list(zip(*decoded, strict=True))


def test_the_runs_own_examples_and_a_file_of_them_come_out_alike(
    run: runs.Run, tmp_path: Path
) -> None:
    own_examples = runs.evaluate_rows(run)
    file = write_pairs(tmp_path / "held_out.tsv", held_out_pairs(run))
    other = runs.evaluate_rows(run, [str(file)])
    assert own_examples.examples == other.examples == 12
    assert own_examples.held_out.over == other.held_out.over
    assert own_examples.held_out.loss_nats == pytest.approx(other.held_out.loss_nats, rel=1e-6)
    assert runs.evaluate_held_out(run) == own_examples.held_out


def test_columns_may_be_called_otherwise_in_another_file(run: runs.Run, tmp_path: Path) -> None:
    file = tmp_path / "other.csv"
    file.write_text("there,back\nabc,cba\nde,ed\n", encoding="utf-8")
    evaluation = runs.evaluate_rows(run, [str(file)], columns=["source=there", "target=back"])
    assert evaluation.examples == 2
    assert "source: there" in evaluation.notes
    with pytest.raises(TextError, match="no column has a usual name for the source"):
        runs.evaluate_rows(run, [str(file)])


def test_what_is_cut_and_what_is_dropped_is_said(run: runs.Run, tmp_path: Path) -> None:
    rows = [("abcdabcdabcd", "dcba"), ("ab", ""), ("ab", "ba")]
    evaluation = runs.evaluate_rows(run, [str(write_pairs(tmp_path / "some.tsv", rows))])
    assert evaluation.examples == 2
    assert any(note.startswith("truncated 1") for note in evaluation.notes)
    assert any(note.startswith("dropped 1: it has no target") for note in evaluation.notes)


def test_a_limit_takes_examples_from_all_over(classifier: runs.Run) -> None:
    evaluation = runs.evaluate_rows(classifier, limit=10)
    assert evaluation.examples == 10
    assert evaluation.classified is not None
    assert all(class_example.texts for class_example in evaluation.classified.classes)


def test_classes_are_told_one_by_one(classifier: runs.Run, stdout_of: Any, json_of: Any) -> None:
    facts = json_of("evaluate", classifier.folder)
    assert facts["unit"] == "texts"
    assert facts["over"] == sum(map(sum, facts["confusion"])) == 40
    assert {class_facts["name"] for class_facts in facts["classes"]} == {"b", "other"}
    lines = stdout_of("evaluate", classifier.folder)
    assert "class" in lines
    assert "is \\ said" in lines


def test_a_source_with_several_targets_is_on_one_side_and_written_for_once(
    tmp_path: Path,
) -> None:
    rows = [(word, target) for word in words(60) for target in (word[::-1], word, word + word[:1])]
    run = train_pairs(tmp_path / "run", write_pairs(tmp_path / "pairs.tsv", rows), steps=1)
    sides = open_prepared(runs.RunFolder(run.folder).text)
    train, held_out = (
        {tuple(side.columns["source"][place]) for place in range(len(side))}
        for side in (sides.train, sides.held_out)
    )
    assert train.isdisjoint(held_out)
    pytest.importorskip("sacrebleu", reason="texts are compared by sacrebleu")
    evaluation = runs.evaluate_rows(run, beams=Beams(n_beams=1))
    assert len(evaluation.generated) == len(held_out) < evaluation.examples
    assert max(len(generated.references) for generated in evaluation.generated) == 3


def test_a_run_that_learns_from_text_is_judged_on_all_it_held_out(
    tmp_path: Path, json_of: Any
) -> None:
    run = pellucid.train(
        [write_text(tmp_path)],
        out=tmp_path / "run",
        steps=1,
        settings=[*TINY, "text.held_out=0.2", "training.evaluate_tokens=20"],
        show=False,
    )
    evaluation = runs.evaluate_held_out(run)
    assert evaluation.over > 100
    assert json_of("evaluate", run.folder)["over"] == evaluation.over


def test_what_cannot_be_evaluated_is_refused(
    run: runs.Run, classifier: runs.Run, tmp_path: Path, refused: Any
) -> None:
    assert "--limit must be at least 1" in refused("evaluate", run.folder, "--limit", 0)
    assert "encoded already" in refused("evaluate", run.folder, "--columns", "source=a")
    assert "give --write too" in refused("evaluate", run.folder, "--beams", 2)
    assert "--columns NAME=text" in refused("evaluate", run.folder, "--field", "text")
    assert "has no expected texts to compare with" in refused(
        "evaluate", classifier.folder, "--write"
    )
    empty = tmp_path / "empty.tsv"
    empty.write_text("source\ttarget\n", encoding="utf-8")
    assert "it has no rows" in refused("evaluate", run.folder, empty)
    label = tmp_path / "label.tsv"
    label.write_text("label\ttext\nthird\tabc\n", encoding="utf-8")
    message = refused("evaluate", classifier.folder, label)
    assert "the label 'third' is none of the classes" in message
    assert "has no reward" in refused("evaluate", run.folder, "--reward", "a:b")


def test_without_sacrebleu_nothing_is_written_first(
    run: runs.Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    with pytest.raises(LibraryError, match=r"\.\[bleu\]"):
        runs.evaluate_rows(run, beams=Beams(n_beams=1, max_new_tokens=10_000))


def test_what_is_written_to_be_compared_has_to_fit_into_memory(
    run: runs.Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_check, "free_memory", lambda: Free(10**8, "this machine"))
    monkeypatch.setitem(sys.modules, "sacrebleu", None)  # with force it comes as far as this
    wide_beams = Beams(n_beams=99_999, max_new_tokens=2)
    with pytest.raises(RunError, match=r"writing this needs about .* lower --beams"):
        runs.evaluate_rows(run, beams=wide_beams)
    with pytest.raises(LibraryError, match=r"\.\[bleu\]"):
        runs.evaluate_rows(run, beams=wide_beams, force=True)
    assert runs.evaluate_rows(run).examples > 1


@pytest.mark.parametrize("objective", ["seq2seq", "span-corruption"])
def test_going_on_from_a_checkpoint_ends_in_the_same_bits(tmp_path: Path, objective: str) -> None:
    file = write_pairs(tmp_path / "pairs.tsv", PAIRS)
    settings = [
        "training.checkpoint_every=3",
        "training.batch_size=8",
        "model.encoder.dropout=0.1",
        "model.decoder.dropout=0.1",
        "training.evaluate_every=2",
    ]
    if objective == "span-corruption":
        file = write_text(tmp_path)
        settings += ["text.tokenizer=Bytes", "model.context_length=16"]
    run = train_pairs(tmp_path / "run", file, steps=7, settings=settings, objective=objective)
    unbroken = load_model_tensors(run.checkpoint)
    shelf = runs.RunFolder(run.folder).shelf
    assert 6 in shelf.steps()
    pellucid.resume(run.folder / "checkpoints" / "step-6", show=False)
    resumed = load_model_tensors(runs.load(run.folder).checkpoint)
    assert unbroken.keys() == resumed.keys()
    assert all(torch.equal(unbroken[name], resumed[name]) for name in unbroken)


def test_a_column_that_pairs_do_not_have_is_refused(run: runs.Run, tmp_path: Path) -> None:
    file = write_pairs(tmp_path / "some.tsv", PAIRS[:4])
    with pytest.raises(ConfigError, match="expected one of source, target"):
        runs.evaluate_rows(run, [str(file)], columns=["text=source"])
