"""What ssh, sudo and the like say when they fail: which reason that is, and the lines that matter. Pure; the table is data."""

from __future__ import annotations

import re

from ..model.words import UnseenReason

# Words (of OpenSSH 7.4 to 9.9, sudo, docker, kubectl, POSIX shells) and what they mean; the first that fits counts.
_MEANINGS: tuple[tuple[str, UnseenReason], ...] = (
    (r"REMOTE HOST IDENTIFICATION HAS CHANGED|Host key verification failed|No .* host key is known", "denied"),
    (r"Permission denied|Too many authentication failures|Access denied|not authorized|[Ff]orbidden", "denied"),
    (r"a password is required|a terminal is required|must have a tty|not in the sudoers|not allowed to", "denied"),
    (r"hangdoc: (no|this host has) Python", "tool-missing"),
    (r"(sh|python3?|sudo|docker|podman|kubectl|nsenter|srun): .*not found|command not found|executable file not found", "tool-missing"),  # noqa: E501
    (r"Could not resolve|[Nn]ame or service|nodename nor servname|Temporary failure in name", "failed"),
    (r"Connection refused|No route to host|[Nn]etwork is unreachable|open failed", "failed"),
    (r"timed out|Timeout, server .* not responding|Timeout exceeded", "timed-out"),
    (r"Connection (closed|reset)|Broken pipe|No such container|is not running|client_loop: send disconnect", "gone"),
)  # fmt: skip
_LINES = 3
_LONGEST = 400
_NOTHING = re.compile(r"[@\s]*\Z|Warning: Permanently added|debug\d:|Pseudo-terminal will not be allocated")


def reason(words: str, otherwise: UnseenReason = "failed") -> UnseenReason:
    """Why a host could not be reached, from what was said."""
    return next((why for pattern, why in _MEANINGS if re.search(pattern, words)), otherwise)


def essence(words: str) -> str:
    """The lines that say what happened, else the last ones; bounded, on one line."""
    lines = [line.strip() for line in re.split(r"[\r\n]+", words)]
    lines = [line.strip("@ ") for line in lines if not _NOTHING.match(line)]
    telling = [line for line in lines if any(re.search(pattern, line) for pattern, _ in _MEANINGS)]
    return "; ".join(dict.fromkeys(telling or lines[-_LINES:]))[-_LONGEST:]
