"""The option `prove` of `solve_alignment`: each problem of a batch by branch and bound."""

from __future__ import annotations

from typing import Any

import jax
import jax.core
import numpy as np

from jaxmatch._alignment.branch import prove
from jaxmatch._alignment.result import Alignment
from jaxmatch._common.status import Status


def check_provable(
    x: Any, y: Any, groups: Any, *, motion: str | None, cell: Any, **given: Any
) -> None:
    """Raises an error for problems that are not searched for all rotations."""
    if any(isinstance(z, jax.core.Tracer) for z in (x, y, *given.values())):
        raise TypeError("`prove` searches outside of `jit`, got traced arrays; call it eagerly.")
    for name, z in (("groups", groups), ("cell", cell)):
        if z is not None:
            raise ValueError(f"`prove` does not go with `{name}`; leave one of them out.")
    if motion not in ("rigid", "rotation"):
        raise ValueError(f"`prove` goes with rotations, got motion={motion!r}.")
    if np.shape(x)[-1] not in (2, 3):
        raise ValueError(f"`prove` takes points of 2 or 3 coordinates, got {np.shape(x)[-1]}.")


def proved(
    res: Alignment,
    x: Any,
    y: Any,
    *,
    motion: str | None,
    reflections: bool,
    tolerance: float,
    time_limit: float | None,
    **given: Any,
) -> Alignment:
    """The result, improved and with the bound of the search."""
    batch, (n, m) = np.shape(res.status), (np.shape(x)[-2], np.shape(y)[-2])
    fields = {name: np.array(z) for name, z in vars(res).items()}
    sides = {
        "x": np.asarray(x, np.float64),
        "y": np.asarray(y, np.float64),
        "weight": np.ones(n) if given["weights"] is None else given["weights"],
        "x_mask": np.ones(n, bool) if given["x_mask"] is None else given["x_mask"],
        "y_mask": np.ones(m, bool) if given["y_mask"] is None else given["y_mask"],
        "x_kind": np.zeros(n, int) if given["x_kind"] is None else given["x_kind"],
        "y_kind": np.zeros(m, int) if given["y_kind"] is None else given["y_kind"],
    }
    shapes = {name: (n,) if name in ("weight", "x_mask", "x_kind") else (m,) for name in sides}
    shapes |= {"x": np.shape(x)[-2:], "y": np.shape(y)[-2:]}
    full = {name: np.broadcast_to(z, (*batch, *shapes[name])) for name, z in sides.items()}
    for k in np.ndindex(*batch):
        if fields["status"][k] == Status.OPTIMAL:
            own = {name: np.asarray(z[k]) for name, z in full.items()}
            _prove_one(fields, k, own, motion, reflections, tolerance, time_limit)
    if isinstance(res.status, jax.Array):
        fields = {name: jax.numpy.asarray(z) for name, z in fields.items()}
    return type(res)(**fields)  # type: ignore[arg-type]


def _prove_one(
    fields: dict[str, np.ndarray],
    k: tuple[int, ...],
    own: dict[str, np.ndarray],
    motion: str | None,
    reflections: bool,
    tolerance: float,
    time_limit: float | None,
) -> None:
    rows, cols = np.flatnonzero(own["x_mask"]), np.flatnonzero(own["y_mask"])
    if len(rows) == 0:
        fields["proved"][k] = True
        return
    x, y, weight = own["x"][rows], own["y"][cols], own["weight"][rows].astype(np.float64)
    d = x.shape[-1]
    x_mean, y_mean = np.zeros(d), np.zeros(d)
    if motion == "rigid":
        if len(rows) != len(cols) or np.ptp(weight) > 0:
            raise ValueError(
                "`prove` with motion='rigid' needs as many points of `x` as of `y` and equal "
                f"weights, so that their centres are known, got {len(rows)} and {len(cols)} points."
            )
        x_mean, y_mean = x.mean(0), y.mean(0)
    forbidden = own["x_kind"][rows][:, None] != own["y_kind"][cols]
    x, y = x - x_mean, y - y_mean
    size = weight.sum() * ((x**2).sum(-1).max(initial=0) + (y**2).sum(-1).max(initial=0))
    with jax.enable_x64(True):
        found = prove(
            x,
            y,
            weight,
            forbidden,
            float(fields["value"][k]),
            reflections=reflections,
            tolerance=tolerance,
            slack=2.0**-44 * float(size),
            time_limit=time_limit,
        )
    if found.col4row is not None:
        fields["col4row"][k], fields["row4col"][k] = -1, -1
        fields["col4row"][k][rows] = cols[found.col4row]
        fields["row4col"][k][cols[found.col4row]] = rows
        fields["rotation"][k] = found.rotation
        fields["translation"][k] = y_mean - found.rotation @ x_mean
        fields["value"][k] = found.value
        fields["rmsd"][k] = np.sqrt(found.value / weight.sum())
    value = float(fields["value"][k])
    bound = np.asarray(max(found.bound, float(fields["bound"][k])), fields["bound"].dtype)
    bound = np.minimum(np.nextafter(bound, bound.dtype.type(0)), value)
    fields["bound"][k] = bound
    rounding = 16 * float(np.finfo(bound.dtype).eps) * size
    fields["proved"][k] = (value - bound <= tolerance * value) | (value <= rounding)
