"""Costs of 64-bit integers beyond 2^53: the same bits whatever vectors the processor has."""

import os
import subprocess
import sys


CODE = """
import hashlib
import jax, numpy as np
import jaxmatch as jm
jax.config.update("jax_enable_x64", True)
rng = np.random.default_rng(0)
for bits in (50, 51, 52, 53, 60):
    digest = hashlib.sha256()
    for n, m in [(2, 4), (5, 5), (9, 3), (13, 21)]:
        sign = rng.choice([-1, 1])
        cost = sign * (2**bits + rng.integers(-9, 10, (20, n, m)))
        capacity = np.full(m, -(-n // m) + 1)
        row_mass, col_mass = np.full(n, m), np.full(m, n)
        solved = [
            jm.solve_assignment(cost),
            jm.solve_capacitated_assignment(cost, col_capacity=capacity, maximize=True),
            jm.solve_transport(cost, row_mass, col_mass),
            jm.k_best_assignments(cost, k=3),
        ]
        for res in solved:
            assert np.isin(res.status, (0, 3)).all(), res.status
            assert bits > 52 or (np.asarray(res.status) == 0).all(), res.status
            for x in jax.tree.leaves(res):
                digest.update(np.asarray(x).tobytes())
    print(bits, digest.hexdigest())
"""


def told(instructions: str) -> str:
    env = os.environ | {"JAXMATCH_ISA": instructions, "JAX_PLATFORMS": "cpu"}
    run = [sys.executable, "-c", CODE]
    done = subprocess.run(run, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_same_bits():
    portable = told("portable")
    assert len(portable.splitlines()) == 5
    assert told("avx2") == portable
    assert told("avx512") == portable
