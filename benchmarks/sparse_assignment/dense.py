"""Dense problems in which a row may stay, beside the same problems without that."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from benchmarks.assignment.families import FAMILIES
from benchmarks.common.record import Row


NAMES = ("uniform", "sphere to shape", "20 clusters")
QUANTILE = 0.7  # of the least costs of rows: the gate
WIDER = 4


@dataclass(frozen=True)
class Case:
    costs: str
    n: int

    def row(self, budget: float) -> Row:
        import jax

        cost = FAMILIES[self.costs](self.n, 0).astype(np.float32)
        gate = float(np.quantile(cost.min(1), QUANTILE))
        on_device = jax.device_put(cost)
        row: Row = {"costs": self.costs, "n": self.n}
        row["ungated_ms"], _ = _measure(on_device, {}, budget)
        for factor in (1, WIDER):
            name = "gated" if factor == 1 else f"gate·{factor}"
            gated, stay = _measure(on_device, {"unmatched_cost": factor * gate}, budget)
            row |= {f"{name}_ms": gated, f"{name}/ungated": gated / row["ungated_ms"]}
            row[f"{name}, stay"] = stay
        return row


def _measure(cost: Any, options: dict[str, Any], budget: float) -> tuple[float, int]:
    """Milliseconds of a call, whose result is proved, and the number of rows that stay."""
    import jax

    import jaxmatch as jm
    from benchmarks.common.timing import timed

    res, ms = timed(jax.jit(partial(jm.solve_assignment, **options)), cost, budget=budget, least=3)
    assert res.status == jm.Status.OPTIMAL, jm.Status(int(res.status))
    check = jm.check_assignment(cost, res, **options)
    duals = sum(np.abs(np.asarray(x)).sum(dtype=np.float64) for x in (res.row_dual, res.col_dual))
    rounded = np.finfo(np.float32).eps * duals + 1e-6 * abs(float(res.cost))
    assert check.valid and res.gap <= rounded and check.gap <= rounded, (check, res.gap)
    return ms, int((np.asarray(res.col4row) < 0).sum())


def cases(quick: bool) -> list[Case]:
    return [Case(name, 256 if quick else 8192) for name in NAMES]
