"""What is thrown in native code, on whichever thread, is an error of the call: nothing ends the
process, and the next call is right again."""

import os
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import jaxmatch as jm
from jaxmatch._assignment import native_large
from jaxmatch._ffi.call import native_call
from jaxmatch._ffi.results import assignment_fields
from jaxmatch._library.libraries import has_cpu_library
from jaxmatch._matching import native as _matching


ROOT = Path(__file__).parents[2]
PROGRAMS = ROOT / "tests/common/programs"

pytestmark = pytest.mark.skipif(not shutil.which("g++"), reason="needs g++")


def test_work_that_throws(tmp_path: Path) -> None:
    """On every item, with threads that take what comes; and pools that have no memory for tasks."""
    program = tmp_path / "throwing_work"
    command = ["g++", "-std=c++17", "-O1", "-Wall", "-pthread", f"-I{ROOT / 'ffi'}"]
    sources = [PROGRAMS / "throwing_work.cc", ROOT / "ffi/common/cpu/interrupt.cc"]
    command += ["-o", str(program), *map(str, sources), "-ldl"]
    subprocess.run(command, check=True)
    done = subprocess.run([program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(not has_cpu_library(), reason="needs the CPU library")
@pytest.mark.skipif(sys.platform != "linux", reason="needs glibc")
def test_handlers_without_memory(tmp_path: Path) -> None:
    """The first allocations of a handler succeed, the others fail: from none to all of them."""
    shim = tmp_path / "short_of_memory.so"
    command = ["gcc", "-O1", "-Wall", "-fPIC", "-shared", "-o", str(shim)]
    subprocess.run([*command, str(PROGRAMS / "short_of_memory.c"), "-ldl"], check=True)
    done = subprocess.run(
        [sys.executable, str(PROGRAMS / "short_of_memory.py")],
        env={**os.environ, "LD_PRELOAD": str(shim)},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    failures = dict(line.split() for line in done.stdout.splitlines())
    assert int(failures["core"]) > 0  # a vector and a queue of its search
    assert int(failures["flows_auto"]) > 0 and int(failures["perturbed"]) > 0
    assert int(failures["k_best"]) > 0
    for name in ("transport", "transport_points", "capacities", "near", "sparse", "arrays"):
        assert int(failures[name]) > 0, name


@pytest.mark.skipif(not has_cpu_library(), reason="needs the CPU library")
def test_a_method_that_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """A handler takes no name for granted."""
    call = partial(native_call, present="", maximize=False, steps=0, method="cores", time_limit=0.0)
    monkeypatch.setattr(native_large, "native_call", lambda *args, **_: call(*args, core_dims=[2]))
    with pytest.raises(
        (jax.errors.JaxRuntimeError, ValueError),
        match="method=cores; known: core, auction, classical, tree",
    ):
        jax.block_until_ready(jm.solve_assignment(jnp.ones((5, 17)), method="core"))


@pytest.mark.skipif(not has_cpu_library(), reason="needs the CPU library")
@pytest.mark.parametrize(
    "options, message",
    [
        ({"relabel": "never"}, "the option relabel=never; known: adaptive, fixed"),
        ({"k": "7x"}, "the option k=7x; known: numbers"),
        ({"k": ""}, "the option k=; known: numbers"),
    ],
    ids=["word", "number", "nothing"],
)
def test_an_option_that_means_nothing(options: dict[str, str], message: str) -> None:
    """A handler does not guess, even if Python has checked the options."""
    graph = jm.BipartiteGraph.from_edges([0, 1], [1, 0], shape=(2, 2))
    call = partial(_matching.matching, graph, None, method="push_relabel", init="cheap", steps=0)
    assert int(call(options={"k": 0.25}, platform="cpu")[0].cardinality) == 2
    with pytest.raises(jax.errors.JaxRuntimeError, match=f"jaxmatch_matching: .*{message}"):
        jax.block_until_ready(call(options=options, platform="cpu"))


@pytest.mark.skipif(not has_cpu_library(), reason="needs the CPU library")
@pytest.mark.parametrize(
    "masks, results, message",
    [
        (0, {}, "the operand row_mask is missing"),
        (jnp.uint8, {}, "the array row_mask has dtype uint8 where bool is expected"),
        (bool, {0: jnp.float32}, "the array col4row has dtype float32 where int32 is expected"),
        (bool, {2: jnp.int32}, "the array value has dtype int32 where float32 or float64"),
        (bool, {4: jnp.float16}, "the array col_dual has dtype float16 where float32 or float64"),
    ],
    ids=["no mask", "mask of integers", "float pairs", "integer value", "narrow dual"],
)
def test_buffers_of_another_kind(masks: Any, results: dict[int, Any], message: str) -> None:
    """Operands that are named but missing, and dtypes that Python never passes."""
    fields = assignment_fields(3, 4)
    for at, dtype in results.items():
        fields[at] = fields[at]._replace(dtype=dtype)
    operands = [jnp.ones((3, 4)), *([jnp.ones(3, masks)] if masks else [])]
    with pytest.raises(jax.errors.JaxRuntimeError, match=f"jaxmatch_assignment: {message}"):
        jax.block_until_ready(
            native_call(
                "jaxmatch_assignment",
                operands,
                fields,
                core_dims=[2, 1][: len(operands)],
                present="row_mask",
                maximize=False,
            )
        )
