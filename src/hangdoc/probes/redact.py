"""Secrets stay on the host where they were read: masking of tokens and keys in arguments, environment and logs.

Each rule first asks for a plain word with `in`, so that a log of megabytes without secrets costs next to nothing, and
its pattern has only bounded or single repetitions, so that it is linear in the length of the text.
"""

from __future__ import annotations

import re
from typing import Iterable, List, Sequence, Tuple

HIDDEN = "***"
_MASKED = r"\g<keep>" + HIDDEN
_FOLD = "(?i)"  # a pattern that begins with it has small letters only

# Names whose value is a secret, as the last word of an option, variable, key or attribute.
_KEYS = ("api", "access", "secret", "account", "private")
_TOKENS = ("auth", "access", "api", "hub", "hf", "session", "refresh", "bearer", "id")
_HIDDEN_NAME = (
    rf"(?:(?:{'|'.join(_KEYS)})[_-]?key(?:[_-]?id)?|secret|passw(?:or)?d|passphrase"
    rf"|(?:{'|'.join(_TOKENS)})[_-]?token|credentials?|x-amz-signature)"
)
_HINTS = tuple(
    f"{first}{between}{last}"
    for last, firsts in (("key", _KEYS), ("token", _TOKENS))
    for first in firsts
    for between in ("", "_", "-")
)
# Values that say that there is no secret, or that only point at one.
_NOT_A_SECRET = r"(?!(?:none|null|true|false|nil|\*\*\*)(?![\w-]))"  # noqa: S105 - a pattern

# (words of which one must be there in lower case, pattern); the group `keep` stays. Patterns are compiled when they are used
# first, which most never are: all at once take 5 ms.
_Rule = Tuple[Tuple[str, ...], str]
_RULES: Tuple[_Rule, ...] = (
    (("hf_",), r"(?P<keep>\bhf_)[A-Za-z0-9]{8,}"),
    (("sk-",), r"(?P<keep>\bsk-)[A-Za-z0-9_-]{8,}"),
    (("nvapi-",), r"(?P<keep>\bnvapi-)[A-Za-z0-9_-]{8,}"),
    (("akia", "asia"), r"(?P<keep>\b(?:AKIA|ASIA))[A-Z0-9]{12,}"),
    (("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), r"(?P<keep>\bgh[pousr]_)[A-Za-z0-9]{16,}"),
    (("github_pat_",), r"(?P<keep>\bgithub_pat_)\w{16,}"),
    (("glpat-",), r"(?P<keep>\bglpat-)[\w-]{16,}"),
    (("xox",), r"(?P<keep>\bxox[a-z]-)[\w-]{10,}"),
    (("eyj",), r"(?P<keep>\beyJ)[\w-]{8,}(?:\.[\w-]+)*"),
    (("bearer",), r"(?i)(?P<keep>\bbearer[ \t]{1,8})[^\s'\",;]{4,}"),
    (("basic",), r"(?i)(?P<keep>\bauthorization['\"]?[ \t]{0,4}[:=][ \t]{0,4}['\"]?basic[ \t]{1,8})[^\s'\",;]{4,}"),
    (("://",), r"(?P<keep>://[^\s/@:'\"]{0,256}:)[^\s/@'\"]{1,256}(?=@)"),
    (("private key-----",), r"(?P<keep>-----BEGIN [A-Z ]{0,20}PRIVATE KEY-----)[^-]+"),
    # --api-key VALUE, --api-key=VALUE, api_key='VALUE', "api_key": ["VALUE"], HF_TOKEN=VALUE
    (
        (*_HINTS, "secret", "passw", "passphrase", "credential", "x-amz-signature"),
        rf"(?i)(?P<keep>{_HIDDEN_NAME}['\"]?(?:[ \t]{{0,4}}[=:][ \t]{{0,4}}|[ \t]{{1,8}}(?<=[ \t])(?=[^-\s]))"
        rf"[\[({{]?['\"]?){_NOT_A_SECRET}[^\s'\",;&\])}}]{{3,}}",
    ),
    (("token=",), rf"(?i)(?P<keep>\btoken=['\"]?){_NOT_A_SECRET}[^\s'\",;&\])}}]{{8,}}"),
    # {"token": "VALUE"}: without the quotes it may be a word of a vocabulary
    (
        ('token"', "token'"),
        rf"(?i)(?P<keep>['\"]token['\"][ \t]{{0,4}}:[ \t]{{0,4}}['\"]){_NOT_A_SECRET}[^\s'\"]{{8,}}",
    ),
    (("_token=",), rf"(?P<keep>\b[A-Z0-9_]{{0,64}}_TOKEN=['\"]?){_NOT_A_SECRET}[^\s'\",;&\])}}]{{3,}}"),
)
_SECRET_OPTION = re.compile(rf"(?i)^--?[a-z0-9_-]{{0,64}}?(?:{_HIDDEN_NAME}|token)$")
_SECRET_VARIABLE = re.compile(rf"(?i)(?:^|_)(?:{_HIDDEN_NAME}|token|key|pat)$")
_LONG = 4096


def _called_for(text: str, rules: Sequence[_Rule] = _RULES) -> List[_Rule]:
    """The rules of which a text has a word."""
    lower, found = text.lower(), []
    for rule in rules:
        for word in rule[0]:  # a quarter of the time of `any` with a generator, for each of a compiler's 200 arguments
            if word in lower:
                found.append(rule)
                break
    return found


def _apply(piece: str, rules: Sequence[_Rule]) -> str:
    for _, pattern in rules:
        folded = pattern.startswith(_FOLD)
        piece = _folded(pattern[len(_FOLD) :], piece) if folded else re.sub(pattern, _MASKED, piece)
    return piece


def _folded(pattern: str, piece: str) -> str:
    """As `re.sub` that ignores case, in a quarter of the time: what is looked for is in lower case, and so is the text then."""
    lower = piece.lower()
    if len(lower) != len(piece):  # some capitals have two letters for a small one
        return re.sub(_FOLD + pattern, _MASKED, piece)
    parts, at = [], 0
    for found in re.finditer(pattern, lower):
        parts += [piece[at : found.end("keep")], HIDDEN]
        at = found.end()
    return "".join([*parts, piece[at:]])


def mask(text: str) -> str:
    """The text with every token or key in it replaced by `***`."""
    rules = _called_for(text)
    if not rules:
        return text
    if len(text) <= _LONG or "private key-----" in text.lower():
        return _apply(text, rules)
    return "".join([_apply(line, _called_for(line, rules)) for line in text.splitlines(keepends=True)])


def mask_arguments(arguments: Iterable[str]) -> Tuple[str, ...]:
    """Arguments of a command with the values of secret options masked: all words up to the next option."""
    given = tuple(arguments)
    clean = not _called_for("\0".join(given))
    masked: List[str] = []
    hiding = False
    for one in given:
        if one.startswith("-"):
            hiding = bool(_SECRET_OPTION.match(one))
        masked.append(HIDDEN if hiding and not one.startswith("-") else one if clean else mask(one))
    return tuple(masked)


def mask_variable(name: str, value: str) -> str:
    """The value of an environment variable, hidden whole when its name says that it is a secret."""
    return HIDDEN if value and _SECRET_VARIABLE.search(name) else mask(value)
