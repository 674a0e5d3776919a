"""What is installed where the target runs, and which files on its stacks were changed since."""

from __future__ import annotations

from typing import Dict, List, Optional, Tuple

from ..model.sample import Process, Unseen


def read(
    root: str, process: Process, check_files: Tuple[str, ...], unseen: List[Unseen]
) -> Tuple[Optional[Dict[str, str]], Optional[List[str]]]:
    """Versions by distribution name from the process's own site-packages, and those of `check_files` that differ.

    Paths are opened below `/proc/PID/root`. A file belongs to a wheel when a RECORD names it; a file that no RECORD
    names is reported too when it lies inside a package that one does name.
    """
    raise NotImplementedError
