"""All examples can be imported; tests/examples runs them where they or the library have changed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


for package in ("equinox", "matplotlib", "mlxtend", "optax", "sklearn", "tqdm"):
    pytest.importorskip(package)

ROOT = Path(__file__).parents[2]


def test_examples_can_be_imported():
    names = sorted(path.stem for path in (ROOT / "examples").glob("[!_]*.py"))
    assert names
    path = os.pathsep.join(map(str, (ROOT, ROOT / "examples")))
    run = [sys.executable, "-c", f"import {', '.join(names)}"]
    done = subprocess.run(
        run, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
