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


@pytest.mark.parametrize(
    "make",
    [
        pytest.param("gymnasium.make('CartPole-v1')", id="one environment: a number, anything"),
        pytest.param("gymnasium.wrappers.TimeLimit(gym.make('CartPole-v1'))", id="wrapped"),
        pytest.param("gymnasium.make_vec('CartPoleJax-v1')", id="arrays of another library"),
        pytest.param("vector.SyncVectorEnv(makers)", id="of another module"),
    ],
)
def test_nothing_is_known_of_other_environments(make):
    for name in "seen", "reward":
        assert not value(f"envs = {make}\n{STEP}", name).known
