"""Tools for agents over the Model Context Protocol: they see one folder and, by default, only read.

The room finds runs, metrics, receipts and findings by the functions that the commands use.

Must not know: how a number is computed.
"""

from pellucid.mcp.root import Root
from pellucid.mcp.server import build_server, serve

__all__ = ["Root", "build_server", "serve"]
