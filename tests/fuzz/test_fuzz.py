"""The stored calls are what Python passes today, and a thousand mutated ones end well."""

import dataclasses
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fuzz.__main__ import main
from fuzz.calls import Call, NotWrittenError, has_library, run, stored, targets
from fuzz.mutate import mutated


pytestmark = pytest.mark.skipif(not has_library(), reason="needs the native library")


def test_every_target_is_there():
    assert {x.target for x in stored()} == {*targets()} - {"jaxmatch_noop"}


def test_stored_calls_run():
    """Else nothing behind the handlers' checks is reached: `python -m fuzz.record` in `tests`."""
    for call in stored():
        assert run(call) == (0, ""), call.types()


def test_mutations_differ():
    call, rng = stored()[0], np.random.default_rng(0)
    assert len({mutated(call, rng).types() for _ in range(50)}) > 20


def test_a_thousand_calls():
    command = [sys.executable, "-m", "fuzz", "--calls", "1000"]
    found = subprocess.run(command, cwd=Path(__file__).parents[1], capture_output=True, text=True)
    assert found.returncode == 0, found.stdout + found.stderr[-4000:]


def test_what_is_not_written_is_found():
    call = Call("jaxmatch_noop", [np.zeros(1)], [((3,), np.dtype(np.float32))], {}, {})
    with pytest.raises(NotWrittenError, match="3 numbers of result 0, the first at 0"):
        run(call)


@pytest.mark.parametrize("count", [-1, 1])
def test_another_number_of_results(count):
    for call in {x.target: x for x in stored()}.values():
        results = [*call.results, call.results[-1]] if count > 0 else call.results[:-1]
        aliases = {a: b for a, b in call.aliases.items() if b < len(results)}
        code, message = run(dataclasses.replace(call, results=results, aliases=aliases))
        assert code == 3, (call.target, message)


@pytest.mark.parametrize("words", ["--target nosuch --calls 5", "--calls -1", "--seed x"])
def test_wrong_arguments(words, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["fuzz", *words.split()])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert f"argument {words.split()[0]}" in capsys.readouterr().err
