"""A Python process that waits in the way that its first argument names. Prints NAME=TID lines, then "ready".

Run by other Pythons than ours, down to 3.8, with nothing installed.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import queue
import sys
import threading
import time
from typing import Any, Callable  # noqa: UP035 - Python 3.8 reads it, too

Lock = Any  # whatever can be entered

one, two = threading.Lock(), threading.Lock()
rlock = threading.RLock()
both = threading.Barrier(2)
never = threading.Event()
entered = threading.Event()


def say(name: str) -> None:
    os.write(1, f"{name}={threading.get_native_id()}\n".encode())


def start(name: str, work: Callable[..., object], *args: object) -> None:
    """A thread that says its number and works."""
    said = threading.Event()

    def run() -> None:
        say(name)
        said.set()
        work(*args)

    threading.Thread(target=run, daemon=True).start()
    said.wait()


def with_both(first: Lock, second: Lock) -> None:
    with first:
        both.wait()
        with second:
            pass


def take(lock: Lock) -> None:
    with lock:
        pass


def hold(lock: Lock) -> None:
    with lock:
        entered.set()
        never.wait()


def hold_and_take_in_another_frame(lock: Lock) -> None:
    with lock:
        take(lock)


def hold_in_a_loop_with_errors(lock: Lock) -> None:
    """Other handlers and iterators lie between, above and below the exit of the lock."""
    for _ in range(2):
        try:
            with contextlib.suppress(OSError), lock:
                for _ in (1, 2):
                    try:
                        entered.set()
                        never.wait()
                    finally:
                        pass
        except ValueError:
            pass


def leave_and_wait(lock: Lock) -> None:
    """Its frame was inside of `with lock:` and is not any more."""
    with lock:
        pass
    entered.set()
    never.wait()


def bound_method_on_the_stack(lock: Lock) -> None:
    """A method of the lock lies on the value stack, below a comprehension that has a handler of its own."""
    entered.set()
    print(lock.release, [never.wait() for _ in (1,)])


def wait_on_a_condition() -> None:
    condition = threading.Condition()
    with condition:
        condition.wait()


def hold_the_gil() -> None:
    entered.set()
    ctypes.PyDLL(None).usleep(900_000_000)


def fork(lock: Lock) -> None:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        say("child")
        os.write(writing, b".")
        take(lock)
        os._exit(0)
    os.read(reading, 1)


def abba() -> None:
    start("a", with_both, one, two)
    start("b", with_both, two, one)


def self_frame() -> None:
    def twice() -> None:
        with one, one:
            pass

    start("holder", twice)


def held(work: Callable[..., object], waits: Callable[..., object], lock: Lock = one) -> None:
    """A thread that works with the lock, and one that waits for it after that."""
    start("holder", work, lock)
    entered.wait()
    start("waiter", waits, lock)


def acquired(lock: Lock) -> None:
    """The main thread holds the lock, without `with`."""
    lock.acquire()
    start("waiter", take, lock)


def left() -> None:
    start("holder", leave_and_wait, one)
    entered.wait()
    acquired(one)


def method() -> None:
    one.acquire()
    held(bound_method_on_the_stack, take)


def forked(lock: Lock) -> None:
    start("holder", hold, lock)
    entered.wait()
    fork(lock)


def churn() -> None:
    def go() -> None:
        while True:
            with one:
                time.sleep(0.0005)

    for number in range(4):
        start(f"t{number}", go)


def gil() -> None:
    say("waiter")
    os.write(1, b"ready\n")
    start("holder", hold_the_gil)


MODES: dict[str, Callable[[], object]] = {
    "abba": abba,
    "self": lambda: start("holder", hold_and_take_in_another_frame, one),
    "self-frame": self_frame,
    "holder": lambda: held(hold, take),
    "nested": lambda: held(hold_in_a_loop_with_errors, lambda lock: lock.acquire()),
    "rlock": lambda: acquired(rlock),
    "condition-lock": lambda: acquired(threading.Condition()),
    "acquire": lambda: acquired(one),
    "left": left,
    "method": method,
    "condition": lambda: start("waiter", wait_on_a_condition),
    "event": lambda: start("waiter", never.wait),
    "queue": lambda: start("waiter", queue.Queue().get),
    "semaphore": lambda: start("waiter", threading.Semaphore(0).acquire),
    "forked": lambda: forked(one),
    "forked-rlock": lambda: forked(rlock),
    "churn": churn,
    "gil": gil,
}
say("main")
MODES[sys.argv[1]]()
os.write(1, b"ready\n")
never.wait()
