"""Turns tokens into text, or would."""

from __future__ import annotations

from multiprocessing.connection import Connection

from sglang.srt import process


class DetokenizerManager:
    """Waits for tokens."""

    def __init__(self, tokens: Connection) -> None:
        self.tokens = tokens

    def event_loop(self) -> None:
        """Take tokens for ever."""
        while True:
            self.tokens.recv()


def run_detokenizer_process(tokens: Connection) -> None:
    """Main function of the detokenizer process."""
    process.live_and_die_with_parent()
    process.set_title("sglang::detokenizer")
    DetokenizerManager(tokens).event_loop()
