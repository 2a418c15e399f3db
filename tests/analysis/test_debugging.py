"""What runs only in a test or on request, and where the error of a backward pass is caught."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent, indent

import pytest
from probing import probed

from torchlint.analysis.debugging import in_test, is_caught, on_request
from torchlint.analysis.program import Program
from torchlint.projects import Projects

ALWAYS = [
    pytest.param("probe(1)", id="at the top"),
    pytest.param("def train_test():\n    probe(1)", id="a name that only contains test"),
    pytest.param("def save_checkpoint():\n    probe(1)", id="a checkpoint is no check"),
    pytest.param("def finance():\n    probe(1)", id="no NaN"),
    pytest.param("if torch.cuda.is_available():\n    probe(1)", id="where there is a GPU"),
    pytest.param("if __name__ == '__main__':\n    probe(1)", id="the main block"),
    pytest.param("if phase == 'train':\n    probe(1)", id="a phase"),
    pytest.param("def f(x):\n    if x:\n        return\n    probe(1)", id="behind some return"),
    pytest.param(
        "def f(x):\n    if debug:\n        log()\n    probe(1)",
        id="behind a condition that goes on",
    ),
    pytest.param("def f(x):\n    if debug: log()\n    probe(1)", id="the same on one line"),
    pytest.param("try:\n    probe(1)\nexcept ValueError:\n    pass", id="tried"),
]
RARELY = [
    pytest.param("if args.x:\n    probe(1)", id="an option"),
    pytest.param("if mode == 1:\n    pass\nelif check:\n    probe(1)", id="elif"),
    pytest.param("if not detect:\n    pass\nelse:\n    probe(1)", id="else"),
    pytest.param("y = probe(1) if strict else None", id="a conditional expression"),
    pytest.param("if 'X' in os.environ:\n    probe(1)", id="the environment"),
    pytest.param("if getenv('X'):\n    probe(1)", id="the environment, imported"),
    pytest.param("try:\n    pass\nexcept ValueError:\n    probe(1)", id="after an error"),
    pytest.param("def f():\n    if args.x: return\n    probe(1)", id="behind a return on one line"),
    pytest.param("def f():\n    if not debug:\n        raise E\n    probe(1)", id="behind raise"),
    pytest.param("def gradcheck_all():\n    probe(1)", id="a check by name"),
    pytest.param("def f():\n    probe(1)\nif args.x:\n    f()", id="only called under a condition"),
    pytest.param("class A(unittest.TestCase):\n    def setUp(s):\n        probe(1)", id="a test"),
]


@pytest.mark.parametrize("source", ALWAYS)
def test_runs_always(source):
    program = Program("import torch\n" + source)
    assert not on_request(program, probed(program))


@pytest.mark.parametrize("source", RARELY)
def test_runs_on_request(source):
    program = Program(source)
    assert on_request(program, probed(program))


@pytest.mark.parametrize("name", ["a/test_x.py", "a/x_test.py", "tests/x.py", "a/debug.py"])
def test_a_file_may_be_a_test(name):
    program = Program("import pytest\nprobe(1)", Path(name))
    assert on_request(program, probed(program))


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        pytest.param("test/test_net.py", "probe(1)", True, id="a script that tries something"),
        pytest.param("test/net.py", "probe(1)", False, id="by its folder alone"),
        pytest.param("eval/test_net.py", "probe(1)", False, id="by its name alone"),
        pytest.param(
            "test/test_net.py",
            "net.load_state_dict(torch.load(x))\nprobe(1)",
            False,
            id="evaluates",
        ),
    ],
)
def test_a_script_for_tests(name, text, found):
    program = Program(text, Path(name))
    assert in_test(program, probed(program)) is found


LEFT = "def test_step(model):\n    probe(1)\n"


@pytest.mark.parametrize(
    ("source", "found"),
    [
        pytest.param(LEFT, True, id="nobody calls it"),
        pytest.param("class TestModel:\n" + indent(LEFT, "    "), True, id="a class for tests"),
        pytest.param(
            "class Model(BaseTestCase):\n" + indent(LEFT, "    "), True, id="an heir of one"
        ),
        pytest.param("class Model:\n" + indent(LEFT, "    "), False, id="another class"),
        pytest.param(
            "class Model:\n" + indent("@staticmethod\n" + LEFT, "    "), False, id="a static method"
        ),
        pytest.param(
            "class Model:\n    def test_all(self):\n        probe(1)", False, id="it takes nothing"
        ),
        pytest.param("def test_all():\n    probe(1)", True, id="a function that takes nothing"),
    ],
)
def test_a_runner_finds_tests_by_the_names_of_functions_and_classes(source, found):
    program = Program(source)
    assert in_test(program, probed(program)) is found


@pytest.mark.parametrize(
    ("name", "found"), [("main.py", False), ("test_main.py", True), ("other.py", True)]
)
def test_what_a_script_of_the_project_calls_is_left_to_no_runner(tmp_path, name, found):
    step = tmp_path / "step.py"
    step.write_text(LEFT)
    (tmp_path / "pyproject.toml").write_text("")
    call = "import pytest\n" if name.startswith("test") else ""
    call += "from step import test_step\n" if name != "other.py" else "from x import test_step\n"
    (tmp_path / name).write_text(f"{call}test_step(1)\n")
    program = Projects(lambda _: False).of(step).program(str(step))
    assert program is not None
    assert in_test(program, probed(program)) is found


NET = "class Net(nn.Module):\n    def forward(self, x):\n        return x\n"
SHOWS = "if __name__ == '__main__':\n    net = Net().cuda()\n    "


@pytest.mark.parametrize(
    ("source", "found"),
    [
        pytest.param(SHOWS + "print(net(probe(1)))", True, id="a model is called once"),
        pytest.param(
            "def small():\n    return Net()\n" + SHOWS + "print(small()(probe(1)))",
            True,
            id="one that a function makes",
        ),
        pytest.param(SHOWS + "for x in data:\n        net(probe(1))", False, id="a loop"),
        pytest.param(
            SHOWS + "for i in range(3):\n        net(probe(1))", True, id="as often as it says"
        ),
        pytest.param(
            SHOWS + "for i in range(n):\n        net(probe(1))", False, id="as often as asked"
        ),
        pytest.param(SHOWS + "while True:\n        net(probe(1))", False, id="without an end"),
        pytest.param(SHOWS + "net(probe(1)).backward()", True, id="gradients are looked at"),
        pytest.param(
            SHOWS + "net(probe(1)).backward()\n    optimizer.step()", False, id="it trains"
        ),
        pytest.param(SHOWS + "x = probe(parser.parse_args())", False, id="a program with options"),
        pytest.param(
            "def work(net):\n    pass\n" + SHOWS + "work(probe(net))", False, id="it calls others"
        ),
        pytest.param(
            "class Trainer:\n    def train(self):\n        pass\n"
            + SHOWS
            + "Trainer().train(probe(net))",
            False,
            id="by a method",
        ),
        pytest.param("net = Net()\nprint(net(probe(1)))", False, id="when it is imported"),
        pytest.param(
            "def f(x):\n    return probe(x)\n" + SHOWS + "f(1)", False, id="in a function"
        ),
    ],
)
def test_what_a_module_shows_of_itself(tmp_path, source, found):
    net = tmp_path / "net.py"
    net.write_text("from torch import nn\n" + NET + source)
    (tmp_path / "pyproject.toml").write_text("")
    alone = Projects(lambda _: False).of(net).program(str(net))
    assert alone is not None
    assert not in_test(alone, probed(alone))  # a script of its own
    (tmp_path / "main.py").write_text("from net import Net\n")
    program = Projects(lambda _: False).of(net).program(str(net))
    assert program is not None
    assert in_test(program, probed(program)) is found


STEP = dedent("""\
    def step(x):
        loss(x).backward()

    def epoch():
        for x in xs:
            step(x)
""")


def test_an_error_of_a_function_is_not_caught_around_its_definition():
    program = Program("try:\n    def f():\n        probe(1)\nexcept Exception:\n    pass")
    assert not is_caught(program, probed(program))
