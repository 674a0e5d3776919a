"""What holds the parts in their places: arrows, sizes, and where the half that travels can run."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "hangdoc"
TRAVELS = ("model", "probes", "agent")
LONGEST = 350  # lines; a longer file has a second subject in it


def _sources(*parts: str) -> list[Path]:
    return sorted(path for part in parts for path in (SOURCE / part).rglob("*.py"))


@pytest.mark.parametrize("path", _sources(""), ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_file_is_too_long(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= LONGEST


def _imports(path: Path) -> Iterator[str]:
    """Top-level names that a file imports; what is relative within the package is left out."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module.partition(".")[0]


@pytest.mark.parametrize("path", _sources(*TRAVELS), ids=lambda path: str(path.relative_to(SOURCE)))
def test_what_travels_needs_nothing_but_python(path: Path) -> None:
    assert set(_imports(path)) <= sys.stdlib_module_names


def test_arrows_go_one_way() -> None:
    tool = shutil.which("lint-imports", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    assert tool, "import-linter is not installed"
    done = subprocess.run([tool, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def _old_python() -> str | None:
    """A Python 3.8 of this machine: on PATH, or one that pyenv or uv installed."""
    home = Path.home()
    places = [
        *home.glob(".pyenv/versions/3.8.*/bin/python"),
        *home.glob(".local/share/uv/python/cpython-3.8*/bin/python3"),
    ]
    for candidate in filter(None, (shutil.which("python3.8"), *map(str, places))):
        done = subprocess.run(
            [candidate, "-c", "import sys; print(sys.version_info[:2])"], capture_output=True, text=True, check=False
        )
        if done.stdout.strip() == "(3, 8)":
            return candidate
    return None


def test_what_travels_imports_on_python_3_8_from_a_zip(tmp_path: Path) -> None:
    python = _old_python()
    if python is None:
        pytest.skip("no Python 3.8 here")
    bundle = tmp_path / "bundle.zip"
    sources = _sources(*TRAVELS)
    with zipfile.ZipFile(bundle, "w") as archive:
        archive.write(SOURCE / "__init__.py", "hangdoc/__init__.py")
        for path in sources:
            archive.write(path, f"hangdoc/{path.relative_to(SOURCE)}")
    modules = [".".join(("hangdoc", *path.relative_to(SOURCE).with_suffix("").parts)) for path in sources]
    wanted = [name.removesuffix(".__init__") for name in modules if not name.endswith("__main__")]
    code = "import sys, importlib; sys.path.insert(0, sys.argv[1]); [importlib.import_module(n) for n in sys.argv[2:]]"
    done = subprocess.run(
        [python, "-I", "-S", "-c", code, str(bundle), *wanted], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
