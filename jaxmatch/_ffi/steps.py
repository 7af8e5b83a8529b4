"""A solve by native calls of a few steps each, in a `while_loop` on the device."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from jax import lax


if TYPE_CHECKING:
    from jaxtyping import Array, Bool


class _Buffers(Protocol):
    @property
    def done(self) -> Bool[Array, "..."]: ...


Result = TypeVar("Result")


def until_done(call: Callable[[Any], tuple[Result, _Buffers | None]], buffers: _Buffers) -> Result:
    """What `call`, which goes on from the buffers of the last call, returns when all are done."""

    def step(buffers: Any) -> tuple[Result, Any]:
        result, buffers_after = call(buffers)
        assert buffers_after is not None
        return result, buffers_after

    return lax.while_loop(
        lambda state: ~state[1].done.all(), lambda state: step(state[1]), step(buffers)
    )[0]
