"""Follow real starts with something planted at random, and score what `hangdoc watch` says.

    python tests/engines/plants.py ENGINE harmless|hang NUMBER... [--table FILE] [--keep FOLDER]
    python tests/engines/plants.py --sum FILE

NUMBER seeds one start: which function, which rank, what happens there, for how long. Harmless: silent for 15 to 40 s,
or moving for 20 to 120 s; no such start may be called hung. Hang: for ever; each must be called hung. One JSON line for
each start goes to standard output and to the table. HANGLAB names the folder of the real engines, as in the Makefile.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).resolve().parent
HANGLAB = Path(os.environ.get("HANGLAB", HERE.parents[2] / "shared/hanglab"))
LIMIT_S = 280.0
SILENT = ("slow", "spin", "eventfd", "lock", "gil", "vfork", "child")
MOVING = ("memory", "read", "bar", "compute")
HANGS = (
    "sleep", "lock", "abba", "spin", "eventfd", "stop", "fifo", "flock", "tcp", "http", "pthread", "gil", "vfork",
    "swallow", "child",
)  # fmt: skip


def planned(engine: str, kind: str, number: int) -> dict[str, Any]:
    """What start `number` is: the same for ever."""
    dice = random.Random(f"{engine} {kind} {number}")
    places = yaml.safe_load((HERE / "plants.yaml").read_text())[engine]
    place, tp = dice.choice(places), dice.choice((1, 2))
    fault = {"at": place["at"], "when": place.get("when", "before")}
    if kind == "hang":
        fault["mode"] = dice.choice(HANGS)
    elif dice.random() < 0.5:
        fault |= {"mode": dice.choice(SILENT), "secs": str(round(dice.uniform(15, 40)))}
    else:
        fault |= {"mode": "slow", "how": dice.choice(MOVING), "secs": str(round(dice.uniform(20, 120)))}
    if place.get("ranked") and tp > 1:
        fault["rank"] = str(dice.randrange(tp))
    scenario = {"id": f"{engine}-{kind}-{number}", "engine": engine, "tp": tp, "phase": place["phase"]}
    words = ";".join(f"{key}={value}" for key, value in sorted(fault.items()))
    return {**scenario, "fault": words, "mode": fault.get("how", fault["mode"]), "secs": fault.get("secs")}


def hanglab() -> Any:
    """The module that starts real engines."""
    spec = importlib.util.spec_from_file_location("hanglab", HANGLAB / "hanglab.py")
    if spec is None or spec.loader is None:
        sys.exit(f"no hanglab in {HANGLAB}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def followed(lab: Any, plan: dict[str, Any], hangdoc: list[str], keep: Path | None = None) -> dict[str, Any]:
    """One start, followed from its first second. Its case goes to the folder `keep` where what was said is worth a look."""
    with tempfile.TemporaryDirectory() as folder:
        case = Path(folder) / f"{plan['id']}.case"
        row = _followed(lab, plan, [*hangdoc, "--save", str(case)] if keep else hangdoc)
        if keep and case.exists() and (not row["right"] or (row["mode"] in MOVING and "suspect" in row["said"])):
            shutil.copy(case, keep)
    return row


def _followed(lab: Any, plan: dict[str, Any], hangdoc: list[str]) -> dict[str, Any]:
    env = {"PYTHONPATH": os.pathsep.join((str(HERE / "inject"), str(HANGLAB / "inject")))}
    server = lab.Server({**plan, "env": env})
    try:
        words = [*hangdoc, "--json", "--timeout", str(LIMIT_S), str(server.process.pid)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S + 30, check=False)
        ended, stamps = time.time(), server.stamps()
        log = server.log.read_text(errors="replace")
    finally:
        server.stop()
    return scored(plan, done.stdout, stamps, ended) | {
        "exit": done.returncode,
        "ready_line": lab.READY[plan["engine"]] in log,
        "stderr": done.stderr[-300:] if not done.stdout else "",
    }


def scored(plan: dict[str, Any], output: str, stamps: list[dict[str, Any]], ended: float) -> dict[str, Any]:
    """What was said, beside what was planted."""
    rows = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    report: dict[str, Any] = next(
        (row for row in reversed(rows) if str(row.get("schema", "")).startswith("hangdoc.report/")), {}
    )
    said = [
        row["data"]["verdict"] if "data" in row else row.get("verdict") for row in rows if row.get("event") == "verdict"
    ]
    planted = {one["pid"] for one in stamps} | {one["holder"] for one in stamps if one.get("holder")}
    named = {one["pid"] for one in report.get("culprits") or ()}
    verdict = report.get("verdict")
    fired = next((one["time"] for one in stamps), None)
    hang = "-hang-" in plan["id"]
    baseline = report.get("baseline") or {}
    return {
        **{key: plan[key] for key in ("id", "engine", "tp", "phase", "mode", "secs", "fault")},
        "fired": fired is not None,
        "verdict": verdict,
        "confidence": report.get("confidence"),
        "said": [one for number, one in enumerate(said) if not number or said[number - 1] != one],
        "right": (verdict == "hung") == hang and (hang or verdict == "ready"),
        "culprit": bool(named & planted) and not named - planted if hang else None,
        "phase_said": (report.get("phase") or {}).get("id"),
        "phase_right": (report.get("phase") or {}).get("id") in plan["phase"] if hang else None,
        "mechanisms": [one["mechanism"] for one in report.get("culprits") or ()],
        "after_fault_s": round(ended - fired, 1) if fired else None,
        "age_s": (report.get("clocks") or {}).get("age_s"),
        "baseline": baseline.get("name"),
        "over": [row["id"] for row in baseline.get("phases") or () if (row.get("now_s") or 0) > row["p95_s"] + 60],
    }


def summed(rows: Iterable[dict[str, Any]]) -> str:
    """A table of all starts in which the plant fired, and what their number bounds."""
    lines = []
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        if row["fired"]:
            groups.setdefault((row["engine"], "hang" if "-hang-" in row["id"] else "harmless"), []).append(row)
    for (engine, kind), found in sorted(groups.items()):
        hung = sum(row["verdict"] == "hung" for row in found)
        suspect = sum("suspect" in row["said"] for row in found)
        right = [sum(bool(row[key]) for row in found) for key in ("culprit", "phase_right")]
        more = (
            f", by the right culprit {right[0]}, in the right phase {right[1]}"
            if kind == "hang"
            else (f", ready {sum(row['verdict'] == 'ready' for row in found)}")
        )
        lines.append(f"{engine} {kind}: {len(found)} starts, called hung {hung}{more}, suspected meanwhile {suspect}")
        missed = len(found) - hung if kind == "hang" else hung
        if not missed:
            bound = 100 * (1 - 0.05 ** (1 / len(found)))  # about 3 / n
            lines.append(f"  0 of {len(found)} wrong: the true rate is below {bound:.0f} % (95 %)")
        modes = Counter(f"{row['mode']} {row['phase'][0]}" for row in found)
        lines.append(
            "  " + ", ".join(f"{mode} x{count}" if count > 1 else mode for mode, count in sorted(modes.items()))
        )
    return "\n".join(lines)


def main() -> None:
    """Run the starts that were named, or sum up a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*")
    parser.add_argument("--table", type=Path)
    parser.add_argument("--keep", type=Path, help="a folder for cases that are worth a look")
    parser.add_argument("--sum", type=Path)
    options = parser.parse_args()
    if options.sum:
        print(summed(json.loads(line) for line in options.sum.read_text().splitlines()))
        return
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # orphans of a launch become our children, which hanglab ends
    engine, kind, *numbers = options.what
    lab, hangdoc = hanglab(), [sys.executable, "-m", "hangdoc", "watch"]
    for number in numbers:
        row = json.dumps(followed(lab, planned(engine, kind, int(number)), hangdoc, options.keep))
        print(row, flush=True)
        if options.table:
            with options.table.open("a") as file:
                file.write(row + "\n")


if __name__ == "__main__":
    main()
