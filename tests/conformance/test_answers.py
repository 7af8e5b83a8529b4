"""Answers have the value that somebody else finds, and checks prove them, in every dtype."""

import numpy as np
import pytest
from subjects import METHODS, SUBJECTS


# Twins are programs: one dtype of each.
CASES = [
    (name, method, dtype)
    for name, method in METHODS
    for dtype in (SUBJECTS[name].dtypes[-1:] if method == "xla" else SUBJECTS[name].dtypes)
]


@pytest.mark.parametrize("name, method, dtype", CASES)
def test_answers(name, method, dtype):
    row = SUBJECTS[name]
    given = row.instance(dtype)
    res = row.call(method)(*given)
    check = row.checked()(*given, res)
    assert (np.asarray(res.status) == 0).all()
    found = np.asarray(getattr(res, row.value)).astype(float)
    np.testing.assert_array_equal(found, row.truths(given))
    assert np.asarray(check.valid).all() and np.asarray(check.optimal).all()
