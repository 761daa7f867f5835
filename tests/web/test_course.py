"""Lessons and the textbook on the page: the same as on the terminal, and in the same file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from pellucid import maths
from pellucid.course.exercises.types import evaluate
from pellucid.course.experiments import EXPERIMENTS
from pellucid.course.lessons.lesson import find_lesson, lessons
from pellucid.course.lessons.open_lesson import open_lesson
from pellucid.course.lessons.progress import read_progress
from pellucid.errors import PellucidError
from pellucid.explain.chapters import CHAPTERS
from pellucid.textbook import concepts, record
from pellucid.web import Session, book, parse_request
from pellucid.web.app import app
from pellucid.web.course import Course
from pellucid.web.serving import serve
from support.page import SENTENCE, session_of

HERE = "http://127.0.0.1:7357"
CODE = "def logsumexp(x):\n    return np.log(np.exp(x).sum(-1))"


@pytest.fixture
def learning(trained: Path, tmp_path: Path) -> Session:
    """A session with a course, whose progress is in a folder of its own."""
    session = session_of(trained)
    session.course = Course(tmp_path / "keep")
    session.course.runs_code = True
    return session


def ask(session: Session, kind: str, **more: Any) -> Any:
    return json.loads(session.answer(parse_request({"kind": kind, **more})))


def test_a_lesson_has_the_exercises_of_the_terminal(learning: Session, reading: Any) -> None:
    lesson = ask(learning, "lesson", name="softmax", reading=reading)
    run = learning.shelf.load("run0")
    opened = open_lesson(find_lesson("softmax"), run, "run", sentence=SENTENCE)
    expected = [e.id for e in opened.exercises if "new" in e.readers]
    assert [exercise["id"] for exercise in lesson["exercises"]] == expected
    assert lesson["text"] == opened.lesson.texts["new"]
    assert lesson["picture"]["kind"] == "bars"
    assert {link["field"] for link in lesson["links"]} >= {"concepts", "equations", "chapters"}


def test_an_answer_is_graded_and_kept_in_the_file_of_the_terminal(
    learning: Session, reading: Any
) -> None:
    assert learning.course is not None
    run = learning.shelf.load("run0")
    opened = open_lesson(find_lesson("softmax"), run, "run", sentence=SENTENCE)
    (exercise,) = (e for e in opened.exercises if e.id == "softmax")
    right = json.dumps(evaluate("softmax", exercise.operands))
    answers = {"softmax": right, "quiz-3": "the sum of scores is slower to compute"}
    graded = ask(learning, "grade", name="softmax", reading=reading, answers=answers)
    assert graded["verdicts"]["softmax"]["accepted"]
    assert not graded["verdicts"]["quiz-3"]["accepted"]
    assert read_progress(learning.course.folder).solved == {"softmax": ("softmax",)}
    (row,) = (r for r in ask(learning, "lessons")["lessons"] if r["name"] == "softmax")
    assert row["n_solved"] == graded["n_solved"] == 1


def test_code_runs_on_this_machine_alone(learning: Session, reading: Any) -> None:
    assert learning.course is not None
    answers = {"write-logsumexp": CODE}
    question = {"name": "softmax", "reading": reading}
    graded = ask(learning, "grade", **question, answers=answers)
    assert graded["verdicts"]["write-logsumexp"]["accepted"], graded
    learning.course.runs_code = False
    # a number's answer in code is code too
    for name in ("write-logsumexp", "logsumexp"):
        with pytest.raises(PellucidError, match="it runs no code: answer with numbers"):
            ask(learning, "grade", **question, answers={name: CODE})
    assert ask(learning, "grade", **question, answers={"softmax": "1"})["verdicts"]


@pytest.mark.parametrize(("host", "runs_code"), [("127.0.0.1", True), ("0.0.0.0", False)])
def test_only_a_server_of_this_machine_runs_code(
    learning: Session, host: str, runs_code: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert learning.course is not None
    learning.course.runs_code = not runs_code
    monkeypatch.setattr("pellucid.web.bounds.Server.run", lambda self, sockets: None)
    serve(learning, host=host, port=0)
    assert learning.course.runs_code is runs_code


def test_the_reader_is_kept(learning: Session, reading: Any) -> None:
    assert ask(learning, "lessons")["reader"] == "new"
    assert ask(learning, "lessons", reader="interview")["reader"] == "interview"
    lesson = ask(learning, "lesson", name="softmax", reading=reading)
    exercise_ids = {exercise["id"] for exercise in lesson["exercises"]}
    assert exercise_ids == set(find_lesson("softmax").exercise_ids("interview"))


def pages() -> Iterator[Any]:
    """Every page of the textbook, every lesson's links and every chapter's doors."""
    kinds = {"concept": concepts(), "equation": maths.__all__, "experiment": EXPERIMENTS}
    for kind, names in kinds.items():
        for name in names:
            yield (kind, name), book.page(kind, name)["links"]
    for lesson in lessons().values():
        yield ("lesson", lesson.name), book.lesson_links(lesson)
    for chapter in CHAPTERS:
        yield ("chapter", chapter.id), book.chapter_doors(chapter.id)


def test_every_link_leads_to_a_page_and_those_of_concepts_lead_back() -> None:
    targets = {
        page: {(item["kind"], item["name"]) for field in links for item in field["items"]}
        for page, links in pages()
    }
    for page, names in targets.items():
        for target in names:
            assert target in targets or target[0] == "", (page, target)
            if page[0] == "concept" and target in targets:
                link_back = {("concept", page[1])} <= targets[target]
                assert link_back, (page, target)


def test_a_concept_is_the_same_as_on_the_terminal() -> None:
    concept_page, concept = book.page("concept", "softmax"), concepts()["softmax"]
    terminal_page = record(concept)
    assert (concept_page["title"], concept_page["texts"]) == (
        terminal_page["title"],
        [terminal_page["text"]],
    )
    assert concept_page["formulas"] == terminal_page["formulas"]
    for (_, items), field in zip(
        terminal_page["links"].items(), concept_page["links"], strict=True
    ):
        assert [item["name"] for item in field["items"]] == items


@pytest.mark.parametrize(
    ("words", "kind", "name"),
    [
        ("why divide by sqrt d", "concept", "attention-scale"),
        ("softmax", "equation", "softmax"),
        ("p minus y", "concept", "p-minus-y"),
        ("KL distance", "term", "KL distance"),
        ("norms", "term", "norms"),
    ],
)
def test_a_term_or_a_question_finds_its_page(words: str, kind: str, name: str) -> None:
    concept_page = book.find_page(words)
    assert (concept_page["kind"], concept_page["name"]) == (kind, name)


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"kind": "lesson", "name": "atention"}, "did you mean attention"),
        ({"kind": "concept", "name": "sofa"}, "there is no page 'sofa'"),
        ({"kind": "find", "name": "photosynthesis"}, "photosynthesis"),
        ({"kind": "find", "name": "x" * 301}, "at most 300 characters"),
        ({"kind": "lessons", "reader": "nobody"}, "one of new, pytorch, interview"),
        ({"kind": "grade", "name": "softmax", "answers": {"softmax": 1}}, "texts by"),
        ({"kind": "grade", "name": "softmax", "answers": {"softmax": "x"}}, "nested lists"),
        ({"kind": "grade", "name": "softmax", "answers": {"sofa": "1"}}, "no exercise 'sofa'"),
    ],
)
def test_what_cannot_be_answered_is_said(
    learning: Session, reading: Any, asked: Any, why: str
) -> None:
    page = TestClient(app(learning), base_url=HERE, headers={"origin": HERE})
    response = page.post("/ask", json={"reading": reading, **asked})
    assert why in response.json()["error"]


def test_a_page_without_a_course_says_so(session: Session) -> None:
    assert "doors" not in ask(
        session,
        "chapter",
        chapter="scores",
        reading={"run": "run0", "checkpoint": "", "sentence": SENTENCE},
    )
    with pytest.raises(PellucidError, match="no course"):
        ask(session, "lessons")


def test_the_pages_of_the_course_are_files_of_their_own(client: TestClient) -> None:
    for path in ("/learn", "/concept"):
        assert "learn/learn.js" in client.get(path).text
    assert client.get("/learn/learn.js").headers["content-type"].startswith("text/javascript")
    for path in ("/learn/../app.py", "/learn/texts.tlh.json", "/learn/"):
        assert client.get(path).status_code == 404
    assert "learn/" not in client.get("/app.js").text
