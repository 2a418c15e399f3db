"""Datasets with methods that compute on a GPU: which of them give samples from there."""

from __future__ import annotations

import pytest

from torchlint.analysis.loaded import yields_gpu_tensors
from torchlint.analysis.program import Program

SCRIPT = """
import torch
from torch.utils.data import DataLoader, Dataset

class Pairs(Dataset):
    def __getitem__(self, i):
        return load(self.chosen[i])

    def choose(self, net):
        net.cuda()
        found = torch.zeros(3, 4).cuda()
        for i, image in enumerate(self.images):
            found[:, i] = net(image.cuda())
        BODY

DataLoader(Pairs())
"""


def yields(*lines: str, script: str = SCRIPT) -> bool:
    program = Program(script.replace("BODY", "\n        ".join(lines)))
    (call,) = program.loaders.calls
    return yields_gpu_tensors(program, call)


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(("self.chosen = []",), id="a list"),
        pytest.param(("self.chosen = [self.pool[i] for i in order]",), id="of what it has"),
        pytest.param(("self.chosen = found.cpu()",), id="copied back"),
        pytest.param(("self.chosen, self.n = found.tolist(), 3",), id="lists and numbers"),
        pytest.param(("self.chosen.append(found.argmax().item())",), id="numbers added"),
        pytest.param(("return found.mean().item()",), id="a number given back"),
    ],
)
def test_what_others_call_may_choose_the_samples_on_a_gpu(lines: tuple[str, ...]) -> None:
    assert not yields(*lines)


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(("self.chosen = found",), id="kept"),
        pytest.param(("self.chosen, self.n = found, 3",), id="kept beside something"),
        pytest.param(("self.chosen: object = found",), id="kept with a type"),
        pytest.param(("self.chosen += found",), id="added to"),
        pytest.param(("self.chosen[0] = found",), id="put into what is kept"),
        pytest.param(("self.chosen.append(found)",), id="appended to what is kept"),
        pytest.param(("all = []", "all.append(found)", "self.chosen = all"), id="a list of it"),
        pytest.param(("self.chosen = {0: found}",), id="a dictionary"),
        pytest.param(("self.chosen = decide(found)",), id="not known"),
        pytest.param(("setattr(self, 'chosen', found)",), id="by name"),
        pytest.param(("return found",), id="given back"),
        pytest.param(("yield found",), id="given one by one"),
    ],
)
def test_what_a_method_leaves_behind_on_a_gpu_may_be_in_samples(lines: tuple[str, ...]) -> None:
    assert yields(*lines)


@pytest.mark.parametrize(
    "script",
    [
        SCRIPT.replace("load(self", "self.choose(net), load(self"),
        SCRIPT.replace("def choose(self", "def __call__(self"),
        SCRIPT.replace("    def choose(self", "    @property\n    def choose(self"),
    ],
)
def test_what_the_class_or_python_calls_gives_samples(script: str) -> None:
    assert yields("self.chosen = []", script=script)
