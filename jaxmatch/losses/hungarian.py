"""Set losses: match predictions to targets at least cost, then sum a loss over the pairs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from jaxmatch._assignment.solve import solve_assignment
from jaxmatch._common.distances import constant
from jaxmatch._common.eager import outside_of_jit
from jaxmatch._common.given import as_given
from jaxmatch._common.registered import registered
from jaxmatch._common.result import Assignment
from jaxmatch._common.status import Status
from jaxmatch._common.switches import unchecked
from jaxmatch._common.typing import Array, ArrayLike, Bool, Float, Int, Num, PyTree


@registered
@dataclasses.dataclass(frozen=True, eq=False)
class HungarianLoss:
    """The result of [`hungarian_loss`][jaxmatch.losses.hungarian_loss]; `...` are batch dimensions.

    - `loss`: `f[...]`, the loss of each problem, 0 if it was left out.
    - `num_matched`: `i32[...]`, the number of pairs; divide `loss` by it for a mean over pairs.
    - `used`: `bool[...]`, False for a problem that was left out.
    - `num_unsolved`: `i32[]`, the number of problems left out. Log it during training.
    - `matching`: the [`Assignment`][jaxmatch.Assignment], predictions as rows, targets as columns.
    """

    loss: Float[Array, "..."]
    num_matched: Int[Array, "..."]
    used: Bool[Array, "..."]
    num_unsolved: Int[Array, ""]
    matching: Assignment


@unchecked
def hungarian_matching(
    cost: Num[Array, "... n m"],
    target_mask: ArrayLike | None = None,
    *,
    output_mask: ArrayLike | None = None,
    unmatched_cost: ArrayLike | None = None,
    warm_start: Assignment | ArrayLike | None = None,
    method: str = "auto",
) -> Assignment:
    """Match predictions (rows) to targets (columns) at least total cost, without gradient.

    This is [`solve_assignment`][jaxmatch.solve_assignment] under `stop_gradient`, in the terms of
    set losses. All leading axes (images, decoder layers) form one batch, which one native call
    solves.

    >>> import jax.numpy as jnp, jaxmatch as jm
    >>> cost = jnp.array([[3.0, 1.0, 0.0], [1.0, 3.0, 0.0], [2.0, 2.0, 0.0]])
    >>> mask = jnp.array([True, True, False])  # the third target is padding
    >>> jm.losses.hungarian_matching(cost, mask).row4col.tolist()
    [1, 0, -1]

    **Arguments:**

    - `cost`: `[..., n, m]`, the cost of giving target j to prediction i; +inf forbids the pair.
    - `target_mask`: bool, broadcasts to `[..., m]`; False is padding, which may have any costs.
    - `output_mask`: bool, broadcasts to `[..., n]`; False is a prediction that does not exist.
    - `unmatched_cost`, `warm_start`, `method`: as in `solve_assignment`.

    **Returns:**

    An [`Assignment`][jaxmatch.Assignment]: `row4col` is the prediction of each target, `col4row`
    the target of each prediction, −1 for none. With more targets than predictions, some targets
    stay unmatched. If `status` is not `OPTIMAL`, all indices of that problem are −1.
    """
    cost = constant(as_given("cost", cost))
    if unmatched_cost is not None:
        unmatched_cost = constant(as_given("unmatched_cost", unmatched_cost))
    return solve_assignment(
        cost,
        row_mask=output_mask,
        col_mask=target_mask,
        unmatched_cost=unmatched_cost,
        warm_start=warm_start,
        method=method,
    )


@unchecked
@outside_of_jit("index", trees=("values",))
def gather_matched(values: PyTree[ArrayLike], index: Int[Array, "... k"]) -> PyTree[Array]:
    """Gather along the matched axis; an index of −1 gives zeros without gradient.

    >>> import jax.numpy as jnp, jaxmatch as jm
    >>> labels = jnp.array([7, 8, 9])
    >>> jm.losses.gather_matched(labels, jnp.array([2, -1, 0, -1])).tolist()
    [9, 0, 7, 0]

    **Arguments:**

    - `values`: a pytree of arrays `[..., n, *features]`.
    - `index`: `i32[..., k]`, indices into the axis n, or −1. The `row4col` of a matching gathers
      the prediction of each target, `col4row` the target of each prediction. Leading axes
      broadcast against those of `values`.

    **Returns:**

    The same pytree of arrays `[..., k, *features]`.
    """
    if not jnp.issubdtype(index.dtype, jnp.integer):
        raise TypeError(f"`index` must hold integers, got {index.dtype}; cast it.")
    axis = index.ndim - 1

    def gather(x: ArrayLike) -> Array:
        x = jnp.asarray(x)
        if x.ndim < index.ndim:
            raise ValueError(
                f"`values` holds an array of shape {x.shape}, which has fewer axes than `index` "
                f"{index.shape}. Give it the same leading axes, for instance `x[None]`."
            )
        at = index.reshape(index.shape + (1,) * (x.ndim - index.ndim))
        if x.shape[axis] == 0:
            lead = jnp.broadcast_shapes(x.shape[:axis], index.shape[:axis])
            return jnp.zeros((*lead, index.shape[axis], *x.shape[axis + 1 :]), x.dtype)
        picked = jnp.take_along_axis(x, jnp.maximum(at, 0), axis=axis)
        return jnp.where(at >= 0, picked, jnp.zeros((), x.dtype))

    return jax.tree.map(gather, values)


@unchecked
@outside_of_jit("output_mask", trees=("outputs", "targets", "matching"))
def matched_loss(
    outputs: PyTree[Array],
    targets: PyTree[Array],
    matching: Assignment,
    *,
    pair_loss: Callable[[Any, Any], Float[Array, "... m"]],
    unmatched_loss: Callable[[Any], Float[Array, "... n"]] | None = None,
    output_mask: ArrayLike | None = None,
) -> HungarianLoss:
    """The loss of a given matching: the second half of `hungarian_loss`.

    Use it for a matching from another solver, from other costs, or from a warm start.

    **Arguments:**

    - `matching`: an [`Assignment`][jaxmatch.Assignment] of outputs (rows) to targets (columns).
      Only its indices and its status are read.
    - All other arguments: as in [`hungarian_loss`][jaxmatch.losses.hungarian_loss].

    **Returns:**

    A [`HungarianLoss`][jaxmatch.losses.HungarianLoss].
    """
    col4row, row4col = matching.col4row, matching.row4col
    for x in jax.tree.leaves(outputs):
        if x.shape[: col4row.ndim] != col4row.shape:
            raise ValueError(
                f"`outputs` holds an array of shape {x.shape}, but the matching is of rows "
                f"{col4row.shape}: every output needs these leading axes."
            )
    exists = jnp.ones(col4row.shape, bool)
    if output_mask is not None:
        exists &= jnp.broadcast_to(jnp.asarray(output_mask), exists.shape)

    # An unusable problem is masked twice: its outputs are replaced by zeros, which keeps NaN out of
    # the gradient, and its loss is not counted.
    without_nan = [~_nan_anywhere(x, exists) for x in jax.tree.leaves(outputs)]
    used = (matching.status == Status.OPTIMAL) & jnp.all(jnp.array(without_nan), axis=0)
    outputs = jax.tree.map(lambda x: _keep(x, exists & used[..., None]), outputs)

    row4col = jnp.where(used[..., None], row4col, -1)
    matched = row4col >= 0
    pairs = pair_loss(gather_matched(outputs, row4col), targets)
    loss = jnp.where(matched, pairs, 0).sum(-1)
    if unmatched_loss is not None:
        alone = exists & used[..., None] & (col4row < 0)
        loss += jnp.where(alone, unmatched_loss(outputs), 0).sum(-1)
    return HungarianLoss(
        loss=loss,
        num_matched=matched.sum(-1, dtype=jnp.int32),
        used=used,
        num_unsolved=(~used).sum(dtype=jnp.int32),
        matching=matching,
    )


@unchecked
@outside_of_jit("target_mask", "output_mask", trees=("outputs", "targets"))
def hungarian_loss(
    outputs: PyTree[Array],
    targets: PyTree[Array],
    *,
    matching_cost: Callable[[Any, Any], Num[Array, "... n m"]],
    pair_loss: Callable[[Any, Any], Float[Array, "... m"]],
    unmatched_loss: Callable[[Any], Float[Array, "... n"]] | None = None,
    target_mask: ArrayLike | None = None,
    output_mask: ArrayLike | None = None,
    method: str = "auto",
) -> HungarianLoss:
    """A loss between two sets: match at least cost, then sum `pair_loss` over the pairs.

    The gradient treats the matching as constant, as in DETR. If cost and loss are the same
    function, it is the exact gradient of the optimum (envelope theorem).

    >>> import jax, jax.numpy as jnp, jaxmatch as jm
    >>> outputs = jnp.array([[0.9, 0.1], [0.0, 1.2], [5.0, 5.0]])
    >>> targets = jnp.array([[0.0, 1.0], [1.0, 0.0]])
    >>> result = jm.losses.hungarian_loss(
    ...     outputs,
    ...     targets,
    ...     matching_cost=lambda o, t: jnp.abs(o[..., :, None, :] - t[..., None, :, :]).sum(-1),
    ...     pair_loss=lambda o, t: ((o - t) ** 2).sum(-1),
    ... )
    >>> result.matching.row4col.tolist(), f"{result.loss:.2f}"
    ([1, 0], '0.06')

    **Arguments:**

    - `outputs`: predictions, a pytree of arrays `[..., n, *features]`.
    - `targets`: any pytree, usually of arrays `[..., m, *features]`. Targets may have fewer leading
      axes than outputs, as long as the functions broadcast. For instance, outputs
      `[layers, batch, n, d]` with targets `[batch, m, d]` match every decoder layer in one call.
    - `matching_cost(outputs, targets)`: returns `[..., n, m]`; +inf forbids a pair. Its leading
      axes are the batch, which one native call solves.
    - `pair_loss(outputs, targets)`: returns `[..., m]`. Here `outputs` holds the output matched to
      each target, `[..., m, *features]`. An unmatched target gets zeros and is not counted.
    - `unmatched_loss(outputs)`: returns `[..., n]`, which is counted for outputs without a target.
    - `target_mask`: bool, broadcasts to `[..., m]`; False is padding.
    - `output_mask`: bool, broadcasts to `[..., n]`; False is an output that does not exist.
    - `method`: as in `solve_assignment`.

    **Returns:** a [`HungarianLoss`][jaxmatch.losses.HungarianLoss]: the loss per problem, the
    number of pairs to normalise by, and the matching.

    **Status:** a problem has loss 0 and gradient 0 if its status is not `OPTIMAL` or an existing
    output has a NaN. It is counted in `num_unsolved`. All other problems are unaffected. Padding
    may hold NaN. If activations of a network are NaN, the backward pass of the network may still
    turn a gradient of 0 into NaN, as 0·NaN.
    """
    cost = matching_cost(*lax.stop_gradient((outputs, targets)))
    matching = hungarian_matching(cost, target_mask, output_mask=output_mask, method=method)
    return matched_loss(
        outputs,
        targets,
        matching,
        pair_loss=pair_loss,
        unmatched_loss=unmatched_loss,
        output_mask=output_mask,
    )


def _expand(mask: Bool[Array, "... n"], x: Array) -> Bool[Array, "..."]:
    return mask.reshape(mask.shape + (1,) * (x.ndim - mask.ndim))


def _keep(x: Array, mask: Bool[Array, "... n"]) -> Array:
    return jnp.where(_expand(mask, x), x, jnp.zeros((), x.dtype))


def _nan_anywhere(x: Array, exists: Bool[Array, "... n"]) -> Bool[Array, "..."]:
    """Whether each problem has a NaN in an existing output."""
    if not jnp.issubdtype(x.dtype, jnp.inexact):
        return jnp.zeros(exists.shape[:-1], bool)
    nan = jnp.isnan(x) & _expand(exists, x)
    return nan.any(axis=tuple(range(exists.ndim - 1, x.ndim)))
