"""What every test needs: signals that end what they are sent to."""

from __future__ import annotations

import signal

# A shell without job control starts what it puts in the background with SIGINT ignored, and nohup does so with SIGHUP.
# Every child inherits that (POSIX, 2.11 "Signals and Error Handling"), and the tests that send one would wait in vain.
for number, action in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, action)
