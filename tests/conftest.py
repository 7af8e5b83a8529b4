"""What all tests share: four CPU devices, quick compilation, instances, what to skip where."""

import gc
import os
import shutil
from pathlib import Path

import pytest


# Before the first import of jax. Four devices let the sharding tests run anywhere.
_DEVICES = "--xla_force_host_platform_device_count"
if _DEVICES not in os.environ.get("XLA_FLAGS", ""):
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {_DEVICES}=4".strip()

# Compilation takes most of the time of the tests. So XLA optimises only what asks for it (the
# fixture `optimised`), and compiled programs are kept for other processes and for the next run: JAX
# finds a program by its text, its options and XLA's version. A program that calls our library
# contains the handler's name alone, so a new library needs no new programs. Processes that tests
# start inherit all of this.
ROOT = Path(__file__).parents[1]
PROGRAMS = ROOT / "build" / "programs"
_MOST_BYTES_OF_PROGRAMS = 2 * 10**9
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(PROGRAMS))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")

# Traces are many small objects, few of which are garbage.
gc.set_threshold(50_000, 10, 10)

collect_ignore = ["common/programs", "peers/adapters"]  # tests start them

# Modules of half a minute and more on one core.
LONGEST_FIRST = """
test_jax_switches test_estimators test_assignment_core test_assignment_emulated test_xla_twin
test_peers test_grid_cut_features test_flow_features test_estimators_entropic test_losses_structured
test_flow_known test_flow test_grid_cut test_flow_denormals test_perturbed_assignment
test_assignment_exhaustive test_assignment_families test_sharded_costs_emulated test_examples
test_example_digits_mesh test_losses_permutation_invariant test_losses test_sharding
test_flow_grad test_flow_invalid test_core_instruction_sets test_core_emulated
test_flow_emulated test_sparse_assignment test_sparse_batches test_sparse_hostile
test_points_by_levels
""".split()

_LARGE_BYTES = 16 * 10**9


def pytest_addoption(parser):
    parser.addoption("--share", default="1", help="8 or 3/8: a part of the slow tests")
    parser.addoption("--write-seconds", type=Path, help="a file of what slow functions take")


def pytest_configure(config):
    import shares

    path = config.getoption("--write-seconds")
    if path is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(shares.Recorder(path))


def pytest_report_header(config):
    import shares

    chosen, count = shares.parse(config.getoption("--share"))
    return f"share {chosen} of {count} (repeat: --share {chosen}/{count})" if count > 1 else []


def pytest_sessionstart(session):
    """Compiled programs are removed once they take too much room."""
    if hasattr(session.config, "workerinput") or not PROGRAMS.exists():
        return
    if sum(file.stat().st_size for file in PROGRAMS.iterdir()) > _MOST_BYTES_OF_PROGRAMS:
        shutil.rmtree(PROGRAMS)


def _has_gpu() -> bool:
    import jax

    try:
        return bool(jax.devices("cuda"))
    except RuntimeError:
        return False


def _is_cpu() -> bool:
    import jax

    return jax.default_backend() == "cpu"


def pytest_collection_modifyitems(config, items):
    import shares

    shares.select(config, items)
    for item in items:
        if item.path.parent.name == "examples":
            item.add_marker(pytest.mark.examples)
    # With --no-loadscope-reorder workers take modules in this order: no long one comes last.
    place = {name: k for k, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: place.get(item.path.stem, len(place)))  # stable
    gpu = [item for item in items if item.get_closest_marker("gpu")]
    if gpu and not _has_gpu():
        for item in gpu:
            item.add_marker(pytest.mark.skip(reason="needs an NVIDIA GPU"))
    cpu = [item for item in items if item.get_closest_marker("cpu")]
    if cpu and not _is_cpu():
        for item in cpu:
            item.add_marker(pytest.mark.skip(reason="needs the CPU as the default device"))
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
def optimised():
    """For tests of rounding: XLA may fuse, reassociate and contract as it does for users."""
    import jax

    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", before)


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
