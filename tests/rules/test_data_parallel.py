"""TL801: models that one process trains on several GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tools import check, check_in, silent

from torchlint.rule import Severity

if TYPE_CHECKING:
    from pathlib import Path

CODE = "TL801"


def script(wrap: str, head: str = "", step: str = "loss.backward()") -> str:
    return f"""
import torch
from torch import nn
{head}

model = nn.Linear(4, 2)
{wrap}
for x in data:
    loss = model(x.cuda()).sum()
    {step}
"""


# -- what is left alone -----------------------------------------------------------------------


SET_UP = """
import torch
from torch import nn

class Trainer:
    def initialize(self, train):
        self.net = nn.Linear(4, 2)
        if train:
            {made}
        else:
            self.net.eval()
        self.net = nn.DataParallel(self.net.cuda())
    def step(self, x):
        loss = self.net(x.cuda()).sum()
        loss.backward()
        self.optimizer.step()
"""


def test_what_makes_an_optimizer_does_not_only_evaluate() -> None:
    made = "self.optimizer = torch.optim.Adam(self.net.parameters())"
    assert len(check(SET_UP.format(made=made), CODE)) == 1
    silent(SET_UP.format(made="pass"), CODE)


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(script("model = nn.DataParallel(model, device_ids=[0])"), id="one device"),
        pytest.param(script("model = nn.DataParallel(model, (rank,))"), id="one device: a tuple"),
        pytest.param(script("model = nn.DataParallel(model, range(1))"), id="one device: a range"),
        pytest.param(
            script("ids = {'device_ids': [0]}\nmodel = nn.DataParallel(model, **ids)"),
            id="one device, in a dictionary",
        ),
        pytest.param(
            script("model = nn.DataParallel(model)", step="print(loss)"), id="it is only evaluated"
        ),
        pytest.param(
            script("model = nn.parallel.DistributedDataParallel(model)"), id="one process a GPU"
        ),
        pytest.param(script("wrapped = isinstance(model, nn.DataParallel)"), id="only asked about"),
        pytest.param(
            script("model = DataParallel(model)", head="from geometry import DataParallel"),
            id="another library's",
        ),
        pytest.param(
            script("model = nn.DataParallel(model)", step="torch.optim.SGD(model.parameters())"),
            id="an optimizer that nobody uses here",
        ),
        pytest.param(
            script("ids = [0]\nmodel = nn.DataParallel(model, device_ids=ids)"),
            id="one device, by a name",
        ),
        pytest.param(
            script(
                "",
                head="class Net:\n    def initialize(self, ids=[0]):\n        self.ids = ids\n"
                "        self.net = nn.DataParallel(self.net, device_ids=self.ids)\n",
            ),
            id="one device unless somebody passes others, and nobody does",
        ),
        pytest.param(
            script(
                "def wrap(net, ids):\n    return nn.DataParallel(net, ids)\n"
                "model = wrap(model, [0])"
            ),
            id="one device, passed",
        ),
        pytest.param(
            script("if args.testOnly:\n    net = nn.DataParallel(load())\n    run(net)"),
            id="a branch that only tests",
        ),
        pytest.param(
            script("if again:\n    net = nn.DataParallel(load())\n    run(net)\n    sys.exit(0)"),
            id="a branch after which the script ends",
        ),
        pytest.param(
            script("def evaluate(net):\n    net = nn.DataParallel(net)\n    return run(net)"),
            id="a function that evaluates",
        ),
        pytest.param(
            script(
                "if count > 1:\n    warn('use torch.distributed.run')\n"
                "    model = nn.DataParallel(model)"
            ),
            id="a last resort that says so",
        ),
        pytest.param(
            script(
                "if count < 2:\n    model = model.cuda()\nelse:\n    warn('DDP is faster')\n"
                "    model = nn.DataParallel(model)"
            ),
            id="a last resort in the other branch that says so",
        ),
        pytest.param(
            script(
                "if torch.cuda.is_available():\n    model = model.cuda()\nelse:\n"
                "    model = nn.DataParallel(model)"
            ),
            id="a branch without a GPU",
        ),
        pytest.param(
            script("assert torch.cuda.device_count() == 1\nmodel = nn.DataParallel(model)"),
            id="one GPU, by an assertion",
        ),
        pytest.param(
            script("criterion = nn.DataParallel(nn.L1Loss())"), id="a loss, which has no weights"
        ),
        pytest.param(script("nn.DataParallel()"), id="no model"),
        pytest.param(
            script("def test_it():\n    model = nn.DataParallel(model)"), id="a test of a wrapper"
        ),
    ],
)
def test_is_silent(source):
    silent(source, CODE)


def reference(wrap: str, uses: str = "", before: str = "") -> str:
    """A script that trains one model and wraps another one."""
    return f"""
import torch
from torch import nn
from nets import build, count


def main():
    model, ref = build(), None
    ref = build()
    {before}
    {wrap}
    {uses}
    for x in data:
        loss = model(x.cuda()).sum()
        loss.backward()
"""


WHOLE, PART = "ref = nn.DataParallel(ref).cuda()", "ref.body = nn.DataParallel(ref.body)"


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(reference(WHOLE, "ref.load_state_dict(torch.load(p))"), id="it takes weights"),
        pytest.param(reference(PART, "ref.load_state_dict(torch.load(p))"), id="a part of it"),
        pytest.param(
            reference(WHOLE, "pairs = zip(model.modules(), ref.modules())"), id="weights to look at"
        ),
        pytest.param(reference(PART, "ref.cuda(); ref = ref.eval()"), id="moved"),
        pytest.param(
            reference(WHOLE, "ref.load_state_dict(torch.load(p)); ref = ref.module; y = ref(1)"),
            id="taken off again",
        ),
        pytest.param(
            reference(WHOLE, "if many: ref = nn.parallel.DistributedDataParallel(ref)"),
            id="the other way to wrap it",
        ),
        pytest.param(reference(WHOLE, before="show(ref); ref(1)"), id="run before it is wrapped"),
        pytest.param(
            reference(PART, "epochs = size / 2", before="size = count(ref)"), id="measured before"
        ),
    ],
)
def test_a_model_that_is_never_run(source: str) -> None:
    silent(source, CODE)


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(reference(WHOLE, "y = ref(1)"), id="called"),
        pytest.param(reference(PART, "y = ref.body(1)"), id="its part is called"),
        pytest.param(reference(WHOLE, "bare = ref.module; y = ref(1)"), id="called as it is"),
        pytest.param(reference(WHOLE, "train(ref)"), id="passed on"),
        pytest.param(reference(WHOLE, "kept.net = ref"), id="kept"),
        pytest.param(reference(WHOLE, "other = ref.cuda()"), id="another name"),
        pytest.param(reference(WHOLE, "nets = [model, ref]"), id="in a list"),
        pytest.param(reference(WHOLE, "def run(x): return ref(x)"), id="a function inside"),
        pytest.param(
            reference(WHOLE, before="def run(x): return ref(x)"), id="a function made before"
        ),
        pytest.param(reference("kept." + WHOLE), id="in an attribute"),
        pytest.param(reference("return nn.DataParallel(ref)"), id="returned"),
        pytest.param(reference("run(nn.DataParallel(ref))"), id="passed on at once"),
        pytest.param(reference(PART, before="trainer = Trainer(ref)"), id="others have it"),
        pytest.param(reference(PART, before="size = count(ref); show(size)"), id="not a number"),
        pytest.param(reference(PART, before="ref = kept.net"), id="made elsewhere"),
        pytest.param(
            reference(WHOLE, "optimizer = torch.optim.SGD(ref.parameters(), 0.1)"), id="optimized"
        ),
        pytest.param(
            reference("for i in range(2):\n        y = ref(i)\n        " + WHOLE),
            id="called in the next turn",
        ),
    ],
)
def test_a_model_that_may_be_run(source: str) -> None:
    assert [one.code for one in check(source, CODE)] == [CODE]


@pytest.mark.parametrize(
    ("other", "found"), [("from nets import ref", 1), ("from nets import model", 0)]
)
def test_a_model_that_another_file_may_run(tmp_path: Path, other: str, found: int) -> None:
    source = script("ref = nn.DataParallel(nn.Linear(4, 2))")
    files = {"nets.py": source, "train.py": other}
    assert len(check_in(tmp_path, files, "nets.py", CODE)) == found


def with_test(after: str) -> str:
    """A script that trains a model, and wraps it for its test."""
    return f"""
import torch
from torch import nn


def evaluate(net, loader):
    net.eval()
    for x in loader:
        show(net(x.cuda()))


def adapt_and_test(net, loader):
    for x in loader:
        net(x.cuda()).sum().backward()


def main(args, model, optimizer):
    if args.do_train:
        for x in data:
            model(x.cuda()).sum().backward()
            optimizer.step()
    if args.last_words:
        for file in files:
            model.load_state_dict(torch.load(file))
            if args.n_gpu > 1:
                model = nn.DataParallel(model)
            {after}
"""


@pytest.mark.parametrize(
    ("after", "count"),
    [
        pytest.param("print(evaluate(model, loader))", 0, id="a function that evaluates"),
        pytest.param("model.eval(); evaluate(model, loader)", 0, id="in its mode"),
        pytest.param("adapt_and_test(model, loader)", 1, id="one that goes back"),
        pytest.param("evaluate(model, loader); run(model)", 1, id="one that nobody knows as well"),
        pytest.param("evaluate(model, loader); self.net = model", 1, id="kept"),
        pytest.param(
            "for x in data: evaluate(model, x); adapt_and_test(args, x).step(model(x).backward())",
            1,
            id="trained as well",
        ),
    ],
)
def test_a_model_that_is_wrapped_for_its_evaluation(after: str, count: int) -> None:
    assert len(check(with_test(after), CODE)) == count


def test_a_teacher_that_each_step_runs() -> None:
    steps = (
        "for n, x in enumerate(data):\n                with torch.no_grad(): y = model(x)\n"
        "                args.net(x, y).sum().backward(); optimizer.step()"
    )
    assert len(check(with_test(steps), CODE)) == 1
    seldom = steps.replace("with torch", "if n % 100 == 0:\n                 with torch")
    silent(with_test(seldom), CODE)
    assert len(check(with_test(seldom.replace("no_grad", "enable_grad")), CODE)) == 1
    called = steps.replace("with torch.no_grad(): y = model(x)", "{}y = evaluate(model, x)")
    assert len(check(with_test(called.format("")), CODE)) == 1
    silent(with_test(called.format("if n % 100 == 0: ")), CODE)


GLOBAL = """
import torch

def learn():
    for x in data:
        model(x.cuda()).sum().backward()
        optimizer.step()

def evaluate(net):
    for x in data:
        show(net(x))

model = torch.nn.DataParallel(build())
learn()
evaluate(model)
"""


def test_a_model_of_the_file_that_a_function_trains() -> None:
    assert len(check(GLOBAL, CODE)) == 1
    silent(GLOBAL.replace("        model(", "        old("), CODE)


# -- what is reported -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrap", "head"),
    [
        ("model = nn.DataParallel(model)", ""),
        ("model = nn.DataParallel(module=model, device_ids=None)", ""),
        ("model = nn.DataParallel(model, device_ids=[0, 1])", ""),
        ("model = nn.DataParallel(model, range(2))", ""),
        ("model = nn.DataParallel(model, args.gpus).cuda()", ""),
        ("if count > 1:\n    model = nn.DataParallel(model)", ""),
        (
            (
                "if torch.cuda.is_available():\n    model = nn.DataParallel(model)\nelse:\n"
                "    model = model.double()"
            ),
            "",
        ),
        (
            (
                "if args.test:\n    model = nn.DataParallel(model)\n    for x in data:\n"
                "        model(x).sum().backward()"
            ),
            "",
        ),
        (
            (
                "def wrap(model, ids=[0]):\n    return nn.DataParallel(model, ids)\n"
                "net = wrap(model, [0, 1])"
            ),
            "",
        ),
        ("model = nn.DataParallel(model, **options)", ""),
        ("model = torch.nn.parallel.DataParallel(model)", ""),
        ("model = DP(model)", "from torch.nn.parallel.data_parallel import DataParallel as DP"),
        ("out = nn.parallel.data_parallel(model, x, range(n))", ""),
        ("out = data_parallel(model, x)", "from torch.nn.parallel import data_parallel"),
    ],
)
def test_reports(wrap, head):
    [found] = check(script(wrap, head), CODE)
    assert (found.severity, found.fix) == (Severity.WARNING, None)
    assert "copies `model` to every GPU" in found.message
    assert "torchrun" in found.help


@pytest.mark.parametrize(
    "wrap",
    [
        pytest.param(
            "if count > 1:\n    start('a distributed run')\nelse:\n"
            "    model = nn.DataParallel(model)",
            id="the other branch speaks of it",
        ),
        pytest.param(
            "if count > 1:\n    log(getattr(flags, 'distributed_log'))\n"
            "    model = nn.DataParallel(model)",
            id="the name of an option",
        ),
    ],
)
def test_what_tells_nobody_to_start_processes(wrap: str) -> None:
    assert len(check(script(wrap), CODE)) == 1


def test_names_no_command_that_torch_does_not_have_yet() -> None:
    head = "from torch.utils.serialization import load_lua"
    [found] = check(script("model = nn.DataParallel(model)", head=head), CODE)
    assert found.help.startswith("Start one process a GPU, wrap")


@pytest.mark.parametrize(
    "step",
    [
        "accelerator.backward(loss)",
        "optimizer.zero_grad()",
    ],
)
def test_what_shows_training(step):
    [_] = check(script("model = nn.DataParallel(model)", step=step), CODE)


SOLVER = """
class Solver:
    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer

    def train(self):
        for epoch in range(9):
            self.run_epoch()

    def run_epoch(self):
        for x in data:
            self.model(x).sum().backward()
            {step}

    def attack(self):
        for x in data:
            self.model(x).sum().backward()

    def test(self):
        for x in data:
            show(self.model(x))
"""
STARTING = """
import torch
from torch import nn
from solver import Solver

model = nn.DataParallel(nn.Linear(4, 2))
solver = Solver(model, torch.optim.SGD(model.parameters(), 0.1))
{start}
"""


@pytest.mark.parametrize(
    ("start", "step", "found"),
    [
        pytest.param("", "self.optimizer.step()", 0, id="nothing is called"),
        pytest.param("solver.test()", "self.optimizer.step()", 0, id="it only tests"),
        pytest.param("solver.attack()", "self.optimizer.step()", 0, id="no step is taken"),
        pytest.param("solver.train()", "pass", 0, id="no step is taken by what that calls"),
        pytest.param("unknown.train()", "self.optimizer.step()", 0, id="of what is not known"),
        pytest.param(
            "def test_it():\n    solver.train()", "self.optimizer.step()", 0, id="by a test"
        ),
        pytest.param("solver.train()", "self.optimizer.step()", 1, id="it trains"),
        pytest.param(
            "def main():\n    solver.train()", "self.optimizer.step()", 1, id="by a function"
        ),
    ],
)
def test_a_training_of_another_file(tmp_path: Path, start: str, step: str, found: int) -> None:
    files = {"solver.py": SOLVER.format(step=step), "main.py": STARTING.format(start=start)}
    assert len(check_in(tmp_path, files, "main.py", CODE)) == found


def test_a_model_behind_a_star():
    [found] = check(script("model = nn.DataParallel(*parts)"), CODE)
    assert "`the model`" not in found.message


@pytest.mark.parametrize(
    ("head", "own"),
    [
        ("import lightning", "strategy"),
        ("from accelerate import Accelerator", "accelerate launch"),
        ("from transformers import Trainer", "torchrun"),
        ("import deepspeed", "DistributedDataParallel"),
    ],
)
def test_a_framework_has_its_own_way(head, own):
    [found] = check(script("model = nn.DataParallel(model)", head), CODE)
    assert found.severity is Severity.INFO
    assert own in found.help


def test_what_is_left_without_processes_is_advice() -> None:
    source = (
        "import torch\nfrom torch.nn.parallel import DistributedDataParallel\n"
        "def train(model, loader, optimizer, rank):\n"
        "    if rank == -1:\n        model = torch.nn.DataParallel(model)\n"
        "    else:\n        model = DistributedDataParallel(model.cuda())\n"
        "    for x in loader:\n        model(x.cuda()).sum().backward()\n        optimizer.step()\n"
    )
    (found,) = check(source, CODE)
    assert found.severity is Severity.INFO


@pytest.mark.parametrize(
    "default",
    ["'0'", "0", "[0]"],
)
def test_several_devices_on_request_are_advice(default) -> None:
    head = f"parser.add_argument('--gpu_ids', default={default})"
    (found,) = check(script("model = nn.DataParallel(model, args.gpu_ids)", head), CODE)
    assert found.severity is Severity.INFO
    (found,) = check(
        script("model = nn.DataParallel(model, args.gpu_ids)", f"{head[:-1]} + x)"), CODE
    )
    assert found.severity is Severity.WARNING


@pytest.mark.parametrize(
    ("shown", "default", "severity"),
    [
        ("args.gpu_id", "'0'", Severity.INFO),
        ("str(args.gpu_id)", "0", Severity.INFO),
        ("'0'", "None", Severity.INFO),
        ("args.gpu_id", "'0,1'", Severity.WARNING),
        ("'0,1'", "'0'", Severity.WARNING),
        ("'-1'", "'0'", Severity.WARNING),
    ],
)
def test_a_script_that_sees_one_device_unless_told_otherwise(shown, default, severity) -> None:
    head = f"parser.add_argument('--gpu_id', default={default})\n"
    head += f"os.environ['CUDA_VISIBLE_DEVICES'] = {shown}"
    (found,) = check(script("model = nn.DataParallel(model)", head), CODE)
    assert found.severity is severity


@pytest.mark.parametrize(
    ("made", "default", "severity"),
    [
        pytest.param("list(map(int, args.gpus.split(',')))", "'0'", Severity.INFO, id="mapped"),
        pytest.param("[int(one) for one in args.gpus.split(',')]", "'0'", Severity.INFO, id="each"),
        pytest.param("list(map(int, args.gpus.split(',')))", "'0,1'", Severity.WARNING, id="two"),
        pytest.param("pick(args.gpus)", "'0'", Severity.WARNING, id="by a function"),
    ],
)
def test_devices_that_an_option_lists_in_a_text(made, default, severity) -> None:
    """Also by the names that scripts give to what adds an option, and to the list."""
    head = f"arg = parser.add_argument\narg('--gpus', default={default})\nids = None\n"
    head += f"if args.gpus:\n    ids = {made}\n"
    (found,) = check(script("model = nn.DataParallel(model, device_ids=ids)", head), CODE)
    assert found.severity is severity


def test_devices_that_a_loop_makes_of_themselves() -> None:
    head = "ids = args.gpus\nfor one in names:\n    ids = list(ids)"
    (found,) = check(script("model = nn.DataParallel(model, device_ids=ids)", head), CODE)
    assert found.severity is Severity.WARNING


MANAGER = """
import torch
class Manager:
    def __init__(self, net):
        self.net = torch.nn.DataParallel(net)
    def train(self, batches, optimizer):
        for x in batches:
            self.net(x.cuda()).sum().backward()
            optimizer.step()
"""


OWN = """
class Base(nn.DataParallel):
    def __init__(self, module, count=2, ids=None):
        super().__init__(module, ids)
    def scatter(self, inputs, kwargs, ids):
        return split(inputs, ids)

class Mine(Base):
    def gather(self, outputs, device):
        return outputs
"""
COPY = "    def replicate(self, module, ids):\n        "


@pytest.mark.parametrize(
    ("wrap", "more"),
    [
        pytest.param("", "", id="never made"),
        pytest.param("model = Mine()", "", id="no model"),
        pytest.param("ok = isinstance(model, Mine)", "", id="only asked about"),
        pytest.param("model = Mine(model, 2, [0])", "", id="one device"),
        pytest.param("model = Mine(model, ids=(rank,))", "", id="one device, by name"),
        pytest.param(
            "model = Mine(model)",
            "    def __init__(self, module):\n        super().__init__(module, device_ids=[0])\n",
            id="one device, always",
        ),
        pytest.param(
            "model = Mine(model)",
            "    def forward(self, x):\n        return self.module(x)\n",
            id="runs it in its own way",
        ),
        pytest.param(
            "model = Mine(model)",
            "    def __call__(self, x):\n        return self.module(x)\n",
            id="is called in its own way",
        ),
        pytest.param("model = Mine(model)", f"{COPY}return self.kept\n", id="copies it once"),
        pytest.param(
            "model = Mine(model)",
            "    def parallel_apply(self, copies, inputs, kwargs):\n        return queue(inputs)\n",
            id="runs the copies in its own way",
        ),
        pytest.param("model = Other(model)", "class Other(nn.Module):\n    pass\n", id="a module"),
        pytest.param(
            "model = Other(model)",
            "class Other(nn.parallel.DistributedDataParallel):\n    pass\n",
            id="one process a GPU",
        ),
    ],
)
def test_a_class_of_the_project_is_left_alone(wrap: str, more: str) -> None:
    silent(script(wrap, OWN + more), CODE)


@pytest.mark.parametrize(
    "more",
    [
        pytest.param("", id="the batch in its own way"),
        pytest.param(f"{COPY}return marked(super().replicate(module, ids))\n", id="marks copies"),
    ],
)
def test_a_class_of_the_project_copies_the_model_as_well(more: str) -> None:
    (found,) = check(script("model = Mine(model, 4).cuda()", OWN + more), CODE)
    assert found.message.startswith("`Mine` copies `model` to every GPU in each forward pass")
    assert found.severity is Severity.WARNING


def test_a_class_of_the_project_on_several_gpus_on_request() -> None:
    head = f"parser.add_argument('--count', default=1)\n{OWN}"
    (found,) = check(script("model = Mine(model, args.count)", head), CODE)
    assert found.severity is Severity.INFO


@pytest.mark.parametrize(("name", "count"), [("Mine", 1), ("Loss", 0)])
def test_a_class_of_another_file(tmp_path: Path, name: str, count: int) -> None:
    own = f"{OWN}\nclass Loss(Base):\n    def forward(self, x):\n        return apart(x)\n"
    wrap = f"model = {name}(model)"
    files = {
        "own.py": f"from torch import nn\n{own}",
        "train.py": script(wrap, f"from own import {name}"),
    }
    assert len(check_in(tmp_path, files, "train.py", CODE)) == count


@pytest.mark.parametrize(
    ("manager", "other", "severity"),
    [
        (MANAGER, "import horovod.torch as hvd\n", Severity.INFO),
        (MANAGER, "torch.distributed.init_process_group('nccl')\n", Severity.INFO),
        (MANAGER, "import torch\n", Severity.WARNING),
        (
            MANAGER + "if __name__ == '__main__':\n    Manager(net).train(batches, optimizer)\n",
            "import horovod.torch as hvd\n",
            Severity.WARNING,
        ),
    ],
    ids=["horovod", "processes", "nothing else", "a script of its own"],
)
def test_processes_that_another_file_of_the_project_starts(
    tmp_path, manager, other, severity
) -> None:
    (found,) = check_in(tmp_path, {"manager.py": manager, "dist.py": other}, "manager.py", CODE)
    assert found.severity is severity


def test_a_way_with_processes_under_another_name() -> None:
    source = script("model = smart_DDP(model) if rank >= 0 else nn.DataParallel(model)")
    (found,) = check(source, CODE)
    assert found.severity is Severity.INFO


UNROLLED = """
import torch

def learn(net, data, weights, scale):
    net = torch.nn.DataParallel(net)
    for x, y in data:
        x.requires_grad_(True)
        out = {run}
        grad = torch.autograd.grad({arguments})
        {use}
    loss = net(held, weights).sum()
    loss.backward()
"""
RUN = "net(x, weights).sum()"
STEP = "weights = weights - scale * grad[0]"
ZIPPED = "weights = [w - scale * g for w, g in zip(weights, grad)]"
PENALTY = "penalty = (grad[0].norm() - 1) ** 2"


@pytest.mark.parametrize(
    ("arguments", "use", "found"),
    [
        pytest.param("out, weights, create_graph=True", STEP, 0, id="one tensor"),
        pytest.param("out, weights, create_graph=True", ZIPPED, 0, id="several"),
        pytest.param("out, net.parameters(), create_graph=True", "f(grad)", 0, id="all"),
        pytest.param("out, weights", STEP, 1, id="nothing goes back through the steps"),
        pytest.param("out, x, create_graph=True", PENALTY, 1, id="a penalty: of the input"),
    ],
)
def test_a_training_that_goes_back_through_its_steps(arguments: str, use: str, found: int) -> None:
    source = UNROLLED.format(run=RUN, arguments=arguments, use=use)
    assert len(check(source, CODE)) == found


def test_a_model_that_only_runs_after_the_steps() -> None:
    gradients = "out, weights, create_graph=True"
    assert check(UNROLLED.format(run="inner(x, weights)", arguments=gradients, use=STEP), CODE)


@pytest.mark.parametrize("wrapped", ["model_and_loss", "NetLoss(model)", "ModelWithLoss(model)"])
def test_a_model_with_its_loss_is_a_model(wrapped: str) -> None:
    assert len(check(script(f"model = nn.DataParallel({wrapped})"), CODE)) == 1
