"""Instances that are made once and kept in a folder, one `.npz` file each."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm


def path_of(cache: Path, name: str) -> Path:
    return cache / f"{name}.npz"


def load(cache: Path, name: str) -> dict[str, Any]:
    with np.load(path_of(cache, name)) as file:
        return dict(file)


def keep(cache: Path, name: str, arrays: dict[str, Any]) -> None:
    part = cache / f"{name}.part.npz"
    np.savez(part, allow_pickle=False, **arrays)
    part.rename(path_of(cache, name))  # never half a file under its name


def make_in_parallel(make: Callable[..., None], tasks: Iterable[tuple], most: int) -> None:
    """Calls of `make`, each in one of up to `most` processes, on the CPU."""
    tasks = list(tasks)
    workers = max(1, min(most, len(os.sched_getaffinity(0)), len(tasks)))
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, spawn, _on_cpu) as pool:
        futures = [pool.submit(make, *task) for task in tasks]
        for future in tqdm(as_completed(futures), total=len(futures), desc="instances"):
            future.result()


def _on_cpu() -> None:
    os.environ["JAX_PLATFORMS"] = "cpu"
