"""Scaled sweeps, as LAPACK's tests have them: every solver at every power of two of every dtype,
from the least number to the greatest. The error is measured against the exact optimum, in units of
the gap that the solver proves.

- `problems`: a few base problems, and their copies at every power.
- `truths`: the exact optimum, and what a result's solution costs.
- `solvers`: each solver with its subject.
- `sweep`: solves, measures, and makes the lines of the table.
"""

import sys
from pathlib import Path


# The truths and generators that the tests share.
_SUPPORT = str(Path(__file__).parents[1] / "support")
if _SUPPORT not in sys.path:
    sys.path.append(_SUPPORT)
