"""What the vector environments of Gym and Gymnasium answer: NumPy arrays.

By their documentation ``step`` and ``reset`` of `SyncVectorEnv` and `AsyncVectorEnv` give batches,
one entry for each environment: arrays of observations, of rewards (one number each) and of what has
ended.  They are copies, unless ``copy=False`` asks for the buffers themselves (observations only).
A single environment says less: its reward is a number, and its observation whatever its author
returns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchlint.analysis.arguments import literal
from torchlint.analysis.numpy_api import array
from torchlint.analysis.values import UNKNOWN, Kind, Value

if TYPE_CHECKING:
    import libcst as cst

    from torchlint.analysis.evaluate import Evaluator

VECTOR = "gymnasium.vector.VectorEnv"
EACH = "one number for each environment"  # the type of such an array
_MAKERS = frozenset(
    {f"{gym}.vector.{name}" for gym in ("gym", "gymnasium")
     for name in ("SyncVectorEnv", "AsyncVectorEnv", "make")}
)  # fmt: skip
_WRAPPERS = ("gym.wrappers.", "gymnasium.wrappers.")
_OTHER_ARRAYS = ("Torch", "Jax", "Array")  # wrappers whose arrays are not NumPy's
_ANSWERS = (4, 5)  # observations, rewards, what has ended (Gym 0.26: in two parts), infos


def made(name: str, node: cst.Call, evaluator: Evaluator) -> Value | None:
    """Return what a call of Gym makes, where that is a vector environment."""
    if name in _MAKERS:
        words = {arg.keyword.value: arg.value for arg in node.args if arg.keyword is not None}
        copies = "copy" not in words or literal(words["copy"]) == "True"
        sure = copies and not any(arg.star for arg in node.args)
        return Value(Kind.INSTANCE, type=VECTOR, made=node, fresh=sure)
    if name.startswith(_WRAPPERS) and node.args:
        inner = evaluator.of(node.args[0].value)
        if inner.type == VECTOR and not any(other in name for other in _OTHER_ARRAYS):
            return Value(Kind.INSTANCE, type=VECTOR, made=node)  # it may keep what it hands on
    return None


def answer(base: Value, method: str, places: int) -> Value:
    """Return what a method of a vector environment gives to so many names.

    Gym 0.26 has changed what comes with the observations: only the number of names tells.
    """
    seen = array(1, fresh=base.fresh)
    if method == "reset" and places == 2:
        return Value(Kind.TUPLE, items=(seen, UNKNOWN))
    if method in ("step", "step_wait") and places in _ANSWERS:
        each = Value(Kind.NDARRAY, type=EACH, rank=1, fresh=base.fresh)
        rest = (UNKNOWN,) if places == 4 else (each, UNKNOWN)
        return Value(Kind.TUPLE, items=(seen, each, each, *rest))
    return UNKNOWN
