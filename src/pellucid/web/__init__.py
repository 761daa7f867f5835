"""The page: a sentence in a model, from a server on this machine or in one HTML file.

It answers requests with JSON.

Must not know: how a number is computed.
"""

from pellucid.old_names import names_of as _names_of
from pellucid.old_words import take_old_words as _take_old_words
from pellucid.web.onefile import OnePage, check_name, one_page, write_page
from pellucid.web.requests import PageRequest, Reading, parse_request
from pellucid.web.run_registry import RunRegistry
from pellucid.web.security import ProgramRoutes
from pellucid.web.session import Session, Talk, open_session

__all__ = [
    "OnePage",
    "PageRequest",
    "ProgramRoutes",
    "Reading",
    "RunRegistry",
    "Session",
    "Talk",
    "check_name",
    "one_page",
    "open_session",
    "parse_request",
    "write_page",
]

_take_old_words(__name__, globals())
__getattr__ = _names_of(__name__)
