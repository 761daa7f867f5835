"""The page: a sentence walked through a run, on this machine or kept in one file.

Comes in: runs, and what a page asks. Goes out: JSON, a server on 127.0.0.1, an HTML file. It does
not know how any number is computed.
"""

from pellucid.web.onefile import OnePage, check_name, one_page, write_page
from pellucid.web.requests import Ask, Reading, ask_of
from pellucid.web.run_registry import Shelf
from pellucid.web.session import Session
from pellucid.web.start_session import open_session

__all__ = [
    "Ask",
    "OnePage",
    "Reading",
    "Session",
    "Shelf",
    "ask_of",
    "check_name",
    "one_page",
    "open_session",
    "write_page",
]
