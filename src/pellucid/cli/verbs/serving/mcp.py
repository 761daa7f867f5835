"""`pellucid mcp`: tools for agents, over the Model Context Protocol."""

from __future__ import annotations

import argparse
from typing import Any

from pellucid.cli.flags.shared import finish_parser


def add_to(verbs: Any) -> None:
    """The verb and its flags."""
    parser = verbs.add_parser(
        "mcp",
        help="let an agent read runs, explain numbers and diagnose",
        description="Serve tools to an agent over the Model Context Protocol, on standard input "
        "and output: list runs, read metrics, explain a number, diagnose, read comparisons. The "
        "agent sees only what lies below --root, and cannot change it. With --allow-training it "
        "can also prove fixes and compare variants. Your agent's settings start this command; "
        "docs/agents.md shows how. Needs the extra mcp.",
    )
    parser.add_argument(
        "--root",
        metavar="DIR",
        default=".",
        help="all that the agent sees (default: the working folder)",
    )
    parser.add_argument(
        "--allow-training",
        action="store_true",
        help="also prove fixes and compare variants, which trains and writes below --root",
    )
    finish_parser(parser, call, when_stopped="and closed the connection")


def call(arguments: argparse.Namespace) -> None:
    """Serve until the agent leaves."""
    from pellucid.mcp import serve

    serve(arguments.root, allow_training=arguments.allow_training)
