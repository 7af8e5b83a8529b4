"""The primitive for all FFI calls, with rules for `vmap` and for sharded batches.

Native handlers treat all leading dimensions as batch dimensions, so each device can solve its shard
of a batch on its own. `jax.ffi.ffi_call` cannot express this: XLA would gather the operands of such
a call on every device. Here the lowered call carries a sharding rule, by which Shardy propagates
shardings, and the attribute `num_batch_dims`, by which XLA's SPMD partitioner splits the call. JAX
does the same for its linear algebra.

The SPMD partitioner drops aliases between operands and results. It also leaves all attributes
unchanged, even if their values depend on the size of the batch. Calls with aliases or with such
attributes are split by `custom_partitioning` instead. Its callback lowers the call again for the
shard of one device.

This module imports nothing from `jax._src`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.custom_partitioning import custom_partitioning
from jax.extend.core import Primitive, jaxpr_as_fun
from jax.interpreters import ad, batching, mlir
from jax.sharding import AbstractMesh, NamedSharding, PartitionSpec

from jaxmatch._common.sharding import vary_alike
from jaxmatch._common.switches import compiled
from jaxmatch._common.symbolic import is_symbolic
from jaxmatch._common.typing import Array, DTypeLike
from jaxmatch._ffi.host_call import host_call


# A closed jaxpr: its class is `ClosedJaxpr` up to JAX 0.11, and `Jaxpr` later.
_Program: TypeAlias = Any

_native_call = Primitive("jaxmatch_native_call")
_native_call.multiple_results = True


class Result(NamedTuple):
    """One result of a call: its shape for one problem, without batch dimensions, and its dtype."""

    shape: tuple[int, ...]
    dtype: DTypeLike


class _Call(NamedTuple):
    """Static parameters of the primitive."""

    target: str
    core_dims: tuple[int, ...]  # number of dimensions of each operand after the batch dimensions
    shared: tuple[int, ...]  # indices of operands that all problems share, without batch dimensions
    results: tuple[Result, ...]
    aliases: tuple[tuple[int, int], ...]
    attributes: tuple[tuple[str, Any], ...]
    by_batch: tuple[tuple[str, int], ...]  # attributes; the number of problems multiplies values

    @property
    def is_divisible(self) -> bool:
        """Whether XLA's partitioner can split the call: it handles no aliases and no `by_batch`."""
        return not (self.aliases or self.by_batch)

    @property
    def batched(self) -> list[int]:
        """The indices of the operands with batch dimensions."""
        return [k for k in range(len(self.core_dims)) if k not in self.shared]

    def batch(self, operands: Sequence[Any]) -> tuple[Any, ...]:
        """The batch shape of a call with these operands, which are arrays or types."""
        shape = operands[self.batched[0]].shape
        return shape[: len(shape) - self.core_dims[self.batched[0]]]

    def batch_spec(self, operands: Sequence[Any]) -> PartitionSpec:
        """The sharding of the batch dimensions in the operand where most of them are sharded."""
        count = len(self.batch(operands))
        specs = [PartitionSpec(*operands[k].sharding.spec[:count]) for k in self.batched]
        return max(specs, key=lambda spec: sum(axes is not None for axes in spec))


def as_text(options: Mapping[str, Any]) -> str:
    """Encodes the options of a method as one attribute, see ffi/common/attributes.h."""
    return " ".join(f"{name}={value}" for name, value in options.items())


def names_of(**optional: Any) -> str:
    """The attribute `present`: the names of the optional operands that are given, in order."""
    return " ".join(name for name, x in optional.items() if x is not None)


def native_call(
    target: str,
    operands: Sequence[Array],
    results: Sequence[Result],
    *,
    core_dims: Sequence[int],
    shared: Sequence[int] = (),
    aliases: Mapping[int, int] | None = None,
    by_batch: Mapping[str, int] | None = None,
    **attributes: Any,
) -> list[Array]:
    """Runs a native target on one problem or on a batch of problems.

    - `core_dims`: the number of core dimensions of each operand. The dimensions before them are
      the batch, the same for all operands.
    - `shared`: indices of operands without batch dimensions, shared by all problems. They are not
      copied, not even by `vmap`. They come first: XLA's partitioner gathers a batch whose operands
      come before a shared one.
    - `aliases`: maps the index of an operand to the index of the result that reuses its memory.
    - `by_batch`: attributes that are multiplied by the number of problems on a device.

    The call has no derivative. On NumPy operands it runs directly on this host and returns NumPy
    arrays.
    """
    if isinstance(operands[0], np.ndarray):
        assert not (aliases or by_batch)
        of_batch = next(k for k in range(len(operands)) if k not in shared)
        return host_call(  # type: ignore[return-value]
            target,
            operands,  # type: ignore[arg-type]
            results,
            (of_batch, core_dims[of_batch]),
            tuple(sorted(attributes.items())),
        )
    # Inside a `shard_map`, mark all operands as varying over the same mesh axes. Then the results
    # vary over these axes, too.
    operands = vary_alike(list(operands), operands)
    # XLA's partitioner does not recognise the batch dimensions of an operand that has no others.
    # Such an operand gets a core dimension of size 1.
    operands = [
        x if core else jnp.expand_dims(x, -1) for x, core in zip(operands, core_dims, strict=True)
    ]
    call = _Call(
        target,
        tuple(max(core, 1) for core in core_dims),
        tuple(shared),
        tuple(Result(tuple(r.shape), jnp.dtype(r.dtype)) for r in results),
        tuple(sorted((aliases or {}).items())),
        tuple(sorted(attributes.items())),
        tuple(sorted((by_batch or {}).items())),
    )
    if not (shared and call.is_divisible):
        return _bind(operands, call)
    # XLA's partitioner takes the leading dimensions for the batch in every operand that has more
    # dimensions than the batch, even if the operand is shared. An extra batch dimension of size 1
    # leaves shared operands with too few dimensions for that. (Calls with aliases get none, because
    # it would cost a copy of each batched operand.)
    at = len(call.batch(operands))
    wider = [x if k in shared else jnp.expand_dims(x, at) for k, x in enumerate(operands)]
    return [jnp.squeeze(y, at) for y in _bind(wider, call)]


def _bind(operands: Sequence[Array], call: _Call) -> list[Array]:
    assert [*call.shared] == [*range(len(call.shared))]
    cut = None
    if not call.is_divisible:
        types = tuple(jax.ShapeDtypeStruct(x.shape, x.dtype) for x in operands)
        cut = _cut_by_callback(call, types, jax.sharding.get_abstract_mesh())
    return _native_call.bind(*operands, call=call, cut=cut)


@compiled(static_argnames=("call", "cut"))
def _run(*operands: Array, call: _Call, cut: _Program | None) -> list[Array]:
    return _native_call.bind(*operands, call=call, cut=cut)


@_native_call.def_impl
def _impl(*operands: Array, call: _Call, cut: _Program | None) -> list[Array]:
    return _run(*operands, call=call, cut=cut)


@_native_call.def_abstract_eval
def _abstract(*operands: Any, call: _Call, cut: _Program | None) -> list[Any]:
    del cut
    batch, spec = call.batch(operands), call.batch_spec(operands)
    like = operands[call.batched[0]]

    def result(shape: tuple[int, ...], dtype: DTypeLike) -> Any:
        dims = PartitionSpec(*spec, *(None for _ in shape))
        sharding = NamedSharding(like.sharding.mesh, dims)
        return like.update(shape=(*batch, *shape), dtype=dtype, weak_type=False, sharding=sharding)

    return [result(*r) for r in call.results]


def _batch(
    operands: Sequence[Array], dims: Sequence[int | None], *, call: _Call, cut: Any
) -> tuple[list[Array], list[int]]:
    """The `vmap` rule: adds a leading batch dimension. Copies unmapped operands unless shared."""
    del cut
    size = next(x.shape[d] for x, d in zip(operands, dims, strict=True) if d is not None)
    front = [x if d is None else jnp.moveaxis(x, d, 0) for x, d in zip(operands, dims, strict=True)]
    # If `vmap` maps a shared operand, all of them become batched: handlers look at one of them.
    shared = call.shared if all(dims[k] is None for k in call.shared) else ()
    batch = call.batch(front)[dims[call.batched[0]] is not None :]

    def with_batch(k: int) -> Array:
        x = front[k]
        core = x.shape[x.ndim - call.core_dims[k] :]
        if k in call.shared:
            x = x.reshape(1 if dims[k] is None else size, *(1 for _ in batch), *core)
        return jnp.broadcast_to(x, (size, *batch, *core))

    moved = [x if k in shared else with_batch(k) for k, x in enumerate(front)]
    return _bind(moved, call._replace(shared=shared)), [0] * len(call.results)


def _jvp(primals: Any, tangents: Any, *, call: _Call, cut: Any) -> Any:
    raise ValueError(f"The native call to `{call.target}` cannot be differentiated.")


batching.primitive_batchers[_native_call] = _batch
ad.primitive_jvps[_native_call] = _jvp


# ---------------------------------------------------------------------------------------------
# Lowering


def _lower(ctx: mlir.LoweringRuleContext, *operands: Any, call: _Call, cut: _Program | None) -> Any:
    has_shardy = getattr(jax.config, "jax_use_shardy_partitioner", True)
    if cut is not None and has_shardy and _may_call_back(ctx.module_context):
        return mlir.lower_fun(jaxpr_as_fun(cut), multiple_results=True)(ctx, *operands)
    types: list[Any] = [*ctx.avals_in, *ctx.avals_out]
    batch = call.batch(ctx.avals_in)
    _check_sizes(ctx, call)
    extra = {}
    if batch and call.is_divisible and all(isinstance(n, int) for x in types for n in x.shape):
        count = str(len(batch))
        extra["mhlo.frontend_attributes"] = mlir.ir_attribute({"num_batch_dims": count})
        if has_shardy:
            rule = _Factors.of(call, ctx.avals_in, ctx.avals_out).attribute()
            context = ctx.module_context.context
            extra["sdy.sharding_rule"] = mlir.ir.Attribute.parse(rule, context=context)
    attributes = dict(call.attributes)
    attributes |= {name: each * math.prod(batch) for name, each in call.by_batch}
    lower = jax.ffi.ffi_lowering(
        call.target, operand_output_aliases=dict(call.aliases), extra_attributes=extra
    )
    return lower(ctx, *operands, **attributes)


mlir.register_lowering(_native_call, _lower)


def _check_sizes(ctx: mlir.LoweringRuleContext, call: _Call) -> None:
    """Raises an error for symbolic sizes of a problem, unless the only platform is the CPU."""
    avals: Sequence[Any] = ctx.avals_in
    sizes = [x.shape[x.ndim - core :] for x, core in zip(avals, call.core_dims, strict=True)]
    symbolic = next(filter(is_symbolic, sizes), None)
    platforms = {*(ctx.platforms or ctx.module_context.platforms)}
    if symbolic is not None and platforms != {"cpu"}:
        raise ValueError(
            f"The sizes ({', '.join(map(str, symbolic))}) of a problem are symbolic in a function "
            f"exported for {sorted(platforms)}, which takes symbolic batch dimensions alone. "
            "Export it for each size, or for the largest with masks, or for the CPU: "
            '`platforms=["cpu"]`.'
        )


def _may_call_back(context: Any) -> bool:
    """Whether `custom_partitioning` works here.

    It does not work in an exported program. Nor does it work inside a `shard_map` over some axes of
    a mesh, because the callback would not see the remaining axes; XLA then gathers the operands.
    Inside a `shard_map` over all axes nothing is left to split.
    """
    taken = getattr(context.axis_context, "manual_axes", ())
    return not context.lowering_parameters.for_export and not taken


@lru_cache
def _cut_by_callback(
    call: _Call, operands: Sequence[jax.ShapeDtypeStruct], context: AbstractMesh
) -> _Program:
    """The call as a jaxpr with `custom_partitioning`.

    The jaxpr is made before lowering, and becomes a parameter of the primitive, so that JAX finds
    `custom_partitioning` in the program. Only if it finds one does JAX provide the list of devices
    for which to lower it. The types in the jaxpr belong to the mesh `context`.
    """
    del context

    @custom_partitioning
    def cut(*operands: Array) -> list[Array]:
        return _native_call.bind(*operands, call=call, cut=None)

    def partition(mesh: Any, operands: Any, results: Any) -> Any:
        parts = NamedSharding(mesh, call.batch_spec(operands))
        whole = NamedSharding(mesh, PartitionSpec())
        shardings = tuple(whole if k in call.shared else parts for k in range(len(operands)))
        return mesh, cut.fun, [parts for _ in results], shardings

    factors = _Factors.of(call, operands, jax.eval_shape(cut.fun, *operands))
    cut.def_partition(
        partition, sharding_rule=factors.text(), need_replication_factors=tuple(factors.whole)
    )
    return jax.make_jaxpr(cut)(*operands)


class _Factors(NamedTuple):
    """A sharding rule: a name (in Shardy: a factor) for each dimension of operands and results.

    Operands and results share the names of the batch dimensions, which come first.
    """

    operands: list[list[str]]
    results: list[list[str]]
    sizes: dict[str, int]
    whole: list[str]  # dimensions that must not be sharded

    @classmethod
    def of(cls, call: _Call, operands: Sequence[Any], results: Sequence[Any]) -> _Factors:
        sizes: dict[str, int] = {}

        def add(size: int) -> str:
            k = len(sizes)  # the names and the order that Shardy requires
            name = chr(ord("i") + k) if k < 18 else f"z_{k - 17}"
            sizes[name] = size
            return name

        batch = [add(size) for size in call.batch(operands)]

        def names(x: Any, core: int, has_batch: bool) -> list[str]:
            own = [add(size) for size in x.shape[len(x.shape) - core :]]
            return [*batch, *own] if has_batch else own

        return cls(
            [
                names(x, core, k not in call.shared)
                for k, (x, core) in enumerate(zip(operands, call.core_dims, strict=True))
            ],
            [names(x, len(r.shape), True) for x, r in zip(results, call.results, strict=True)],
            sizes,
            [*sizes][len(batch) :],
        )

    def attribute(self) -> str:
        """The sharding rule in Shardy's syntax."""
        left, right = (
            "(" + ", ".join(f"[{', '.join(dims)}]" for dims in names) + ")"
            for names in (self.operands, self.results)
        )
        sizes = ", ".join(f"{name}={size}" for name, size in self.sizes.items())
        whole = f" need_replication={{{', '.join(self.whole)}}}" if self.whole else ""
        return f"#sdy.op_sharding_rule<{left}->{right} {{{sizes}}}{whole}, custom>"

    def text(self) -> str:
        """The sharding rule in the syntax of `custom_partitioning`."""
        return " -> ".join(
            ", ".join(" ".join(dims) for dims in names) for names in (self.operands, self.results)
        )
