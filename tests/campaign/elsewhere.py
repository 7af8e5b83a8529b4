"""The same batches divided over several devices, and by the portable instructions."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import multiprocessing
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import jax
import numpy as np
from helpers import to_numpy, x64
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from campaign.problems import Batch


_SECONDS = 200  # of a batch in the other process


@lru_cache(maxsize=1)
def _divided() -> NamedSharding | None:
    """Batches over all devices; None if there is one device."""
    devices = jax.devices()
    mesh = Mesh(np.array(devices), ("problems",))
    return NamedSharding(mesh, PartitionSpec("problems")) if len(devices) > 1 else None


def divided(solve: Callable[[Batch], Any]) -> Callable[[Batch], Any]:
    """A solver of batches whose arrays lie on all devices, or None for a batch it can't divide."""

    def elsewhere(batch: Batch) -> Any:
        sharding = _divided()
        if sharding is None or batch.count == 0 or batch.count % len(sharding.mesh.devices):
            return None
        with x64(batch.wide):
            arrays = {name: jax.device_put(x, sharding) for name, x in batch.arrays.items()}
            return to_numpy(solve(dataclasses.replace(batch, arrays=arrays)))

    return elsewhere


@contextmanager
def _environment(**words: str) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in words}
    os.environ.update(words)
    yield
    for name, word in before.items():
        if word is None:
            del os.environ[name]
        else:
            os.environ[name] = word


@lru_cache(maxsize=1)
def _portable_process() -> concurrent.futures.ProcessPoolExecutor:
    """A process whose CPU solvers use no vector instructions beyond those of all processors."""
    pool = concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("spawn"))
    with _environment(JAXMATCH_ISA="portable", JAX_PLATFORMS="cpu"):
        pool.submit(os.getpid).result(_SECONDS)
    return pool


def by_portable_instructions(solve: Callable[..., Any], *words: Any) -> Any:
    """What `solve`, a function of a module, returns there."""
    return _portable_process().submit(solve, *words).result(_SECONDS)
