"""Branches that few turns take: for a change, for a full count, for one sample of all batches."""

from __future__ import annotations

import pytest
from probing import HEAD, parsed, probes

STEP = "optimizer.zero_grad(); loss = f(x); loss.backward(); optimizer.step()"
LOOP = f"for x, names, task in loader:\n    {STEP}\n    "
METHOD = f"class Learner:\n    def observe(self, x, task):\n        {STEP}\n        "


def guarded(source: str) -> bool:
    program = parsed(source, HEAD)
    (call,) = probes(program)
    context = program.context(call)
    assert context.role.name == "TRAIN"
    return context.guarded


def in_method(first: str, test: str, last: str = "pass") -> str:
    return f"{METHOD}{first}\n        if {test}:\n            probe()\n            {last}\n"


@pytest.mark.parametrize(
    ("test", "last", "rare"),
    [
        pytest.param("task != self.task", "self.task = task", True, id="a change"),
        pytest.param("self.task != task", "self.task = task", True, id="the other way round"),
        pytest.param("x.size(0) != self.size", "self.size = x.size(0)", True, id="of a size"),
        pytest.param("go and task != self.task", "self.task = task", True, id="and another"),
        pytest.param("go or task != self.task", "self.task = task", False, id="or another"),
        pytest.param("task != self.task", "pass", False, id="which nothing notes"),
        pytest.param("task != self.task", "self.task = None", False, id="nor as it is"),
        pytest.param("task == self.task", "self.task = task", False, id="no change"),
        pytest.param("step != self.step", "self.step = step", False, id="the number of a step"),
        pytest.param(
            "task != self.task", "self.task += task", False, id="one that goes on changing"
        ),
        pytest.param(
            "task != self.task",
            "if go:\n                self.task = task",
            False,
            id="which only some branches note",
        ),
        pytest.param(
            "task != self.task", "self.task = task\n        self.task = None", False, id="forgotten"
        ),
        pytest.param("self.kind != 'ce'", "pass", False, id="a mode"),
        pytest.param("loss != self.loss", "self.loss = loss", False, id="a tensor"),
    ],
)
def test_a_change_that_is_noted(test: str, last: str, rare: bool) -> None:
    assert guarded(in_method("pass", test, last)) is rare


@pytest.mark.parametrize(
    ("before", "rare"),
    [
        pytest.param(f"last = None\n{LOOP}", True, id="from step to step"),
        pytest.param(f"{LOOP}last = None\n    ", False, id="forgotten in each step"),
        pytest.param(f"{LOOP}last, y = None, x\n    ", False, id="among others"),
        pytest.param(f"last = None\n{LOOP}for task in tasks: pass\n    ", True, id="after a loop"),
    ],
)
def test_a_change_that_a_name_notes(before: str, rare: bool) -> None:
    assert guarded(f"{before}if task != last:\n        probe()\n        last = task\n") is rare


def test_a_change_within_a_step() -> None:
    source = "last = None\n" + LOOP + "for p in x:\n        if p.device != last:\n            "
    assert not guarded(source + "probe()\n            last = p.device\n")


@pytest.mark.parametrize(
    ("first", "test", "last", "rare"),
    [
        pytest.param("self.n += len(x)", "self.n == self.size", "self.n = 0", True, id="full"),
        pytest.param("self.n += 1", "self.size == self.n", "pass", True, id="the other way round"),
        pytest.param("self.n -= 1", "self.n == self.size", "self.n = 9", True, id="counted down"),
        pytest.param("self.n += 1", "self.n != self.size", "pass", False, id="not full yet"),
        pytest.param("self.n += 1", "self.n <= self.size", "pass", False, id="up to a size"),
        pytest.param("self.n *= 2", "self.n == self.size", "pass", False, id="no count"),
        pytest.param("pass", "self.n == self.size", "pass", False, id="two options"),
        pytest.param("pass", "self.loss == 'ce'", "pass", False, id="a mode"),
        pytest.param(
            "if go: self.n += 1", "self.n == self.size", "pass", False, id="by some steps only"
        ),
        pytest.param(
            "self.n = 0; self.n += 1", "self.n == self.size", "pass", False, id="in one step"
        ),
        pytest.param("n = 0; n += 1", "n == self.size", "pass", False, id="by a name in one step"),
    ],
)
def test_a_count_that_is_full(first: str, test: str, last: str, rare: bool) -> None:
    assert guarded(in_method(first, test, last)) is rare


@pytest.mark.parametrize(
    ("source", "rare"),
    [
        pytest.param(
            f"n = 0\n{LOOP}n += 1\n    if n == size:\n        probe()\n", True, id="steps"
        ),
        pytest.param(
            f"for i, x in enumerate(loader):\n    {STEP}\n    if i == last:\n        probe()\n",
            True,
            id="the number of a step",
        ),
        pytest.param(
            f"n = 0\n{LOOP}for y in x:\n        n += 1\n        if n == k:\n            probe()\n",
            False,
            id="within a step",
        ),
        pytest.param(
            f"{LOOP}for i, y in enumerate(x):\n        if i == last:\n            probe()\n",
            False,
            id="the number of a turn within a step",
        ),
        pytest.param(f"{LOOP}if task == last:\n        probe()\n", False, id="no count"),
    ],
)
def test_a_count_of_steps(source: str, rare: bool) -> None:
    assert guarded(source) is rare


@pytest.mark.parametrize(
    ("test", "body", "rare"),
    [
        pytest.param("chosen in names", "k = names.index(chosen)", True, id="one of all samples"),
        pytest.param("chosen not in names", "k = names.index(chosen)", False, id="all but one"),
        pytest.param("chosen in names", "pass", False, id="perhaps a key of a dictionary"),
        pytest.param("chosen in names", "k = names.index(x)", False, id="the place of another"),
        pytest.param("x in names", "k = names.index(x)", False, id="another one in each step"),
        pytest.param("chosen in kept", "k = kept.index(chosen)", False, id="the same in all"),
        pytest.param("'mask' in names", "pass", False, id="a part of a batch"),
    ],
)
def test_one_sample_of_all_batches(test: str, body: str, rare: bool) -> None:
    assert guarded(f"{LOOP}if {test}:\n        {body}\n        probe()\n") is rare


@pytest.mark.parametrize(
    ("test", "last", "rare"),
    [
        pytest.param("not hasattr(self, 'seen')", "self.seen = 1", True, id="an attribute"),
        pytest.param(
            "not hasattr(self, 'seen')", "self.register_buffer('seen', x)", True, id="a buffer"
        ),
        pytest.param("not hasattr(self.net, 'seen')", "self.net.seen = 1", True, id="of a part"),
        pytest.param("hasattr(self, 'seen')", "self.seen = 1", False, id="which is there"),
        pytest.param("not hasattr(self, 'seen')", "self.other = 1", False, id="another one"),
        pytest.param(
            "not hasattr(self, 'seen')", "self.register_buffer('b', x)", False, id="another buffer"
        ),
        pytest.param("not hasattr(self, 'seen')", "other.seen = 1", False, id="of another object"),
        pytest.param("not hasattr(task, 'seen')", "task.seen = 1", False, id="of what is passed"),
        pytest.param(
            "not hasattr(self, 'seen')",
            "if go:\n                self.seen = 1",
            False,
            id="which only some branches make",
        ),
        pytest.param(
            "not hasattr(self, 'seen')", "self.seen = 1\n        del self.seen", False, id="deleted"
        ),
    ],
)
def test_an_attribute_that_the_first_turn_makes(test: str, last: str, rare: bool) -> None:
    assert guarded(in_method("pass", test, last)) is rare


@pytest.mark.parametrize(
    ("param", "kept", "rare"),
    [
        pytest.param("m=0.1", "m", True, id="a number"),
        pytest.param("m=None", "m", False, id="nothing"),
        pytest.param("m", "m", False, id="no default"),
        pytest.param("m=0.1", "m or None", False, id="perhaps nothing"),
        pytest.param("m=0.1", "m; Learner(m=None)", False, id="told otherwise"),
    ],
)
def test_what_is_none_only_if_it_is_told_so(param: str, kept: str, rare: bool) -> None:
    made = f"    def __init__(self, {param}):\n        self.m = {kept}\n\n    def observe"
    source = in_method("pass", "self.m is None").replace("    def observe", made)
    assert guarded(source) is rare


GRID = """
grid = None


def make(n):
    global grid
    grid = probe()


def train():
    global grid
    for x in loader:
        {step}
        if grid is None or grid.size(0) < len(x):
            make(len(x))
        {last}
"""


@pytest.mark.parametrize(
    ("source", "rare"),
    [
        pytest.param(GRID, True, id="by a function"),
        pytest.param(
            GRID.replace("make(len(x))", "grid = probe()").replace("grid = probe()", "pass", 1),
            True,
            id="right there",
        ),
        pytest.param(GRID.replace("{last}", "grid = None"), False, id="forgotten in each step"),
        pytest.param(GRID.replace("    global grid\n    for", "    grid = None\n    for"), False,
                     id="another of the same name"),
        pytest.param(GRID.replace("grid = probe()", "probe()"), False, id="which nothing sets"),
        pytest.param(GRID.replace("grid is None or", "redo or"), False, id="another question"),
    ],
)  # fmt: skip
def test_a_global_that_the_first_turn_makes(source: str, rare: bool) -> None:
    assert guarded(source.format(step=STEP, last="pass")) is rare


TOTAL = "if 'loss' not in totals:\n        probe()\n        totals['loss'] = 1"


@pytest.mark.parametrize(
    ("before", "lines", "rare"),
    [
        pytest.param("totals = {}", TOTAL, True, id="an entry"),
        pytest.param("totals = {}", TOTAL.replace("['loss']", '["loss"]'), True, id="spelled so"),
        pytest.param("totals = {}", TOTAL.replace("totals:", "totals.keys():"), True, id="of keys"),
        pytest.param(
            "totals = {}",
            "if 'loss' in totals:\n        pass\n    else:\n        probe()\n"
            "        totals['loss'] = 1",
            True,
            id="the other arm",
        ),
        pytest.param("totals = {}", TOTAL.replace("not in", "in"), False, id="which is there"),
        pytest.param(
            "totals = {}",
            "if 'loss' not in totals:\n        totals['loss'] = 1\n    else:\n        probe()",
            False,
            id="the arm for all others",
        ),
        pytest.param("totals = {}", TOTAL.replace("['loss']", "['l']"), False, id="another one"),
        pytest.param("totals = {}", TOTAL.replace("totals['", "others['"), False, id="elsewhere"),
        pytest.param("pass", f"totals = {{}}\n    {TOTAL}", False, id="of each turn"),
        pytest.param("totals = {}", f"{TOTAL}\n    totals.clear()", False, id="emptied"),
        pytest.param("totals = {}", f"{TOTAL}\n    del totals['loss']", False, id="deleted"),
        pytest.param("totals = {}", TOTAL.replace("'loss'", "task"), False, id="of a batch"),
        pytest.param("totals = {}", TOTAL.replace("'loss'", "task.n"), False, id="of a part of it"),
        pytest.param("totals = {}", TOTAL.replace("'loss'", "self.n"), False, id="of a counter"),
        pytest.param("totals = {}", TOTAL.replace("'loss'", "count()"), False, id="of a call"),
        pytest.param("totals = made[0]", TOTAL.replace("'loss'", "key"), True, id="of an option"),
        pytest.param("pass", TOTAL.replace("totals", "task.totals"), False, id="of a sample"),
        pytest.param("pass", TOTAL.replace("totals", "made().totals"), False, id="of a result"),
        pytest.param(
            "totals = {}",
            TOTAL.replace("totals['loss'] = 1", "if go: totals['loss'] = 1"),
            False,
            id="which only some turns make",
        ),
    ],
)
def test_an_entry_that_the_first_turn_makes(before: str, lines: str, rare: bool) -> None:
    assert guarded(f"{before}\n{LOOP}{lines}\n") is rare


@pytest.mark.parametrize(
    ("loop", "rare"),
    [
        pytest.param("for one in heads:", True, id="of the model's heads"),
        pytest.param("for one, head in parts.items():", True, id="of the keys of a dictionary"),
        pytest.param("for head, one in parts.items():", False, id="of its values"),
        pytest.param("for one in names:", False, id="of the samples of a batch"),
        pytest.param("for one in heads:\n        one = x\n    if True:", False, id="of another"),
    ],
)
def test_entries_that_the_first_turn_makes(loop: str, rare: bool) -> None:
    lines = "if one not in totals:\n            probe()\n            totals[one] = 1"
    assert guarded(f"totals = {{}}\n{LOOP}parts = f(x)\n    {loop}\n        {lines}\n") is rare


def test_an_entry_of_each_batch_is_no_entry_that_the_first_turn_makes() -> None:
    loop = f"for i, x in enumerate(loader):\n        {STEP}\n        if i not in totals:\n"
    lines = "            probe()\n            totals[i] = 1\n"
    assert not guarded(f"totals = {{}}\nfor epoch in range(9):\n    {loop}{lines}")


@pytest.mark.parametrize(
    ("kept", "rare"),
    [
        pytest.param("self.totals", True, id="of an object"),
        pytest.param("totals", False, id="of a call"),
    ],
)
def test_an_entry_of_what_outlasts_a_call(kept: str, rare: bool) -> None:
    assert guarded(in_method("totals = {}", f"'a' not in {kept}", f"{kept}['a'] = 1")) is rare


def test_an_entry_that_the_first_turn_of_an_evaluation_makes() -> None:
    source = """
        net = nn.Linear(2, 2)
        net.eval()
        totals = {}
        with torch.no_grad():
            for x in loader:
                for head in heads:
                    loss = net(x)
                    if head.name not in totals:
                        probe()
                        totals[head.name] = 1
    """
    program = parsed(source, HEAD)
    (call,) = probes(program)
    assert program.context(call).role.name == "EVAL"
    assert program.context(call).guarded


@pytest.mark.parametrize(
    ("owner", "rare"),
    [
        pytest.param("model", True, id="of an object from before the loop"),
        pytest.param("x", False, id="of the batch"),
        pytest.param("out", False, id="of a result"),
    ],
)
def test_an_attribute_of_what_outlasts_the_turn(owner: str, rare: bool) -> None:
    lines = f"out = f(x)\n    if not hasattr({owner}, 'a'):\n        {owner}.a = 1\n        probe()"
    assert guarded(f"model = make()\n{LOOP}{lines}\n") is rare


RECORDS = {
    "choice": "record = {} if step % 50 == 0 else None",
    "other side": "record = None if step % 50 else {}",
    "branches": "if step % 50 == 0:\n        record = {}\n    else:\n        record = None",
    "before": "record = None\n    if step % 50 == 0: record = {}",
    "asked": "record = {} if verbose else None",
    "always": "record = {}",
    "never": "record = None",
    "one": "record = 0 if step % 50 == 0 else 1",
}
FILLS = f"for step, x in enumerate(loader):\n    {{}}\n    {STEP}\n    if {{}}: probe()"


@pytest.mark.parametrize(
    ("record", "test", "rare"),
    [
        ("choice", "record is not None", True),
        ("choice", "record", True),
        ("other side", "record is not None", True),
        ("branches", "record is not None", True),
        ("choice", "record is None", False),
        ("asked", "record is not None", False),
        ("always", "record is not None", False),
        ("one", "record", False),
    ],
)
def test_a_record_that_is_there_every_n_steps(record: str, test: str, rare: bool) -> None:
    assert guarded(FILLS.format(RECORDS[record], test)) is rare


GIVES = f"""
class Loss:
    def start(self, record):
        self.turn += 1
        if self.turn % 50 == 1:
            record = record
        else:
            record = None
        return record
    def part(self, loss, {{parameter}}=None):
        if {{parameter}} is not None:
            probe()
    def step(self, x, optimizer, record):
        {{own}}
        {STEP}
        self.part(loss, {{parameter}}=record)
"""


@pytest.mark.parametrize(
    ("own", "rare"),
    [("record = self.start(record)", True), ("record = start(record)", False), ("pass", False)],
)
def test_a_record_that_functions_hand_on(own: str, rare: bool) -> None:
    assert guarded(GIVES.format(own=own, parameter="kept")) is rare


@pytest.mark.parametrize(
    ("shows", "rare"),
    [
        ("cv2.imshow('batch', x)", True),
        ("cv2.waitKey(1)", True),
        ("plt.show()", True),
        ("cv2.imwrite('batch.png', x)", False),
        ("self.show()", False),
        ("plt.show(); loss.backward()", False),
        ("if now:\n            plt.show()", False),
    ],
)
def test_a_branch_with_a_window_is_for_somebody_who_looks_on(shows: str, *, rare: bool) -> None:
    head = "import cv2\nfrom matplotlib import pyplot as plt\n"
    branch = f"if deep:\n        probe()\n        {shows}\n"
    assert guarded(head + LOOP + branch) is rare
