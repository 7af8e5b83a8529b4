"""`assignment_matrix`: the assignment as a differentiable matrix."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from jaxmatch._assignment.problem import as_problem
from jaxmatch._common.eager import outside_of_jit
from jaxmatch._common.given import is_of_kind
from jaxmatch._common.promotion import float_dtype
from jaxmatch._common.switches import unchecked
from jaxmatch._common.typing import Array, ArrayLike, Float
from jaxmatch.estimators._base import Estimator
from jaxmatch.estimators._oracle import assignment_oracle


@unchecked
@outside_of_jit("cost", "row_mask", "col_mask", "unmatched_cost", whole=False)
def assignment_matrix(
    cost: ArrayLike,
    *,
    estimator: Estimator,
    key: Any = None,
    state: Any = None,
    maximize: bool = False,
    row_mask: ArrayLike | None = None,
    col_mask: ArrayLike | None = None,
    unmatched_cost: ArrayLike | None = None,
) -> Float[Array, "... n m"]:
    """The assignment of least cost as a matrix, with a gradient of your choice.

    The solution is piecewise constant in the costs, so its derivative is 0 or undefined. An
    estimator replaces this derivative by one that is useful in training; see
    [`jaxmatch.estimators`][jaxmatch.estimators].

    >>> import jax, jax.numpy as jnp, jaxmatch as jm
    >>> cost = jnp.array([[1.0, 2.0], [1.5, 1.0]])
    >>> wanted = jnp.array([[0.0, 1.0], [1.0, 0.0]])
    >>> def hamming(cost):
    ...     y = jm.assignment_matrix(cost, estimator=jm.estimators.Blackbox(5.0))
    ...     return (y * (1 - wanted) + (1 - y) * wanted).sum()
    >>> jax.grad(hamming)(cost)
    Array([[-0.2,  0.2],
           [ 0.2, -0.2]], dtype=float32)

    **Arguments:**

    - `cost`: `[..., n, m]`; +inf forbids a pair (−inf when maximising).
    - `estimator`: the gradient rule. `Perturbed` and `ImplicitMLE` also change the forward pass, to
      the mean of several solutions.
    - `key`: a `jax.random` key, for rules that draw noise.
    - `state`: the state of `AdaptiveImplicitMLE`.
    - `maximize`: find the assignment of the greatest total instead. The rule is applied to the
      negated costs, and the gradient is negated accordingly.
    - `row_mask`, `col_mask`, `unmatched_cost`: as in
      [`solve_assignment`][jaxmatch.solve_assignment]. Rules perturb unmatched costs and give them
      a gradient, as for all other costs.

    **Returns:** `[..., n, m]` in the dtype of the costs (float32 for integers). A problem without a
    solution (see the status of `solve_assignment`) has a matrix of zeros and a gradient of 0.

    **Deterministic:** the same key gives the same bits on the same kind of processor.

    **Gradient:** defined by the rule. All rules support reverse mode. Linear rules (`Identity`,
    `Perturbed`, `Entropic`) support forward mode; for other rules use `estimator.jvp`. A second
    derivative is an error, except with `Entropic`.

    **Time and memory:** one solve by `solve_assignment`, or one per sample. For the gradient,
    `Blackbox` and `ImplicitMLE` repeat each solve once or twice, with a warm start. `Perturbed`
    with `control_variate="solution"` needs one more solve. All other rules need none. Only
    `ImplicitMLE` stores a matrix per sample.

    **Raises:** `TypeError` if `estimator` is not an estimator or dtypes do not fit; `ValueError` if
    shapes do not fit, or `key` or `state` is missing.
    """
    problem = as_problem(cost, row_mask, col_mask, unmatched_cost)
    cost, row_mask, col_mask, unmatched_cost, _ = problem
    if not is_of_kind(estimator, Estimator):
        raise TypeError(
            f"`estimator` must be one of jaxmatch.estimators, got {type(estimator).__name__}."
        )
    alone = unmatched_cost is not None
    oracle = assignment_oracle(row_mask=row_mask, col_mask=col_mask, may_stay_unmatched=alone)
    dtype = cost.dtype if jnp.issubdtype(cost.dtype, jnp.inexact) else jnp.float32
    if unmatched_cost is None:
        extended = cost if cost.dtype == dtype else cost.astype(float_dtype(cost))
    else:
        wide = float_dtype(cost, unmatched_cost)
        extended = jnp.concatenate([cost.astype(wide), unmatched_cost[..., None].astype(wide)], -1)
    extended = -extended if maximize else extended
    y = estimator.solution(oracle, extended, key=key, state=state)
    return y[..., : cost.shape[-1]].astype(dtype)
