"""Benchmarks by problem. From the root of the repository: `python -m benchmarks.assignment.gpu`.

Results are in `results/`, how the solvers work and what was measured in `notes/`.
"""
