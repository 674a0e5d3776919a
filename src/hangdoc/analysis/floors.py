"""The noise floors: what a completely hung launch still does, and what therefore counts as nothing.

Measured on hung vLLM 0.32 and SGLang 0.5.23 launches of two ranks (Linux 6.18): Gloo's loops wake 99 times a second
in each of 13 threads, ZMQ's and tqdm's threads wake by themselves; all processes together used 27 CPU ticks in 10 s,
`io` did not change, there was no page fault. docs/report.md shows this table to users.
"""

from __future__ import annotations

CPU = 0.02  # CPU seconds per second of one process: two ticks. Below, it only idles.
COMPILER = 0.1  # CPU seconds per second of a compiler that is at work
READ = 4096  # bytes per second from storage or by large reads
LARGE_READ = 512  # mean bytes per read call: below, reads are wake-ups (an eventfd moves 8 bytes), not data
MEMORY = 1 << 20  # bytes by which resident memory must have grown
FAULTS = 256  # page faults per second that a process takes itself: 1 MB/s of memory touched for the first time
MAJOR_FAULTS = 2  # per second: pages that came from a disk

STABLE_S = 5.0  # a definite fact must have held for so long
STILL_S = 14.0  # no movement for so long (a look lasts 15 s) is stillness
SILENT_S = 45.0  # without a definite fact nothing is hung before: healthy starts are silent for up to 40 s in any phase
HEALTH_SILENT_S = 30.0  # ready line seen, health path silent
LOOKS = 3  # stacks that are needed before CPU time counts as work
