"""`pellucid chat`: several turns, commands, and words for what happens."""

from __future__ import annotations

import io
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from pellucid import runs
from pellucid.cli import main
from pellucid.generation import Sampling
from pellucid.inference import Conversation
from support.life import pretrain, tune, write_rows

SHORT = ("--max-new-tokens", "8", "--temperature", "0")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pretrain(tmp_path_factory.mktemp("chat") / "base", steps=2)


@pytest.fixture(scope="module")
def tuned(base: Path) -> Path:
    return tune(base.parent / "sft", "sft", base, write_rows(base.parent / "rows"), steps=1).folder


@pytest.fixture
def run_chat(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """What a chat prints and notes for lines of standard input."""

    def run(folder: Path, *lines: str, flags: tuple[str, ...] = SHORT, code: int = 0) -> Any:
        monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{line}\n" for line in lines)))
        assert main(["chat", str(folder), *flags]) == code
        return capsys.readouterr()

    return run


def test_each_turn_sees_the_ones_before_it(tuned: Path, run_chat: Any) -> None:
    printed = json.loads(run_chat(tuned, "say", "red", flags=(*SHORT, "--json")).out)
    talk = Conversation(runs.load(tuned), Sampling(max_new_tokens=8, temperature=0))
    for fact, text in zip(printed, ("say", "red"), strict=True):
        assert fact["text"] == "".join(talk.send(text))
        assert talk.turn is not None
        assert tuple(fact["ids"]) == talk.turn.ids[talk.turn.n_prompt :]
    (answer,) = runs.answer(runs.load(tuned), "say", Sampling(max_new_tokens=8, temperature=0))
    assert printed[0]["text"] == answer.text
    assert talk.chat is not None
    first = {"role": "assistant", "content": printed[0]["text"]}
    chat = [{"role": "user", "content": "say"}, first, {"role": "user", "content": "red"}]
    assert talk.turn is not None
    assert list(talk.turn.ids[: talk.turn.n_prompt]) == talk.chat.prompt(chat)
    talk.close()
    assert run_chat(tuned, "say", "red").out == "".join(f"{fact['text']}\n" for fact in printed)


def test_a_base_model_is_said_to_be_one_and_continues_the_text(base: Path, run_chat: Any) -> None:
    printed = run_chat(base, "say red")
    assert "is a base model" in printed.err
    (text,) = runs.generate(runs.load(base), "say red", Sampling(max_new_tokens=8, temperature=0))
    assert printed.out == f"{text.text}\n"
    assert "no system message" in run_chat(base, "/system x", code=2).err


def test_what_no_longer_fits_is_said_and_a_message_that_is_too_long_refused(
    tuned: Path, run_chat: Any
) -> None:
    printed = run_chat(tuned, "say red and blue", "say green")
    assert "no longer sees its first 2 messages" in printed.err
    refused = run_chat(tuned, "x" * 400, code=2)
    assert "shorten it" in refused.err
    full = run_chat(
        tuned, "x" * 40, flags=("--max-new-tokens", "500", "--temperature", "0", "--json")
    )
    (fact,) = json.loads(full.out)
    if fact["stopped"] == "context":
        assert "context of 96 tokens is full" in full.err


def test_a_system_message_stays_when_turns_are_dropped(tuned: Path) -> None:
    run = runs.load(tuned)
    talk = Conversation(run, Sampling(max_new_tokens=6, temperature=0), system="be kind")
    for text in ("say red", "say blue", "say green"):
        list(talk.send(text))
    assert talk.turn is not None
    assert talk.turn.n_dropped > 0
    read = run.require_tokenizer().decode(talk.turn.ids[: talk.turn.n_prompt])
    assert read.startswith("be kind")
    assert "say green" in read
    assert "say red" not in read
    talk.close()


def test_commands_change_the_conversation(tuned: Path, tmp_path: Path, run_chat: Any) -> None:
    file = tmp_path / "chat.jsonl"
    printed = run_chat(
        tuned, "/system be kind", "/temperature 0", "//slash", f"/save {file}", "/why", "/help"
    )
    saved = json.loads(file.read_text("utf-8"))["messages"]
    assert [message["role"] for message in saved] == ["system", "user", "assistant"]
    assert saved[0]["content"] == "be kind"
    assert saved[1]["content"] == "/slash"
    assert "likeliest in its place" in printed.out
    assert "/reset" in printed.err
    assert "not overwrite" in run_chat(tuned, "say", f"/save {file}", code=2).err
    assert "nothing to save" in run_chat(tuned, "say", "/reset", "/save x.jsonl", code=2).err
    assert "there is no command /nope" in run_chat(tuned, "/nope", code=2).err
    assert "/temperature: expected" in run_chat(tuned, "/temperature hot", code=2).err
    assert "no answer yet" in run_chat(tuned, "/why", code=2).err


def test_the_probabilities_of_why_are_those_of_the_score(base: Path) -> None:
    from pellucid.cli.output.why import why_lines

    run = runs.load(base)
    talk = Conversation(run, Sampling(max_new_tokens=6, temperature=0))
    text = "".join(talk.send("say red"))
    assert talk.turn is not None
    lines = list(why_lines(run, talk.turn))[1:]
    scored = runs.score(run, f"say red{text}").tokens[-len(lines) :]
    probabilities = [float(line[16:].split()[0].rstrip("%")) / 100 for line in lines]
    assert probabilities == pytest.approx([token.probability for token in scored], abs=6e-4)


def test_an_encoder_decoder_or_an_encoder_is_refused(tmp_path: Path, refused: Any) -> None:
    from support.kinds import write_bert_tokenizer, write_run

    encoder = write_run(tmp_path / "run", "encoder", write_bert_tokenizer(tmp_path / "words"))
    assert "this model is an encoder" in refused("chat", encoder)


class Terminal:
    """A command on a terminal of its own."""

    def __init__(self, *words: str) -> None:
        main_end, child_end = pty.openpty()
        self._end, self.text = main_end, ""
        self._child = subprocess.Popen(
            [sys.executable, "-m", "pellucid", *words],
            stdin=child_end,
            stdout=child_end,
            stderr=child_end,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
            env={**os.environ, "TERM": "dumb", "NO_COLOR": "1"},
        )
        os.close(child_end)

    def type(self, text: str) -> None:
        os.write(self._end, text.encode())

    def until(self, text: str, seconds: float = 120) -> None:
        end = time.monotonic() + seconds
        while text not in self.text:
            assert time.monotonic() < end, self.text
            if select.select([self._end], [], [], 0.2)[0]:
                try:
                    self.text += os.read(self._end, 4096).decode(errors="replace")
                except OSError as error:
                    raise AssertionError(self.text) from error
        self.text = self.text[self.text.index(text) + len(text) :]

    def read_line(self) -> str:
        self.until_line()
        line, _, self.text = self.text.partition("\n")
        return line

    def until_line(self) -> None:
        while "\n" not in self.text:
            self.text += os.read(self._end, 4096).decode(errors="replace")

    def interrupt(self) -> None:
        self._child.send_signal(signal.SIGINT)

    def close(self) -> int:
        code = self._child.wait(60)
        os.close(self._end)
        return code


def _asks(port: str) -> Request:
    """What a page asks first."""
    address = f"http://127.0.0.1:{port}"
    headers = {"origin": address, "content-type": "application/json"}
    return Request(f"{address}/ask", data=b'{"kind": "runs"}', headers=headers)


@pytest.fixture
def terminal(tuned: Path) -> Iterator[Terminal]:
    opened = Terminal("chat", str(tuned), "--temperature", "0", "--max-new-tokens", "9")
    yield opened
    opened._child.kill()


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such terminals")
def test_in_a_terminal_there_is_a_prompt_a_page_and_an_end(terminal: Terminal) -> None:
    terminal.until("Ctrl-D ends")
    terminal.until("> ")
    terminal.type("/nope\n")
    terminal.until("there is no command /nope")
    terminal.until("> ")
    terminal.type("say \\\nred\n")
    terminal.until("> ")
    terminal.type("/why\n")
    terminal.until("likeliest in its place")
    terminal.until("http://127.0.0.1:")
    port = terminal.read_line().strip().rstrip("/")
    with urlopen(_asks(port), timeout=30) as answer:
        started = json.load(answer)
    assert started["ids"][started["token"] + 1 :] != []
    terminal.until("goes back to the chat")
    terminal.interrupt()
    terminal.until("> ")
    terminal.type("\x04")
    assert terminal.close() == 0
