"""The server of a folder, on standard input and output."""

from __future__ import annotations

from typing import Any

from pellucid.extras import import_extra
from pellucid.mcp.root import Root
from pellucid.version import __version__

_INSTRUCTIONS = """\
Runs of pellucid, a library that trains transformer language models. Paths are relative to one
folder, and nothing outside it is visible. Begin with list_runs. explain gives any number that a
model computes for a sentence, with its operands. Losses are in nats per token; compare models with
different tokenizers by bits per byte only. A difference smaller than the spread between seeds is
no difference: compare says which it is."""


def serve(folder: str, *, allow_training: bool) -> None:
    """Serve a folder on standard input and output until the client leaves.

    Args:
        folder: what the client sees.
        allow_training: whether it may start trainings and write there.

    Raises:
        LibraryError: the package mcp is missing or too old.
        RunError: there is no such folder.
    """
    build_server(Root(folder), allow_training=allow_training).run("stdio")


def build_server(root: Root, *, allow_training: bool = False) -> Any:
    """The server of a folder, as the package mcp has it.

    Args:
        root: what the client sees.
        allow_training: whether it may start trainings and write there.

    Raises:
        LibraryError: the package mcp is missing or too old.
    """
    library = import_extra("mcp", "mcp.server", newest="MCPServer")
    server = library.MCPServer("pellucid", instructions=_INSTRUCTIONS, version=__version__)
    from pellucid.mcp.tools import add_tools

    add_tools(server, root, allow_training=allow_training)
    return server
