"""The content of a page that is one file."""

from __future__ import annotations

import base64
import gzip
import json
import re
from pathlib import Path
from typing import Any

from pellucid.web import OnePage


def page_content(page: OnePage | Path) -> Any:
    """What the file holds: the answers by request, the texts."""
    html = page.read_text("utf-8") if isinstance(page, Path) else page.html
    (payload,) = re.findall(r'id="payload">([^<]*)<', html)
    return json.loads(gzip.decompress(base64.b64decode(payload)))
