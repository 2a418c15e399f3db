"""What the analysis says of the answers of vector environments."""

from __future__ import annotations

import libcst as cst
import pytest

from torchlint.analysis import environments
from torchlint.analysis.program import Program
from torchlint.analysis.values import Kind, Value


def value(setup: str, name: str) -> Value:
    """Return what is known of a name at the end of a script."""
    imports = "import gym\nimport gymnasium\nfrom gymnasium.vector import AsyncVectorEnv\n"
    program = Program(f"{imports}{setup}\nprint({name})\n")
    (used,) = (
        call.args[0].value
        for call in program.index.of(cst.Call)
        if isinstance(call.func, cst.Name) and call.func.value == "print"
    )
    return program.value(used)


MAKE = "envs = gymnasium.vector.SyncVectorEnv(makers)\n"
STEP = "seen, reward, ended, cut, infos = envs.step(actions)"


@pytest.mark.parametrize(
    "make",
    [
        "gymnasium.vector.SyncVectorEnv(makers)",
        "gym.vector.SyncVectorEnv(makers)",
        "gym.vector.AsyncVectorEnv(makers)",
        "AsyncVectorEnv(makers, shared_memory=False)",
        "gym.vector.make('CartPole-v1', num_envs=4)",
    ],
)
def test_a_vector_environment_answers_with_arrays_of_its_own(make):
    for name in "seen", "reward", "ended", "cut":
        found = value(f"envs = {make}\n{STEP}", name)
        assert (found.kind, found.rank, found.fresh) == (Kind.NDARRAY, 1, True)
        assert (found.type == environments.EACH) == (name != "seen")
    assert not value(f"envs = {make}\n{STEP}", "infos").known


def test_what_it_answers_by_the_number_of_names():
    older = f"{MAKE}seen, reward, ended, infos = envs.step(actions)"
    assert value(older, "ended").kind is Kind.NDARRAY
    assert not value(older, "infos").known
    assert value(f"{MAKE}seen, infos = envs.reset(seed=1)", "seen").kind is Kind.NDARRAY
    for line in (
        "seen = envs.reset()",  # with infos, from Gym 0.26 on
        "seen = envs.step(actions)",
        "seen, *rest = envs.step(actions)",
        "seen, other, third = envs.step(actions)",
        "seen, infos = envs.call('name')",
    ):
        assert value(MAKE + line, "seen").kind is not Kind.NDARRAY


@pytest.mark.parametrize("options", ["copy=False", "copy=choice", "**options", "*options"])
def test_the_buffers_themselves(options):
    setup = f"envs = gymnasium.vector.SyncVectorEnv(makers, {options})\n{STEP}"
    found = value(setup, "seen")
    assert (found.kind, found.fresh) == (Kind.NDARRAY, False)


def test_wrappers_may_keep_what_they_hand_on():
    wrapper = "envs = gymnasium.wrappers.{}(envs)\n"
    found = value(MAKE + wrapper.format("vector.NormalizeReward") + STEP, "reward")
    assert (found.kind, found.fresh) == (Kind.NDARRAY, False)
    for other in "vector.NumpyToTorch", "vector.JaxToTorch", "vector.ArrayConversion":
        assert not value(MAKE + wrapper.format(other) + STEP, "reward").known


BOXES = [
    "CartPole-v1", "MountainCarContinuous-v0", "Pendulum-v1", "LunarLander-v3", "CarRacing-v2",
    "BipedalWalkerHardcore-v3", "HalfCheetah-v4", "InvertedDoublePendulum-v5", "Walker2d-v4",
    "ALE/Pong-v5", "BreakoutNoFrameskip-v4",
]  # fmt: skip


@pytest.mark.parametrize("name", BOXES)
def test_an_environment_that_observes_a_box_gives_an_array(name):
    for make in f"gym.make('{name}')", f"gymnasium.make('{name}', render_mode=None)":
        found = value(f"envs = {make}\n{STEP}", "seen")
        assert (found.kind, found.rank, found.fresh) == (Kind.NDARRAY, 1, False)
    for other in "reward", "ended", "cut", "infos":
        assert not value(f"envs = gym.make('{name}')\n{STEP}", other).known


def test_one_environment_by_the_number_of_names():
    make = "envs = gym.make('CartPole-v1')\n"
    assert value(f"{make}seen, infos = envs.reset()", "seen").kind is Kind.NDARRAY
    assert value(f"{make}seen, r, done, infos = envs.step(a)", "seen").kind is Kind.NDARRAY
    for line in "seen = envs.reset()", "seen = envs.step(a)", "seen, *rest = envs.step(a)":
        assert value(make + line, "seen").kind is not Kind.NDARRAY


def test_wrappers_that_hand_on_what_is_observed():
    make = "envs = gym.wrappers.{}(gym.make('CartPole-v1'))\n"
    for name in "TimeLimit", "RecordEpisodeStatistics":
        assert value(make.format(name) + STEP, "seen").kind is Kind.NDARRAY
    for name in "FrameStack", "TransformObservation", "NumpyToTorch":
        assert not value(make.format(name) + STEP, "seen").known


@pytest.mark.parametrize(
    "make",
    [
        pytest.param("gymnasium.make('FrozenLake-v1')", id="a number"),
        pytest.param("gymnasium.make('Taxi-v3')", id="another number"),
        pytest.param("gymnasium.make('Blackjack-v1')", id="a tuple"),
        pytest.param("gymnasium.make('FetchReach-v3')", id="a dictionary"),
        pytest.param("gymnasium.make('MyCartPole-v1')", id="one of another author"),
        pytest.param("gymnasium.make(name)", id="an unknown name"),
        pytest.param("gymnasium.make()", id="no name"),
        pytest.param("Careful(gym.make('CartPole-v1'))", id="wrapped by another"),
        pytest.param("gymnasium.make_vec('CartPoleJax-v1')", id="arrays of another library"),
        pytest.param("vector.SyncVectorEnv(makers)", id="of another module"),
    ],
)
def test_nothing_is_known_of_other_environments(make):
    for name in "seen", "reward":
        assert not value(f"envs = {make}\n{STEP}", name).known
