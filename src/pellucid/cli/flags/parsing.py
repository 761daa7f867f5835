"""The parser of the command line: flags anywhere, examples first, and the word that you meant."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from typing import Any, NoReturn

from pellucid.cli.examples import EXAMPLES
from pellucid.config.codec import nearest_word, place_below
from pellucid.config.other_words import our_key
from pellucid.errors import ExitCode

#: For which `--print-completion` has a script.
SHELLS = ("bash", "zsh", "fish")
#: Lines of usage that an error shows; a longer one would hide the error.
_LONGEST_USAGE = 2
#: Our flag, by its name in other tools.
_OTHER_FLAGS: dict[str, str] = dict.fromkeys(
    ("--name", "--run-name", "--output-dir", "--out-dir", "--save-dir"), "--out"
)


class Parser(argparse.ArgumentParser):
    """argparse's parser, but flags may come anywhere among the positional arguments.

    Its help begins with the examples of its command, and a mistyped word gets the nearest one.
    """

    _is_intermixed = False

    def __init__(self, *, is_root: bool = False, **options: Any) -> None:
        super().__init__(**options)
        _add_flags_of_all(self, is_root=is_root)

    def parse_known_args(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """The namespace, and the words that are neither flags nor positional arguments."""
        if self._subparsers is not None or self._is_intermixed:
            return super().parse_known_args(args, namespace)
        self._is_intermixed = True  # argparse calls this method again for each of its two passes
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._is_intermixed = False

    def parse_args(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> argparse.Namespace:
        """The namespace; words that no flag and no place takes are refused by the verb's parser."""
        arguments, unknown = self.parse_known_args(args, namespace)
        if unknown:
            getattr(arguments, "parser", self).refuse(unknown)
        return arguments

    def refuse(self, unknown: Sequence[str]) -> NoReturn:
        """End with the words that are unknown, and the flags that were perhaps meant."""
        flags = [word.partition("=")[0] for word in unknown if word.startswith("-")]
        matches = [match for flag in flags if (match := self._nearest_flag(flag)) is not None]
        self.error(f"unrecognized arguments: {' '.join(unknown)}{_ask_back(matches)}")

    def _nearest_flag(self, flag: str) -> str | None:
        """The flag that a mistyped one means, or the key of the config that has its name."""
        flags = list(self._option_string_actions)
        if "--set" in flags and (place := _place_in_config(flag)):
            return f"--set {place}=..."
        flag = _OTHER_FLAGS.get(flag, flag)
        words = set(flag.strip("-").split("-"))
        longer = (choice for choice in flags if words < set(choice.strip("-").split("-")))
        return flag if flag in flags else next(longer, None) or nearest_word(flag, flags)

    def error(self, message: str) -> NoReturn:
        """End with what is wrong; the usage only if it is short.

        All ranks of a training have these words: rank 0 says it.
        """
        if os.environ.get("WORLD_SIZE", "1") != "1" and os.environ.get("RANK", "0") != "0":
            self.exit(ExitCode.BAD_INPUT)
        usage = self.format_usage()
        head = usage if usage.count("\n") <= _LONGEST_USAGE else f"usage: {self.prog} ...\n"
        help_words = " ".join(["pellucid", *self.prog.split()[1:], "--help"])
        self.exit(
            ExitCode.BAD_INPUT,
            f"{head}{self.prog}: error: {message}\n`{help_words}` lists all, with examples\n",
        )

    def format_help(self) -> str:
        """The examples of this command, and argparse's help."""
        lines = EXAMPLES.get(self.prog.removeprefix("pellucid "), ())
        head = "".join(f"  {line}\n" for line in lines)
        return (f"examples:\n{head}\n" if head else "") + super().format_help()

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        choices = [str(choice) for choice in action.choices]
        match = nearest_word(str(value), choices)
        nearest = _ask_back([] if match is None else [match])
        if action.dest == "command":
            raise argparse.ArgumentError(None, f"there is no command {value!r}{nearest}")
        raise argparse.ArgumentError(
            action, f"invalid choice: {value!r} (choose from {', '.join(choices)}){nearest}"
        )


def _ask_back(matches: Sequence[str]) -> str:
    """`: did you mean A?` with the nearest choice to each word; empty if none is near."""
    return f": did you mean {' and '.join(matches)}?" if matches else ""


def _place_in_config(flag: str) -> str:
    """The path of the key that a flag has the name of, in the config of `nano`; or nothing."""
    from pellucid.config import encode
    from pellucid.presets import find

    table = encode(find("nano"))
    place, kind = place_below(table, our_key(flag.strip("-").replace("-", "_")))
    return "" if kind else place


def _add_flags_of_all(parser: argparse.ArgumentParser, *, is_root: bool) -> None:
    """Add the flags that stand before a command or after it; only the help of the root has them."""
    parser.add_argument(
        "--verbose",
        action="store_true",
        default=False if is_root else argparse.SUPPRESS,
        help="show log messages" if is_root else argparse.SUPPRESS,
    )
    parser.add_argument(
        "--color",
        choices=("auto", "always", "never"),
        default="auto" if is_root else argparse.SUPPRESS,
        help="auto (default): where a terminal has colours and NO_COLOR is not set"
        if is_root
        else argparse.SUPPRESS,
    )


def add_completion(parser: argparse.ArgumentParser) -> None:
    """Add `--print-completion SHELL`."""
    parser.add_argument(
        "--print-completion",
        action=_PrintCompletion,
        choices=SHELLS,
        metavar="SHELL",
        help="print the completion of commands for bash, zsh or fish",
    )


class _PrintCompletion(argparse.Action):
    """Prints the script and ends; shtab is loaded only then."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: Any, values: Any, option: Any = None
    ) -> None:
        import shtab

        for action in parser._actions:  # pyright: ignore[reportPrivateUsage]
            if action.dest == "command":
                action.help = None  # shtab leaves out what the help leaves out
        print(shtab.complete(parser, values))
        parser.exit()
