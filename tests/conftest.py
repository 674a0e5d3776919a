"""What every test needs: Ctrl-C as a terminal gives it."""

from __future__ import annotations

import signal

# A shell without job control starts what it puts in the background with SIGINT ignored, every child inherits that
# (POSIX, 2.11 "Signals and Error Handling"), and the tests that press Ctrl-C would press it in vain.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
