"""Tests of peers that we do not pass, and why: patterns of the names of tests within a file."""

DIFFERENCES: dict[str, dict[str, str]] = {
    "scipy": {
        "test_linear_sum_assignment_input_shape": "another text: one row of costs names the shape",
        "test_linear_sum_assignment_input_string": "another text: strings have no dtype of ours",
        "test_explicit_zero_causes_warning": "a stored zero is an edge of weight 0, no warning",
        "test_raises_on_csc_input": "networks are built from every format",
        "test_raises_on_floating_point_input": "capacities may be floats",
    },
    "networkx": {
        "test_preflow_push_global_relabel_freq": "no such option, so a bad value is not noticed",
    },
    "optax": {},
}
