"""Classifiers from rows to a run: the training, its summary, and resumed bit for bit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from pellucid import runs
from pellucid.checkpoints import load
from pellucid.errors import ConfigError, RunError, TextError
from pellucid.free_memory import Free
from pellucid.runs import Run, RunFolder, read_events
from pellucid.training import Evaluated, Example, Logged, Started
from support.labelled import TINY, train_labelled, write_labelled, write_several

SEVERAL = ("objective.multi_label=true",)
RATE = 'optimiser={kind="AdamW", learning_rate=0.01, betas=[0.9, 0.99], eps=1e-8, weight_decay=0.0}'
_LORA = 'trained={kind="LoRA", rank=2, alpha=4.0, dropout=0.0, targets=["query", "value"]}'
LASSO = 'penalties=[{kind="ElasticNet", l1=0.3, l2=0.1, parameters=["classifier.weight"]}]'


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_labelled(tmp_path_factory.mktemp("labelled") / "data.tsv")


@pytest.fixture(scope="module")
def begun(labelled: Path) -> Run:
    """A classifier that other trainings start from."""
    return train_labelled(labelled.parent / "begun", labelled)


def events_of(run: Run, kind: type[Any]) -> list[Any]:
    return [e for e in read_events(RunFolder(run.folder).metrics) if isinstance(e, kind)]


def last_measures(run: Run) -> dict[str, float]:
    return dict(events_of(run, Evaluated)[-1].measures)


def assert_resumes(run: Run) -> None:
    """Gone back to its fourth update and done again, a run ends with the same bits."""
    folder = RunFolder(run.folder)
    ends = [load(folder.shelf.latest())]
    losses = [loss for e in events_of(run, Logged) for loss in e.losses]
    runs.resume(folder.path / "checkpoints" / "step-4", show=False)
    ends.append(load(folder.shelf.latest()))
    for state_name in ("model", "optimiser", "random"):
        left, right = (getattr(end, state_name) for end in ends)
        assert left.keys() == right.keys()
        assert all(torch.equal(left[name], right[name]) for name in left), state_name
    assert losses == [loss for e in events_of(run, Logged) for loss in e.losses]


def test_classes_that_a_word_tells_are_all_found(labelled: Path, tmp_path: Path) -> None:
    run = train_labelled(tmp_path / "run", labelled, settings=[RATE], epochs=14)
    assert last_measures(run)["accuracy"] == 1.0
    answers = runs.classify(run, ["we saw a cat", "then paris again", "so there the soup"])
    assert [answer.classes for answer in answers] == [("animals",), ("capitals",), ("food",)]


def test_classes_that_nothing_tells_are_found_no_better_than_by_chance(tmp_path: Path) -> None:
    data = write_labelled(tmp_path / "data.tsv", 300, shuffled=True)
    run = train_labelled(tmp_path / "run", data, settings=[RATE], epochs=6)
    # 75 texts and three classes: more than .55 has a chance of about 1 in 10,000
    assert last_measures(run)["accuracy"] < 0.55


def test_all_classes_of_a_text_are_found_and_each_is_counted(tmp_path: Path) -> None:
    data = write_several(tmp_path / "data.tsv", 200)
    run = train_labelled(
        tmp_path / "run", data, settings=[*SEVERAL, RATE], columns=["separator=;"], epochs=14
    )
    # saying "none" of every text is right of about one in five
    assert last_measures(run)["exact_match"] > 0.6
    for answer in runs.classify(run, ["we saw a cat again in rome", "so there we saw the"]):
        assert set(answer.classes) == {s.name for s in answer.shares if s.probability > 0.5}
    assert runs.has_several_labels(run)
    (started,) = events_of(run, Started)
    rows = [line.split("\t")[1] for line in data.read_text("utf-8").splitlines()[1:]]
    counts = dict(part.rsplit(" ", 1) for part in dict(started.facts)["classes"].split(", "))
    for name, count in counts.items():
        assert 0 < int(count) <= sum(name in row.split(";") for row in rows)


@pytest.mark.parametrize(
    ("settings", "given"),
    [
        ((), {}),
        (("model.head.pooling=first",), {}),
        (SEVERAL, {"columns": ["separator=;"]}),
        ((LASSO,), {}),
        (("objective.label_smoothing=0.1", _LORA), {}),
        (('trained={kind="LastLayers", count=0}',), {}),
    ],
    ids=["one class", "first token", "several classes", "elastic net", "LoRA", "last layers"],
)
def test_a_classifier_resumes_bit_for_bit(
    settings: tuple[str, ...], given: dict[str, Any], labelled: Path, tmp_path: Path
) -> None:
    has_several = "objective.multi_label=true" in settings
    data = write_several(tmp_path / "data.tsv") if has_several else labelled
    assert_resumes(train_labelled(tmp_path / "run", data, settings=settings, **given))


def test_true_zeros_survive_and_their_share_is_reported(labelled: Path, tmp_path: Path) -> None:
    run = train_labelled(tmp_path / "run", labelled, settings=[LASSO])
    weight = dict(run.model.named_parameters())["classifier.weight"]
    share = float((weight == 0).float().mean())
    assert 0 < share < 1
    assert events_of(run, Logged)[-1].part("zeros")[-1] == pytest.approx(share)
    free = dict(train_labelled(tmp_path / "free", labelled).model.named_parameters())
    assert not (free["classifier.weight"] == 0).any()


@pytest.mark.parametrize(
    ("settings", "given", "moved"),
    [
        (('trained={kind="LastLayers", count=0}',), {}, ("classifier.", "final_norm.")),
        ((), {"lora": 2}, ("classifier.", ".down", ".up", "lora")),
    ],
    ids=["last layers", "LoRA"],
)
def test_the_body_stays_where_only_a_part_of_it_is_trained(
    settings: tuple[str, ...],
    given: dict[str, Any],
    moved: tuple[str, ...],
    begun: Run,
    labelled: Path,
    tmp_path: Path,
) -> None:
    run = train_labelled(tmp_path / "run", labelled, start=begun.folder, settings=settings, **given)
    before = begun.model.state_dict()
    after = run.model.state_dict()
    changed_names = {
        name for name, tensor in after.items() if name in before and not tensor.equal(before[name])
    }
    assert any(name.startswith("classifier.") for name in changed_names)
    assert all(any(part in name for part in moved) for name in changed_names), changed_names


def test_a_classifier_goes_on_from_a_classifier_with_its_classes(
    begun: Run, labelled: Path, tmp_path: Path
) -> None:
    run = train_labelled(tmp_path / "run", labelled, start=begun.folder, steps=1)
    assert runs.class_names(run) == runs.class_names(begun)
    first, before = events_of(run, Evaluated)[0], events_of(begun, Evaluated)[-1]
    assert first.loss_nats == pytest.approx(before.loss_nats, abs=0.2)
    longer_text = labelled.read_text("utf-8") + "we saw a drum\tmusic\n"
    data = tmp_path / "more.tsv"
    data.write_text(longer_text, encoding="utf-8")
    with pytest.raises(TextError, match="label 'music' is none of the classes"):
        train_labelled(tmp_path / "other", data, start=begun.folder)
    assert not (tmp_path / "other").exists()


def test_a_class_without_a_text_is_said_and_kept(labelled: Path, tmp_path: Path) -> None:
    names = [*sorted(("animals", "capitals", "food")), "unseen"]
    run = train_labelled(
        tmp_path / "run", labelled, settings=[f"model.head.classes={json.dumps(names)}"], steps=1
    )
    assert list(runs.class_names(run)) == names
    fact_values = [value for _, value in events_of(run, Started)[0].facts]
    assert "the class 'unseen' has no example" in fact_values
    assert any(value.endswith("unseen 0") for value in fact_values)


@pytest.mark.parametrize(
    ("rows", "settings", "said"),
    [
        ("a cat\tyes\na dog\tyes\n" * 8, (), "name 1 class"),
        ("a cat\tyes\na dog\tno\n" * 8, SEVERAL, "each row has one label"),
        ("a cat\tyes\na dog\t0.5\n" * 8, ('model.head.classes=["yes","0.5"]',), None),
    ],
)
def test_labels_that_tell_nothing_apart_are_refused(
    rows: str, settings: tuple[str, ...], said: str | None, tmp_path: Path
) -> None:
    data = tmp_path / "data.tsv"
    data.write_text("text\tlabel\n" + rows, encoding="utf-8")
    if said is None:  # a number written in a table of text is a name as any other
        train_labelled(tmp_path / "run", data, settings=settings, steps=1)
        return
    with pytest.raises((TextError, ConfigError), match=said):
        train_labelled(tmp_path / "run", data, settings=settings, steps=1)


def test_a_decoder_names_the_class_of_a_text_by_its_last_token(
    labelled: Path, tmp_path: Path
) -> None:
    words = [setting.replace("model.encoder", "model.decoder") for setting in TINY]
    run = runs.train(
        [labelled],
        objective="classify",
        preset="nano",
        out=tmp_path / "run",
        steps=2,
        settings=[*words, "model.head.pooling=last"],
        show=False,
    )
    single, batched = (
        runs.classify(run, "we saw a cat"),
        runs.classify(run, ["we saw a cat", "a", "so"]),
    )
    assert single[0].shares[0].probability == pytest.approx(
        batched[0].shares[0].probability, abs=1e-6
    )


def test_texts_that_are_cut_and_what_is_learnt_are_said(labelled: Path, tmp_path: Path) -> None:
    run = train_labelled(tmp_path / "run", labelled, settings=["model.context_length=8"], steps=1)
    facts = dict(events_of(run, Started)[0].facts)
    assert "longer than the window" in facts["truncated"]
    (example,) = events_of(run, Example)
    assert example.note.startswith("of the whole is learnt: '")
    assert example.rows[0][0] == "<|begin_of_text|>"


def test_texts_and_rows_that_do_not_fit_are_not_read_unless_forced(
    begun: Run, labelled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "pellucid.saved_runs.memory_check.free_memory", lambda: Free(1, "this machine")
    )
    with pytest.raises(RunError, match=r"reading this needs .* lower batch_size"):
        runs.classify(begun, "we saw a cat")
    assert runs.classify(begun, "we saw a cat", force=True)
    for paths in ([], [str(labelled)]):
        with pytest.raises(RunError, match=r"reading this needs .* the length of the rows"):
            runs.evaluate_rows(begun, paths)
        assert runs.evaluate_rows(begun, paths, force=True).examples
