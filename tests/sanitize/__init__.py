"""The CPU library under sanitizers: `python -m sanitize --help` in `tests`."""

import sys
from pathlib import Path


# The generators that the tests share.
_SUPPORT = str(Path(__file__).parents[1] / "support")
if _SUPPORT not in sys.path:
    sys.path.append(_SUPPORT)
