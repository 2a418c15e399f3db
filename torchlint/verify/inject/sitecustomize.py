"""Starts the worker of `torchlint verify` in this process, then the user's own sitecustomize.

Python imports the first `sitecustomize` on its path when it starts; the one that this folder hides
is run as if this one were not there.  `PYTHONPATH` stays as it is, so that processes started by
this one are looked at too.
"""

import os
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec

from _torchlint_worker import begin  # type: ignore[import-not-found]

_here = os.path.dirname(os.path.realpath(__file__))
sys.path[:] = [entry for entry in sys.path if os.path.realpath(entry) != _here]
begin()

_spec = PathFinder.find_spec("sitecustomize")
if _spec is not None and _spec.loader is not None:
    sys.modules["sitecustomize"] = _module = module_from_spec(_spec)
    _spec.loader.exec_module(_module)
