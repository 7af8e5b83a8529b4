"""The types in annotations, which are evaluated at run time too (`typing.get_type_hints`).

Type checkers read jaxtyping's types, whose text gives dtype and shape. At run time jaxtyping is not
needed: each type stands for any JAX or NumPy array. Results are NumPy arrays where NumPy arrays
were solved on this host.
"""

from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax.typing import ArrayLike as ArrayLike
from jax.typing import DTypeLike as DTypeLike


if TYPE_CHECKING:
    from jaxtyping import Array as Array
    from jaxtyping import Bool as Bool
    from jaxtyping import Float as Float
    from jaxtyping import Int as Int
    from jaxtyping import Num as Num
    from jaxtyping import PyTree as PyTree
    from jaxtyping import UInt as UInt
else:
    Array = jax.Array | np.ndarray

    class PyTree:
        """Stands for `PyTree[...]`, which is anything."""

        def __class_getitem__(cls, _: Any) -> Any:
            return Any

    class _OfDtype:
        """Stands for `Bool`, `Float` and so on: `Float[Array, "... n"]` is any array."""

        def __class_getitem__(cls, _: Any) -> Any:
            return Array

    Bool = Float = Int = Num = UInt = _OfDtype
