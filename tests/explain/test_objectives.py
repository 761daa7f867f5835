"""Every objective is explained with its own loss: the loss and gradients of the trainer.

The other side of the comparison is the objective itself, on the batch that training would make of
the same row.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import pellucid
from pellucid import config, runs
from pellucid.batches import Batch
from pellucid.cli import main
from pellucid.cli.main import parser
from pellucid.cli.output.page_file import open_readings
from pellucid.explain import Trace, trace
from pellucid.explain.addresses.audit import audit
from pellucid.explain.chapter_types import Place
from pellucid.explain.chapters import CHAPTERS, build_chapter
from pellucid.explain.losses.types import ClassLoss, PolicyLoss
from pellucid.model import Transformer
from pellucid.runs import Run
from pellucid.runs.evaluate_examples import task_on
from pellucid.tasks.distillation import teacher_of
from pellucid.tasks.rewards import find_reward
from pellucid.web import PageRequest
from support.labelled import TINY as TINY_ENCODER
from support.labelled import train_labelled, write_labelled, write_several
from support.life import pretrain, tune, write_rows
from support.nightly import sampled
from support.pairs import train_pairs, words, write_pairs
from support.tiny import TINY, write_text

REWARD = "support.life:short_and_finished"
ROW = {"instruction": "say red 5", "output": "red and blue.", "chosen": "red.", "rejected": "no"}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("objectives")
    write_rows(folder / "rows")
    pretrain(folder / "base")
    return folder


def stage(home: Path, objective: str, *settings: str, **choices: Any) -> Run:
    """A run that was tuned from the base."""
    name = "-".join((objective, *settings)).replace("/", "")
    columns = {"columns": ["prompt=instruction"]} if objective in ("dpo", "policy-gradient") else {}
    tune(
        home / name,
        objective,
        home / "base",
        home / "rows" / "rows.json",
        settings=settings,
        **columns,
        **choices,
    )
    return runs.load(home / name)


def classifier(home: Path, *, several: bool) -> Run:
    file = home / f"labels-{several}.tsv"
    (write_several if several else write_labelled)(file)
    settings = ["objective.multi_label=true" if several else "objective.label_smoothing=0.1"]
    columns = {"columns": ["separator=;"]} if several else {}
    train_labelled(home / f"classes-{several}", file, settings=settings, **columns)
    return runs.load(home / f"classes-{several}")


def masked(home: Path) -> Run:
    """An encoder that learns masked tokens."""
    file = write_text(home / "text")
    settings = ["text.tokenizer=Bytes", *(s for s in TINY_ENCODER if "vocab_size" not in s)]
    pellucid.train(
        [file], objective="mlm", out=home / "mlm", steps=2, settings=settings, show=False
    )
    return runs.load(home / "mlm")


def distilled(
    home: Path, divergence: str, *, teacher: Path | None = None, out: Path | None = None
) -> Run:
    settings = [setting for setting in TINY if not setting.startswith("text.tokenizer")]
    settings += ["text.held_out=0.2", f"objective.divergence={divergence}"]
    settings += ["objective.temperature=2", "objective.hard_weight=0.3"]
    pellucid.train(
        [write_text(home / "text")],
        objective="distill",
        teacher=home / "base" if teacher is None else teacher,
        out=out or home / divergence,
        steps=2,
        settings=settings,
        show=False,
    )
    return runs.load(out or home / divergence)


def pairs(home: Path) -> Run:
    reversed_words = [(word, word[::-1]) for word in words(60)]
    file = write_pairs(home / "pairs.tsv", reversed_words)
    train_pairs(home / "pairs", file, steps=4)
    return runs.load(home / "pairs")


#: Runs, and the row that each is explained on.
ROWS: dict[str, tuple[Callable[[Path], Run], Mapping[str, Any]]] = {
    "sft": (lambda home: stage(home, "sft", "objective.label_smoothing=0.1"), ROW),
    "sft packed": (lambda home: stage(home, "sft", "objective.packed=true"), ROW),
    "dpo": (lambda home: stage(home, "dpo"), ROW),
    "dpo smoothed": (lambda home: stage(home, "dpo", "objective.label_smoothing=0.2"), ROW),
    "dpo hinge": (lambda home: stage(home, "dpo", "objective.loss=hinge"), ROW),
    **{
        f"policy {kl}": (
            lambda home, kl=kl: stage(
                home,
                "policy-gradient",
                f"objective.kl={kl}",
                "objective.beta=0.2",
                "objective.temperature=1.3",
                "objective.entropy_bonus=0.01",
                reward=REWARD,
            ),
            ROW,
        )
        for kl in ("in_reward", "k2", "k3")
    },
    "classes": (lambda home: classifier(home, several=False), {"text": "a cat", "label": "food"}),
    "several classes": (
        lambda home: classifier(home, several=True),
        {"text": "the dog saw paris", "label": "animals;capitals"},
    ),
    "seq2seq": (lambda home: pairs(home), {"source": "abc", "target": "cba"}),
}


@pytest.fixture(scope="module")
def opened(home: Path) -> dict[str, Run]:
    return {}


def run_of(name: str, home: Path, opened: dict[str, Run]) -> Run:
    if name not in opened:
        opened[name] = ROWS[name][0](home)
    return opened[name]


def trained_on(run: Run, row: Mapping[str, Any], folder: Path) -> tuple[torch.Tensor, int]:
    """The loss of the trainer on the row, with its gradients in the model, and its divisor."""
    file = folder / "row.json"
    file.write_text(json.dumps(dict(row)), encoding="utf-8")
    objective = run.config.objective
    rewards = REWARD if isinstance(objective, config.PolicyGradient) else None
    if isinstance(objective, config.SFT):  # one conversation in a row
        unpacked = replace(objective, packed=False)
        run = replace(run, config=replace(run.config, objective=unpacked))
    with task_on(run, [str(file)], reward=find_reward(objective, rewards)) as task:
        n = objective.n_samples if isinstance(objective, config.PolicyGradient) else 1
        batch: Batch = task.batch(0, n)
        run.model.eval().zero_grad()
        loss = task.objective(run.model, batch.part(slice(0, 1))).total
        loss.backward()
    return loss.detach(), n


def gradients_of(model: nn.Module, n: int) -> dict[str, torch.Tensor]:
    return {name: p.grad * n for name, p in model.named_parameters() if p.grad is not None}


def explained(run: Run, row: Mapping[str, Any]) -> Trace:
    reward = REWARD if isinstance(run.config.objective, config.PolicyGradient) else None
    return trace(run, example=row, reward=reward)


@pytest.mark.parametrize("name", ROWS)
def test_loss_and_gradients_are_those_of_the_trainer(
    name: str, home: Path, opened: dict[str, Run], tmp_path: Path
) -> None:
    run, row = run_of(name, home, opened), ROWS[name][1]
    row_trace = explained(run, row)
    loss, n = trained_on(run, row, tmp_path)
    torch.testing.assert_close(row_trace["loss"], loss * n, rtol=1e-5, atol=1e-6)
    gradients, expected = row_trace.backward(), gradients_of(run.model, n)
    assert expected.keys() <= gradients.norms.keys()
    largest = max(float(grad.abs().max()) for grad in expected.values())
    for parameter, grad in expected.items():
        torch.testing.assert_close(
            gradients[f"{parameter}.grad"], grad, rtol=1e-4, atol=1e-5 * largest, msg=parameter
        )
        assert gradients.norms[parameter] == pytest.approx(float(grad.norm()), rel=1e-3, abs=1e-6)
    run.model.zero_grad()


@pytest.mark.parametrize("name", ROWS)
def test_every_number_of_an_example_follows_from_its_operands(
    name: str, home: Path, opened: dict[str, Run]
) -> None:
    """Down to ids, weights, and what another model says: a teacher, a reference."""
    row_trace = explained(run_of(name, home, opened), ROWS[name][1])
    result = audit(row_trace)
    assert result.differing == ()
    assert {"loss", "error"} <= {kind.address for kind in result.kinds}
    computed = {
        address: reason for address, reason in result.ends if "nothing is computed" not in reason
    }
    assert computed.keys() <= {"loss.grad", "reference_log_ps", "teacher_logits"}, computed


@pytest.mark.parametrize("name", sampled(list(ROWS), 5))
def test_every_chapter_has_something_to_say_and_its_receipts_agree(
    name: str, home: Path, opened: dict[str, Run]
) -> None:
    run, row = run_of(name, home, opened), ROWS[name][1]
    row_trace = explained(run, row)
    for entry in CHAPTERS:
        if entry.id in ("compare", "over-time"):
            continue
        try:
            chapter = build_chapter(row_trace, entry.id, Place(token=-2))
        except pellucid.PellucidError:  # such as the lens of a classifier
            assert entry.part == "forward"
            assert entry.id != "loss"
            continue
        for receipt in chapter.receipts:
            assert receipt.agrees, (entry.id, receipt.title, receipt.recomputed, receipt.model)
        if entry.part in ("backward", "update") or entry.id == "loss":
            assert chapter.pictures, entry.id
    kinds = {"loss", "backward"}
    assert all(build_chapter(row_trace, kind, Place()).receipts for kind in kinds)


@pytest.mark.parametrize("divergence", ["forward", "reverse", "jensen_shannon"])
def test_a_distilled_run_is_explained_with_its_teacher(divergence: str, home: Path) -> None:
    run = distilled(home, divergence)
    student_trace = trace(run, "say red 5")
    objective = run.config.objective
    assert isinstance(objective, config.Distillation)
    teacher, ids = runs.load(home / "base").model.eval(), student_trace.ids[None]
    with torch.no_grad():
        q = (teacher(ids)[0, :-1] / 2).softmax(-1).double()
    student = run.model.eval()
    student.zero_grad()
    z = student(ids)[0, :-1]
    p, log_p = (z / 2).double().softmax(-1), (z / 2).double().log_softmax(-1)
    match divergence:
        case "forward":
            soft = (q * (q.log() - log_p)).sum(-1).mean()
        case "reverse":
            soft = (p * (log_p - q.log())).sum(-1).mean()
        case _:
            m = (p + q) / 2
            soft = ((q * (q / m).log() + p * (p / m).log()) / 2).sum(-1).mean()
    hard = torch.nn.functional.cross_entropy(z.double(), student_trace.ids[1:])
    loss = 0.7 * 4 * soft + 0.3 * hard
    loss.backward()
    assert float(student_trace["loss"]) == pytest.approx(float(loss.detach()), rel=1e-5)
    name = "token_embedding.weight"
    grad = dict(student.named_parameters())[name].grad
    torch.testing.assert_close(student_trace[f"{name}.grad"], grad, rtol=1e-4, atol=1e-6)
    assert audit(student_trace).agrees
    for entry in CHAPTERS:
        if entry.id not in ("compare", "over-time"):
            receipts = build_chapter(student_trace, entry.id, Place(token=2)).receipts
            assert all(receipt.agrees for receipt in receipts), entry.id
    student.zero_grad()


def test_masked_tokens_are_explained_with_what_stands_behind_them(home: Path) -> None:
    run = masked(home)
    mask = run.require_tokenizer().roles()["mask_token"]
    masked_trace = trace(run, f"the c{mask}t sat", target="the cat sat")
    loss = masked_trace.loss
    assert loss is not None
    assert not isinstance(loss, ClassLoss)
    (place,) = loss.places.tolist()
    expected = -masked_trace["probabilities"][place, int(loss.targets[0])].log()
    assert float(masked_trace["loss"]) == pytest.approx(float(expected), rel=1e-5)
    run.model.eval().zero_grad()
    logits = run.model(masked_trace.ids[None])[0]
    torch.nn.functional.cross_entropy(logits[loss.places], loss.targets).backward()
    for name, grad in gradients_of(run.model, 1).items():
        torch.testing.assert_close(masked_trace[f"{name}.grad"], grad, rtol=1e-4, atol=1e-6)
    run.model.zero_grad()
    assert audit(masked_trace).agrees
    drawn_trace = trace(run, example={"text": "the quick brown fox jumps"})
    assert "loss" in drawn_trace.addresses()
    with pytest.raises(pellucid.PellucidError, match=r"each .* hides one token"):
        trace(run, f"the {mask} sat", target="the cat sat")
    with pytest.raises(pellucid.PellucidError, match="differ at token"):
        trace(run, f"the c{mask}t sat", target="the cat sit")


IN_WORDS = {
    "sft": ["say red 5", "--target", "red and blue."],
    "dpo": ["say red 5", "--target", "red.", "--rejected", "no"],
    "classes": ["a cat", "--target", "food"],
    "several classes": ["the dog saw paris", "--target", "animals, capitals"],
    "seq2seq": ["abc", "--target", "cba"],
}


@pytest.mark.parametrize("name", IN_WORDS)
def test_words_give_the_same_loss_as_the_row(
    name: str,
    home: Path,
    opened: dict[str, Run],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    run, row = run_of(name, home, opened), ROWS[name][1]
    file = tmp_path / "row.json"
    file.write_text(json.dumps(dict(row)), encoding="utf-8")
    sentences: list[str] = []
    for flags in (IN_WORDS[name], ["--example", str(file)]):
        assert main(["explain", str(run.folder), *flags, "--chapter", "loss", "--json"]) == 0
        sentences.append(json.loads(capsys.readouterr().out)["sentence"])
    assert sentences[0] == sentences[1]


@pytest.mark.parametrize("name", ["dpo", "classes", "seq2seq"])
def test_the_page_of_an_example_has_the_loss_of_its_objective(
    name: str, home: Path, opened: dict[str, Run], capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["explain", str(run_of(name, home, opened).folder), *IN_WORDS[name]]
    assert main([*words, "--chapter", "loss", "--json"]) == 0
    sentence = json.loads(capsys.readouterr().out)["sentence"]
    arguments = parser().parse_args([*words, "--html", "page.html"])
    session, reading, versus = open_readings(arguments, [words[1]])
    assert versus is None
    request = PageRequest(kind="chapter", reading=reading, chapter="loss")
    assert session.get(request)["sentence"] == sentence
    assert main([*words, "--serve"]) == 2
    error = " ".join(capsys.readouterr().err.split())
    assert "write the example's page with --html FILE" in error


REFUSED = {
    "sft": (["x", "--target", "y", "--rejected", "z"], "only preferences"),
    "dpo": (["x", "--target", "y"], "give the rejected one too"),
    "policy k2": (["x", "--target", "y"], "--reward"),
    "seq2seq": (["x", "--target", "y", "--reward", "m:f"], "only a run that learnt from"),
    "classes": (["x", "--target", "cars"], "is no class of this run"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_words_that_do_not_fit_are_refused(
    name: str, home: Path, opened: dict[str, Run], capsys: pytest.CaptureFixture[str]
) -> None:
    flags, reason = REFUSED[name]
    assert main(["explain", str(run_of(name, home, opened).folder), *flags]) == 2
    assert reason in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("content", "why"),
    [('{"a": 1}\n{"a": 2}\n', "has 2 rows"), ("[1]", "is not one row"), ("{", "not valid JSON")],
)
def test_a_file_without_one_row_is_refused(
    content: str, why: str, home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "row.json"
    file.write_text(content, encoding="utf-8")
    assert main(["explain", str(home / "base"), "--example", str(file)]) == 2
    assert why in " ".join(capsys.readouterr().err.split())


def test_a_plain_text_says_that_its_loss_is_not_the_runs_own(
    home: Path, opened: dict[str, Run]
) -> None:
    text_trace = trace(run_of("dpo", home, opened), "say red 5")
    notes = build_chapter(text_trace, "loss", Place()).notes
    assert any("trained by DPO" in note for note in notes)


def test_a_policy_is_explained_in_words_with_a_given_answer_and_with_sampled_ones(
    home: Path, opened: dict[str, Run], tmp_path: Path
) -> None:
    run = run_of("policy k2", home, opened)
    assert "--reward NAME" in trace(run, "say red 5").sentence.loss_note
    sampled_answer = trace(run, "say red 5", reward=REWARD).sentence.loss
    policy_trace = trace(run, "say red 5", target="red", reward=REWARD)
    loss = policy_trace.sentence.loss
    assert isinstance(sampled_answer, PolicyLoss)
    assert isinstance(loss, PolicyLoss)
    ids = run.require_tokenizer().encode("red")
    assert loss.targets.tolist() == [*ids, run.require_tokenizer().end_id]
    assert loss.rewards[1:] == sampled_answer.rewards[1:]
    function = find_reward(run.config.objective, REWARD)
    assert function is not None
    assert loss.rewards[0] == pytest.approx(function({"prompt": "say red 5"}, "red"))
    file = tmp_path / "row.json"
    file.write_text(json.dumps([{"instruction": "say red 5"}]), encoding="utf-8")
    with task_on(run, [str(file)], reward=function, answer="red") as task:
        batch: Batch = task.batch(0, len(loss.rewards))
        expected = task.objective(run.model.eval(), batch.part(slice(0, 1))).total
    torch.testing.assert_close(
        policy_trace["loss"], expected.detach() * len(loss.rewards), rtol=1e-5, atol=1e-6
    )
    assert audit(policy_trace).agrees
    with pytest.raises(pellucid.PellucidError, match="the context has room"):
        trace(run, "say red 5", target="red " * 500, reward=REWARD)


def test_a_student_whose_teacher_is_gone_is_explained_without_it(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    teacher = tmp_path / "teacher"
    shutil.copytree(home / "base", teacher)
    run = distilled(home, "forward", teacher=teacher, out=tmp_path / "student")
    opened_teachers: list[Run] = []

    def open_teacher(student: Run) -> Transformer:
        opened_teachers.append(student)
        return teacher_of(student)

    monkeypatch.setattr("pellucid.explain.losses.plain_text.teacher_of", open_teacher)
    losses_with_teacher = [float(trace(run, "say red 5")["loss"]) for _ in range(2)]
    assert losses_with_teacher[0] == losses_with_teacher[1]
    assert len(opened_teachers) == 1  # it is read once, not for every text
    shutil.rmtree(teacher)
    text_trace = trace(runs.load(run.folder), "say red 5")
    plain = torch.nn.functional.cross_entropy(text_trace["logits"][:-1], text_trace.ids[1:])
    assert float(text_trace["loss"]) == pytest.approx(float(plain), rel=1e-6)
    assert "does not exist" in text_trace.sentence.loss_note
    assert any(
        "does not exist" in note for note in build_chapter(text_trace, "loss", Place()).notes
    )
