"""A campaign of hostile problems against every solver: `python -m campaign --help` in `tests`."""

import sys
from pathlib import Path


# The truths and generators that the tests share.
_SUPPORT = str(Path(__file__).parents[1] / "support")
if _SUPPORT not in sys.path:
    sys.path.append(_SUPPORT)
