"""A page taken apart by the standard library's parser."""

from dataclasses import dataclass, field
from html.parser import HTMLParser


@dataclass
class Page(HTMLParser):
    """Tables by caption (the first one of each), texts of all elements of a kind, and what is where it must not be."""

    text: str
    tables: dict[str, list[list[str]]] = field(default_factory=dict)
    scripts: list[tuple[dict[str, str | None], str]] = field(default_factory=list)
    tags: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._open: list[str] = []
        self._caption = ""
        self._rows: list[list[str]] = []
        self.feed(self.text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag in ("table", "tr", "th", "td", "caption", "script"):
            self._open.append(tag)
        if tag == "table":
            self._caption, self._rows = "", []
        elif tag == "tr":
            self._rows.append([])
        elif tag in ("th", "td"):
            self._rows[-1].append("")
        elif tag == "script":
            self.scripts.append((dict(attributes), ""))

    def handle_endtag(self, tag):
        if self._open and self._open[-1] == tag:
            self._open.pop()
        if tag == "table":
            self.tables.setdefault(self._caption, self._rows)

    def handle_data(self, data):
        here = self._open[-1] if self._open else None
        if here == "caption":
            self._caption += data
        elif here in ("th", "td"):
            self._rows[-1][-1] += data
        elif here == "script":
            attributes, before = self.scripts[-1]
            self.scripts[-1] = attributes, before + data
