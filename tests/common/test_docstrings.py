"""Docstrings of everything public: short, with one vocabulary of headings in one order."""

import inspect
import re
import types

import pytest

import jaxmatch as jm


HEADINGS = [
    "Arguments", "Methods", "Options", "Returns", "Status", "Certificate", "Exact", "Deterministic",
    "Gradient", "Time and memory", "Raises", "Source",
]  # fmt: skip


def public_docstrings():
    """Of modules, functions and classes, and of what a class defines."""
    found = {}
    for module in (jm, jm.estimators, jm.losses, jm.stepping):
        found[module.__name__] = module.__doc__
        for name in module.__all__:
            x = getattr(module, name)
            if isinstance(x, types.ModuleType):
                continue
            found[name] = x.__doc__
            for member, y in vars(x).items() if inspect.isclass(x) else ():
                if member[0] != "_" or member == "__call__":
                    function = getattr(y, "fget", getattr(y, "__func__", y))
                    if inspect.isfunction(function):
                        found[f"{name}.{member}"] = function.__doc__
    return found


DOCSTRINGS = public_docstrings()


def test_there_are_many():
    assert len(DOCSTRINGS) > 90 and {"solve_assignment", "FlowNetwork.stack"} <= {*DOCSTRINGS}


@pytest.mark.parametrize("name", DOCSTRINGS)
def test_headings(name):
    text = inspect.cleandoc(DOCSTRINGS[name] or "")
    bold = re.findall(r"^\*\*(.+?)\*\*", text, re.MULTILINE)
    assert [x for x in bold if x.removesuffix(":") not in HEADINGS or x[-1] != ":"] == []
    places = [HEADINGS.index(x.removesuffix(":")) for x in bold]
    assert places == sorted(set(places)), f"in the order of {HEADINGS}, got {bold}"


MOST_LINES = 45  # what all solvers share is in docs/guarantees.md, methods in docs/methods


@pytest.mark.parametrize("name", DOCSTRINGS)
def test_length(name):
    lines = inspect.cleandoc(DOCSTRINGS[name] or "").splitlines()
    assert len(lines) <= MOST_LINES, "move details to docs/methods or docs/guarantees.md"


@pytest.mark.parametrize("name", DOCSTRINGS)
def test_no_formula_needs_a_renderer(name):
    assert "$" not in (DOCSTRINGS[name] or "")
