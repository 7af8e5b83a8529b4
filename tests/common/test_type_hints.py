"""`typing.get_type_hints` of everything public, as pydantic, beartype and tyro call it."""

import inspect
import subprocess
import sys
import types
import typing

import jax
import numpy as np
import pytest
from conftest import ROOT

import jaxmatch as jm


def public():
    """Functions and classes by name, and all methods and properties of the classes."""
    found = {}
    for module in (jm, jm.estimators, jm.losses, jm.stepping):
        for name in module.__all__:
            x = getattr(module, name)
            if isinstance(x, types.ModuleType):
                continue
            found[name] = x
            for member in dir(x) if inspect.isclass(x) else ():
                y = inspect.getattr_static(x, member)
                y = getattr(y, "fget", getattr(y, "__func__", y))
                if inspect.isfunction(y) and inspect.unwrap(y).__module__.startswith("jaxmatch"):
                    found[f"{name}.{member}"] = y
    return found


PUBLIC = public()


def test_there_are_many():
    assert len(PUBLIC) > 200 and {"grid_cut", "FlowNetwork.stack", "Matching.empty"} <= {*PUBLIC}


@pytest.mark.parametrize("name", PUBLIC)
def test_hints(name):
    hints = typing.get_type_hints(PUBLIC[name])
    assert not any(isinstance(hint, str) for hint in hints.values())


def test_arrays_are_arrays():
    hints = typing.get_type_hints(jm.Assignment)
    res = jm.solve_assignment(np.eye(3))
    for x in (res, jax.device_put(res), jm.Assignment.empty((3, 3))):
        assert all(isinstance(value, hints[name]) for name, value in vars(x).items())


WITHOUT_JAXTYPING = """
import sys
sys.modules["jaxtyping"] = None
from test_type_hints import PUBLIC, test_hints
for name in PUBLIC:
    test_hints(name)
"""


def test_without_jaxtyping():
    path = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "common")]
    code = f"import sys\nsys.path[:0] = {path}\n{WITHOUT_JAXTYPING}"
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)
