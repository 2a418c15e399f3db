"""TL402: objects that add up what they are given, with the graph of every step."""

from __future__ import annotations

import re

import pytest
from tools import check, check_in, fixed, silent

from torchlint.edits.fix import Safety
from torchlint.rule import Severity

CODE = "TL402"
METER = """\
class Meter:
    def __init__(self):
        self.reset()

    def reset(self):
        self.last = self.sum = self.count = 0

    def update(self, value, n=1):
        self.last = value
        self.sum += value * n
        self.count += n
        self.mean = self.sum / self.count

    def start(self):
        self.reset()
"""
HEAD = "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n\n"
TRAINING = """

model = nn.Linear(8, 2)


def train(batches, optimizer):
    meter = Meter()
    for i, (x, y) in enumerate(batches):
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        meter.update(loss, len(x))
    return meter.mean
"""
SOURCE = HEAD + METER + TRAINING
EVALUATION = f"""{HEAD}{METER}
model = nn.Linear(8, 2)
model.eval()
meter = Meter()
for x, y in batches:
    meter.update(F.cross_entropy(model(x), y))
"""
UPDATE = "        meter.update(loss, len(x))\n"
ADDS = "        self.sum += value * n\n"


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(SOURCE, id="scaled"),
        pytest.param(SOURCE.replace("self.sum += ", "self.sum = self.sum + "), id="spelled out"),
        pytest.param(SOURCE.replace("update(loss,", "update(value=loss, n="), id="by its name"),
        pytest.param(
            SOURCE.replace("    meter = Meter()\n", "    meters = {'loss': Meter()}\n").replace(
                "meter.", "meters['loss'].", 1
            ),
            id="in a dictionary",
        ),
    ],
)
def test_detaches(source):
    (found,) = check(source, CODE)
    assert found.severity is Severity.WARNING
    assert "of every training step alive" in found.message
    assert found.fix is not None
    assert found.fix.safety is Safety.SAFE
    assert fixed(source, CODE, unsafe=False) == re.sub(
        r"(update\(.*)loss,", r"\1loss.detach(),", source
    )


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(SOURCE.replace("(loss, ", "(loss.item(), "), id="a number"),
        pytest.param(SOURCE.replace("(loss, ", "(loss.detach(), "), id="detached"),
        pytest.param(SOURCE.replace("value * n", "float(value)"), id="the object makes a number"),
        pytest.param(SOURCE.replace("value * n", "value.item() * n"), id="the object reads it"),
        pytest.param(
            SOURCE.replace(
                ADDS,
                f"        if torch.is_tensor(value):\n            value = value.item()\n{ADDS}",
            ),
            id="it reads some",
        ),
        pytest.param(
            SOURCE.replace(ADDS, f"        with torch.no_grad():\n    {ADDS}"), id="not recorded"
        ),
        pytest.param(
            SOURCE.replace("    def update", "    @torch.no_grad()\n    def update"), id="decorated"
        ),
        pytest.param(
            SOURCE.replace(ADDS, "        self.sum = value * n\n"), id="it keeps the last alone"
        ),
        pytest.param(SOURCE.replace(ADDS, f"        self.reset()\n{ADDS}"), id="it starts anew"),
        pytest.param(
            SOURCE.replace(UPDATE, f"        meter.reset()\n{UPDATE}"), id="emptied in each step"
        ),
        pytest.param(
            SOURCE.replace(UPDATE, f"{UPDATE}        if i % 9 == 0:\n            meter.start()\n"),
            id="emptied now and then, by way of another method",
        ),
        pytest.param(
            SOURCE.replace(UPDATE, f"        meter = Meter()\n{UPDATE}"), id="new in each step"
        ),
        pytest.param(
            SOURCE.replace(UPDATE, f"        if i % 9 == 0:\n    {UPDATE}"), id="now and then"
        ),
        pytest.param(
            SOURCE.replace("return meter.mean", "meter.mean.backward()"), id="a gradient is asked"
        ),
        pytest.param(
            SOURCE.replace(
                "    def start",
                "    def learn(self):\n        self.sum.backward()\n\n    def start",
            ),
            id="the object asks a gradient",
        ),
        pytest.param(HEAD + "from outside import Meter\n" + TRAINING, id="a class of others"),
        pytest.param(EVALUATION.replace("    meter.u", "    meter.reset()\n    meter.u"), id="new"),
        pytest.param(
            EVALUATION.replace("for x", "torch.set_grad_enabled(False)\nfor x"), id="turned off"
        ),
    ],
)
def test_leaves_alone(source):
    assert source not in (SOURCE, EVALUATION)
    silent(source, CODE)


def test_a_window_of_gradients_that_are_added_up_is_left_alone():
    source = f"""{HEAD}{METER}
def train(model, batches, optimizer):
    meter = Meter()
    for parts in batches:
        for x, y in parts:
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            meter.update(loss)
        optimizer.step()
        optimizer.zero_grad()
        meter.reset()
"""
    silent(source, CODE)
    (found,) = check(source.replace("        meter.reset()\n", ""), CODE)
    assert "meter.update(loss)" in found.message


def test_an_evaluation_runs_out_of_memory():
    (found,) = check(EVALUATION, CODE)
    assert found.severity is Severity.ERROR
    assert "all of its activations" in found.message


def test_a_class_of_another_file_is_known(tmp_path):
    source = f"{HEAD}from meters import Meter\n{TRAINING}"
    (found,) = check_in(tmp_path, {"meters.py": METER, "train.py": source}, "train.py", CODE)
    assert found.location.row == 18


def test_what_is_printed_of_it_would_show_its_graph():
    (found,) = check(SOURCE.replace("return meter.mean", "print(meter.mean)"), CODE)
    assert found.fix is not None
    assert "grad_fn" in found.fix.changes


def test_meters_in_a_dictionary_that_is_filled_later():
    source = SOURCE.replace("    meter = Meter()\n", "    meters = {}\n").replace(
        UPDATE,
        "        for name, value in {'a': loss}.items():\n            if name not in meters:\n"
        "                meters[name] = Meter()\n            meters[name].update(value)\n",
    ).replace("return meter.mean", "return meters")  # fmt: skip
    (found,) = check(source, CODE)
    assert "meters[name].update(value)" in found.message
