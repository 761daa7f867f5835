"""The screen of `pellucid chat`: messages in, answers as they come, and commands."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from signal import SIGINT
from types import FrameType
from typing import TYPE_CHECKING, Any

from pellucid.cli.output.printing import escape_controls
from pellucid.errors import PellucidError
from pellucid.signals import handled

if TYPE_CHECKING:
    from pellucid.inference import Conversation, Turn

#: Each command with its argument, and what it does.
COMMANDS = {
    "/help": "this list",
    "/reset": "forget the conversation",
    "/system TEXT": "set the system message, and forget the conversation",
    "/temperature T": "0 is greedy; higher is more surprising",
    "/save FILE": "write the conversation as JSON Lines, which `pellucid train` reads",
    "/why": "open the last answer: what else the model considered, and every number",
    "/quit": "end",
}


class ChatScreen:
    """Reads messages and prints answers.

    Args:
        talk: the conversation.
        is_terminal: whether a person writes; if not, only answers go to standard output.
        as_json: whether to collect `facts` and print no answers.
    """

    def __init__(self, talk: Conversation, *, is_terminal: bool, as_json: bool) -> None:
        self._talk, self._is_terminal, self._as_json = talk, is_terminal, as_json
        self.facts: list[dict[str, Any]] = []
        self._is_stopped = False

    def run(self) -> None:
        """Until the input ends, or `/quit`."""
        self._introduce()
        for line in self._lines():
            if not line.strip():
                continue
            if line.startswith("/") and not line.startswith("//"):
                if line.split()[0] in ("/quit", "/exit"):
                    return
                self._try(self._command, line)
            else:
                self._try(self._answer, line[1:] if line.startswith("//") else line)

    def _try(self, action: Any, line: str) -> None:
        """Do something; a refusal is a note, and the conversation continues."""
        try:
            action(line)
        except PellucidError as error:
            if not self._is_terminal:  # a script should hear of it by its exit code
                raise
            self._note(str(error))

    def _introduce(self) -> None:
        talk = self._talk
        name = escape_controls(str(talk.run.folder))
        if talk.chat is None:
            self._note(
                f"{name} is a base model: it has no chat template and holds no conversation. It "
                "continues what you write."
            )
        elif self._is_terminal:
            self._note(f"You talk with {name}.")
        if self._is_terminal:
            self._note("/help lists the commands. Ctrl-C stops an answer, Ctrl-D ends.")

    def _lines(self) -> Iterator[str]:
        if not self._is_terminal:
            for line in sys.stdin or ():
                yield line.rstrip("\n")
            return
        _edit_lines()
        while True:
            try:
                line = input("> ")
                while line.endswith("\\"):
                    line = line[:-1] + "\n" + input("  ")
            except (EOFError, KeyboardInterrupt):
                print()
                return
            yield line

    def _answer(self, text: str) -> None:
        pieces = self._talk.send(text, is_stopped=lambda: self._is_stopped)
        self._is_stopped = False
        with handled([SIGINT], self._stop):
            for piece in pieces:
                if not self._as_json:
                    print(escape_controls(piece), end="", flush=True)
        if not self._as_json:
            print(flush=True)
        turn = self._talk.turn
        assert turn is not None
        self.facts.append(
            {
                "prompt": text,
                "text": turn.text,
                "ids": turn.ids[turn.n_prompt :],
                "stopped": turn.stopped,
                "dropped_messages": turn.n_dropped,
            }
        )
        self._explain_end(turn)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        """The first Ctrl-C stops the answer, a second one ends."""
        if self._is_stopped:
            raise KeyboardInterrupt
        self._is_stopped = True

    def _explain_end(self, turn: Turn) -> None:
        context = self._talk.run.model.context_length
        if turn.n_dropped:
            self._note(
                f"the conversation is longer than the context of {context:,} tokens: the model no "
                f"longer sees its first {turn.n_dropped:,} messages"
            )
        match turn.stopped:
            case "context":
                self._note(
                    f"the answer stopped where the context of {context:,} tokens is full: a "
                    "shorter message leaves more room"
                )
            case "length":
                max_tokens = self._talk.sampling.max_new_tokens
                self._note(f"the answer stopped at --max-new-tokens {max_tokens:,}")
            case "you":
                self._note("stopped; press Ctrl-D to end")
            case "end":
                pass

    def _command(self, line: str) -> None:
        name, _, argument = line.partition(" ")
        argument = argument.strip()
        match name:
            case "/help":
                width = max(map(len, COMMANDS))
                for command, meaning in COMMANDS.items():
                    self._note(f"{command:<{width}}  {meaning}")
                self._note("A line that ends with \\ continues on the next; // writes a slash.")
            case "/reset":
                self._talk.reset()
                self._note("the conversation is forgotten")
            case "/system":
                self._set_system(argument)
            case "/temperature":
                self._set_temperature(argument)
            case "/save":
                self._save(argument)
            case "/why":
                self._show_why()
            case _:
                raise PellucidError(
                    f"there is no command {name}: /help lists them; // writes a slash"
                )

    def _set_system(self, text: str) -> None:
        if self._talk.chat is None:
            raise PellucidError("a base model has no system message: write it into your text")
        self._talk.system = text
        self._talk.reset()
        self._note("a new conversation" + (" with this system message" if text else ""))

    def _set_temperature(self, value: str) -> None:
        import argparse
        from dataclasses import replace

        from pellucid.cli.flags.numbers import TEMPERATURE

        sampling = self._talk.sampling
        if value:
            try:
                sampling = replace(sampling, temperature=TEMPERATURE(value))
            except argparse.ArgumentTypeError as error:
                raise PellucidError(f"/temperature: {error}") from None
        self._talk.sampling = sampling
        self._note(f"the temperature is {sampling.temperature:g}")

    def _save(self, name: str) -> None:
        from pellucid.disk import write_output
        from pellucid.json_text import json_text

        talk = self._talk
        if not name:
            raise PellucidError("/save needs the name of a file: /save chat.jsonl")
        if not talk.messages:
            raise PellucidError("there is nothing to save yet")
        system = [{"role": "system", "content": talk.system}] if talk.system else []
        text = json_text({"messages": [*system, *talk.messages]}, ensure_ascii=False)
        path = Path(name).expanduser()
        write_output(path, text + "\n")
        self._note(f"saved {len(talk.messages):,} messages to {path}")

    def _show_why(self) -> None:
        from pellucid.cli.output.why import page_of_turn, why_lines

        turn = self._talk.turn
        if turn is None or len(turn.ids) == turn.n_prompt:
            raise PellucidError("there is no answer yet: write a message first")
        for line in why_lines(self._talk.run, turn):
            print(escape_controls(line))
        if self._is_terminal:
            page_of_turn(self._talk.run, turn, self._note)

    def _note(self, text: str) -> None:
        """A line that is not from the model, on standard error."""
        text = escape_controls(text)
        is_plain = not sys.stderr.isatty() or "NO_COLOR" in os.environ
        print(text if is_plain else f"\x1b[2m{text}\x1b[0m", file=sys.stderr, flush=True)


def _edit_lines() -> None:
    """Let `input` edit lines and recall earlier ones, where Python can."""
    with suppress(ImportError):
        import readline

        readline.set_history_length(1000)
