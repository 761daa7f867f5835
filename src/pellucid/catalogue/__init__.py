"""The texts of the page, in five languages: a key and values in, a text with both out.

English is the source: `languages/en.toml`. A translation keeps a digest of the English that it
translates, so a change of the English shows which translations are out of date.

Must not know: where a text is shown.
"""

from pellucid.catalogue.languages import LANGUAGES, SOURCE, faults, texts
from pellucid.catalogue.message import Message, join, message, messages

__all__ = ["LANGUAGES", "SOURCE", "Message", "faults", "join", "message", "messages", "texts"]
