"""Text that others wrote, made fit to show: no control character reaches the terminal, and nothing is without end."""

from __future__ import annotations

import unicodedata

# Cc control, Cf format (among them the bidirectional overrides that can reorder a line), Cs lone surrogates,
# Co private use, Zl and Zp line ends that some viewers obey.
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
ELLIPSIS = "…"


def clean(text: str, limit: int = 400) -> str:
    """One line of at most `limit` characters in which every invisible character is written as an escape."""
    if text[:limit].isprintable():  # most texts are; that is stricter than what is hidden here
        return text if len(text) <= limit else text[: limit - 1] + ELLIPSIS
    shown: list[str] = []
    used = 0
    for char in text[: limit + 1]:
        piece = _escape(char) if unicodedata.category(char) in _HIDDEN else char
        if used + len(piece) > limit:
            return "".join(shown)[: limit - 1] + ELLIPSIS
        shown.append(piece)
        used += len(piece)
    return "".join(shown)


def clean_lines(text: str, limit: int = 2000) -> str:
    """The same for text in several lines: line ends stay, each line is cleaned on its own."""
    return "\n".join(clean(line, limit) for line in text.split("\n"))


def _escape(char: str) -> str:
    if char == "\t":
        return "  "
    code = ord(char)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
