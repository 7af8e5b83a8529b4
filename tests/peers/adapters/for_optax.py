"""optax's two functions have the signature of ours."""

import jaxmatch as jm


REPLACED = {
    "optax.assignment.hungarian_algorithm": jm.linear_sum_assignment,
    "optax.assignment.base_hungarian_algorithm": jm.linear_sum_assignment,
}
