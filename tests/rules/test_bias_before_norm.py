"""TL703: a bias that the normalisation after it subtracts again."""

from __future__ import annotations

import pytest
import torch
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


# -- what is left alone -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(chain("nn.Conv2d(3, 8, 3, bias=False)", NORM), id="no bias"),
        pytest.param(chain("nn.Conv2d(3, 8, 3, bias=use_bias)", NORM), id="a variable decides"),
        pytest.param(chain("nn.Conv2d(3, 8, 3, 1, 1, 1, 1, True)", NORM), id="given by position"),
        pytest.param(chain("nn.Conv2d(3, 8, 3, **options)", NORM), id="options are not known"),
        pytest.param(chain("nn.Conv2d(3, 8, 3, **{'bias': True})", NORM), id="in a dictionary"),
        pytest.param(chain(CONV, "nn.GroupNorm(2, 8)"), id="GroupNorm averages over channels"),
        pytest.param(chain("nn.Linear(4, 8)", "nn.LayerNorm(8)"), id="LayerNorm does too"),
        pytest.param(chain(CONV, "nn.ReLU()", NORM), id="an activation between"),
        pytest.param(chain(CONV, "nn.Dropout2d()", NORM), id="dropout between"),
        pytest.param(chain(CONV, "nn.MaxPool2d(2)", NORM), id="pooling between"),
        pytest.param(chain("nn.Linear(4, 8)", "nn.Unflatten(1, (2, 4))", "nn.BatchNorm1d(2)"),
                     id="a reshape between"),
        pytest.param(chain("nn.Conv1d(3, 8, 3)", NORM), id="another rank"),
        pytest.param(chain("nn.Linear(4, 8)", NORM), id="a linear layer before BatchNorm2d"),
        pytest.param(chain("nn.Linear(4, 8)", "nn.BatchNorm1d(16)"),
                     id="another width: the norm runs over positions"),
        pytest.param(chain("nn.Linear(4, 8)", "nn.InstanceNorm1d(8)"),
                     id="a linear layer before InstanceNorm"),
        pytest.param(chain(CONV, "nn.InstanceNorm2d(8, track_running_stats=True)"),
                     id="running statistics"),
        pytest.param(chain(CONV, "nn.InstanceNorm2d(8, track_running_stats=stats)"),
                     id="perhaps running statistics"),
        pytest.param(chain(CONV, f"{NORM} if norm else nn.Identity()"), id="perhaps no norm"),
        pytest.param(chain(CONV, "norm(8)"), id="the norm is not known"),
        pytest.param(chain(CONV, "*rest", NORM), id="something not known between"),
        pytest.param(chain(f"spectral_norm({CONV})", NORM), id="the layer is wrapped"),
        pytest.param(chain("MyConv2d(3, 8, 3)", NORM), id="another class"),
        pytest.param(chain(CONV, NORM, tail="features = model[0](x)\n"), id="layers are picked"),
        pytest.param(chain(CONV, NORM, tail="for layer in model:\n    x = layer(x)\n"),
                     id="layers run one by one"),
        pytest.param(chain(CONV, NORM, tail="h = layer.register_forward_hook(keep)\n"),
                     id="hooks see outputs"),
        pytest.param(chain(CONV, NORM, tail="m = torch.ao.quantization.prepare(model)\n"),
                     id="quantised"),
        pytest.param(chain(CONV, NORM, tail="fuse_conv_and_bn(conv, bn)\n"), id="fused"),
        pytest.param(
            chain(CONV, NORM, tail="""
for m in model.modules():
    if isinstance(m, nn.BatchNorm2d):
        m.eval()
"""), id="norms stay in evaluation mode"),
        pytest.param(
            chain(CONV, NORM, tail="""
for name, p in model.named_parameters():
    if "bn" in name:
        p.requires_grad = False
"""), id="norms are frozen"),
        pytest.param(module(PLAIN, DIRECT, tail="Net().bn.eval()\n"), id="one norm is frozen"),
        pytest.param(module(PLAIN, "y = self.conv(x)\nreturn self.bn(y) + y"), id="used twice"),
        pytest.param(
            module(PLAIN, "y = self.conv(x)\nself.kept = y\nreturn self.bn(y)"), id="kept"
        ),
        pytest.param(module(PLAIN, "return self.bn(F.relu(self.conv(x)))"), id="relu between"),
        pytest.param(
            module(PLAIN, "return self.bn(self.conv(x).flatten(1))"), id="flatten between"
        ),
        pytest.param(
            module(PLAIN, "y = self.conv(x)\nif norm:\n    y = self.bn(y)\nreturn y"),
            id="not always normalised"),
        pytest.param(
            module(PLAIN, "for _ in range(3):\n    x = self.bn(self.conv(x))\nreturn x"),
            id="runs several times"),
        pytest.param(
            module(PLAIN, "y = self.bn(self.conv(x))\nreturn self.bn(self.conv(y))"),
            id="runs at several places"),
        pytest.param(
            module(
                f"{PLAIN}\nself.relu = nn.ReLU()",
                "y = self.bn(self.conv(x))\nreturn self.bn(self.relu(y))",
            ),
            id="a norm whose running mean is of others as well"),
        pytest.param(module(PLAIN, "return checkpoint(self.conv, x)"), id="handed on"),
        pytest.param(
            module(f"self.conv = {CONV}\nself.bn = {NORM} if norm else None", DIRECT),
            id="perhaps no norm in self"),
        pytest.param(module(PLAIN, DIRECT, tail="net = Net()\nnet.bn = nn.Identity()\n"),
                     id="the norm is replaced"),
        pytest.param(module(PLAIN, DIRECT, tail="net = Net()\ny = net.conv(x)\n"),
                     id="the layer is called from outside"),
        pytest.param(
            module(PLAIN, DIRECT, tail="""
class Sub(Net):
    def forward(self, x):
        return F.relu(self.conv(x))
"""), id="a subclass uses it in another way"),
        pytest.param(
            chain(CONV, NORM, tail="def first(x):\n    return model[0](x)\n"),
            id="layers are picked in a function",
        ),
        pytest.param(
            chain(CONV, NORM, tail="def taps(x):\n    return [f(x) for f in model]\n"),
            id="layers run one by one in a function",
        ),
        pytest.param(
            chain(CONV, NORM, tail="def taps(x):\n    return zip(model, model.children())\n"),
            id="layers are listed in a function",
        ),
        pytest.param(
            module(f"self.net = nn.Sequential({CONV}, {NORM})", "return self.net[0](x)"),
            id="only the first layer runs"),
        pytest.param(
            module(f"layers = [{CONV}]\nif norm:\n    layers.append({NORM})\n"
                   "layers.append(nn.ReLU())\nself.net = nn.Sequential(*layers)",
                   "return self.net(x)"),
            id="appended under a condition"),
        pytest.param(
            module(f"self.layers = nn.ModuleList([{CONV}, {NORM}])",
                   "for layer in self.layers:\n    x = layer(x)\nreturn x"),
            id="a ModuleList runs in any order"),
        pytest.param(
            module(f"self.convs = nn.ModuleList([{CONV}])\nself.bns = nn.ModuleList([{NORM}])",
                   "for conv, bn in zip(self.convs, self.bns):\n    x = bn(F.relu(conv(x)))\n"
                   "return x"),
            id="relu between in a loop"),
    ],
)  # fmt: skip
def test_leaves_alone(source):
    silent(source, CODE)


def wrapped(forward: str, init: str = "self.parts = parts") -> str:
    """Return a file with a module that is handed a sequence: its constructor and its forward."""
    lines = "".join(f"        {line}\n" for line in forward.splitlines())
    return (
        f"{HEAD}class Masked(nn.Module):\n    def __init__(self, parts):\n"
        f"        super().__init__()\n        {init}\n\n    def forward(self, x, mask):\n{lines}"
    )


HANDED = f"net = Masked(nn.Sequential({CONV}, {NORM}))\n"
ONE_BY_ONE = "for part in self.parts:\n    x = part(x).masked_fill(mask, 0)\nreturn x"


@pytest.mark.parametrize(
    "forward",
    [
        pytest.param(ONE_BY_ONE, id="one by one, masked in between"),
        pytest.param("return self.parts[1](self.parts[0](x) * mask)", id="by index"),
        pytest.param("for i, f in enumerate(self.parts):\n    x = f(x)\nreturn x", id="counted"),
        pytest.param("for f in self.parts.children():\n    x = f(x)\nreturn x", id="as children"),
    ],
)
def test_leaves_a_sequence_alone_whose_parts_the_module_that_gets_it_runs(tmp_path, forward):
    silent(wrapped(forward) + HANDED, CODE)
    inner = f"{HEAD}parts = nn.Sequential({CONV}, {NORM})\nnet = masked.Masked(parts)\n"
    files = {"masked.py": wrapped(forward), "net.py": f"import masked\n{inner}"}
    assert check_in(tmp_path, files, "net.py", CODE) == [], "it is in another file"


# -- what is reported -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(wrapped("return self.parts(x) * mask"), id="it runs it as a whole"),
        pytest.param(
            wrapped("return self.parts(x)\nfor part in self.parts.modules():\n    reset(part)"),
            id="it only looks for modules",
        ),
        pytest.param(
            wrapped(
                "for f in self.others:\n    x = f(x)\nreturn self.parts(x)",
                "self.parts = parts; self.others = others()",
            ),
            id="it runs others one by one",
        ),
        pytest.param(f"{HEAD}class Masked(Base):\n    pass\n", id="nothing is seen of it"),
    ],
)
def test_in_a_sequence_that_a_module_gets(source):
    [found] = check(source + HANDED, CODE)
    assert "Conv2d" in found.message


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
    "a walrus": (PLAIN, "return self.bn(y := self.conv(x))"),
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


@pytest.mark.parametrize(
    "tail",
    [
        "def train(x):\n    return model.train().to(device)(x)\n",
        "def train(x):\n    run(model, x)\n",
        "run(model)\nnet.head = model\n",
    ],
)
def test_at_the_top_of_a_script(tail):
    [found] = check(chain(CONV, NORM, "nn.ReLU()", tail=tail), CODE)
    assert found.fix is not None


def test_messages_name_the_attribute():
    [found] = check(module(PLAIN, DIRECT), CODE)
    assert "`self.conv`" in found.message
    assert "`nn.BatchNorm2d`" in found.message
    assert "conv.bias" in found.fix.changes


NET = module(PLAIN, DIRECT)
SCRIPT = """
if __name__ == "__main__":
    net = Net()
    net(torch.randn(2, 3, 9, 9)).mean().backward()
"""
TRAINS = "    torch.optim.SGD(net.parameters(), lr=0.1).step()\n"
USES = "from net import Net\nnet = Net()\n"


FREEZES = """
from torch import nn
from net import Net

class Frozen(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = Net()

    def train(self, mode=True):
        super().train(mode)
        for m in self.net.modules():
            if isinstance(m, {kind}):
                m.{what}
"""


@pytest.mark.parametrize(
    ("kind", "what", "found"),
    [
        pytest.param("nn.BatchNorm2d", "eval()", 0, id="keeps norms in evaluation mode"),
        pytest.param("nn.BatchNorm2d", "reset_parameters()", 1, id="no freezing"),
        pytest.param("nn.Conv2d", "eval()", 1, id="other layers"),
    ],
)
def test_norms_that_a_file_freezes_which_uses_the_model(tmp_path, kind, what, found):
    files = {"net.py": NET, "frozen.py": FREEZES.format(kind=kind, what=what)}
    assert len(check_in(tmp_path, files, "net.py", CODE)) == found


PUBLISHED = """
from torch.hub import load_state_dict_from_url

class Other(nn.Module):
    pass

def build():
    model = {made}
    {load}
    return model
"""


@pytest.mark.parametrize(
    ("made", "load", "found"),
    [
        pytest.param("Net()", "model.load_state_dict(load_state_dict_from_url(URL))", 0, id="all"),
        pytest.param(
            "Net()", "state = load_state_dict_from_url(URL)\n    model.load_state_dict(state)", 0,
            id="by name",
        ),
        pytest.param(
            "Net()", "model.load_state_dict(load_state_dict_from_url(URL), strict=False)", 1,
            id="what fits",
        ),
        pytest.param("Net()", "model.load_state_dict(torch.load(path))", 1, id="its own"),
        pytest.param(
            "Other()", "model.load_state_dict(load_state_dict_from_url(URL))", 1,
            id="another model",
        ),
    ],
)  # fmt: skip
def test_a_bias_that_weights_from_the_web_have(made, load, found):
    assert len(check(NET + PUBLISHED.format(made=made, load=load), CODE)) == found


WHOLE = """
class Whole(nn.Module):
    def __init__(self, block):
        super().__init__()
        self.body = {made}
"""


@pytest.mark.parametrize(
    ("made", "given", "found"),
    [
        pytest.param("block()", "Net", 0, id="given"),
        pytest.param("Net()", "Other", 0, id="made there"),
        pytest.param("block()", "Other", 1, id="another part"),
    ],
)
def test_a_bias_of_a_part_that_weights_from_the_web_have(made, given, found):
    load = "model.load_state_dict(load_state_dict_from_url(URL))"
    source = NET + WHOLE.format(made=made) + PUBLISHED.format(made=f"Whole({given})", load=load)
    assert len(check(source, CODE)) == found


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ("nn.init.normal_(m.weight)", "`m.bias is not None` decides how the weights are drawn"),
        ("pass", ""),
    ],
)
def test_weights_that_are_drawn_by_whether_there_is_a_bias(other, said):
    tail = (
        "def start(m):\n    if m.bias is not None:\n        nn.init.xavier_uniform_(m.weight)\n"
        f"    else:\n        {other}\n"
    )
    [found] = check(module(PLAIN, DIRECT, tail=tail), CODE)
    assert said in found.help
    assert (found.fix is None) == bool(said)


@pytest.mark.parametrize(
    ("tail", "said"),
    [
        ("w = weights[f'conv{i}.0.bias']\n", "asks for a bias by its name"),
        ('w = weights["conv.bias"]\n', "asks for a bias by its name"),
        ("weights['conv.bias'] = w\n", ""),
        ("w = weights['conv.weight']\n", ""),
        ("w = weights.get('conv.bias')\n", ""),
    ],
)
def test_a_bias_that_is_asked_for_by_its_name(tail, said):
    [found] = check(module(PLAIN, DIRECT, tail=tail), CODE)
    assert said in found.help
    assert (found.fix is None) == bool(said)


@pytest.mark.parametrize(
    ("files", "name"),
    [
        pytest.param({"net.py": NET + SCRIPT}, "net.py", id="a script that tries a model out"),
        pytest.param({"test_net.py": "import pytest\n" + NET}, "test_net.py", id="a test"),
    ],
)
def test_silent_where_nothing_is_trained(tmp_path, files, name):
    assert check_in(tmp_path, files, name, CODE) == []


@pytest.mark.parametrize(
    "files",
    [
        pytest.param({"net.py": NET}, id="a model that others may train"),
        pytest.param({"net.py": NET + SCRIPT + TRAINS}, id="trains"),
        pytest.param({"net.py": NET + SCRIPT + "    net.cuda()\n"}, id="names a GPU"),
        pytest.param({"net.py": NET + SCRIPT, "train.py": USES}, id="used elsewhere"),
    ],
)
def test_reported_where_it_may_be_trained(tmp_path, files):
    [found] = check_in(tmp_path, files, "net.py", CODE)
    assert found.fix is not None


EVALUATES = f"""{HEAD}
def build(path):
    net = nn.Sequential({CONV}, {NORM})
    net.load_state_dict(torch.load(path))
    return net.cuda()

def main():
    net = build("net.pt")
    net.eval()
    print(net(torch.zeros(2, 3, 9, 9).cuda()))

if __name__ == "__main__":
    main()
"""


LEFT_OVER = """    opt = torch.optim.Adam(net.parameters())
    plan = torch.optim.lr_scheduler.StepLR(opt, 9)
"""


def test_silent_where_an_optimizer_is_left_over_from_the_script_that_trains(tmp_path):
    """Few-shot tests do without `eval()` as well: what is loaded has the bias all the same."""
    source = EVALUATES.replace("    net.eval()\n", LEFT_OVER)
    assert check_in(tmp_path, {"score.py": source}, "score.py", CODE) == []


@pytest.mark.parametrize("use", ["opt.step()", "run(net, opt)", "run(net, optimizer=opt)"])
def test_reported_where_an_optimizer_may_step(tmp_path, use):
    source = EVALUATES.replace("    net.eval()\n", f"{LEFT_OVER}    {use}\n")
    [_] = check_in(tmp_path, {"score.py": source}, "score.py", CODE)


@pytest.mark.parametrize(
    "others",
    [
        pytest.param({}, id="alone"),
        pytest.param({"show.py": "from score import build\nbuild('net.pt').eval()\n"},
                     id="another that only evaluates"),
        pytest.param({"train.py": "from score import main\n\ndef build():\n    pass\n\n"
                                  "loss.backward()\nmain()\n"},
                     id="what trains takes nothing but the evaluation"),
    ],
)  # fmt: skip
def test_silent_in_scripts_that_evaluate_what_was_trained_with_the_bias(tmp_path, others):
    """There the norm subtracts the mean that it has stored, which the bias is part of."""
    assert check_in(tmp_path, {"score.py": EVALUATES, **others}, "score.py", CODE) == []


NET = f"""{HEAD}
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential({CONV}, {NORM})

    def forward(self, x):
        return self.layers(x.cuda())
"""
SHOWS = """\
import torch
from {module} import Net

if __name__ == "__main__":
    net = Net()
    net.load_state_dict(torch.load("net.pt"))
    net.eval()
"""
LIBRARY = """from torch.hub import load_state_dict_from_url
from net import Net

def make():
    net = Net()
    net.load_state_dict(load_state_dict_from_url(URL))
    return net.eval()
"""


@pytest.mark.parametrize(
    "files",
    [
        pytest.param({"test.py": SHOWS.format(module="net")}, id="imported"),
        pytest.param({"api.py": LIBRARY}, id="from the web"),
        pytest.param(
            {"test.py": SHOWS.format(module="parts"), "parts.py": "from net import Net\n"},
            id="by way of another file",
        ),
    ],
)
def test_silent_where_nothing_trains_what_a_script_evaluates(tmp_path, files):
    assert check_in(tmp_path, {"net.py": NET, **files}, "net.py", CODE) == []


@pytest.mark.parametrize(
    "files",
    [
        pytest.param({}, id="nobody evaluates it"),
        pytest.param(
            {"test.py": SHOWS.format(module="net"), "train.py": "loss.backward()\n"},
            id="a file trains",
        ),
        pytest.param(
            {
                "test.py": SHOWS.format(module="net"),
                "train.ipynb": '{"source": ["loss.backward()"]}',
            },
            id="a notebook trains",
        ),
        pytest.param(
            {"test.py": SHOWS.format(module="net").replace("load_state_dict", "apply")},
            id="nothing is loaded",
        ),
        pytest.param(
            {"api.py": LIBRARY.replace("load_state_dict_from_url", "torch_load")},
            id="from a file of whoever uses it",
        ),
    ],
)
def test_reported_where_what_a_script_evaluates_may_be_trained(tmp_path, files):
    [_] = check_in(tmp_path, {"net.py": NET, **files}, "net.py", CODE)


@pytest.mark.parametrize(
    ("source", "others"),
    [
        pytest.param(EVALUATES, {"train.py": "from score import build\nloss.backward()\n"},
                     id="imported by what trains"),
        pytest.param(EVALUATES, {"train.py": "import score\nscore.build(0)\nloss.backward()\n"},
                     id="by the name of the module"),
        pytest.param(EVALUATES, {"train.py": "from score import *\nloss.backward()\n"},
                     id="with all else"),
        pytest.param(EVALUATES + "    optimizer.step()\n", {}, id="trains as well"),
        pytest.param(EVALUATES.partition("if __name__")[0], {}, id="no script"),
        pytest.param(EVALUATES.replace("    net.eval()\n", ""), {}, id="does not say so"),
        pytest.param(EVALUATES.replace("net.load_state_dict", "print"), {}, id="loads nothing"),
    ],
)  # fmt: skip
def test_reported_where_others_may_train_what_a_script_builds(tmp_path, source, others):
    [_] = check_in(tmp_path, {"score.py": source, **others}, "score.py", CODE)


LOSS = """
from net import {name}

class Loss(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = {name}()
        {lines}
"""
LOADS, HOLDS = "self.net.load_state_dict(torch.load(path))", "self.net.eval()"
FACTORY = "def make():\n    net = Net()\n    return net\n\ndef other():\n    return Net()\n"


@pytest.mark.parametrize(
    ("more", "name", "lines", "found"),
    [
        pytest.param("", "Net", f"{LOADS}; {HOLDS}", 0, id="the network of a loss"),
        pytest.param(FACTORY, "make", f"{LOADS}; {HOLDS}", 0, id="that a function makes"),
        pytest.param("", "Net", LOADS, 1, id="which is not held"),
        pytest.param("", "Net", HOLDS, 1, id="without weights"),
        pytest.param("", "Net", f"{LOADS}; {HOLDS}; self.net.train()", 1, id="trained later"),
        pytest.param(
            f"{FACTORY}net = Net()\n", "Net", f"{LOADS}; {HOLDS}", 1, id="made elsewhere, too"
        ),
        pytest.param("kinds = [Net]\n", "Net", f"{LOADS}; {HOLDS}", 1, id="handed on"),
    ],
)
def test_a_model_that_is_only_made_to_evaluate_it(tmp_path, more, name, lines, found):
    loss = LOSS.format(name=name, lines=lines)
    train = "from loss import Loss\nif __name__ == '__main__':\n    Loss()(x).backward()\n"
    files = {"requirements.txt": "torch", "net.py": NET + more, "loss.py": loss, "train.py": train}
    assert len(check_in(tmp_path, files, "net.py", CODE)) == found


# -- what the fix writes ----------------------------------------------------------------------


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


def test_never_safe():
    source = chain(CONV, NORM)
    assert fixed(source, CODE, unsafe=False, settles=False) == source


INIT = """
for m in model.modules():
    if isinstance(m, {kind}):
        {body}
"""


@pytest.mark.parametrize(
    "tail",
    [
        pytest.param(INIT.format(kind="nn.Conv2d", body="m.bias.data.zero_()"), id="zeroed"),
        pytest.param(INIT.format(kind="nn.Conv2d", body="nn.init.zeros_(m.bias)"), id="nn.init"),
        pytest.param(
            INIT.format(kind="(nn.Conv2d, nn.Linear)", body="m.bias.data.fill_(0)"), id="a tuple"
        ),
        pytest.param(
            "for m in model.modules():\n"
            "    if 'Conv' in type(m).__name__:\n        m.bias.zero_()\n",
            id="by the name of the class",
        ),
        pytest.param(
            "for m in model.modules():\n    if hasattr(m, 'bias'):\n        m.bias.data.zero_()\n",
            id="hasattr says nothing of None",
        ),
    ],
)
def test_no_fix_where_the_layers_are_set_up_with_their_biases(tail):
    """Without one the script fails as it starts."""
    [found] = check(chain("nn.ReLU()", CONV, NORM, tail=tail), CODE)
    assert found.fix is None
    assert found.severity is Severity.INFO
    assert found.help == (
        "Not fixed, since this file uses `m.bias` without a check for None: add one there first."
    )


SETUP = """
from torch import nn

def start(m):
    if isinstance(m, {kind}):
        nn.init.zeros_(m.bias)
"""
APPLIED = "import net\nfrom setup_layers import start\n"
SETS_ITSELF = """
for m in self.modules():
    if isinstance(m, nn.Conv2d):
        m.bias.data.zero_()
"""


@pytest.mark.parametrize(
    ("train", "kind", "fails"),
    [
        pytest.param(APPLIED + "net.Net().apply(start)\n", "nn.Conv2d", True, id="applied"),
        pytest.param(
            "import net\nimport setup_layers as s\nmodel = net.Net()\nmodel.to(0).apply(s.start)\n",
            "(nn.Conv2d, nn.Linear)", True, id="by its module",
        ),
        pytest.param(
            APPLIED + "for m in net.Net().modules():\n    start(m)\n", "nn.Conv2d", True,
            id="in a loop",
        ),
        pytest.param(
            APPLIED + "from torch import nn\n\nclass Whole(nn.Module):\n    def __init__(self):\n"
            "        super().__init__()\n        self.net = net.Net()\n        self.apply(start)\n",
            "nn.Conv2d", True, id="by what holds the model",
        ),
        pytest.param(
            APPLIED + "def build(model):\n    model.apply(start)\n\nbuild(net.Net())\n",
            "nn.Conv2d", True, id="passed on",
        ),
        pytest.param(APPLIED + "net.Net()\n", "nn.Conv2d", False, id="never applied"),
        pytest.param(APPLIED + "net.Net().apply(start)\n", "nn.Linear", False, id="of others"),
        pytest.param(
            APPLIED + "net.Net().apply(start)\n", "nn.Conv2d) and (m.bias is not None", False,
            id="checked",
        ),
        pytest.param(
            "from setup_layers import start\nhead().apply(start)\n", "nn.Conv2d", False,
            id="applied to models that do not come from the file",
        ),
        pytest.param(
            APPLIED + "from torch import nn\nhead = nn.Conv2d(3, 8, 1)\nhead.apply(start)\n",
            "nn.Conv2d", False, id="applied to another layer",
        ),
        pytest.param(
            APPLIED + "net.Other().apply(start)\n", "nn.Conv2d", False,
            id="applied to another model of the file",
        ),
        pytest.param(
            APPLIED + "def build(model):\n    model.apply(start)\n\nbuild(net.Other())\n",
            "nn.Conv2d", False, id="another passed on",
        ),
        pytest.param(
            APPLIED + "first = net.Net().conv\nstart(first)\n", "nn.Conv2d", False,
            id="called for one layer",
        ),
    ],
)  # fmt: skip
def test_layers_that_another_file_sets_up(tmp_path, train, kind, fails):
    other = "\nclass Other(nn.Module):\n    pass\n"
    files = {"net.py": NET + other, "setup_layers.py": SETUP.format(kind=kind), "train.py": train}
    [found] = check_in(tmp_path, files, "net.py", CODE)
    wanted = "Not fixed, since `start` in setup_layers.py uses `m.bias` without a check for None"
    assert found.help.startswith(wanted) == fails
    assert found.fix is None or not fails


@pytest.mark.parametrize(
    ("source", "fails"),
    [
        pytest.param(module(PLAIN + SETS_ITSELF, DIRECT), True, id="in its own constructor"),
        pytest.param(
            module(PLAIN, DIRECT) + SETUP + "\nclass Head(nn.Module):\n    def __init__(self):\n"
            "        self.apply(start)\n", False, id="of another class",
        ),
        pytest.param(
            module(PLAIN, DIRECT, bases="Base") + SETUP + "\nclass Base(nn.Module):\n"
            "    def __init__(self):\n        self.apply(start)\n", True, id="of its base",
        ),
        pytest.param(
            module(PLAIN, DIRECT) + SETUP + "\nclass Whole(nn.Module):\n    def __init__(self):\n"
            "        self.net = Net()\n        self.net.apply(start)\n", True,
            id="of what holds it",
        ),
        pytest.param(
            NET + "def make(gain):\n    def start(m):\n        if isinstance(m, nn.Conv2d):\n"
            "            m.bias.data.zero_()\n    return start\n\nNet().apply(make(3))\n", True,
            id="a function that another makes",
        ),
        pytest.param(
            NET + SETUP + "class Head(nn.Module):\n    pass\n\nHead().apply(start)\n", False,
            id="called on another class",
        ),
        pytest.param(
            NET + SETUP + "from functools import partial\nNet().apply(partial(start))\n", True,
            id="a partial function",
        ),
    ],
)  # fmt: skip
def test_layers_that_the_file_itself_sets_up(source, fails):
    [found] = check(source.replace("{kind}", "nn.Conv2d"), CODE)
    assert ("uses `m.bias` without" in found.help) == fails
    assert found.fix is None


def test_a_model_that_another_file_is_told_to_set_up(tmp_path):
    setup = SETUP.format(kind="nn.Conv2d") + "\ndef begin(model):\n    model.apply(start)\n"
    train = "import net\nfrom setup_layers import begin\nbegin(net.{model}())\n"
    net = NET + "\nclass Other(nn.Module):\n    pass\n"
    for model, fails in ("Net", True), ("Other", False):
        files = {"net.py": net, "setup_layers.py": setup, "train.py": train.format(model=model)}
        files["more.py"] = "from setup_layers import begin\nbegin(head())\n"
        [found] = check_in(tmp_path, files, "net.py", CODE)
        assert ("`start` in setup_layers.py" in found.help) == fails


@pytest.mark.parametrize(
    ("named", "applied", "fails"),
    [
        pytest.param("args.model", "model.apply(start)", True, id="any file"),
        pytest.param("args.model", "model = model.apply(start)", True, id="what it gives back"),
        pytest.param("args.model", "head().apply(start)", False, id="another model"),
        pytest.param("'heads'", "model.apply(start)", False, id="a file that is named"),
    ],
)
def test_a_model_of_a_file_that_is_imported_by_its_name(tmp_path, named, applied, fails):
    train = (
        f"import importlib\n{SETUP.format(kind='nn.Conv2d')}\ndef main(args):\n"
        f"    found = importlib.import_module({named})\n    model = found.build(3).cuda()\n"
        f"    {applied}\n"
    )
    [found] = check_in(tmp_path, {"net.py": NET, "train.py": train}, "net.py", CODE)
    wanted = "Not fixed, since `start` in train.py uses `m.bias` without a check for None"
    assert found.help.startswith(wanted) == fails
    assert (found.fix is None) == fails


def test_models_of_a_file_that_has_nothing_to_do_with_it(tmp_path):
    net = "from setup_layers import size\n" + NET
    train = "from setup_layers import start\nhead().apply(start)\n"
    files = {
        "net.py": net,
        "setup_layers.py": SETUP.format(kind="nn.Conv2d") + "size = 3\n",
        "train.py": train,
    }
    [found] = check_in(tmp_path, files, "net.py", CODE)
    assert found.fix is not None


def test_layers_that_a_base_in_another_file_sets_up(tmp_path):
    base = SETUP.format(kind="nn.Conv2d") + (
        "\nclass Base(nn.Module):\n    def begin(self):\n        self.apply(start)\n"
    )
    files = {
        "base.py": base,
        "net.py": "from base import Base\n" + module(PLAIN, DIRECT, bases="Base"),
    }
    [found] = check_in(tmp_path, files, "net.py", CODE)
    assert "`start` in base.py" in found.help


STAYS = """
    def train(self, mode=True):
        {body}
"""
HOLDER = """
class Whole(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = Net()
"""


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("return super().train(False)", id="always in evaluation mode"),
        pytest.param("super().train(mode=False)\n        return self", id="by keyword"),
        pytest.param("return super(Net, self).train(False)", id="the old super"),
        pytest.param("return super().eval()", id="eval"),
    ],
)
def test_silent_where_a_model_is_never_in_training_mode(tmp_path, body):
    """The norm subtracts a mean that it has stored, which the bias is no part of."""
    stays = STAYS.format(body=body)
    silent(NET + stays, CODE)
    silent(NET + HOLDER + stays, CODE)
    base = f"{HEAD}class Base(nn.Module):\n{stays}"
    files = {
        "base.py": base,
        "net.py": "from base import Base\n" + module(PLAIN, DIRECT, bases="Base"),
    }
    assert check_in(tmp_path, files, "net.py", CODE) == []


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(NET + STAYS.format(body="return super().train(mode)"), id="passed on"),
        pytest.param(
            NET + STAYS.format(body="super().train(mode)\n        super().train(False)"),
            id="passed on first",
        ),
        pytest.param(
            NET + STAYS.format(body="if self.done:\n            super().train(False)"),
            id="at times",
        ),
        pytest.param(NET + STAYS.format(body="self.head.train(False)"), id="of a part"),
        pytest.param(NET + "    def train(self, data):\n        fit(data)\n", id="another train"),
        pytest.param(NET + "    def train(self):\n        super().eval()\n", id="takes no mode"),
        pytest.param(NET + "    def train(*args):\n        fit(args)\n", id="no parameter"),
        pytest.param(
            NET + "class Other(nn.Module):" + STAYS.format(body="super().train(False)"),
            id="of another model",
        ),
        pytest.param(
            NET + HOLDER + STAYS.format(body="super().train(False)") + "net = Net()\n",
            id="made elsewhere too",
        ),
        pytest.param(
            NET + HOLDER + STAYS.format(body="super().train(False)") + "def f():\n    g(Net())\n",
            id="made in a function too",
        ),
    ],
)  # fmt: skip
def test_reported_where_a_model_may_be_trained(source):
    [_] = check(source, CODE)


def test_reported_where_another_file_makes_what_a_model_holds(tmp_path):
    net = NET + HOLDER + STAYS.format(body="super().train(False)")
    files = {"net.py": net, "train.py": "from net import Net\nNet()\n"}
    [_] = check_in(tmp_path, files, "net.py", CODE)


@pytest.mark.parametrize(
    "tail",
    [
        pytest.param(
            "for m in other.parts():\n    m.bias.data.zero_()\n", id="of what is not known"
        ),
        pytest.param("model[3].bias.data.zero_()\n", id="by place"),
        pytest.param(
            "from weights import start\nmodel.apply(start)\n", id="a function of another file"
        ),
        pytest.param(
            "from weights import init_weights\ninit_weights(model)\n", id="called in another file"
        ),
    ],
)
def test_no_fix_where_biases_are_used(tail):
    [found] = check(chain("nn.ReLU()", CONV, NORM, tail=tail.replace("model[3]", "other[3]")), CODE)
    assert found.fix is None
    assert "Not fixed, since" in found.help


@pytest.mark.parametrize(
    "tail",
    [
        pytest.param(
            INIT.format(
                kind="nn.Conv2d", body="if m.bias is not None:\n            m.bias.zero_()"
            ),
            id="checked",
        ),
        pytest.param(INIT.format(kind="nn.BatchNorm2d", body="m.bias.data.zero_()"), id="of norms"),
        pytest.param(INIT.format(kind="nn.Linear", body="m.bias.data.zero_()"), id="of others"),
        pytest.param(
            "for m in model.modules():\n"
            "    if m.__class__.__name__.find('Conv') != -1:\n"
            "        m.weight.data.zero_()\n"
            "    elif m.__class__.__name__.find('BatchNorm2d') != -1:\n"
            "        m.bias.data.zero_()\n",
            id="of norms, by name",
        ),
        pytest.param("head = nn.Linear(3, 3)\nhead.bias.data.zero_()\n", id="of a known layer"),
        pytest.param("other.fc.bias.data.zero_()\n", id="of another attribute"),
        pytest.param("for m in model.modules():\n    m.bias = None\n", id="only set"),
        pytest.param(
            "def start(m):\n    pass\nmodel.apply(start)\nmodel.apply(lambda m: None)\n",
            id="a function of this file",
        ),
        pytest.param("model.apply(nn.init.normal_)\n", id="a function of torch"),
        pytest.param("nn.init.zeros_(model)\n", id="an initialiser of torch"),
    ],
)
def test_fixed_where_this_bias_is_not_used(tail):
    [found] = check(chain(CONV, NORM, tail=tail), CODE)
    assert found.fix is not None


def test_the_bias_of_the_attribute_itself():
    used = "        self.conv.bias.data.zero_()"
    source = module(f"{PLAIN}\n{used.strip()}", DIRECT)
    [found] = check(source, CODE)
    assert found.fix is None
    assert "`self.conv.bias`" in found.help


@pytest.mark.parametrize(
    "tail",
    [
        pytest.param("net = Net()\nnet.load_state_dict(torch.load(path))\n", id="in one line"),
        pytest.param("nets[0].load_state_dict(saved)\n", id="of a list"),
        pytest.param("build().load_state_dict(saved)\n", id="of what is called"),
        pytest.param("self.load_state_dict(saved, strict=False)\n", id="of itself"),
        pytest.param("net = Net.load_from_checkpoint(path)\n", id="by Lightning"),
        pytest.param(
            "def tiny(pretrained=False):\n    return build_model(Net, 'tiny', pretrained)\n",
            id="by a builder of another file",
        ),
        pytest.param("from transformers import PreTrainedModel\n", id="by a library"),
    ],
)
def test_no_fix_where_weights_are_loaded(tail):
    [found] = check(module(PLAIN, DIRECT, tail=tail), CODE)
    assert found.fix is None
    assert "this file loads weights" in found.help


@pytest.mark.parametrize(
    "tail",
    [
        "opt = torch.optim.SGD(Net().parameters())\nopt.load_state_dict(saved)\n",
        "def f(self):\n    self.optimizers['a'].load_state_dict(saved)\n",
        "scheduler.load_state_dict(saved)\nscaler.load_state_dict(saved)\n",
        "class Mean:\n    def load_state_dict(self, saved):\n        pass\n",
    ],
    ids=["opt", "optimizers", "a scheduler and a scaler", "a definition"],
)
def test_fixed_where_only_the_state_of_training_is_loaded(tail):
    [found] = check(module(PLAIN, DIRECT, tail=tail), CODE)
    assert found.fix is not None


@pytest.mark.parametrize(
    ("user", "fixes"),
    [
        pytest.param("net.load_state_dict(torch.load(path))", False, id="by name"),
        pytest.param("net.load_state_dict(torch.load(path), strict=False)", False, id="in part"),
        pytest.param("load_checkpoint(net, path)", False, id="by a function"),
        pytest.param("net = AutoModel.from_pretrained(path)", False, id="published"),
        pytest.param("net = Net()", True, id="nothing"),
        pytest.param("optimizer.load_state_dict(torch.load(path))", True, id="an optimizer"),
    ],
)
def test_no_fix_where_any_file_of_the_project_loads_weights(tmp_path, user, fixes):
    files = {"model.py": module(PLAIN, DIRECT), "use.py": user + "\n"}
    [found] = check_in(tmp_path, files, "model.py", CODE)
    assert (found.fix is not None) is fixes
    assert ("`use.py`" in found.help) is not fixes


FLATTEN = """
class Flatten(nn.Module):
    def forward(self, x):
        return x.view(x.size(0), -1)

class Squeeze(nn.Module):
    def forward(self, x):
        return x.squeeze()
"""
PARTS = "self.fc = nn.Linear(4, 8)\nself.drop = nn.Dropout()\nself.bn = nn.BatchNorm1d(8)"


@pytest.mark.parametrize(
    ("source", "rows"),
    [
        pytest.param(
            chain("nn.Flatten()", "nn.Linear(4, 8)", "nn.BatchNorm1d(8)"), True, id="flat"
        ),
        pytest.param(
            chain("nn.Flatten()", "nn.Dropout()", "nn.Linear(4, 8)", "nn.BatchNorm1d(8)"),
            True,
            id="flat, then dropped",
        ),
        pytest.param(
            chain("nn.Flatten(0, 1)", "nn.Linear(4, 8)", "nn.BatchNorm1d(8)"), False, id="in part"
        ),
        pytest.param(
            chain("Flatten()", "nn.Linear(4, 8)", "nn.BatchNorm1d(8)", tail=FLATTEN),
            True,
            id="by a class of the file",
        ),
        pytest.param(
            chain("Squeeze()", "nn.Linear(4, 8)", "nn.BatchNorm1d(8)", tail=FLATTEN),
            False,
            id="by a class that does something else",
        ),
        pytest.param(
            chain("build()", "nn.Linear(4, 8)", "nn.BatchNorm1d(8)"),
            False,
            id="after what is built",
        ),
        pytest.param(chain("nn.Linear(4, 8)", "nn.BatchNorm1d(8)"), False, id="nothing before it"),
        *(
            pytest.param(
                module(
                    PARTS,
                    f"{line}\nreturn self.bn(self.fc(x))",
                ),
                rows,
                id=line,
            )
            for line, rows in (
                ("x = x.view(x.size(0), -1)", True),
                ("x = x.reshape(len(x), 4)", True),
                ("x = x.flatten(1)", True),
                ("x = torch.flatten(x, start_dim=1)", True),
                ("x = self.drop(x.view(-1, 4))", True),
                ("x = F.dropout(x.view(-1, 4))", True),
                ("x = x.view(2, 3, -1)", False),
                ("x = torch.flatten(x, 2)", False),
                ("x = x * 2", False),
                ("x, _ = x.view(-1, 4), 0", False),
            )
        ),
    ],
)
def test_the_shape_is_no_condition_where_the_input_is_flattened(source, rows):
    [found] = check(source, CODE)
    assert ("(N, C)" in found.message) is not rows


# -- trap 6: where the bias does matter, and what goes with it --------------------------------


def difference(layers, shape, *, training=True) -> float:
    """How far the bias of the first layer moves the output of the second."""
    torch.manual_seed(0)
    first, norm = layers
    norm.train(training)
    x = torch.randn(shape)
    with torch.no_grad():
        first.bias.fill_(3.0)
        with_bias = norm(first(x))
        first.bias.zero_()
        return (with_bias - norm(first(x))).abs().max().item()


def test_the_bias_matters_only_where_the_rule_is_silent():
    conv, norm = torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8)
    assert difference((conv, norm), (4, 3, 9, 9)) < 1e-5
    assert difference((conv, norm), (4, 3, 9, 9), training=False) > 0.1, "a frozen norm"
    linear = torch.nn.Linear(3, 8)
    assert difference((linear, torch.nn.BatchNorm1d(8)), (16, 3)) < 1e-5
    assert difference((conv, torch.nn.InstanceNorm2d(8)), (4, 3, 9, 9)) < 1e-5


def test_other_norms_do_not_subtract_it():
    torch.manual_seed(0)
    conv = torch.nn.Conv2d(3, 8, 3)
    x = torch.randn(4, 3, 9, 9)
    for norm in (torch.nn.GroupNorm(2, 8), torch.nn.LayerNorm((8, 7, 7))):
        with torch.no_grad():
            before = norm(conv(x))
            conv.bias[0] += 3.0
            assert (norm(conv(x)) - before).abs().max() > 0.1


BUILT = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, width, dims=None):
        super().__init__()
        self.first = nn.Conv2d(3, width, 1)
        self.fc = self.head(dims, width)

    def head(self, dims, width):
        if dims is None:
            return None
        layers = []
        for dim in dims:
            layers.append(nn.Linear(width, dim))
            layers.append(nn.BatchNorm1d(dim))
        return nn.Sequential(*layers)

model = Net({}).cuda()
"""


@pytest.mark.parametrize(
    ("given", "found"),
    [
        pytest.param("8, None", 0, id="never made"),
        pytest.param("8, dims=None", 0, id="never made, by name"),
        pytest.param("8, [16]", 1, id="made"),
        pytest.param("8, dims", 1, id="made, perhaps"),
        pytest.param("**options", 1, id="not seen"),
    ],
)
def test_a_layer_that_no_call_asks_for(given, found):
    assert len(check(BUILT.format(given), CODE)) == found


SPARE = f"self.spare = nn.Sequential({CONV}, nn.ReLU(), nn.Conv2d(8, 8, 3), {NORM})"


@pytest.mark.parametrize(
    ("init", "forward", "other", "found"),
    [
        pytest.param(SPARE, "return x", "", 0, id="never read"),
        pytest.param(f"if norm:\n    {SPARE}\nelse:\n    {SPARE}", "return x", "", 0, id="twice"),
        pytest.param(SPARE, "return x", "spared = self.sparer", 0, id="another word"),
        pytest.param(SPARE.replace("spare", "alone"), "return x", "", 0, id="under another name"),
        pytest.param(SPARE, "return self.spare(x)", "", 1, id="runs"),
        pytest.param(SPARE, "return getattr(self, f'{x}')(x)", "", 1, id="by its name as a text"),
        pytest.param(SPARE, "return nn.Sequential(*self.children())(x)", "", 1, id="by its place"),
        pytest.param(SPARE, "return x", "y = Net().spare(x)", 1, id="runs elsewhere"),
        pytest.param(SPARE, "return x", "import net\nlist(net.Net().children())", 1,
                     id="taken apart elsewhere"),
        pytest.param(f"{SPARE}(image)", "return x", "", 1, id="runs as it is made"),
        pytest.param(SPARE.replace("nn.Sequential(", "run(nn.Sequential(") + ")", "return x", "", 1,
                     id="given to a function"),
    ],
)  # fmt: skip
def test_a_layer_that_nothing_reads(tmp_path, init, forward, other, found):
    files = {"net.py": module(init, forward, tail="optimizer = 0\n"), "other.py": other}
    assert len(check_in(tmp_path, files, "net.py", CODE)) == found


def test_a_layer_that_a_base_class_may_run():
    """Of a class whose base is not torch's own: it may run all of its children."""
    assert check(module(SPARE, "return x", bases="Parallel", tail="optimizer = 0\n"), CODE)


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


def test_a_layer_that_ends_a_module_before_norms() -> None:
    (finding,) = check(ends(), CODE)
    assert "`self.conv`" in finding.message
    assert "nn.Conv2d(8, 8, 3, bias=False)" in fixed(ends(), CODE, unsafe=True)


def test_a_layer_that_ends_a_module_that_ends_a_module() -> None:
    both = UP + UP.replace("class Up", "class Outer").replace("super(Up", "super(Outer").replace(
        "nn.Conv2d(8, 8, 3)", "Up()"
    )
    (finding,) = check(ends(TWICE.replace("Up()", "Outer()"), up=both), CODE)
    assert "`self.conv`" in finding.message


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(ends(forward="return self.b(self.n(self.a(x)))"), id="an output of the model"),
        pytest.param(
            ends(forward="return self.m(F.relu(self.b(self.n(self.a(x)))))"), id="an activation"
        ),
        pytest.param(
            ends(forward="y = self.a(x)\nreturn self.m(self.b(self.n(y))) + y"), id="a skip"
        ),
        pytest.param(ends(tail="up = Up()\n"), id="an instance that nobody calls here"),
        pytest.param(ends(tail="ups = make(Up)\n"), id="a class that is handed on"),
        pytest.param(
            ends(tail="class Again(Up):\n    pass\n\nagain = Again()\n"), id="it is extended"
        ),
        pytest.param(ends(tail="def make():\n    return Up()\n"), id="an instance is returned"),
        pytest.param(
            ends(up=UP.replace("return x", "return x, 1")), id="one of several results"
        ),
        pytest.param(ends(TWICE.replace("Up()", "nn.DataParallel(Up())")), id="it is wrapped"),
        pytest.param(
            ends(forward="for _ in range(2):\n    x = self.m(self.b(self.n(self.a(x))))\nreturn x"),
            id="a loop",
        ),
    ],
)  # fmt: skip
def test_modules_that_end_with_a_layer_elsewhere(source: str) -> None:
    silent(source, CODE)


@pytest.mark.parametrize(("used", "count"), [("Net", 1), ("Up", 0)])
def test_a_module_that_another_file_uses(tmp_path, used, count):
    files = {"net.py": ends(), "main.py": f"from net import {used}\n\nmodel = {used}()\n"}
    assert len(check_in(tmp_path, files, "net.py", CODE)) == count


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
    "source",
    [
        pytest.param(block(param="norm=False", given="norm=False"), id="no call asks for it"),
        pytest.param(block(param="norm=args.norm", given="norm=args.n"), id="not in so many words"),
        pytest.param(block(first="norm = norm and n > 3\n            "), id="a name bound again"),
        pytest.param(block("if norm and n > 3"), id="another condition as well"),
        pytest.param(
            block("layers.append(nn.ReLU())\n            if norm"), id="an activation between"
        ),
        pytest.param(
            block(
                then="if not norm:\n                layers.append(nn.BatchNorm2d(8))\n            "
            ),
            id="a norm either way, which is no choice",
        ),
        pytest.param(block().replace("8, 3)", "8, 3, bias=not norm)"), id="no bias there"),
        pytest.param(
            module(
                f"self.bn = {NORM} if norm else nn.Identity()\nnorm = norm + 1\nself.conv = {CONV}",
                DIRECT,
                tail="\nnet = Net()\n",
            ),
            id="a name bound again in between",
        ),
    ],
)
def test_norms_of_which_no_argument_decides_alone(source):
    silent(source, CODE)


HELPER = """
def stack(sizes, norm=False):
    layers = []
    for size in sizes:
        conv = nn.Conv2d(3, size, 3)
        if norm:
            layers += [conv, nn.BatchNorm2d(size)]
        else:
            layers += [conv, nn.ReLU()]
    return nn.Sequential(*layers, nn.Flatten())

class Other(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.layers = layers

net = Other(stack([3, 3], norm=True))
"""


@pytest.mark.parametrize(
    ("load", "found"),
    [
        ("model.load_state_dict(load_state_dict_from_url(URL))", 0),
        ("model.load_state_dict(torch.load(path))", 1),
    ],
)
def test_a_bias_of_a_function_that_weights_from_the_web_have(load, found):
    loads = PUBLISHED.format(made="Other(stack([3], norm=True))", load=load)
    source = HEAD + HELPER + loads.replace("class Other(nn.Module):\n    pass\n", "")
    assert len(check(source, CODE)) == found
