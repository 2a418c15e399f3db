"""What a simulator, a memory of its steps or the sampler of a DataLoader needs on the host."""

from __future__ import annotations

import pytest
from probing import HEAD, parsed

SCRIPT = """
def to_np(t):
    return t.cpu().numpy()

def rank(way, t):
    if way == "sum":
        found = 1 - to_np(t.sum(1))
        found = found / 2
        found = np.sqrt(found)
    else:
        found = to_np(t)
    return found

class Agent:
    def act(self, state):
        return model(state).argmax(1).cpu()
    def explore(self, state):
        return 0 if random() < 0.1 else self.act(state)
    def score(self, state):
        return model(state).sum().cpu()

model = nn.Linear(3, 3).cuda()
agent = Agent()
for step in range(99):
    loss = model(state.cuda()).mean()
    loss.backward(); optimizer.step()
    {}
"""


@pytest.mark.parametrize(
    ("line", "copied"),
    [
        pytest.param("env.step(loss.cpu())", [], id="an action"),
        pytest.param("a = loss.cpu(); b = greedy(a, 0.1); env.step(b)", [], id="by two names"),
        pytest.param("a = loss.cpu(); a += noise(); env.step(a)", [], id="with noise added to it"),
        pytest.param("a = agent.act(x); s, reward, d, _ = game.step(a)", [], id="a method's"),
        pytest.param("env.step(agent.explore(x))", [], id="another method's"),
        pytest.param("task.step(to_np(loss))", ["t"], id="nothing says that this is a simulator"),
        pytest.param("s, reward, done = task.step(to_np(loss))", [], id="a reward says so"),
        pytest.param("replay.update_priorities(i, loss.cpu())", [], id="priorities of a replay"),
        pytest.param("loader.sampler.update_weights(i, loss.cpu())", [], id="weights of a sampler"),
        pytest.param(
            "w = rank(a, loss); v = [i, w]; loader.sampler.weigh(*v)", [], id="through functions"
        ),
        pytest.param(
            "few = [i]; few.append(loss.cpu()); data[0].sampler.weigh(*few)", [], id="by a list"
        ),
        pytest.param(
            "few = [i]; data[0].sampler.weigh(*few); few.append(loss.cpu())",
            ["loss"],
            id="a list that was given away before",
        ),
        pytest.param(
            "few = [i]; few.append(loss.cpu()); few = [0]; loader.sampler.weigh(*few)",
            ["loss"],
            id="another list of that name",
        ),
        pytest.param(
            "z = search.ask(); search.tell(z, loss.cpu())", [], id="what a search is told"
        ),
        pytest.param("memory.append(s, loss.cpu(), reward, done)", [], id="a memory of steps"),
        pytest.param("memory.append(s, loss.cpu())", ["loss"], id="any memory"),
        pytest.param("log.show(loss.cpu(), reward)", ["loss"], id="no memory"),
        pytest.param("user.tell(loss.cpu())", ["loss"], id="nobody asks whom this tells"),
        pytest.param("self.sampler.weigh(loss.cpu())", ["loss"], id="who knows of what a sampler"),
        pytest.param("keep(agent.score(x))", ["model(state).sum()"], id="a value that is kept"),
        pytest.param("keep(to_np(loss))", ["t"], id="a copy that is kept"),
        pytest.param("a = loss.cpu(); keep(a); env.step(0)", ["loss"], id="beside an action"),
    ],
)
def test_what_a_simulator_is_given(line: str, copied: list[str]) -> None:
    program = parsed(SCRIPT.replace("{}", line), HEAD)
    assert [program.code(sync.tensor) for sync in program.syncs] == copied
