"""TL703: a bias that the normalisation after it subtracts again."""

from __future__ import annotations

import pytest
from tools import check, check_in, fixed, silent

from torchlint.rule import Severity

CODE = "TL703"
HEAD = "import torch\nfrom torch import nn\nfrom torch.nn import functional as F\n\n"
CONV, NORM = "nn.Conv2d(3, 8, 3)", "nn.BatchNorm2d(8)"


def chain(*layers: str, tail: str = "") -> str:
    return f"{HEAD}model = nn.Sequential({', '.join(layers)})\n{tail}"


def module(init: str, forward: str, tail: str = "", bases: str = "nn.Module") -> str:
    lines = [
        f"class Net({bases}):",
        "    def __init__(self, norm=True):",
        "        super().__init__()",
    ]
    lines += [f"        {line}" for line in init.splitlines()]
    lines += ["", "    def forward(self, x):"]
    lines += [f"        {line}" for line in forward.splitlines()]
    return HEAD + "\n".join(lines) + "\n" + tail


PLAIN = f"self.conv = {CONV}\nself.bn = {NORM}"
DIRECT = "return self.bn(self.conv(x))"


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(chain("nn.Conv2d(3, 8, 3, bias=False)", NORM), id="no bias"),
        pytest.param(chain("nn.Conv2d(3, 8, 3, bias=use_bias)", NORM), id="a variable decides"),
        pytest.param(chain("nn.Conv2d(3, 8, 3, **options)", NORM), id="options are not known"),
        pytest.param(chain(CONV, "nn.GroupNorm(2, 8)"), id="GroupNorm averages over channels"),
        pytest.param(chain(CONV, "nn.ReLU()", NORM), id="an activation between"),
        pytest.param(chain("nn.Conv1d(3, 8, 3)", NORM), id="another rank"),
        pytest.param(chain("nn.Linear(4, 8)", "nn.BatchNorm1d(16)"), id="it runs over positions"),
        pytest.param(chain(CONV, "nn.InstanceNorm2d(8, track_running_stats=True)"),
                     id="running statistics"),
        pytest.param(chain(CONV, "norm(8)"), id="the norm is not known"),
        pytest.param(chain(CONV, "*rest", NORM), id="something not known between"),
        pytest.param(chain(f"spectral({CONV})", NORM), id="something unknown is made of it"),
        pytest.param(chain(CONV, NORM, tail="features = model[0](x)\n"), id="layers are picked"),
        pytest.param(chain(CONV, NORM, tail="for layer in model:\n    x = layer(x)\n"),
                     id="layers run one by one"),
        pytest.param(chain(CONV, NORM, tail="def f(x):\n    return [f(x) for f in model]\n"),
                     id="layers run one by one in a function"),
        pytest.param(module(PLAIN, DIRECT, tail="Net().bn.eval()\n"), id="one norm is frozen"),
        pytest.param(module(PLAIN, "y = self.conv(x)\nreturn self.bn(y) + y"), id="used twice"),
        pytest.param(module(PLAIN, "y = self.conv(x)\nself.kept = y\nreturn self.bn(y)"),
                     id="kept"),
        pytest.param(module(PLAIN, "return self.bn(F.relu(self.conv(x)))"), id="relu between"),
        pytest.param(module(PLAIN, "return self.bn(self.conv(x).flatten(1))"), id="a reshape"),
        pytest.param(module(PLAIN, "y = self.conv(x)\nif norm:\n    y = self.bn(y)\nreturn y"),
                     id="not always normalised"),
        pytest.param(module(PLAIN, "return checkpoint(self.conv, x)"), id="handed on"),
        pytest.param(module(PLAIN, DIRECT, tail="net = Net()\nnet.bn = nn.Identity()\n"),
                     id="the norm is replaced"),
        pytest.param(module(PLAIN, DIRECT, tail="net = Net()\ny = net.conv(x)\n"),
                     id="the layer is called from outside"),
        pytest.param(
            module(PLAIN, DIRECT, tail="class Sub(Net):\n    def forward(self, x):\n"
                   "        return F.relu(self.conv(x))\n"),
            id="a subclass uses it in another way",
        ),
        pytest.param(module(f"self.net = nn.Sequential({CONV}, {NORM})", "return self.net[0](x)"),
                     id="only the first layer runs"),
        pytest.param(
            module(f"self.layers = nn.ModuleList([{CONV}, {NORM}])",
                   "for layer in self.layers:\n    x = layer(x)\nreturn x"),
            id="a ModuleList runs in any order",
        ),
    ],
)  # fmt: skip
def test_leaves_alone(source):
    silent(source, CODE)


@pytest.mark.parametrize(
    ("forward", "count"),
    [
        ("return self.parts(x) * mask", 1),
        ("for part in self.parts:\n    x = part(x).masked_fill(mask, 0)\nreturn x", 0),
        ("return self.parts[1](self.parts[0](x) * mask)", 0),
        ("for f in self.parts.children():\n    x = f(x)\nreturn x", 0),
    ],
)
def test_a_sequence_that_another_file_is_given(tmp_path, forward, count):
    lines = "".join(f"        {line}\n" for line in forward.splitlines())
    masked = (
        f"{HEAD}class Masked(nn.Module):\n    def __init__(self, parts):\n"
        f"        super().__init__()\n        self.parts = parts\n\n"
        f"    def forward(self, x, mask):\n{lines}"
    )
    net = f"import masked\n{HEAD}net = masked.Masked(nn.Sequential({CONV}, {NORM}))\n"
    files = {"masked.py": masked, "net.py": net}
    assert len(check_in(tmp_path, files, "net.py", CODE)) == count


@pytest.mark.parametrize(
    ("layer", "norm"),
    [
        *((f"nn.{kind}{n}d(3, 8, 3)", f"nn.BatchNorm{n}d(8)")
          for kind in ("Conv", "ConvTranspose") for n in (1, 2, 3)),
        (CONV, "nn.InstanceNorm2d(8)"),
        (CONV, "nn.InstanceNorm2d(8, track_running_stats=False)"),
        (CONV, "nn.SyncBatchNorm(8)"),
        ("nn.Conv2d(3, 8, 3, bias=True)", NORM),
        ("nn.Conv2d(3, 8, 3, **{'stride': 2})", NORM),
        ("nn.LazyConv2d(8, 3)", "nn.LazyBatchNorm2d()"),
        ("nn.Linear(4, 8)", "nn.BatchNorm1d(8)"),
        ("nn.LazyLinear(width)", "nn.BatchNorm1d(width)"),
    ],
)  # fmt: skip
def test_in_sequential(layer, norm):
    [found] = check(chain(layer, norm, "nn.ReLU()"), CODE)
    assert found.severity is Severity.INFO, "it is worth a few numbers and one small kernel"
    assert found.location.row == 5
    assert norm.partition("(")[0] in found.message
    assert ("(N, C)" in found.message) == ("Linear" in layer)


BUILDERS = {
    "calls in calls": (PLAIN, "return F.relu(self.bn(self.conv(x)))"),
    "one name": (PLAIN, "x = self.conv(x)\nx = self.bn(x)\nreturn x"),
    "two names": (PLAIN, "y = self.conv(x)\nz = self.bn(y)\nreturn z"),
    "its shape is read": (PLAIN, "y = self.conv(x)\nprint(y.shape, y.size(0))\nreturn self.bn(y)"),
    "a norm in either branch": (
        PLAIN,
        "if x.mean() > 0:\n    return self.bn(self.conv(x))\nelse:\n    return self.bn(x)",
    ),
    "a sequence before a norm": (
        f"self.conv = nn.Sequential(nn.ReLU(), {CONV})\nself.bn = {NORM}",
        DIRECT,
    ),
    "an OrderedDict": (
        (
            "from collections import OrderedDict\n"
            f"self.net = nn.Sequential(OrderedDict([('conv', {CONV}), ('bn', {NORM})]))"
        ),
        "return self.net(x)",
    ),
    "a list": (
        f"layers = [{CONV}, {NORM}]\nself.net = nn.Sequential(*layers)",
        "return self.net(x)",
    ),
    "appended": (
        (
            f"layers = []\nlayers.append({CONV})\nlayers.append({NORM})\n"
            "self.net = nn.Sequential(*layers)"
        ),
        "return self.net(x)",
    ),
    "extended in a loop": (
        (
            f"layers = []\nfor _ in range(3):\n    layers += [{CONV}, {NORM}, nn.ReLU()]\n"
            "self.net = nn.Sequential(*layers)"
        ),
        "return self.net(x)",
    ),
    "a helper gives a list": (
        f"def block():\n    return [{CONV}, {NORM}]\nself.net = nn.Sequential(*block(), nn.ReLU())",
        "return self.net(x)",
    ),
    "module lists side by side": (
        (
            f"self.convs = nn.ModuleList([{CONV} for _ in range(3)])\n"
            f"self.bns = nn.ModuleList()\nfor _ in range(3):\n    self.bns.append({NORM})"
        ),
        "for conv, bn in zip(self.convs, self.bns):\n    x = F.relu(bn(conv(x)))\nreturn x",
    ),
    "module lists by index": (
        (
            f"self.convs = nn.ModuleList()\nself.bns = nn.ModuleList()\nfor _ in range(3):\n"
            f"    self.convs.append({CONV})\n    self.bns.append({NORM})"
        ),
        "for i, conv in enumerate(self.convs):\n    x = F.relu(self.bns[i](conv(x)))\nreturn x",
    ),
    "add_module": (
        (
            f"self.net = nn.Sequential()\nself.net.add_module('conv', {CONV})\n"
            f"self.net.add_module('bn', {NORM})"
        ),
        "return self.net(x)",
    ),
}


@pytest.mark.parametrize(("init", "forward"), BUILDERS.values(), ids=BUILDERS)
def test_in_modules(init, forward):
    [found] = check(module(init, forward), CODE)
    assert found.fix is not None


def test_messages_name_the_attribute():
    [found] = check(module(PLAIN, DIRECT), CODE)
    assert "`self.conv`" in found.message
    assert "`nn.BatchNorm2d`" in found.message
    assert "conv.bias" in found.fix.changes


# -- models that only evaluate --------------------------------------------------------------------

NET = module(PLAIN, DIRECT)
HOLDER = "class Whole(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
HOLDS = f"{HOLDER}        self.net = Net()"
LOSS = "loss.backward()\n"


@pytest.mark.parametrize(
    ("source", "count"),
    [
        pytest.param(NET + "net = Net()\nnet.eval()\nnet(x)\n", 0, id="nothing trains"),
        pytest.param(NET + f"net = Net().cuda().eval()\n{LOSS}", 0, id="a teacher"),
        pytest.param(NET + HOLDS + f".eval()\n\nnet = Whole()\n{LOSS}", 0, id="of a loss"),
        pytest.param(NET + f"net = Net().eval()\nnet.train()\n{LOSS}", 1, id="trained later"),
        pytest.param(NET + "net = Net()\nloss(net).backward()\nnet.eval()\n", 1,
                     id="evaluated after the training"),
        pytest.param(NET + f"net = Net()\n{LOSS}def test():\n    net.eval()\n", 1,
                     id="evaluated elsewhere"),
        pytest.param(NET + f"net, other = Net().eval(), Net()\n{LOSS}", 1, id="one of two"),
    ],
)  # fmt: skip
def test_models_that_only_evaluate(source, count):
    assert len(check(source, CODE)) == count


# -- what the fix writes --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (CONV, "nn.Conv2d(3, 8, 3, bias=False)"),
        ("nn.Conv2d(3, 8, 3, bias=True)", "nn.Conv2d(3, 8, 3, bias=False)"),
        ("nn.Conv2d(3, 8, 3, **{'stride': 2})", "nn.Conv2d(3, 8, 3, bias=False, **{'stride': 2})"),
        (
            "nn.Conv2d(\n    3,\n    8,  # wide\n    kernel_size=3,\n)",
            "nn.Conv2d(\n    3,\n    8,  # wide\n    kernel_size=3,\n    bias=False,\n)",
        ),
    ],
)
def test_fix(before, after):
    assert fixed(chain(before, NORM), CODE) == chain(after, NORM)
    assert fixed(chain(before, NORM), CODE, unsafe=False, settles=False) == chain(before, NORM)


INIT = "for m in model.modules():\n    if isinstance(m, {}):\n        {}\n"


@pytest.mark.parametrize(
    ("tail", "said"),
    [
        pytest.param(INIT.format("nn.Conv2d", "m.bias.data.zero_()"), "`m.bias`", id="zeroed"),
        pytest.param(INIT.format("(nn.Conv2d, nn.Linear)", "nn.init.zeros_(m.bias)"), "`m.bias`",
                     id="nn.init"),
        pytest.param("def f(m):\n    if hasattr(m, 'bias'):\n        m.bias.zero_()\n", "`m.bias`",
                     id="hasattr says nothing of None"),
        pytest.param("model[1].bias.data.zero_()\n", "`model[1].bias`", id="by place"),
        pytest.param("model.load_state_dict(torch.load(path))\n", "load", id="weights"),
        pytest.param("build().load_state_dict(saved)\n", "load", id="of what is called"),
        pytest.param(
            INIT.format("nn.Conv2d", "if m.bias is not None:\n            m.bias.zero_()"), "",
            id="checked",
        ),
        pytest.param(INIT.format("nn.BatchNorm2d", "m.bias.data.zero_()"), "", id="of norms"),
        pytest.param(
            "for m in model.modules():\n    if m.__class__.__name__.find('BatchNorm2d') != -1:\n"
            "        m.bias.data.zero_()\n", "", id="of norms, by name",
        ),
        pytest.param("head = nn.Linear(3, 3)\nhead.bias.data.zero_()\n", "", id="of a known layer"),
        pytest.param("for m in model.modules():\n    m.bias = None\n", "", id="only set"),
        pytest.param("opt = torch.optim.SGD(p)\nopt.load_state_dict(saved)\n", "",
                     id="the state of an optimizer"),
    ],
)  # fmt: skip
def test_what_needs_the_bias(tail, said):
    [found] = check(chain("nn.ReLU()", CONV, NORM, tail=tail), CODE)
    assert (found.fix is None) == bool(said)
    assert said in found.help


SETUP = "from torch import nn\n\ndef start(m):\n    if isinstance(m, {}):\n        m.bias.zero_()\n"


@pytest.mark.parametrize(("kind", "fixes"), [("nn.Conv2d", False), ("nn.Linear", True)])
def test_layers_that_another_file_sets_up(tmp_path, kind, fixes):
    train = "import net\nfrom setup_layers import start\nnet.Net().apply(start)\n"
    files = {"net.py": NET, "setup_layers.py": SETUP.format(kind), "train.py": train}
    [found] = check_in(tmp_path, files, "net.py", CODE)
    assert (found.fix is not None) == fixes
    assert ("in setup_layers.py" in found.help) != fixes


# -- a module that ends with the layer ------------------------------------------------------------

UP = """
class Up(nn.Module):
    def __init__(self):
        super(Up, self).__init__()
        self.conv = nn.Conv2d(8, 8, 3)

    def forward(self, x):
        x = self.conv(F.interpolate(x, scale_factor=2))
        return x

"""
TWICE = "self.a = Up()\nself.b = Up()\nself.n = nn.BatchNorm2d(8)\nself.m = nn.InstanceNorm2d(8)"
NORMED = "return self.m(self.b(self.n(self.a(x))))"


def ends(init: str = TWICE, forward: str = NORMED, tail: str = "", up: str = UP) -> str:
    """Return two modules, of which the first ends with a layer."""
    return module(init, forward, tail).replace("class Net", f"{up.strip()}\n\n\nclass Net")


@pytest.mark.parametrize(
    ("source", "count"),
    [
        pytest.param(ends(), 1, id="before norms"),
        pytest.param(ends(forward="return self.b(self.n(self.a(x)))"), 0, id="an output"),
        pytest.param(
            ends(forward="return self.m(F.relu(self.b(self.n(self.a(x)))))"), 0, id="an activation"
        ),
        pytest.param(
            ends(forward="y = self.a(x)\nreturn self.m(self.b(self.n(y))) + y"), 0, id="a skip"
        ),
        pytest.param(ends(tail="up = Up()\n"), 0, id="an instance that nobody calls here"),
        pytest.param(ends(tail="def make():\n    return Up()\n"), 0, id="one is returned"),
        pytest.param(ends(up=UP.replace("return x", "return x, 1")), 0, id="one of two results"),
    ],
)
def test_modules_that_end_with_a_layer(source, count):
    assert len(check(source, CODE)) == count


# -- a norm that an argument decides about --------------------------------------------------------

BLOCK = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()

        def block(n, {param}):
            {first}layers = [nn.Conv2d(n, 8, 3)]
            {test}:
                layers.append(nn.BatchNorm2d(8))
            {then}layers.append(nn.ReLU())
            return layers

        self.layers = nn.Sequential(*block(3, {given}), *block(8))

    def forward(self, x):
        return self.layers(x)
"""


def block(
    test: str = "if norm",
    param: str = "norm=True",
    given: str = "norm=False",
    first: str = "",
    then: str = "",
) -> str:
    """Return a network of blocks, of which not all have a norm."""
    return HEAD + BLOCK.format(test=test, param=param, given=given, first=first, then=then)


@pytest.mark.parametrize(
    ("source", "words", "bias"),
    [
        pytest.param(block(), "where `norm` is True, the bias", "not norm", id="by default"),
        pytest.param(
            block(param="norm=False", given="norm=True"), "True, the bias", "not norm", id="asked"
        ),
        pytest.param(
            block("if not plain", "plain=False", "plain=True"),
            "where `plain` is False, the bias", "plain", id="where it is not so",
        ),
        pytest.param(
            module(
                f"self.conv = {CONV}\nself.bn = {NORM} if norm else nn.Identity()", DIRECT,
                tail="\nnet = Net()\n",
            ),
            "where `norm` is True", "not norm", id="one of two layers",
        ),
    ],
)  # fmt: skip
def test_a_norm_that_an_argument_adds(source, words, bias):
    (finding,) = check(source, CODE)
    assert words in finding.message
    assert f"8, 3, bias={bias})" in fixed(source, CODE)


@pytest.mark.parametrize(
    ("source", "count"),
    [
        pytest.param(block(param="norm=False", given="norm=False"), 0, id="no call asks for it"),
        pytest.param(
            block("layers.append(nn.ReLU())\n            if norm"), 0, id="an activation between"
        ),
        pytest.param(block().replace("8, 3)", "8, 3, bias=not norm)"), 0, id="no bias there"),
        pytest.param(block("if norm and n > 3"), 1, id="another condition as well"),
        pytest.param(block(first="norm = norm and n > 3\n            "), 1, id="bound again"),
    ],
)
def test_norms_of_which_no_argument_decides_alone(source, count):
    found = check(source, CODE)
    assert len(found) == count
    assert all(one.fix is None for one in found)
