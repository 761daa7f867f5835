"""`pellucid distill`: valid teachers, early refusals, and that a run keeps its teacher."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

import pellucid
from pellucid import config, runs
from pellucid.errors import ConfigError, RunError
from pellucid.model import adapters, merged
from pellucid.tasks.distillation import sha256_of
from pellucid.training import Event, Logged, Preparing, Started
from support.published import write
from support.tiny import TINY, train_tiny, write_text

#: A student half as wide as the tiny teacher; deterministic, so that laws hold exactly.
STUDENT = ("model.d_model=8", "model.decoder.attention.d_head=4", "model.decoder.dropout=0.0")


def distil(
    teacher: Path,
    out: Path,
    *,
    settings: Sequence[str] = STUDENT,
    text: Path | None = None,
    **choices: Any,
) -> runs.Run:
    text = write_text(out.parent / "text") if text is None else text
    tiny = [setting for setting in TINY if not setting.startswith("text.tokenizer")]
    return pellucid.train(
        [text],
        objective="distill",
        teacher=teacher,
        out=out,
        settings=[*tiny, "text.held_out=0.2", *settings],
        show=False,
        **{"steps": 4, **choices},
    )


def weights(run: Path, step: int) -> bytes:
    return (run / f"checkpoints/step-{step}/model.safetensors").read_bytes()


def test_a_student_learns_from_its_teacher_and_resumes_bit_for_bit(
    trained: Path, tmp_path: Path
) -> None:
    student = distil(trained, tmp_path / "run", steps=8)
    assert isinstance(student.config.objective, config.Distillation)
    assert student.tokenizer.to_json() == pellucid.load(trained).tokenizer.to_json()
    events = runs.read_events(tmp_path / "run" / "metrics.jsonl")
    (started,) = [event for event in events if isinstance(event, Started)]
    facts = dict(started.facts)
    assert "times the student's, SHA-256" in facts["teacher"]
    copy = shutil.copytree(tmp_path / "run", tmp_path / "copy")
    runs.resume(copy / "checkpoints/step-4", show=False)
    assert weights(copy, 8) == weights(tmp_path / "run", 8)


def test_distilling_a_model_into_itself_moves_nothing_but_decay(
    trained: Path, tmp_path: Path
) -> None:
    # the student starts from the teacher's weights, and only the teacher counts
    sgd = 'optimiser={kind = "SGD", learning_rate = 0.5, momentum = 0.9, l2 = 0.0}'
    own_settings = ("objective.hard_weight=0.0", "model.decoder.dropout=0.0", sgd)
    first_weights = pellucid.load(trained).model.state_dict()
    for divergence in ("forward", "reverse", "jensen_shannon"):
        all_settings = (*own_settings, f"objective.divergence={divergence}")
        run = distil(trained, tmp_path / divergence, settings=all_settings, start=trained)
        for name, weight in run.model.state_dict().items():
            # D(p, p) has no slope: the remaining differences are rounding, far below a step of 0.5
            assert torch.allclose(weight, first_weights[name], atol=1e-6), (divergence, name)
    # with the text counted too the same steps move it
    moved_weights = distil(
        trained, tmp_path / "moved", settings=own_settings[1:], start=trained
    ).model.state_dict()
    assert not torch.allclose(
        moved_weights["token_embedding.weight"], first_weights["token_embedding.weight"], atol=1e-4
    )


def test_another_tokenizer_is_refused_before_the_text_is_read(
    trained: Path, tmp_path: Path
) -> None:
    words = tmp_path / "words"
    train_tiny(words, steps=1, settings=["text.tokenizer=Characters"])
    heard_events: list[Event] = []
    with pytest.raises(ConfigError, match="cut text into other tokens") as refused:
        distil(
            words,
            tmp_path / "run",
            settings=(*STUDENT, "text.tokenizer=Bytes", "model.vocab_size=none"),
            observers=[heard_events.append],
        )
    assert f"text.tokenizer.path={words}" in str(refused.value)
    assert not any(isinstance(event, Preparing) for event in heard_events)
    assert not (tmp_path / "run").exists()


def test_a_tokenizer_that_is_trained_is_compared_when_it_is_there(
    trained: Path, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="cut text into other tokens"):
        distil(
            trained,
            tmp_path / "run",
            settings=(*STUDENT, "text.tokenizer=Characters", "model.vocab_size=none"),
        )
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("model.vocab_size=300", "the teacher has 258 tokens and the student 300"),
        ("model.context_length=32", "--set model.context_length=16"),
        ("objective.teacher=''", "names no run to learn from"),
    ],
)
def test_a_teacher_that_does_not_fit_is_refused_by_what_differs(
    trained: Path, tmp_path: Path, setting: str, said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        distil(trained, tmp_path / "run", settings=(*STUDENT, setting))


def test_a_teacher_that_is_gone_is_named_and_one_that_changed_is_refused(
    trained: Path, tmp_path: Path
) -> None:
    teacher = shutil.copytree(trained, tmp_path / "teacher")
    distil(teacher, tmp_path / "run", steps=8)
    stopped = tmp_path / "run" / "checkpoints/step-4"
    shutil.move(teacher, tmp_path / "elsewhere")
    with pytest.raises(RunError, match=r"teacher.*does not exist.*put it back"):
        runs.resume(stopped, show=False)
    # another of the same shape is not the same
    train_tiny(teacher, settings=["seed=5"])
    with pytest.raises(RunError, match="are not those that this run began to learn from"):
        runs.resume(stopped, show=False)
    # the old one, trained on meanwhile, still has the checkpoint that was learnt from
    shutil.rmtree(teacher)
    shutil.move(tmp_path / "elsewhere", teacher)
    (teacher / "checkpoints" / "latest").write_text("step-8\n")
    before = weights(tmp_path / "run", 8)
    runs.resume(stopped, show=False)
    assert weights(tmp_path / "run", 8) == before


def test_a_teacher_with_adapters_teaches_what_they_say(trained: Path, tmp_path: Path) -> None:
    text = write_text(tmp_path / "text")
    adapted = pellucid.train(
        [text], start=trained, lora=2, out=tmp_path / "lora", steps=3, show=False
    )
    assert adapters(adapted.model)
    distil(tmp_path / "lora", tmp_path / "run")
    note = json.loads((tmp_path / "run" / "teacher.json").read_text())
    assert note["checkpoint"] == str(tmp_path / "lora/checkpoints/step-3")
    # the same weights without adapters are the same teacher
    assert note["sha256"] == sha256_of(merged(adapted.model))


def test_a_published_model_and_a_checkpoint_can_teach(trained: Path, tmp_path: Path) -> None:
    write(tmp_path / "published", "llama")
    student = distil(tmp_path / "published", tmp_path / "by-model", steps=2)
    assert student.config.model.rows == pellucid.load(tmp_path / "published").config.model.rows
    distil(trained / "checkpoints/step-8", tmp_path / "by-checkpoint", steps=2)
    note = json.loads((tmp_path / "by-checkpoint" / "teacher.json").read_text())
    assert note["checkpoint"] == str(trained / "checkpoints/step-8")


def test_a_token_counts_once_whoever_else_reads_it(trained: Path, tmp_path: Path) -> None:
    distil(trained, tmp_path / "run", steps=2)
    events = runs.read_events(tmp_path / "run" / "metrics.jsonl")
    last = [event for event in events if isinstance(event, Logged)][-1]
    assert last.tokens == 2 * 4 * 16


def test_documents_apart_are_apart_for_the_teacher_too(trained: Path, tmp_path: Path) -> None:
    folder = tmp_path / "documents"
    folder.mkdir()
    for number in range(40):
        (folder / f"{number}.txt").write_text(f"the {number}th cat sat\n" * 2)
    # a teacher that saw the documents before would expect other tokens than the student
    sgd = 'optimiser={kind = "SGD", learning_rate = 0.5, momentum = 0.9, l2 = 0.0}'
    own_settings = ("objective.hard_weight=0.0", "model.decoder.dropout=0.0", sgd)
    all_settings = (*own_settings, "training.documents_apart=true")
    run = distil(trained, tmp_path / "run", settings=all_settings, start=trained, text=folder)
    first_weights = pellucid.load(trained).model.state_dict()
    for name, weight in run.model.state_dict().items():
        assert torch.allclose(weight, first_weights[name], atol=1e-6), name
