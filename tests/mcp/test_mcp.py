"""An agent reads runs below one folder, over stdio, and trains only where that is allowed."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import pellucid
from pellucid.cli import main
from pellucid.errors import RunError
from pellucid.mcp import Root, build_server
from support.tiny import TINY, write_text

pytest.importorskip("mcp.server.mcpserver", reason="mcp is not installed: pip install -e '.[mcp]'")

Call = tuple[str, dict[str, Any]]
SENTENCE = "the quick fox"
NUMBER = "L1.H1.scores[3,1]"


class Answer:
    """What a client gets: the facts, or the refusal."""

    def __init__(self, result: Any) -> None:
        self.refusal: str = result.content[0].text if result.is_error else ""
        self.facts: dict[str, Any] = result.structured_content or {}


def ask(server: Any, calls: Sequence[Call]) -> list[Answer]:
    """The answers of a server, asked by the SDK's own client."""
    import anyio
    from mcp import Client

    async def talk() -> list[Answer]:
        async with Client(server) as client:
            return [Answer(await client.call_tool(name, words)) for name, words in calls]

    return anyio.run(talk)


def over_stdio(root: Path, *flags: str) -> Any:
    """The command as an agent starts it, from a folder that is not the root."""
    from mcp import StdioServerParameters, stdio_client

    command = ["-m", "pellucid", "mcp", "--root", str(root), *flags]
    return stdio_client(
        StdioServerParameters(
            command=sys.executable, args=command, env=dict(os.environ), cwd=str(root.parent)
        )
    )


@pytest.fixture(scope="module")
def root(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run, a file, and ways out of it."""
    root = tmp_path_factory.mktemp("client") / "root"
    shutil.copytree(trained, root / "runs" / "my-run")
    shutil.copytree(trained, root / "runs" / "leaky")
    (root / "runs" / "leaky" / "config.toml").unlink()
    (root / "runs" / "leaky" / "config.toml").symlink_to(trained / "config.toml")
    (root / "out").symlink_to(trained.parent)
    (root / "near").symlink_to(root / "runs" / "my-run")
    (root / "outside.toml").write_text(
        f'[text]\ncorpus = {{kind = "Files", paths = ["{trained.parent}/text"]}}\n'
    )
    write_text(root / "text")
    return root


@pytest.fixture(scope="module")
def answers(root: Path) -> dict[str, Answer]:
    """One talk over stdio: every tool that reads."""
    calls: list[Call] = [
        ("list_runs", {}),
        ("read_metrics", {"run": "runs/my-run", "points": 4}),
        ("explain", {"run": "runs/my-run", "sentence": SENTENCE, "number": NUMBER}),
        ("diagnose", {"run": str(root / "runs" / "my-run")}),
        ("prove", {"run": "runs/my-run"}),
    ]
    talked = ask(over_stdio(root), calls)
    return {name: answer for (name, _), answer in zip(calls, talked, strict=True)}


def test_an_agent_gets_the_rows_of_the_command_and_no_run_with_a_way_out(
    answers: dict[str, Answer], root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = {row["name"]: row for row in answers["list_runs"].facts["runs"]}
    assert main(["runs", str(root), "--json"]) == 0
    runs_by_name = {row["name"]: row for row in json.loads(capsys.readouterr().out)["runs"]}
    assert rows["runs/my-run"] == runs_by_name["runs/my-run"]
    assert rows["runs/leaky"]["state"] == "refused"
    assert rows.keys() == {"runs/my-run", "runs/leaky"}


def test_an_agent_gets_the_curves_of_the_events(answers: dict[str, Answer], root: Path) -> None:
    curves = answers["read_metrics"].facts["metrics"]
    loss = curves["train/loss_nats"]
    assert loss["updates"] == [3, 6, 9, 12]
    assert loss["n"] == 12
    events = (root / "runs" / "my-run" / "metrics.jsonl").read_text().splitlines()
    losses = [loss for line in events for loss in json.loads(line).get("losses", ())]
    assert loss["values"] == losses[2::3]
    assert loss["lowest"] == min(losses)


def test_an_agent_gets_a_number_with_its_receipt(answers: dict[str, Answer], root: Path) -> None:
    trace = pellucid.trace(pellucid.load(root / "runs" / "my-run"), SENTENCE)
    receipt = answers["explain"].facts
    assert receipt["model"] == float(trace[NUMBER])
    assert receipt["agrees"] is True
    assert len(receipt["operands"]) > 8


def test_an_agent_gets_the_findings_of_the_command(
    answers: dict[str, Answer], root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diagnose", str(root / "runs" / "my-run"), "--json"]) == 0
    findings = json.loads(capsys.readouterr().out)["findings"]
    assert answers["diagnose"].facts["findings"] == findings


def test_without_permission_nothing_is_trained(answers: dict[str, Answer], root: Path) -> None:
    assert "--allow-training" in answers["prove"].refusal
    (refused,) = ask(build_server(Root(root)), [("compare", {"variants": ["nano"]})])
    assert "--allow-training" in refused.refusal
    assert not (root / "comparison").exists()


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("../root/runs/my-run", "'..'"),
        ("runs/../../x", "'..'"),
        ("/etc", "outside the root"),
        ("out/run", "symbolic link"),
        ("near", "symbolic link"),
        ("runs/leaky", "leads out"),
        ("runs/nothing", "there is no"),
        ("a\0b", "there is no"),
        ("someone/model", "there is no"),
    ],
)
def test_a_path_that_is_not_below_the_root_is_refused(name: str, reason: str, root: Path) -> None:
    with pytest.raises(RunError, match=reason):
        Root(root).folder_of_run(name)


def test_every_tool_that_takes_a_path_refuses_a_link_out(root: Path) -> None:
    calls: list[Call] = [
        ("list_runs", {"folder": "out"}),
        ("read_metrics", {"run": "out/run"}),
        ("explain", {"run": "out/run", "sentence": "x"}),
        ("diagnose", {"run": "out/run"}),
        ("read_comparison", {"folder": "out"}),
        ("prove", {"run": "out/run"}),
        ("compare", {"variants": ["nano"], "data": ["out"]}),
        ("compare", {"variants": ["nano"], "data": ["text"], "folder": "out/here"}),
        ("compare", {"variants": ["nano"], "data": ["text"], "folder": "out"}),
        ("compare", {"variants": ["out/a.toml"]}),
    ]
    for (name, _), answer in zip(
        calls, ask(build_server(Root(root), allow_training=True), calls), strict=True
    ):
        assert "symbolic link" in answer.refusal, name


def test_a_config_that_reads_outside_the_root_is_not_trained(root: Path) -> None:
    server = build_server(Root(root), allow_training=True)
    (answer,) = ask(server, [("compare", {"variants": ["outside.toml"]})])
    assert "outside the root" in answer.refusal
    assert not (root / "comparison").exists()


def test_a_wrong_word_is_refused_with_the_choices(root: Path) -> None:
    run = {"run": "runs/my-run"}
    calls: list[Call] = [
        ("read_metrics", {**run, "names": ["train/los"]}),
        ("explain", {**run, "sentence": "x", "number": "L9.H1.scores[0,0]"}),
        ("explain", {**run, "sentence": "x", "number": NUMBER, "chapter": "scores"}),
        ("read_comparison", {"folder": "runs/my-run"}),
    ]
    metrics, number, both, comparison = ask(build_server(Root(root)), calls)
    assert "train/loss_nats" in metrics.refusal
    assert "L9" in number.refusal
    assert "leave one of them out" in both.refusal
    assert "result.json" in comparison.refusal


@pytest.mark.nightly
def test_with_permission_an_agent_compares_and_the_results_carry_the_corpus(root: Path) -> None:
    pytest.importorskip("scipy", reason="scipy is not installed: pip install -e '.[lab]'")
    for name, rate in (("a", 0.01), ("b", 0.02)):
        settings = "".join(f"{key} = {_toml(value)}\n" for key, value in _pairs(TINY))
        (root / f"{name}.toml").write_text(f"{settings}optimiser.learning_rate = {rate}\n")
    other = root / "other" / "result.json"
    calls: list[Call] = [
        (
            "compare",
            {"variants": ["a.toml", "b.toml"], "data": ["text"], "seeds": 1, "steps": 2},
        ),
        ("read_comparison", {"folder": "comparison"}),
    ]
    trained, stored = ask(over_stdio(root, "--allow-training"), calls)
    assert [variant["n"] for variant in trained.facts["variants"]] == [1, 1], trained.refusal
    assert stored.facts["result"]["corpus"] == trained.facts["corpus"]
    assert stored.facts["result"]["variants"] == trained.facts["variants"]
    other.parent.mkdir()
    other.write_text(json.dumps(stored.facts["result"] | {"corpus": "00000000"}))
    words = {"folder": "comparison", "others": ["other"]}
    (refused,) = ask(build_server(Root(root)), [("read_comparison", words)])
    assert "another corpus" in refused.refusal


def _pairs(settings: Sequence[str]) -> list[tuple[str, str]]:
    return [(key, value) for key, _, value in (item.partition("=") for item in settings)]


def _toml(value: str) -> str:
    return value if value[0].isdigit() else f'"{value}"'


def test_without_the_package_the_command_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for name in [name for name in sys.modules if name == "mcp" or name.startswith("mcp.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "mcp", None)
    assert main(["mcp", "--root", str(tmp_path)]) == 2
    assert 'pip install -U ".[mcp]"' in " ".join(capsys.readouterr().err.split())


def test_a_root_that_is_missing_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["mcp", "--root", str(tmp_path / "none")]) == 2
    assert "is no folder" in " ".join(capsys.readouterr().err.split())
