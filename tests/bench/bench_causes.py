"""Known causes, in CPU time: read from a wheel's packed file, and held against a launch of 1,024 ranks."""

from __future__ import annotations

import time
from collections.abc import Iterator

import bench_ranks
from harness import Row

from hangdoc import shipped
from hangdoc.analysis.diagnosis import Diagnosis
from hangdoc.rules import load
from hangdoc.rules.known import Known

READ_BAR_S, JUDGE_BAR_S = 0.05, 1.0


def rows() -> Iterator[Row]:
    """Two rows."""
    shipped.documents("causes")  # read from the disk before
    began = time.process_time()
    catalogue = load.Catalogue(load.shipped())
    took = time.process_time() - began
    count = len(catalogue.causes)
    yield Row(f"{count} causes read from the packed catalogue and checked for circles", f"<= {READ_BAR_S * 1e3:.0f} ms",
              f"{took * 1e3:.1f} ms", took <= READ_BAR_S, "none has a catalogue of causes")  # fmt: skip
    known = Known(catalogue)
    with_, without = Diagnosis(7, reasons=known), Diagnosis(7)
    for sample in bench_ranks._samples():
        with_.add(sample)
        without.add(sample)
    times = []
    for one in (without, with_):
        one.report("0")
        began = time.process_time()
        one.report("0")
        times.append(time.process_time() - began)
    took = times[1] - times[0]
    yield Row(f"{count} causes held against {bench_ranks.RANKS:,} ranks", f"<= {JUDGE_BAR_S:.0f} s more",
              f"{took:.2f} s more than {times[0]:.2f} s", took <= JUDGE_BAR_S, "none")  # fmt: skip
