"""What all tests share: four CPU devices, the folder of instances, what to skip where."""

import os
from pathlib import Path

import pytest


# Before the first import of jax. Four devices let the sharding tests run anywhere.
_DEVICES = "--xla_force_host_platform_device_count"
if _DEVICES not in os.environ.get("XLA_FLAGS", ""):
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {_DEVICES}=4".strip()

collect_ignore = ["common/programs"]  # not modules: tests start them

_LARGE_BYTES = 16 * 10**9


def _has_gpu() -> bool:
    import jax

    try:
        return bool(jax.devices("cuda"))
    except RuntimeError:
        return False


def pytest_collection_modifyitems(items):
    gpu = [item for item in items if item.get_closest_marker("gpu")]
    if gpu and not _has_gpu():
        for item in gpu:
            item.add_marker(pytest.mark.skip(reason="needs an NVIDIA GPU"))
    large = [item for item in items if item.get_closest_marker("large")]
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if memory < _LARGE_BYTES:
        for item in large:
            item.add_marker(pytest.mark.skip(reason="needs 16 GB of memory"))


@pytest.fixture(scope="module", autouse=True)
def promote_nothing(request):
    """Neither dtypes nor ranks, as many a code base has it. Examples are written as most are."""
    import jax

    if request.module.__name__.rpartition(".")[2].startswith("test_example"):
        yield
        return
    jax.config.update("jax_numpy_dtype_promotion", "strict")
    jax.config.update("jax_numpy_rank_promotion", "raise")
    yield
    jax.config.update("jax_numpy_dtype_promotion", "standard")
    jax.config.update("jax_numpy_rank_promotion", "allow")


@pytest.fixture(scope="module", autouse=True)
def forget_programs():
    """Compiled programs take maps of memory, of which the system gives a process only so many."""
    import jax

    yield
    jax.clear_caches()


@pytest.fixture(scope="module")
def compile_quickly():
    """For tests that compile much and run little."""
    import jax

    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def platform(request):
    """Each test on the CPU and on the GPU."""
    import jax

    with jax.default_device(jax.devices(request.param)[0]):
        yield request.param


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of problem instances: $JAXMATCH_DATA, or ../shared/data beside the repository."""
    beside = Path(__file__).parents[2] / "shared" / "data"
    folder = Path(os.environ.get("JAXMATCH_DATA") or beside)
    if not folder.is_dir():
        pytest.skip(f"needs the instances: set JAXMATCH_DATA, there is no folder {folder}")
    return folder
