"""Films: they change nothing, lose one snapshot at most, and what they show is the weights' own."""

from __future__ import annotations

import math
import os
import signal
import time
from pathlib import Path

import pytest
import torch

import pellucid
from pellucid import runs
from pellucid.checkpoints import load
from pellucid.cli import main
from pellucid.errors import PellucidError, RunError
from pellucid.explain import Trace
from pellucid.explain.chapter_types import Chapter, Film, Frames, Place
from pellucid.explain.chapters import build_chapter
from pellucid.explain.films.capture import Snapshot, take_snapshot
from pellucid.explain.films.recorder import is_due
from pellucid.explain.films.store import Reel
from pellucid.runs import RunFolder
from pellucid.training import Interrupts, StepFinished
from support.models import build, with_stack
from support.tiny import TINY, write_text
from support.traced import traced

SENTENCE = "the fox"
DEFAULT = Place()


def train(folder: Path, *sentences: str, steps: int = 12, press: int | None = None) -> None:
    """The tiny run, filmed; as if Ctrl-C came after `press` updates."""
    interrupts = Interrupts()

    def observe(event: object) -> None:
        if isinstance(event, StepFinished) and event.step == press:
            interrupts.asked = True

    pellucid.train(
        [write_text(folder.parent / "text")],
        out=folder,
        steps=steps,
        settings=[*TINY, "text.held_out=0.2"],
        watchers=[pellucid.film(*sentences)] if sentences else [],
        observers=[observe],
        interrupts=interrupts,
        show=False,
    )


@pytest.fixture(scope="module")
def filmed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("filmed") / "run"
    train(folder, SENTENCE)
    return folder


def copied(folder: Path, to: Path) -> Path:
    import shutil

    shutil.copytree(folder, to / "run")
    return to / "run"


def test_a_film_changes_no_bit_of_the_training(trained: Path, filmed: Path) -> None:
    ends = [load(RunFolder(folder).shelf.latest()) for folder in (trained, filmed)]
    for state_name in ("model", "optimiser", "random"):
        left, right = (getattr(end, state_name) for end in ends)
        assert left.keys() == right.keys()
        assert all(torch.equal(left[k], right[k]) for k in left), state_name


def test_moments_are_dense_at_first_then_even_and_never_more_than_64() -> None:
    assert [n for n in range(13) if is_due(n, 72)] == [0, 1, 2, 4, 6, 8, 10, 12]
    for total in (1, 37, 1000, 123_457):
        due = [n for n in range(total + 1) if is_due(n, total)]
        assert due[0] == 0
        assert due[-1] == total
        assert len(due) <= 64
    # of very long runs: powers of two below the distance, and the even ones
    assert sum(is_due(1 << n, 10**9) for n in range(30)) + 1 + 36 + 1 <= 64


def test_a_snapshot_is_the_models_own_numbers(filmed: Path) -> None:
    reel = Reel(RunFolder(filmed), SENTENCE)
    assert reel.steps() == list(range(13))
    for step in (8, 12):
        shot = reel.snapshot(step)
        run = pellucid.load(filmed / "checkpoints" / f"step-{step}")
        run_trace = pellucid.trace(run, SENTENCE)
        torch.testing.assert_close(shot.tensors["surprisal"], run_trace["surprisal"])
        torch.testing.assert_close(
            shot.tensors["decoder.norms"][1], run_trace["L1.residual"].square().sum(-1).sqrt()
        )
        weights = shot.tensors["L1.weights"][1].float() / 255
        assert float((weights - run_trace["L1.H1.weights"]).abs().max()) <= 0.5 / 255 + 1e-6
        p, best = run_trace["probabilities"].topk(3)
        torch.testing.assert_close(shot.tensors["shares"][-1], p)
        assert torch.equal(shot.tensors["words"][-1].long(), best)
        torch.testing.assert_close(
            shot.tensors["targets"][-1].double(), (-shot.tensors["surprisal"].double()).exp()
        )


def test_a_snapshot_of_six_layers_and_heads_takes_about_44_kb(tmp_path: Path) -> None:
    from dataclasses import replace

    base = with_stack(n_layers=6)
    stack = base.decoder
    assert stack is not None
    attention = replace(stack.attention, n_heads=6, n_kv_heads=6)
    model = replace(base, decoder=replace(stack, attention=attention), context_length=32)
    reel = Reel(RunFolder(tmp_path), "x")
    reel.folder.mkdir(parents=True)
    reel.add(take_snapshot(traced(build(model, double=False), time=32), 0))
    assert 36_864 < reel.file(0).stat().st_size <= 46_000
    assert reel.snapshot(0).tensors["L5.weights"].shape == (6, 32, 32)


def test_a_long_sentence_is_pooled(tmp_path: Path) -> None:
    from dataclasses import replace

    model = build(replace(with_stack(n_layers=1), context_length=128), double=False)
    shot = take_snapshot(traced(model, time=100), 0)
    assert shot.tensors["L0.weights"].shape[1:] == (34, 34)


@pytest.mark.parametrize("press", [3, 4, 7])
def test_a_film_that_is_gone_on_with_is_that_of_one_go(
    filmed: Path, tmp_path: Path, press: int
) -> None:
    with pytest.raises(pellucid.Interrupted):
        train(tmp_path / "run", SENTENCE, press=press)
    folder = tmp_path / "run"
    reel = Reel(RunFolder(folder), SENTENCE)
    # a process that was killed behind its last checkpoint leaves snapshots that are taken again
    reel.add(Snapshot(step=press + 1, tensors={"surprisal": torch.zeros(2)}))
    runs.resume(folder, watchers=[pellucid.film()], show=False)
    full_reel = Reel(RunFolder(filmed), SENTENCE)
    assert reel.steps() == full_reel.steps()
    for step in full_reel.steps():
        assert reel.file(step).read_bytes() == full_reel.file(step).read_bytes()


def test_a_killed_run_leaves_a_film_that_reads(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    child = os.fork()
    if not child:
        try:
            train(folder, SENTENCE, steps=5000)
        finally:
            os._exit(1)
    reel = Reel(RunFolder(folder), SENTENCE)
    end = time.monotonic() + 120
    while len(reel.steps()) < 5 and time.monotonic() < end:
        time.sleep(0.02)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    # a file that was being written at the kill has another name
    reel.file(99).with_suffix(".shot.partial").mkdir()
    film = reel.read()
    assert len(film.snapshots) >= 5
    assert film.problems == ()


def told(folder: Path, place: Place = DEFAULT) -> Chapter:
    trace = pellucid.trace(pellucid.load(folder), SENTENCE)
    return build_chapter(trace, "over-time", place)


def test_the_chapter_shows_the_film(filmed: Path) -> None:
    chapter = told(filmed, Place(token=3, layer=1, head=1))
    film, frames = chapter.pictures
    assert isinstance(film, Film)
    assert isinstance(frames, Frames)
    assert film.steps == frames.steps == tuple(range(13))
    run = pellucid.load(filmed / "checkpoints" / "step-8")
    run_trace: Trace = pellucid.trace(run, SENTENCE)
    assert film.chosen is not None
    assert film.names[film.chosen] == run_trace.pieces("decoder")[4]
    p = float(run_trace["probabilities"][3, int(run_trace.ids[4])])
    assert film.curves[film.chosen][8] == pytest.approx(p, rel=1e-5)
    assert film.losses[8] == pytest.approx(float(run_trace["loss"]), rel=1e-5)
    weights = run_trace["L1.H1.weights"]
    frame = torch.tensor(frames.frames[8]).float() / 255
    assert float((frame - weights).abs().max()) <= 0.5 / 255 + 1e-6
    word, share, target, norm = film.rungs[8][-1]
    assert share == pytest.approx(float(run_trace["probabilities"][3].max()), rel=1e-5)
    assert target == pytest.approx(p, rel=1e-5)
    assert norm == pytest.approx(float(run_trace["L2.residual"][3].square().sum().sqrt()), rel=1e-5)
    assert word
    (receipt,) = chapter.receipts
    assert receipt.agrees


def test_without_a_film_checkpoints_are_shown_or_it_is_said_how_to_make_one(
    trained: Path, tmp_path: Path
) -> None:
    chapter = told(trained)
    assert chapter.sentence.startswith("2 saved checkpoints, from update 8 to 12")
    assert any("--film" in note for note in chapter.notes)
    import shutil

    folder = copied(trained, tmp_path)
    shutil.rmtree(folder / "checkpoints" / "step-8")
    chapter = told(folder)
    assert chapter.pictures == ()
    assert 'pellucid train ... --film "the fox"' in chapter.sentence
    bare = build_chapter(traced(build(with_stack(n_layers=1))), "over-time", Place())
    assert "open a run" in bare.sentence


def test_a_damaged_snapshot_is_said_and_the_others_are_shown(
    filmed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = copied(filmed, tmp_path)
    reel = Reel(RunFolder(folder), SENTENCE)
    content = bytearray(reel.file(4).read_bytes())
    content[-1] ^= 1
    reel.file(4).write_bytes(content)
    reel.file(5).write_bytes(reel.file(5).read_bytes()[:40])
    chapter = told(folder)
    film = chapter.pictures[0]
    assert isinstance(film, Film)
    assert len(film.steps) == 11
    damage_notes = [note for note in chapter.notes if "cannot be read" in note]
    assert len(damage_notes) == 2
    assert "delete it" in damage_notes[0]
    (reel.folder / "film.json").write_text("{", encoding="utf-8")
    with pytest.raises(RunError, match="move it away"):
        told(folder)
    assert main(["explain", str(folder), SENTENCE, "--chapter", "over-time"]) == 2
    error = " ".join(capsys.readouterr().err.split())
    assert "is damaged" in error
    assert "Traceback" not in error


def test_what_cannot_be_filmed_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PellucidError, match="sentence to film is empty"):
        pellucid.film(" ")
    with pytest.raises(PellucidError, match=r"--film: .* shorten it\. Nothing is lost"):
        train(tmp_path / "run", "x" * 99)
    runs.resume(tmp_path / "run", show=False)


def test_the_terminal_shows_it_in_80_columns(
    filmed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", str(filmed), SENTENCE, "--chapter", "over-time", "--token", "3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    (loss,) = [line for line in lines if line.startswith("    loss, nats")]
    first, last = (float(loss.split()[n]) for n in (-3, -1))
    assert first > last
    assert math.isclose(
        last, Reel(RunFolder(filmed), SENTENCE).snapshot(12).loss or 0, abs_tol=1e-3
    )


def test_of_the_last_token_the_whole_film_is_of_the_one_before(filmed: Path) -> None:
    last, before = told(filmed, Place(token=-1)), told(filmed, Place(token=-2))
    film = last.pictures[0]
    assert isinstance(film, Film)
    assert film == before.pictures[0]
    # the curve, the layers and the receipt tell one number
    assert film.chosen is not None
    assert film.curves[film.chosen][-1] == pytest.approx(film.rungs[-1][-1][2], rel=1e-5)
    assert last.receipts == before.receipts
    assert "the film is of the one before" in " ".join(last.notes)
    assert "one before" not in " ".join(before.notes)
