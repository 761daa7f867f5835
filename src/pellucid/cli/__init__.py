"""Words in, calls out. It knows no formula."""

from pellucid.cli.main import main

__all__ = ["main"]
