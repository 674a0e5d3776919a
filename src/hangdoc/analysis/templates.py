"""Log templates: a line with its volatile words out, so that two starts can be compared line by line. Pure.

Numbers, pids, addresses, hashes, paths, times, sizes and progress bars become `#`; what names things stays. The result
is a fixed point (a template's template is itself), and two lines that differ in volatile words only share one.
"""

from __future__ import annotations

import functools
import re

READ = 1200  # characters of a line that are looked at
KEPT = 300  # characters of a template
_REMEMBERED = 1 << 13  # lines, told apart by everything but their digits

# `#` counts as a letter next to a hash or a path: else a word cut up by a first pass would be another one in a second.
_VOLATILE = re.compile(
    r"\|[ █▉▊▋▌▍▎▏]*\|"  # a progress bar
    r"|(?<![\w#])[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}(?![\w#])"  # UUID
    r"|(?<![\w#])(?:0[xX])?[0-9a-fA-F]{12,}(?![\w#])|0[xX][0-9a-fA-F]+"  # hash, address
    r"|(?<![\w#])(?:[a-z]+:/|~)?/[^\s'\"`,;()\[\]{}<>]+"  # path, URL
    r"|(?:(?<![\w#+-])[+-])?\d+(?:[.,:]\d+)*(?:[eE][+-]?\d+)?"  # number, time, address with port
    r"(?: ?(?:[kKMGT]i?B|B|bytes|it/s|s/it|ms|us|s|min|sec|seconds?|minutes?)(?![\w#/]))?"  # its unit: 900 MB, 1.1 GB
    r"|\?(?:it/s|(?=, ))"  # tqdm before it has a rate
)
_LISTS = re.compile(r"#(?:[, <]+#)+")  # a list of numbers may be longer the next time
_BLANKS = re.compile(r"  +")
_DIGITS = bytes.maketrans(b"123456789", b"000000000")


def template(text: str) -> str:
    """The line with its volatile words out, without blanks around, at most `KEPT` characters."""
    return _of(text[:READ].encode("utf-8", "surrogatepass").translate(_DIGITS))


@functools.lru_cache(maxsize=_REMEMBERED)
def _of(data: bytes) -> str:
    text = data.decode("utf-8", "surrogatepass")
    return _LISTS.sub("#", _VOLATILE.sub("#", _BLANKS.sub(" ", text)))[:KEPT].strip()


def forget() -> None:
    """Drop what is remembered, so that a measurement begins cold."""
    _of.cache_clear()
