"""Makes the module of verify importable that knows a quicker torch."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "verify"))
