"""The native libraries: found, refused before they do harm, and called."""

import os
import shutil
import subprocess
import sys
import types
import warnings
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmatch
from jaxmatch._ffi import noop
from jaxmatch._library import find, libraries
from jaxmatch._library.find import find_library


def _run(code: str, **environ: object) -> subprocess.CompletedProcess:
    env = os.environ | {"JAX_PLATFORMS": "cpu"} | {k: str(v) for k, v in environ.items()}
    return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)


def _fake_library(folder, source: str):
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    (folder / "fake.c").write_text(source)
    library = folder / "libjaxmatch_cpu.so"
    subprocess.run([compiler, "-shared", "-fPIC", folder / "fake.c", "-o", library], check=True)


# Catches the ImportError of jaxmatch, then shows that jax itself was left unharmed.
_IMPORT_THEN_USE_JAX = """
import jax.numpy as jnp
try:
    import jaxmatch
except ImportError as e:
    print(e)
print("sum", int(jnp.arange(4).sum()))
"""


def test_libraries_are_found():
    assert jaxmatch.has_cpu_library()
    if os.environ.get("JAXMATCH_CUDA") == "ON":
        assert jaxmatch.has_cuda_library()


def test_import_without_any_library():
    code = """
import jaxmatch, numpy as np
print(jaxmatch.has_cpu_library(), jaxmatch.has_cuda_library())
print(jaxmatch.solve_assignment(np.array([[4.0, 1.0], [2.0, 5.0]])).col4row)
"""
    done = _run(code, JAXMATCH_LIB_DIR="none")
    assert done.stdout.splitlines() == ["False False", "[1 0]"], done.stderr
    assert "Warning" not in done.stderr


def test_missing_libraries_are_told_once(tmp_path):
    """Python files without their libraries: the twin runs, and says so."""
    (tmp_path / "jaxmatch").mkdir()
    package = Path(jaxmatch.__file__).parent
    for path in package.rglob("*.py"):
        there = tmp_path / "jaxmatch" / path.relative_to(package)
        there.parent.mkdir(exist_ok=True)
        there.symlink_to(path)
    code = f"""
import sys; sys.path.insert(0, {str(tmp_path)!r})
sys.meta_path[:] = [f for f in sys.meta_path if 'editable' not in type(f).__module__]
from importlib import metadata
def none(name): raise metadata.PackageNotFoundError(name)
metadata.distribution = none
import jaxmatch, numpy as np
assert jaxmatch.__file__.startswith({str(tmp_path)!r})
print([jaxmatch.solve_assignment(np.eye(2, dtype=np.float32)).cost.item() for _ in range(3)])
"""
    done = _run(code, PYTHONSAFEPATH=1, JAXMATCH_LIB_DIR="")
    assert done.stdout.splitlines() == ["[0.0, 0.0, 0.0]"], done.stderr
    assert done.stderr.count("RuntimeWarning") == 1 and "pip install" in done.stderr


@pytest.mark.parametrize("plugins, packages, found", [
    ([12], [12, 13], 12), ([13], [12, 13], 13), ([], [12, 13], 13), ([12], [13], 13),
    ([13], [12], 12), ([13], [], None),
], ids=str)  # fmt: skip
def test_kernels_are_of_the_cuda_version_of_jax(tmp_path, monkeypatch, plugins, packages, found):
    """Two packages may have them; a library beside the Python files comes before both."""
    monkeypatch.delenv("JAXMATCH_LIB_DIR", raising=False)
    monkeypatch.setattr(find, "__file__", str(tmp_path / "jaxmatch" / "_ffi" / "find.py"))
    monkeypatch.setattr(find.metadata, "distribution", _nowhere)
    here = tmp_path / "jaxmatch" / "_lib"
    folders = {f"jaxmatch_cuda{major}": tmp_path / f"jaxmatch_cuda{major}" for major in packages}

    def find_spec(name):
        if name in folders:
            return types.SimpleNamespace(submodule_search_locations=[str(folders[name])])
        return "a plugin" if name in [f"jax_cuda{major}_plugin" for major in plugins] else None

    monkeypatch.setattr(find, "find_spec", find_spec)
    for folder in [*(f / "_lib" for f in folders.values()), here]:
        folder.mkdir(parents=True)
        if folder != here:
            (folder / "libjaxmatch_cuda.so").touch()
    package = tmp_path / f"jaxmatch_cuda{found}" / "_lib" / "libjaxmatch_cuda.so"
    assert find_library("CUDA") == (package if found else None)
    assert find_library("cpu") is None
    assert f"jaxmatch-cuda{(plugins or [13])[0]}" in find.how_to_install("CUDA")
    (here / "libjaxmatch_cuda.so").touch()
    assert find_library("CUDA") == here / "libjaxmatch_cuda.so"


def _nowhere(name):
    raise find.metadata.PackageNotFoundError(name)


def test_a_gpu_without_kernels_is_told_once(monkeypatch):
    monkeypatch.setattr(libraries, "has_cuda_library", lambda: False)
    monkeypatch.setattr(libraries, "_looked_for_gpu", False)
    monkeypatch.setattr(jax, "devices", lambda platform: [platform])
    with pytest.warns(RuntimeWarning, match="NVIDIA GPU.*pip install.*jaxmatch-cuda"):
        libraries.warn_without_cuda()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        libraries.warn_without_cuda()


@pytest.mark.parametrize("variable, value, expected", [
    ("JAXMATCH_LIB_DIR", "/nowhere", "libjaxmatch_cpu.so"),
    ("JAXMATCH_ISA", "sse9", "portable, avx2 or avx512"),
    ("JAXMATCH_CUDA_KERNEL", "block,foo", "warp, block"),
])  # fmt: skip
def test_environment_variables_with_a_wrong_value(variable, value, expected):
    done = _run(_IMPORT_THEN_USE_JAX, **{variable: value})
    message, last = done.stdout.splitlines()
    assert variable in message and repr(value) in message and expected in message
    assert last == "sum 6", done.stderr


def test_an_empty_folder_is_no_place_for_libraries(tmp_path):
    done = _run(_IMPORT_THEN_USE_JAX, JAXMATCH_LIB_DIR=tmp_path)
    assert "libjaxmatch_cpu.so" in done.stdout and str(tmp_path) in done.stdout


def test_nothing_is_registered_where_one_library_is_broken(tmp_path):
    shutil.copy(find_library("cpu"), tmp_path)
    (tmp_path / "libjaxmatch_cuda.so").write_text("not a library")
    record = """
import jax
registered = []
jax.ffi.register_ffi_target = lambda name, *args, **kwargs: registered.append(name)
"""
    code = record + _IMPORT_THEN_USE_JAX.replace("print(e)", "print(e, registered)")
    message, last = _run(code, JAXMATCH_LIB_DIR=tmp_path).stdout.splitlines()
    assert "libjaxmatch_cuda.so" in message and message.endswith("[]")
    assert last == "sum 6"


def test_a_folder_with_kernels_alone_is_told(tmp_path):
    if not jaxmatch.has_cuda_library():
        pytest.skip("built without CUDA")
    (tmp_path / "libjaxmatch_cuda.so").symlink_to(find_library("CUDA"))
    done = _run(_IMPORT_THEN_USE_JAX, JAXMATCH_LIB_DIR=tmp_path)
    assert done.stdout == "sum 6\n" and "libjaxmatch_cpu.so` was not found" in done.stderr


def test_truncated_library_is_refused(tmp_path):
    """dlopen would end the process by SIGBUS."""
    whole = find_library("cpu").read_bytes()
    for part in (0.3, 0.9, 0.999):
        (tmp_path / "libjaxmatch_cpu.so").write_bytes(whole[: int(len(whole) * part)])
        done = _run(_IMPORT_THEN_USE_JAX, JAXMATCH_LIB_DIR=tmp_path)
        message, last = done.stdout.splitlines()
        assert "bytes" in message and "pip install" in message
        assert last == "sum 6", done.stderr


def test_library_of_another_abi_is_refused(tmp_path):
    """It has all symbols, but means something else by them."""
    targets = [*libraries._TARGETS["cpu"], "jaxmatch_host_call", "jaxmatch_size"]
    names = " ".join(f"void {t}(void) {{}}" for t in targets)
    about = "int jaxmatch_ffi_api_minor(void) { return 1; } int jaxmatch_abi(void) { return 999; }"
    build = 'const char* jaxmatch_build(void) { return "0.0.1+abc"; }'
    _fake_library(tmp_path, f"{about} {build} {names}")
    done = _run(_IMPORT_THEN_USE_JAX, JAXMATCH_LIB_DIR=tmp_path)
    message, last = done.stdout.splitlines()
    assert "ABI 999" in message and "0.0.1+abc" in message and "pip install" in message
    assert last == "sum 6", done.stderr


def test_older_runtime_is_refused_before_registration(tmp_path):
    """The failure this gate is for would stop every later JAX call in the process."""
    names = [*libraries._TARGETS["cpu"], *libraries._FUNCTIONS["cpu"][1:]]
    targets = " ".join(f"void {t}(void) {{}}" for t in names)
    _fake_library(tmp_path, f"int jaxmatch_ffi_api_minor(void) {{ return 99; }} {targets}")
    done = _run(_IMPORT_THEN_USE_JAX, JAXMATCH_LIB_DIR=tmp_path)
    message, last = done.stdout.splitlines()
    assert "0.99" in message and f"0.{libraries._runtime_api_minor()}" in message
    assert f"jaxlib {jax.lib.__version__}" in message and "pip install" in message
    assert last == "sum 6", done.stderr


def test_library_of_another_version_is_refused(tmp_path):
    _fake_library(tmp_path, "int jaxmatch_ffi_api_minor(void) { return 1; }")
    done = _run(_IMPORT_THEN_USE_JAX, JAXMATCH_LIB_DIR=tmp_path)
    message, last = done.stdout.splitlines()
    assert "jaxmatch_abi" in message and "pip install" in message
    assert last == "sum 6", done.stderr


def test_broken_library_is_refused(tmp_path):
    (tmp_path / "libjaxmatch_cpu.so").write_text("not a library")
    done = _run(_IMPORT_THEN_USE_JAX, JAXMATCH_LIB_DIR=tmp_path)
    message, last = done.stdout.splitlines()
    assert "cannot be loaded" in message and "pip install" in message
    assert last == "sum 6", done.stderr


@pytest.mark.parametrize("minor, accepted", [(2, False), (3, True), (7, True)])
def test_runtime_version_is_read_from_the_header(tmp_path, monkeypatch, minor, accepted):
    header = tmp_path / "xla" / "ffi" / "api" / "c_api.h"
    header.parent.mkdir(parents=True)
    header.write_text(f"#define XLA_FFI_API_MAJOR 0\n// more\n#define XLA_FFI_API_MINOR {minor}\n")
    monkeypatch.setattr(jax.ffi, "include_dir", lambda: str(tmp_path))
    if accepted:
        libraries._check_api("cpu", 3, libraries._runtime_api_minor())
    else:
        with pytest.raises(ImportError, match=r"API 0\.3.*offers 0\.2"):
            libraries._check_api("cpu", 3, libraries._runtime_api_minor())


def _noop(*operands):
    specs = (jax.ShapeDtypeStruct((3,), jnp.float32), jax.ShapeDtypeStruct((), jnp.int32))
    return noop.noop(specs, *operands)


def test_noop_takes_any_operands_and_results():
    a, b = jax.jit(_noop)(jnp.ones((2, 2)), np.arange(3))
    assert (a.shape, a.dtype, b.shape, b.dtype) == ((3,), jnp.float32, (), jnp.int32)
    a, b = jax.vmap(_noop)(jnp.ones((5, 2)))
    assert (a.shape, b.shape) == ((5, 3), (5,))


def test_noop_lowers_for_cuda():
    traced = jax.jit(_noop).trace(jnp.ones(3))
    assert "jaxmatch_noop" in traced.lower(lowering_platforms=("cuda",)).as_text()


@pytest.mark.parametrize("shape, method, target", [
    ((3, 8, 8), "auto", "assignment"), ((4096, 2), "auto", "assignment"),
    ((2, 7, 4096), "auto", "assignment"), ((6, 1000, 1000), "auto", "assignment"),
    ((2, 512, 512), "auto", "assignment"), ((512, 600), "auto", "either"),
    ((512, 1100), "auto", "assignment_core"),
    ((5, 1000, 1000), "auto", "either"), ((2, 4097), "auto", "assignment_core"),
    ((90_000, 100_000), "auto", "assignment_core"), ((9, 4000, 4000), "auto", "assignment_core"),
    ((20, 20), "classical", "assignment_core"), ((20, 20), "tree", "assignment_core"),
    ((2, 1 << 18), "auto", None), ((20, 20), "xla", None),
], ids=str)  # fmt: skip
def test_assignment_lowers_for_cuda(shape, method, target):
    """To a kernel that takes the shape, to the twin beyond; a GPU is not needed to see it."""
    if not jaxmatch.has_cuda_library():
        pytest.skip("built without CUDA")
    solve = jax.jit(partial(jaxmatch.solve_assignment, method=method))
    assert_lowers_for_cuda(solve, shape, target)


@pytest.mark.parametrize("shape, target", [
    ((64, 1000, 1000), "assignment"), ((2, 1000, 1000), "either"),
    ((8, 8, 1000, 1000), "assignment"), ((3, 5000, 20), "assignment_core"),
], ids=str)  # fmt: skip
@pytest.mark.parametrize("transform", [lambda f: f, jax.value_and_grad], ids=["value", "gradient"])
def test_auto_sees_the_batch_under_vmap(shape, target, transform):
    if not jaxmatch.has_cuda_library():
        pytest.skip("built without CUDA")

    def value(cost, rows_exist):
        return jaxmatch.solve_assignment(cost, row_mask=rows_exist).cost

    solve = transform(value)
    for _ in shape[:-2]:
        solve = jax.vmap(solve, (0, None))
    rows_exist = jnp.ones(shape[-2], bool)
    assert_lowers_for_cuda(jax.jit(lambda cost: solve(cost, rows_exist)), shape, target)


def assert_lowers_for_cuda(solve, shape, target):
    """`"either"`: the second kernel is there for costs on which the first gets nowhere."""
    traced = solve.trace(jax.ShapeDtypeStruct(shape, jnp.float32))
    text = traced.lower(lowering_platforms=("cuda",)).as_text()
    for name in ("assignment", "assignment_core"):
        assert (f"custom_call @jaxmatch_{name}(" in text) == (target in (name, "either"))


@pytest.mark.gpu
def test_noop_runs_on_gpu():
    x = jax.device_put(jnp.ones((2, 2)), jax.devices("cuda")[0])
    a, b = jax.block_until_ready(jax.jit(_noop)(x))
    assert (a.shape, b.shape) == ((3,), ())


def test_stepping_needs_a_native_library(monkeypatch):
    cost = jnp.zeros((3, 3))
    state = jaxmatch.stepping.init(cost)
    for name in ("has_cpu_library", "has_cuda_library"):
        monkeypatch.setattr(libraries, name, lambda: False)
    for call in (
        lambda: jaxmatch.stepping.step(cost, state),
        lambda: jaxmatch.stepping.init(cost),
        lambda: jaxmatch.solve_assignment(cost, method="core", steps_per_call=1),
    ):
        with pytest.raises(RuntimeError, match="reinstall jaxmatch"):
            call()


def test_libraries_of_different_builds_are_rejected():
    class Function:
        restype = None

        def __init__(self, build):
            self.build = build

        def __call__(self):
            return self.build

    def library(build):
        return types.SimpleNamespace(jaxmatch_build=Function(build))

    libraries._check_builds({"a.so": library(b"1+x"), "b.so": library(b"1+x")})
    with pytest.raises(ImportError, match=r"`a\.so` of build 1\+x, `b\.so` of build 1\+y"):
        libraries._check_builds({"a.so": library(b"1+x"), "b.so": library(b"1+y")})
