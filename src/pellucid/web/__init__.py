"""The page: a sentence walked through a run, on this machine or kept in one file.

Comes in: runs, and what a page asks. Goes out: JSON, a server on 127.0.0.1, an HTML file. It does
not know how any number is computed.
"""

from pellucid.old_names import names_of as _names_of
from pellucid.web.onefile import OnePage, check_name, one_page, write_page
from pellucid.web.requests import PageRequest, Reading, parse_request
from pellucid.web.run_registry import RunRegistry
from pellucid.web.session import Session, open_session

__all__ = [
    "OnePage",
    "PageRequest",
    "Reading",
    "RunRegistry",
    "Session",
    "check_name",
    "one_page",
    "open_session",
    "parse_request",
    "write_page",
]

__getattr__ = _names_of(__name__)
