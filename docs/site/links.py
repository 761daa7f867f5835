"""Follow every link of a built site: to its file, and to its anchor there.

A page loads nothing from a server: it is read from files too.
"""

from __future__ import annotations

from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The links and the anchors of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.anchors.add(value)
            elif name in ("href", "src") and value:
                self.links.append(value)
                if name == "src" or (tag == "link" and ("rel", "stylesheet") in attrs):
                    self.loaded.append(value)


def dead_links(site: Path) -> list[str]:
    """Links of a site that lead to no file, to no anchor, or load from a server, one line each."""

    @cache
    def page(file: Path) -> Page:
        return Page(file.read_text("utf-8"))

    dead: list[str] = []
    pages = sorted(site.rglob("*.html"))
    pages.remove(site / "404.html")  # its links begin at a server's root
    for file in pages:
        for link in page(file).loaded:
            if urlsplit(link).netloc:
                dead.append(f"{file.relative_to(site)}: {link} is loaded from a server")
        for link in page(file).links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            path = unquote(parts.path)
            target = (file.parent / path).resolve() if path else file
            if target.is_dir():
                target /= "index.html"
            if not target.is_file():
                dead.append(f"{file.relative_to(site)}: {link} leads to no file")
            elif parts.fragment and target.suffix == ".html":
                anchor = unquote(parts.fragment)
                if anchor not in page(target).anchors and not anchor.startswith("__"):
                    dead.append(f"{file.relative_to(site)}: {link} leads to no anchor")
    return dead
