"""Which layer feeds which."""

from __future__ import annotations

import textwrap

import pytest

from torchlint.analysis.program import Program

HEAD = "import torch\nfrom torch import nn\nfrom collections import OrderedDict\n"
NAMES = {"nn.Conv2d(1, 2, 3)": "C", "nn.BatchNorm2d(2)": "B", "nn.ReLU()": "R", "nn.Flatten()": "F"}


def spelled(source: str) -> str:
    """Put the constructors in for their letters: ``~C`` is a convolution."""
    for code, letter in NAMES.items():
        source = source.replace(f"~{letter}", code)
    return source


def linked(source: str) -> list[str]:
    """All links as ``C-B``, several consumers as ``C-BR``, in the order of the producers."""
    program = Program(HEAD + spelled(textwrap.dedent(source)))
    letter = lambda call: NAMES[program.code(call)]  # noqa: E731
    return [
        f"{letter(link.producer)}-{''.join(sorted(map(letter, link.consumers)))}"
        for link in program.links
    ]


def in_forward(forward: str, init: str = "") -> list[str]:
    stores = "self.c = ~C\nself.b = ~B\nself.r = ~R\n" + textwrap.dedent(init)
    return linked(
        "class Net(nn.Module):\n    def __init__(self):\n"
        + textwrap.indent(stores, " " * 8)
        + "\n    def forward(self, x, y=None):\n"
        + textwrap.indent(textwrap.dedent(forward), " " * 8)
    )


@pytest.mark.parametrize(
    ("source", "links"),
    [
        ("nn.Sequential(~C, ~B, ~R)", ["C-B", "B-R"]),
        ("nn.Sequential(nn.Sequential(~C), nn.Sequential(~B, ~R))", ["C-B", "B-R"]),
        ("nn.Sequential(~C, nn.Sequential(), ~B)", ["C-B"]),
        ("nn.Sequential(*[~C, ~B])", ["C-B"]),
        ("nn.Sequential(*(~C, ~B))", ["C-B"]),
        ("nn.Sequential(*[~C, *[~B, ~R]])", ["C-B", "B-R"]),
        ("nn.Sequential(*[~C] + [~B])", ["C-B"]),
        ("nn.Sequential(*list([~C, ~B]))", ["C-B"]),
        ("nn.Sequential(*nn.ModuleList([~C, ~B]))", ["C-B"]),
        ("nn.Sequential(*([~C, ~B] * 2))", []),
        ("nn.Sequential(*([~C, ~B] + more))", ["C-B"]),
        ("nn.Sequential(*[~C for _ in range(3)], ~B)", ["C-BC"]),
        ("nn.Sequential(*[~C for _ in range(3) if deep])", []),
        ("nn.Sequential(*[~C for _ in range(3) if deep], ~R)", ["C-CR"]),
        ("nn.Sequential(*(more + [~C, ~B]))", ["C-B"]),
        ("nn.Sequential(~C, ~B if norm else ~R)", ["C-BR"]),
        ("nn.Sequential(~C if deep else ~R, ~B)", ["C-B", "R-B"]),
        ("nn.Sequential(~C if deep else [~R], ~B)", []),
        ("nn.Sequential(~C, lambda x: x)", []),
        ("nn.Sequential(~C, layers[0], ~B)", []),
        ("nn.Sequential(~C, *more, ~B)", []),
        ("nn.Sequential(wrap(~C), ~B)", []),
        ("nn.Sequential(OrderedDict([('c', ~C), ('b', ~B)]))", ["C-B"]),
        ("nn.Sequential(OrderedDict((('c', ~C), ('b', ~B))))", ["C-B"]),
        ("nn.Sequential(OrderedDict({'c': ~C, 'b': ~B}))", ["C-B"]),
        ("nn.Sequential(OrderedDict({'c': ~C, **more}))", []),
        ("nn.Sequential(OrderedDict(pairs))", []),
        ("nn.Sequential(OrderedDict([pair, ('b', ~B)]))", []),
        ("nn.ModuleList([~C, ~B])", []),
        ("nn.ModuleDict({'c': nn.Sequential(~C, ~B)})", ["C-B"]),
        ("[~C, ~B]", []),
        ("f'{nn.Sequential(~C, ~B)}'", ["C-B"]),
        ("nn.Sequential(~C, ~B).to(device).train()", ["C-B"]),
        ("nn.Sequential(~C, ~B).forward(x)", ["C-B"]),
        ("nn.Sequential(~C, ~B)[0]", []),
        ("nn.Sequential(~C, ~B).children()", []),
        ("nn.Sequential(~C, ~B).modules()", ["C-B"]),
        ("[m for m in nn.Sequential(~C, ~B)]", []),
        ("nn.Sequential(nn.Sequential(~C)(x), ~B)", []),
        ("nn.Sequential(~C, ~B) + 1", ["C-B"]),
        ("len(nn.Sequential(~C, ~B)) > 1", ["C-B"]),
        ("~B(~C(x))", ["C-B"]),
    ],
)
def test_expressions(source, links):
    assert linked(f"net = {source}\n") == links
    assert linked(f"def build():\n    return {source}\n") == links


@pytest.mark.parametrize(
    ("source", "links"),
    [
        ("ls = [~C]\nls.append(~B)", ["C-B"]),
        ("ls = [~C]\nls.extend([~B, ~R])", ["C-B", "B-R"]),
        ("ls = [~C]\nls += [~B]", ["C-B"]),
        ("ls = [~C]\nls += (~B, ~R)", ["C-B", "B-R"]),
        ("ls = [~C]\nls = ls + [~B]", ["C-B"]),
        ("ls: list = [~C]\nls.append(~B)", ["C-B"]),
        ("ls = []\nls.append(~B)\nls.insert(0, ~C)", ["C-B"]),
        ("ls = [~C, ~B]\nls.insert(1, ~R)", []),
        ("ls = [~C, ~B]\nls.pop()", []),
        ("ls = [~C, ~B]\nls[1] = ~R", []),
        ("ls = [~C, ~B]\nother = ls\nother.append(~R)", []),
        ("ls = other = [~C, ~B]", []),
        ("ls = [~C]\nls += more()\nls += [~B]", []),
        ("ls = [~C]\nls -= [~B]", []),
        ("ls = [~C, ~B]\nls = ls[1:]", []),
        ("ls = [~C, ~B]\nkeep(ls)", []),
        ("ls = [~C]\nif norm:\n    ls.append(~B)", []),
        ("ls = [~C]\nif norm:\n    ls.append(~B)\nls.append(~R)", ["C-BR", "B-R"]),
        ("ls = [~C]\nif norm:\n    ls.append(~B)\nelse:\n    ls.append(~R)", ["C-BR"]),
        ("ls = [~C]\nif a:\n    ls.append(~B)\nelif b:\n    ls.append(~R)\nls.append(~F)",
         ["C-BFR", "B-F", "R-F"]),
        ("if a:\n    ls = [~C]\nelse:\n    ls = None\nls.append(~B)", []),
        ("if a:\n    ls = [~C]\nelse:\n    raise ValueError\nls.append(~B)", ["C-B"]),
        ("ls = []\nfor _ in range(2):\n    ls.append(~C)\n    ls.append(~B)", ["C-B"]),
        ("ls = []\nfor i in y:\n    if i:\n        continue\n    ls += [~C, ~B]", ["C-B"]),
        ("ls = []\nfor i in y:\n    ls += [~C]\n    if i: break\n    ls += [~B]\nls += [~R]",
         ["C-BR", "B-CR"]),
        ("ls = []\nwhile len(ls) < 4:\n    ls += [~C, ~B]\nelse:\n    ls += [~R]",
         ["C-B", "B-CR"]),
        ("ls = [~C]\nwith scope():\n    ls.append(~B)", ["C-B"]),
        ("ls = [~C]\ntry:\n    ls.append(~B)\nexcept E:\n    ls.append(~R)\nls.append(~F)",
         ["C-BR", "B-FR", "R-F"]),
        (("ls = [~C]\ntry:\n    pass\nexcept E:\n    raise\nelse:\n    ls.append(~B)\n"
         "finally:\n    ls.append(~R)"), ["C-B", "B-R"]),
        (("ls = [~C]\nmatch kind:\n    case 1:\n        ls.append(~B)\n    case _:\n"
         "        ls.append(~R)\nls.append(~F)"), ["C-BFR", "B-F", "R-F"]),
        ("c, b = ~C, ~B\nls = [c, b]", ["C-B"]),
        ("c, b = make(~C, ~B)\nls = [c, b]", []),
        ("(c, d), b = [~C, ~R], ~B\nls = [c, b]", []),
        ("c = ~C\nls = [c, ~B]\nassert c is not None\ndel c", ["C-B"]),
        ("d = OrderedDict()\nd['c'] = ~C\nd['b'] = ~B\nls = [nn.Sequential(d)]", ["C-B"]),
        ("d = OrderedDict()\nd[name] = ~C\nd['b'] = ~B\nls = [nn.Sequential(d)]", []),
        ("self.ls = [~C]\nself.ls.append(~B)\nls = [nn.Sequential(*self.ls)]", ["C-B"]),
        ("self.ls = [~C]\nself.ls.append(~B)\nls = self.ls", []),
        ("ls = [~C, ~B]\nholder.ls = ls", []),
        ("ls = [~C, ~B]\nf = lambda: ls", []),
        ("ls = [~C, ~B]\ndef f():\n    return ls", []),
        ("def block():\n    return [~C, ~B]\nls = block()", ["C-B"]),
        ("def block():\n    return block()\nls = block()", []),
        ("ls = []\nfor c in [~C]:\n    ls.append(c)\nls.append(~B)", ["C-BC"]),
    ],
)  # fmt: skip
def test_lists_of_layers(source, links):
    body = textwrap.indent(spelled(source) + "\nself.net = nn.Sequential(*ls)\n", " " * 8)
    assert linked(f"class Net(nn.Module):\n    def __init__(self):\n{body}") == links


@pytest.mark.parametrize(
    ("source", "links"),
    [
        ("net.add_module('b', ~B)", ["C-B"]),
        ("net.append(~B)", ["C-B"]),
        ("net.extend([~B, ~R])", ["C-B", "B-R"]),
        ("net.insert(0, ~R)", ["R-C"]),
        ("net.insert(1, ~B)", []),
        ("net.train()", []),
        ("net.add_module('b', ~B)\nprint(net[0])", []),
        ("net.add_module('b', ~B)\nnet.register_forward_hook(hook)", []),
        ("net.add_module('b', ~B)\ny = net(x)\ny.backward()", ["C-B"]),
        ("net.add_module('b', ~B)\nnet = net.to(device)\nnet.add_module('r', ~R)", ["C-B", "B-R"]),
    ],
)
def test_sequential_that_grows(source, links):
    assert linked("net = nn.Sequential(~C)\n" + source) == links


@pytest.mark.parametrize(
    ("forward", "links"),
    [
        ("return self.r(self.b(self.c(x)))", ["C-B", "B-R"]),
        ("x = self.c(x)\nx = self.b(x)\nreturn x", ["C-B"]),
        ("x = self.c(x)\nreturn self.b(x) + x", []),
        ("x += self.c(x)\nreturn self.b(x)", []),
        ("z = self.c(x)\nz += x\nreturn self.b(z)", []),
        ("if y:\n    x = self.c(x)\nreturn self.b(x)", ["C-B"]),
        ("if y:\n    x = self.c(x)\nelse:\n    x = self.r(x)\nreturn self.b(x)", ["C-B", "R-B"]),
        ("z = self.c(x)\nif z:\n    pass\nreturn self.b(z)", []),
        ("z = self.c(x)\nif z is not None:\n    pass\nreturn self.b(z)", ["C-B"]),
        ("z = self.c(x)\nif z > 0:\n    pass\nreturn self.b(z)", []),
        ("z = self.c(x)\nprint(z)\nreturn self.b(z)", []),
        ("z = self.c(x)\nz.mean()\nreturn self.b(z)", []),
        ("z = self.c(x)\nf = z.data\nreturn self.b(z)", []),
        ("z = self.c(x)\nf = z[0]\nreturn self.b(z)", []),
        ("z = self.c(x)\nf = z.dim(), z.shape\nreturn self.b(z)", ["C-B"]),
        ("z = w = self.c(x)\nreturn self.b(z)", ["C-B"]),
        ("return self.b(z := self.c(x))", ["C-B"]),
        ("return self.b((z := self.c(x))) + z", []),
        ("return self.b(self.c(x), y)", ["C-B"]),
        ("return self.b(y, self.c(x))", []),
        ("return self.b(*self.c(x))", []),
        ("return self.b.forward(self.c.forward(x))", ["C-B"]),
        ("return [self.b(self.c(x))]", ["C-B"]),
        ("return self.b(self.c(x)) if y else x", ["C-B"]),
        ("yield self.c(x)", []),
        ("return self.c(x)", []),
        ("self.c(x)", []),
        ("with torch.no_grad():\n    z = self.c(x)\nreturn self.b(z)", ["C-B"]),
        ("z = self.c\nreturn self.b(z(x))", ["C-B"]),
        ("z = torch.compile(self.c)\nreturn self.b(self.c(x))", []),
        ("return self.b(getattr(self, 'c')(x))", []),
        ("for _ in range(2):\n    x = self.b(self.c(x))\nreturn x", []),
        ("x = self.b(self.c(x))\nreturn self.c(x)", ["B-C"]),
        ("for f in (self.c, self.b):\n    x = self.r(f(x))\nreturn x", ["C-R", "B-R"]),
        ("f = self.c.weight\nreturn self.b(self.c(x))", ["C-B"]),
        ("f = self.c.extra\nreturn self.b(self.c(x))", []),
        ("self.helper(self.c(x))", []),
        ("def f():\n    return z\nz = self.c(x)\nreturn self.b(z)", []),
        ("raise ValueError(self.b(self.c(x)))", ["C-B"]),
    ],
)
def test_forward(forward, links):
    assert in_forward(forward) == links


@pytest.mark.parametrize(
    ("init", "forward", "links"),
    [
        ("self.cs = nn.ModuleList([~C])\nself.bs = nn.ModuleList([~B])",
         "for c, b in zip(self.cs, self.bs):\n    x = b(c(x))", ["C-B", "B-C"]),
        ("self.cs = nn.ModuleList([~C])\nself.bs = nn.ModuleList([~B])",
         "for i, c in enumerate(self.cs[:-1]):\n    x = self.bs[i](c(x))", ["C-B", "B-C"]),
        ("self.cs = nn.ModuleList([~C])\nself.bs = nn.ModuleList([~B])",
         "for i, c in enumerate(reversed(self.cs)):\n    x = self.bs[i](c(x)).exp()", ["C-B"]),
        ("self.cs = nn.ModuleList([~C])\nself.bs = nn.ModuleList([~B])",
         "for c, i in zip(self.cs, range(9)):\n    x = self.bs[i](c(x)) + self.cs[0](x)", []),
        ("self.cs = nn.ModuleList([~C])", "for c, d in self.cs:\n    x = self.b(c(x))", []),
        ("self.cs = nn.ModuleList([~C])", "for c, d in enumerate(zip(self.cs)):\n    x = c(x)", []),
        ("self.cs = [~C]", "for c in zip(self.cs, x):\n    x = self.b(c(x))", []),
        ("self.s = nn.Sequential(~C)", "for c in self.s:\n    x = self.b(c(x))", []),
        ("self.s = nn.Sequential(~C)", "return self.b(self.s(x))", ["C-B"]),
        ("self.s = nn.Sequential()", "return self.b(self.s(self.c(x)))", []),
        ("self.add_module('d', ~C)", "return self.b(self.d(x))", ["C-B"]),
        ("self.add_module(name, ~C)", "return self.b(self.d(x))", []),
        ("self.d = self.make()\n", "return self.b(self.d(x))", []),
        ("self.d = ~C\nself.d = ~R", "return self.b(self.d(x))", ["R-B"]),
        ("if deep:\n    self.d = ~C\nelse:\n    self.d = None", "return self.b(self.d(x))", []),
    ],
)  # fmt: skip
def test_modules_kept_in_self(init, forward, links):
    assert in_forward(forward, init) == links


@pytest.mark.parametrize(
    ("source", "links"),
    [
        pytest.param(
            """
            class Block(nn.Sequential):
                def __init__(self):
                    super().__init__(~C, ~B)
            """, ["C-B"], id="a Sequential of its own"),
        pytest.param(
            """
            class Block(nn.Sequential):
                def __init__(self):
                    super().__init__()
                    self.add_module("c", ~C)
                    self.add_module("b", ~B)
            """, ["C-B"], id="a Sequential that adds to itself"),
        pytest.param(
            """
            class Block(nn.Sequential):
                def __init__(self):
                    super().__init__(~C, ~B)

                def forward(self, x):
                    return x
            """, [], id="with another forward"),
        pytest.param(
            """
            class Base(nn.Module):
                def __init__(self):
                    self.c = ~C

            class Net(Base):
                def __init__(self):
                    super().__init__()
                    self.b = ~B

                def forward(self, x):
                    return self.b(self.c(x))
            """, ["C-B"], id="layers of a base class"),
        pytest.param(
            """
            class Base(nn.Module):
                def __init__(self):
                    self.c = ~C
                    self.b = ~B

                def forward(self, x):
                    return self.b(self.c(x))

            class Net(Base):
                def __init__(self):
                    super().__init__()
                    self.b = ~R
            """, ["C-BR"], id="layers that a subclass replaces"),
        pytest.param(
            """
            class Net(nn.Module):
                def __init__(self):
                    self.c = self.conv()
                    self.b = ~B

                def conv(self):
                    return ~C

                def forward(self, x):
                    return self.b(self.c(x))
            """, ["C-B"], id="a method makes it"),
        pytest.param(
            """
            def conv():
                return ~C

            net = nn.Sequential(conv(), ~B)
            """, [], id="a function makes it that others may call"),
        pytest.param(
            """
            def _conv():
                return ~C

            net = nn.Sequential(_conv(), ~B)
            """, ["C-B"], id="a private function makes it"),
        pytest.param(
            """
            def net():
                return nn.Sequential(~C, ~B), 1
            """, ["C-B"], id="one of several results"),
        pytest.param(
            """
            class Net(nn.Module):
                def __init__(self):
                    self.s = nn.Sequential(~C, ~B)

            def taps(net):
                return net.s[0], net.s.parameters()
            """, [], id="picked from outside"),
        pytest.param(
            """
            class Net(nn.Module):
                def __init__(self):
                    self.s = nn.Sequential(~C, ~B)

            def run(net, x):
                return net.s(x), net.s.weight, del_(net)
            """, ["C-B"], id="called from outside"),
        pytest.param(
            """
            class Plain:
                def __init__(self):
                    self.net = nn.Sequential(~C, ~B)
                    self.net = self.build(nn.Sequential(~C))
            """, ["C-B"], id="no module"),
    ],
)  # fmt: skip
def test_classes(source, links):
    assert linked(source) == links


def test_a_file_that_is_too_much_work_has_no_links(monkeypatch):
    source = "net = nn.Sequential(~C, ~B)\n"
    assert linked(source) == ["C-B"]
    monkeypatch.setattr("torchlint.analysis.layer_reader._FUEL", 10)
    assert linked(source) == []
