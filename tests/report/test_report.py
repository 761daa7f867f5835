"""The report of a run: whole, true to the records, closed to the outside, readable by machines."""

from __future__ import annotations

import base64
import hashlib
import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

from pellucid.cli import main
from pellucid.errors import RunError
from pellucid.report import build_story, write_report
from pellucid.report.chart import Chart, ReferenceLine, svg
from pellucid.report.charts import charts
from pellucid.report.page import page
from pellucid.report.story import MOST_POINTS, Series
from pellucid.runs import read_events
from pellucid.training import Event, events
from support.events import (
    EVALUATED,
    FINISHED,
    PREFERENCES,
    RESUMED,
    SAMPLED,
    SAVED,
    STARTED,
    STOPPED,
    WHOLE,
    logged,
)


@pytest.fixture(scope="module")
def html(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("report") / "run.html"
    assert write_report(trained, file).n_bytes == file.stat().st_size
    return file.read_text("utf-8")


def drawn(*happened: Event) -> str:
    return page(build_story(happened, "a-run"), config_text="", papers=[])


class Tags(HTMLParser):
    """Every tag with its attributes; and that each that opens is closed."""

    EMPTY = frozenset({"meta", "path", "circle", "polyline"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_nothing_in_the_page_reaches_out_or_runs(html: str) -> None:
    tags = Tags(html)
    assert tags.open == []
    assert {tag for tag, _ in tags.tags} & {"script", "link", "img", "iframe", "object"} == set()
    for _, attributes in tags.tags:
        assert not any(name.startswith("on") or name in ("src", "style") for name in attributes)
        assert (attributes.get("href") or "#").startswith("#")
    assert "url(" not in html
    assert "@import" not in html


def test_the_policy_forbids_all_but_this_very_style(html: str) -> None:
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]+)"', html)
    (style,) = re.findall(r"<style>(.*?)</style>", html, re.S)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert "default-src 'none'" in policy
    assert f"style-src 'sha256-{digest}'" in policy
    assert "unsafe" not in policy


def test_every_drawing_is_sound_and_tells_a_screen_reader_what_it_shows(html: str) -> None:
    drawings = re.findall(r"<svg.*?</svg>", html, re.S)
    assert len(drawings) == 7
    ids = re.findall(r' id="([^"]+)"', html)
    assert len(ids) == len(set(ids))
    for drawing in drawings:
        svg = ElementTree.fromstring(drawing)
        assert svg.get("role") == "img"
        title, description = svg.findtext("title"), svg.findtext("desc")
        assert title
        assert description
        assert svg.get("aria-labelledby", "").split() == [
            part.get("id") for part in (svg.find("title"), svg.find("desc")) if part is not None
        ]


def test_behind_every_curve_is_a_table_with_its_numbers(html: str, trained: Path) -> None:
    happened = read_events(trained / "metrics.jsonl")
    story = build_story(happened, "run")
    curves = [curve for chart in charts(story) for curve in chart.curves]
    assert all(len(curve.points) > 1 for curve in curves)
    for curve in curves:
        for step, value in curve.points:
            assert f'{step:,}</th><td class="number">{value:.6g}</td>' in html


def test_the_page_holds_config_plan_text_and_samples(html: str, trained: Path) -> None:
    assert "n_layers = 2" in html
    for file in ("plan.json", "text/text.json"):
        assert file in html
    (content,) = re.findall(r'"sha256": "(\w+)"', (trained / "text/text.json").read_text())[:1]
    assert content in html
    assert html.count('<p class="said"') == sum(
        isinstance(event, events.Sampled) for event in read_events(trained / "metrics.jsonl")
    )


def test_all_updates_are_in_the_curve_of_the_loss() -> None:
    story = build_story([STARTED, logged(10), logged(20)], "x")
    assert [step for step, _ in story.loss.points] == list(range(1, 21))
    assert story.loss.updates == 1


def test_a_long_run_is_joined_into_means_and_says_so() -> None:
    story = build_story([STARTED, *(logged(10 * i, loss=i) for i in range(1, 501))], "x")
    assert len(story.loss.points) <= MOST_POINTS
    assert story.loss.updates == 13
    assert story.loss.points[0] == (13, pytest.approx((10 * 1 + 3 * 2.5) / 13))
    assert "means of 13 updates" in drawn(STARTED, *(logged(10 * i) for i in range(1, 501)))


def test_values_that_are_not_finite_are_counted_and_not_drawn() -> None:
    broken = replace(logged(10), losses=(float("nan"), float("inf"), *(2.0,) * 8))
    report_page = drawn(STARTED, broken, STOPPED)
    assert "2 values were not finite and are not drawn" in report_page
    assert "stopped on a value that is not finite" in report_page
    places = re.findall(r' (?:points|d|cx|cy|x|y)="([^"]*)"', report_page)
    assert places
    assert not any("nan" in place or "inf" in place for place in places)


def test_guessing_and_the_clip_are_lines_across_their_charts() -> None:
    report_page = drawn(*WHOLE)
    assert "a line across at 7.625: ln V: guessing evenly" in report_page
    assert "a line across at 1: clipped at 1" in report_page
    unclipped = [replace(e, clip_norm=None) if isinstance(e, events.Logged) else e for e in WHOLE]
    assert "clipped" not in drawn(*unclipped).split("</style>")[1]


def test_names_of_lines_that_lie_close_stand_apart() -> None:
    close_lines = tuple(ReferenceLine(f"at {value}", value) for value in (50, 51, 52, 99, 100))
    curve = Series(name="x", unit="", points=((0, 0.0), (9, 100.0)))
    chart = Chart("x", "x", "", (curve,), close_lines, (), 9)
    names = re.findall(r'class="name" x="\d+" y="([\d.]+)" text-anchor="(\w+)"', svg(chart))
    assert len(names) == 5
    for i, (y, end) in enumerate(names):
        assert all(end != e or abs(float(y) - float(height)) >= 14 for height, e in names[:i])


def test_parts_and_measures_of_another_objective_have_their_charts_and_units() -> None:
    story = build_story(PREFERENCES, "x")
    charts_by_title = {chart.title: chart for chart in charts(story)}
    assert list(charts_by_title) == [
        "Loss, nats per pair",
        "Held-out preference accuracy",
        "Held-out KL to the reference, k3",
        "Gradient norm, before clipping",
        "Learning rate",
        "Speed, pairs per second",
        "Margin",
        "Reward of the chosen",
        "Reward of the rejected",
        "Log Z, nats",
        "my_own",
    ]
    # a measure of both is one chart with two curves
    assert [curve.name for curve in charts_by_title["Margin"].curves] == [
        "margin",
        "held-out margin",
    ]
    assert charts_by_title["Held-out preference accuracy"].caption.startswith("Higher is better. ")
    page_text = drawn(*PREFERENCES)
    assert "0.7333<small>preference accuracy, at step 300" in page_text
    assert "a line across at 0.6931: guessing evenly" in page_text
    ids = re.findall(r' id="([^"]+)"', page_text)
    assert len(ids) == len(set(ids))


def test_a_name_from_the_records_cannot_become_markup() -> None:
    evil = replace(EVALUATED, measures=(('"><script>x()</script>', 1.0),))
    assert "<script" not in drawn(STARTED, evil)


def test_resumes_and_how_it_ended_are_told() -> None:
    report_page = drawn(*WHOLE, RESUMED, FINISHED)
    assert "the run was resumed after step 200" in report_page
    assert "resumed from checkpoints/step-200" in report_page
    assert "600 of 600 steps; finished." in report_page
    assert "it is still training, or was ended from outside" in drawn(*WHOLE)


def test_a_checkpoint_is_named_within_the_run_whichever_system_saved_it() -> None:
    for path in ("/home/me/runs/nano/checkpoints/step-300", "C:\\me\\nano\\checkpoints\\step-300"):
        assert (300, "saved checkpoints/step-300") in build_story(
            [replace(SAVED, path=path, best=False)], "x"
        ).happenings


def test_what_a_model_says_cannot_become_markup_or_control_the_page() -> None:
    evil = replace(SAMPLED, continuation="</p><script>x()</script>\x1b[31m & مرحبا")
    report_page = drawn(STARTED, evil, EVALUATED)
    assert "<script" not in report_page
    assert "&lt;/p&gt;&lt;script&gt;x()&lt;/script&gt;␛[31m &amp; مرحبا" in report_page


def test_a_run_that_only_started_has_a_report_without_curves() -> None:
    report_page = drawn(STARTED)
    assert Tags(report_page).open == []
    assert "training loss: nothing was measured" in report_page
    assert "No sample was taken." in report_page


def test_the_command_says_where_it_wrote_and_how_much(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "r.html"
    assert main(["report", str(trained), "--out", str(file)]) == 0
    printed = capsys.readouterr().out
    assert str(file) in printed
    assert f"{file.stat().st_size / 1000:.3g} kB" in printed


def test_the_report_lies_in_the_run_unless_told_otherwise(trained: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(trained, run)
    first = write_report(run)
    assert first.file == run / "report.html"
    content = first.file.read_bytes()
    assert write_report(run).file.read_bytes() == content


@pytest.mark.parametrize(
    ("out", "said"),
    [("config.toml", "does not end in .html"), ("nowhere/r.html", "there is no folder")],
)
def test_a_place_that_cannot_be_a_report_is_refused(
    trained: Path, tmp_path: Path, out: str, said: str
) -> None:
    with pytest.raises(RunError, match=said):
        write_report(trained, tmp_path / out)


def test_a_run_without_records_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("")
    with pytest.raises(RunError, match="has recorded nothing yet"):
        write_report(tmp_path)
