"""Two processes of one GPU each: the same bits as one process of two."""

from functools import partial
from pathlib import Path

import jax
import numpy as np
import pytest
from processes import run_in_processes


pytestmark = pytest.mark.gpu
PROGRAM = Path(__file__).parents[1] / "common" / "programs" / "several_processes.py"


def test_same_bits_as_in_one_process(tmp_path):
    if len(jax.devices("gpu")) < 2:
        pytest.skip("needs two GPUs")
    run = partial(run_in_processes, PROGRAM, tmp_path, gpus=2)
    (alone,), together = run(1), run(2)
    assert len(alone) > 50
    for found in together:
        assert found.keys() == alone.keys()
        for name, expected in alone.items():
            if name.startswith("sums_"):  # processes add them up in another order
                np.testing.assert_allclose(found[name], expected, rtol=1e-6, err_msg=name)
            else:
                assert found[name].dtype == expected.dtype, name
                assert found[name].tobytes() == expected.tobytes(), name
