"""The signs of a whole run: on the terminal and as a page, the numbers are those of the events."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest

from pellucid.cli.main import main
from pellucid.report import SignText, vitals_page
from pellucid.training import Vitals, to_record
from pellucid.vitals import chart, rules_of
from support.tiny import train_tiny

ROWS = (("softmax", "calm"), ("cross-entropy", ""), ("KL", ""), ("gradients", ""), ("variance", ""))


def event(step: int, value: float, word: str, read: int | None = None) -> Vitals:
    return Vitals(
        step=step,
        signs=(("attention.max_logit", 1, value, word, read or step, ""),),
        rows=ROWS,
    )


EVENTS = [
    event(1, 2.0, "calm"),
    event(5, 60.0, "calm"),
    event(10, 70.0, "watch"),
    event(12, 70.0, "watch", read=10),
    event(25, 30.0, "calm"),
]


def said() -> dict[str, SignText]:
    return {
        id: SignText(rule.equation, rule.description, rule.source, tuple(rule.limits))
        for id, rule in rules_of().items()
    }


def test_the_chart_says_what_was_not_calm_and_by_which_rule() -> None:
    text = "\n".join(chart(EVENTS, rules_of(), columns=60))
    assert "1 softmax       calm, was watch" in text
    assert "attention.max_logit: 2 to 70, now 30, steps 1 to 25" in text
    assert "watch attention.max_logit, steps 10 to 10, at first 70" in text
    assert "watch above 50, sick above 100, 2 readings in a row" in text
    assert "3 KL            not measured" in text


def test_a_run_that_was_calm_says_so() -> None:
    text = chart(EVENTS[:2], rules_of())
    assert text[-1] == "calm throughout: no sign was ever anything else"


def test_a_value_that_is_not_finite_is_not_drawn_and_not_lost() -> None:
    text = "\n".join(chart([event(1, math.nan, "sick")], rules_of()))
    assert "nothing finite was measured" in text
    assert "sick  attention.max_logit" in text
    page = vitals_page("run", [event(1, 1.0, "calm"), event(2, math.inf, "sick")], said())
    assert "1 values were not finite" in page


def test_the_page_is_whole_and_shows_every_reading_once() -> None:
    page = vitals_page("<run>", EVENTS, said())
    assert "<run>" not in page
    assert "<script" not in page
    assert not re.search(r"(src|href)=.?https?:", page)
    assert "attention.max_logit: watch, at 70" in page
    assert "attention.max_logit: calm, at 30" in page
    rows = re.findall(r'<th scope="row" class="number">(\d+)</th><td class="number">([\d.]+)', page)
    assert rows == [("1", "2"), ("5", "60"), ("10", "70"), ("25", "30")]


def test_the_command_draws_a_run_that_was_watched(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    train_tiny(folder, steps=6)
    assert main(["vitals", str(folder)]) == 2
    assert "no vital signs" in " ".join(capsys.readouterr().err.split())
    with (folder / "metrics.jsonl").open("a", encoding="utf-8") as stream:
        stream.writelines(json.dumps(to_record(each)) + "\n" for each in EVENTS)
    assert main(["vitals", str(folder), "--all"]) == 0
    assert "attention.max_logit: 2 to 70" in capsys.readouterr().out
    assert (folder / "vitals.html").is_file()
    assert main(["vitals", str(folder), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["step"] == 25
    assert facts["signs"][0]["value"] == 30.0
    assert main(["vitals", str(folder), "--out", str(tmp_path / "x.txt")]) == 2


def test_training_from_the_command_line_is_watched_unless_that_is_not_wanted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from support.tiny import TINY, write_text

    text = write_text(tmp_path / "text")
    flags = [f"--set={assignment}" for assignment in (*TINY, "text.held_out=0.2")]
    for name, more in (("watched", []), ("alone", ["--no-vitals"])):
        words = ["train", str(text), "--steps", "6", "--json", *flags, *more]
        assert main([*words, "--out", str(tmp_path / name)]) == 0
    capsys.readouterr()
    assert '"event": "Vitals"' in (tmp_path / "watched" / "metrics.jsonl").read_text()
    assert '"event": "Vitals"' not in (tmp_path / "alone" / "metrics.jsonl").read_text()
    from pellucid.checkpoints import load_model_tensors

    one, two = (
        load_model_tensors(tmp_path / name / "checkpoints" / "step-6")
        for name in ("watched", "alone")
    )
    assert all((one[name] == two[name]).all() for name in one)
