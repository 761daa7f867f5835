"""What `check` and `diagnose` share on the command line: which findings count, and which do not.

Comes in: a verb's parser. Goes out: its flags. It does not know what is found.
"""

from __future__ import annotations

from typing import Any


def add_finding_flags(parser: Any) -> None:
    """Which findings end in an exit code, which are left out, and what is so on purpose."""
    parser.add_argument(
        "--fail-on",
        choices=("warn", "fault", "fatal"),
        metavar="SEVERITY",
        help="exit code 4 where anything is found that is at least so severe: warn, fault or fatal",
    )
    parser.add_argument(
        "--ignore", action="append", default=[], metavar="CODE", help="a code to leave out"
    )
    parser.add_argument(
        "--frozen", action="append", default=[], metavar="NAME", help="weights that are not to move"
    )
    parser.add_argument(
        "--no-positions", action="store_true", help="the model has no positions by design"
    )
