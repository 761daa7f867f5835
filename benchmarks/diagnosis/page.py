"""The page for people. Written below."""

from __future__ import annotations


def write_page() -> str:
    return ""
