"""The scripts of the guides run, and every one is shown on a page; so does README's code."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from pages import ROOT, blocks_of

import jaxmatch as jm


GUIDES = sorted((ROOT / "docs" / "guides").glob("*.py"))


def run(*command):
    env = os.environ | {
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": str(Path(jm.__file__).parents[1]),  # the package under test
    }
    command = [sys.executable, "-W", "error::DeprecationWarning:__main__", *command]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("script", GUIDES, ids=lambda path: path.stem)
def test_script(script):
    for package in re.findall(r"\b(flax|equinox|optax)\b", script.read_text()):
        pytest.importorskip(package)
    run(script)


@pytest.mark.parametrize("script", GUIDES, ids=lambda path: path.stem)
def test_every_part_is_shown(script):
    parts = re.findall(r"--8<-- \[start:(\w+)\]", script.read_text())
    pages = [*ROOT.glob("docs/*.md"), *ROOT.glob("docs/guides/*.md")]
    shown = "".join(page.read_text() for page in pages)
    assert parts and [x for x in parts if f"guides/{script.name}:{x}" not in shown] == []


def test_readme():
    assert 4000 <= (ROOT / "README.md").stat().st_size <= 5000
    run("-c", "\n".join(blocks_of("README.md")))
