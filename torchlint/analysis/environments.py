"""What environments of Gym and Gymnasium answer: NumPy arrays, of those that are known.

By their documentation ``step`` and ``reset`` of `SyncVectorEnv` and `AsyncVectorEnv` give batches,
one entry for each environment: arrays of observations, of rewards (one number each) and of what has
ended.  They are copies, unless ``copy=False`` asks for the buffers themselves (observations only).
A single environment says less: its reward is a number, and its observation whatever its author
returns.  Of those that come with Gym most observe a `Box`, which is an array; toy texts observe a
number, and robots a dictionary.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.arguments import keywords, literal
from torchlint.analysis.numpy_api import array
from torchlint.analysis.values import UNKNOWN, Kind, Value

if TYPE_CHECKING:
    from torchlint.analysis.evaluate import Evaluator

SINGLE = "gymnasium.Env"  # one whose observations are arrays
VECTOR = "gymnasium.vector.VectorEnv"
ANSWERING = (SINGLE, VECTOR)
EACH = "one number for each environment"  # the type of such an array
FEW = "a few numbers"  # the type of what one environment shows
_PIXELS = re.compile(r"CarRacing|ALE/|\w+NoFrameskip")
_MAKERS = frozenset(
    {f"{gym}.vector.{name}" for gym in ("gym", "gymnasium")
     for name in ("SyncVectorEnv", "AsyncVectorEnv", "make")}
)  # fmt: skip
_MAKES_ONE = frozenset({"gym.make", "gymnasium.make"})
# The environments that observe a `Box`: classic control, Box2D, MuJoCo, and Atari's games.
_BOXES = re.compile(
    r"""(CartPole|MountainCar(Continuous)?|Pendulum|Acrobot|LunarLander(Continuous)?|CarRacing
    |BipedalWalker(Hardcore)?|Ant|HalfCheetah|Hopper|Humanoid(Standup)?|Inverted(Double)?Pendulum
    |Pusher|Reacher|Swimmer|Walker2d)-v\d+ | ALE/\w+-v\d+ | \w+NoFrameskip-v\d+""",
    re.VERBOSE,
)
# Wrappers that hand on what is observed.
_LEAVE_IT = frozenset(
    {"TimeLimit", "OrderEnforcing", "RecordVideo", "RecordEpisodeStatistics", "Monitor",
     "ClipAction", "RescaleAction", "ClipReward", "NormalizeReward", "TransformReward", "Autoreset",
     "AutoResetWrapper", "PassiveEnvChecker"}
)  # fmt: skip
_WRAPPERS = ("gym.wrappers.", "gymnasium.wrappers.")
_OTHER_ARRAYS = ("Torch", "Jax", "Array")  # wrappers whose arrays are not NumPy's
_ANSWERS = (4, 5)  # observations, rewards, what has ended (Gym 0.26: in two parts), infos


def made(name: str, node: cst.Call, evaluator: Evaluator) -> Value | None:
    """Return what a call of Gym makes, where that is an environment that answers with arrays."""
    if name in _MAKES_ONE:
        called = literal(node.args[0].value) or "" if node.args else ""
        return Value(Kind.INSTANCE, type=SINGLE, made=node) if _BOXES.fullmatch(called) else None
    if name in _MAKERS:
        words = keywords(node)
        copies = "copy" not in words or literal(words["copy"]) == "True"
        sure = copies and not any(arg.star for arg in node.args)
        return Value(Kind.INSTANCE, type=VECTOR, made=node, fresh=sure)
    if name.startswith(_WRAPPERS) and node.args:
        inner = evaluator.of(node.args[0].value)
        if inner.type == VECTOR and not any(other in name for other in _OTHER_ARRAYS):
            return Value(Kind.INSTANCE, type=VECTOR, made=node)  # it may keep what it hands on
        if inner.type == SINGLE and name.rpartition(".")[2] in _LEAVE_IT:
            return inner
    return None


def answer(base: Value, method: str, places: int) -> Value:
    """Return what a method of an environment gives to so many names.

    Gym 0.26 has changed what comes with the observations: only the number of names tells.
    """
    seen = array(1, fresh=base.fresh)
    if base.type == SINGLE and not _shows_pixels(base):
        seen = Value(Kind.NDARRAY, type=FEW, rank=1)
    if method == "reset" and places == 2:
        return Value(Kind.TUPLE, items=(seen, UNKNOWN))
    if method in ("step", "step_wait") and places in _ANSWERS:
        each = UNKNOWN
        if base.type == VECTOR:
            each = Value(Kind.NDARRAY, type=EACH, rank=1, fresh=base.fresh)
        rest = (UNKNOWN,) if places == 4 else (each, UNKNOWN)
        return Value(Kind.TUPLE, items=(seen, each, each, *rest))
    return UNKNOWN


def _shows_pixels(base: Value) -> bool:
    """Whether an environment shows an image, or may."""
    match base.made:
        case cst.Call(args=[first, *_]):
            return _PIXELS.match(literal(first.value) or "") is not None
        case _:
            return True
