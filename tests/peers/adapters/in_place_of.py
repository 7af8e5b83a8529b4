"""Plugin of pytest: a peer's own tests run with our functions in the place of its own.

`--in-place-of PEER` takes the functions of `for_PEER`. Tests that `DIFFERENCES` lists must fail.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
import sys
from collections import Counter
from collections.abc import Callable
from fnmatch import fnmatch
from typing import Any

import pytest
from differences import DIFFERENCES


_calls: Counter[str] = Counter()
_reached: set[str] = set()  # tests that called us


def pytest_addoption(parser):
    parser.addoption("--in-place-of", required=True, metavar="PEER")


def pytest_configure(config):
    for name, ours in _replaced(config).items():
        theirs = pkgutil.resolve_name(name)  # an error if the peer has moved it
        _replace(theirs, _counted(name, ours), package=name.partition(".")[0])


def _replace(theirs: Any, ours: Callable, package: str) -> None:
    """In each module of a package that has imported it; tests are imported later."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] != package:
            continue
        for key, value in list(vars(module).items()):
            if value is theirs:
                setattr(module, key, ours)


def _replaced(config: Any) -> dict[str, Callable]:
    peer = config.getoption("--in-place-of")
    return importlib.import_module(f"for_{peer}").REPLACED


def _counted(name: str, ours: Callable) -> Callable:
    @functools.wraps(ours)
    def call(*args: Any, **kwargs: Any) -> Any:
        _calls[name] += 1
        return ours(*args, **kwargs)

    return call


def pytest_collection_modifyitems(config, items):
    for pattern, reason in DIFFERENCES[config.getoption("--in-place-of")].items():
        differing = [item for item in items if fnmatch(item.nodeid.partition("::")[2], pattern)]
        if not differing:
            raise pytest.UsageError(f"no test is named {pattern}, which `DIFFERENCES` lists")
        for item in differing:
            item.add_marker(pytest.mark.xfail(reason=reason, strict=True))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    before = _calls.total()
    try:
        return (yield)
    finally:
        if _calls.total() > before:
            _reached.add(item.nodeid)


def pytest_sessionfinish(session):
    """No function of ours may be left out unnoticed."""
    if session.exitstatus == 0 and (missed := _replaced(session.config).keys() - _calls):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
        print(f"\nno test called {', '.join(sorted(missed))}")


def pytest_terminal_summary(terminalreporter):
    terminalreporter.write_line(f"{len(_reached)} tests called jaxmatch, {_calls.total()} times")
