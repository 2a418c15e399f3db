"""Which parameters a call passes, dictionaries included."""

from __future__ import annotations

import inspect
import textwrap

import libcst as cst
import pytest
from torch.utils.data import DataLoader

from torchlint.analysis.arguments import Given
from torchlint.analysis.program import Program
from torchlint.analysis.torch_api import SIGNATURES

LOADER = "torch.utils.data.DataLoader"
HEAD = "import copy, torch\nfrom torch.utils.data import DataLoader\n"


def ask(source: str, name: str = "pin_memory") -> tuple[str, list[str]]:
    """Return what the last ``DataLoader(...)`` of a program passes: NO, YES or UNSURE, and what."""
    program = Program(HEAD + textwrap.dedent(source))
    found = program.argument(list(program.calls_of(LOADER))[-1], name)
    return found.given.name, [program.code(value) for value in found.values]


YES, NO, UNSURE = ("YES", ["True"]), ("NO", []), ("UNSURE", [])
PERHAPS = ("UNSURE", ["True"])


def test_the_parameters_of_the_loader_are_those_of_torch():
    parameters = list(inspect.signature(DataLoader).parameters.values())
    positional = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert SIGNATURES[LOADER][: len(positional)] == tuple(positional)


@pytest.mark.parametrize(
    ("source", "answer"),
    [
        pytest.param("DataLoader(d)", NO, id="not passed"),
        pytest.param("DataLoader(d, pin_memory=True)", YES, id="by keyword"),
        pytest.param("DataLoader(d, 1, 0, None, None, 2, None, True)", YES, id="by position"),
        pytest.param("DataLoader(d, 1, 0, None, None, 2, None)", NO, id="too few positions"),
        pytest.param("DataLoader(*a)", UNSURE, id="unpacked positions"),
        pytest.param("DataLoader(d, *a, pin_memory=True)", YES, id="beside unpacked positions"),
        pytest.param(
            "DataLoader(d, 1, 0, None, None, 2, None, 1, *a)", ("YES", ["1"]), id="before them"
        ),
        pytest.param("DataLoader(d, **k)", UNSURE, id="a name from nowhere"),
        pytest.param("DataLoader(d, **vars(args))", UNSURE, id="a call of something else"),
        pytest.param("DataLoader(d, **args.loader)", UNSURE, id="an attribute of something else"),
        pytest.param("DataLoader(d, **{**a})", UNSURE, id="a display of something else"),
        pytest.param("DataLoader(d, **{key: 1})", UNSURE, id="a computed key"),
        pytest.param("DataLoader(d, **{k: 1 for k in a})", UNSURE, id="a comprehension"),
    ],
)
def test_one_call(source, answer):
    assert ask(source) == answer


@pytest.mark.parametrize(
    ("source", "answer"),
    [
        pytest.param("k = {'pin_memory': True}", YES, id="a display"),
        pytest.param("k = {'num_workers': 2}", NO, id="a display without it"),
        pytest.param("k = dict(pin_memory=True)", YES, id="dict()"),
        pytest.param("k = dict({'pin_memory': True}, num_workers=1)", YES, id="dict() of one"),
        pytest.param("k = dict(*a)", UNSURE, id="dict() of something"),
        pytest.param("k = {**{'pin_memory': True}, 'a': 1}", YES, id="unpacked in a display"),
        pytest.param("k = {'a': 1} | {'pin_memory': True}", YES, id="|"),
        pytest.param("k = {'a': 1}\nk |= {'pin_memory': True}", YES, id="|="),
        pytest.param("k = {'a': 1}\nk |= more", UNSURE, id="|= something"),
        pytest.param("k = {}\nk.update(pin_memory=True)", YES, id="update"),
        pytest.param("k = {}\nk.update({'pin_memory': True})", YES, id="update of a display"),
        pytest.param("k = {}\nk.update(more)", UNSURE, id="update of something"),
        pytest.param("k = {}\nk['pin_memory'] = True", YES, id="an item"),
        pytest.param("k = {}\nk[name] = True", UNSURE, id="an item of a computed key"),
        pytest.param("k = {}\nk['pin_memory'] |= True", ("YES", []), id="an item that is changed"),
        pytest.param("k = {}\nk['pin_memory'], x = a", ("YES", []), id="an item that is unpacked"),
        pytest.param("k = {}\nk.setdefault('pin_memory', True)", YES, id="a default"),
        pytest.param(
            "k = {'pin_memory': True}\nk.setdefault('pin_memory', 0)", YES, id="a second default"
        ),
        pytest.param("k = {}\nk.setdefault(name, 1)", UNSURE, id="a default of a computed key"),
        pytest.param("k = {'pin_memory': True}\ndel k['pin_memory']", NO, id="deleted"),
        pytest.param("k = {'pin_memory': True}\ndel k[name]", PERHAPS, id="perhaps deleted"),
        pytest.param("k = {'pin_memory': True}\nk.pop('pin_memory')", NO, id="popped"),
        pytest.param("k = {'pin_memory': True}\nk.popitem()", PERHAPS, id="perhaps popped"),
        pytest.param("k = {'pin_memory': True}\nk.clear()", NO, id="cleared"),
        pytest.param("k = {'pin_memory': True}\nprint(k, k['a'], k.get('b'))", YES, id="read"),
        pytest.param("k = {}\nif c:\n    k['pin_memory'] = True", PERHAPS, id="on some paths"),
        pytest.param("k = {'pin_memory': True} if c else {}", PERHAPS, id="in one case"),
        pytest.param(
            "if c:\n    k = {'pin_memory': True}\nelse:\n    k = {}", PERHAPS, id="in one branch"
        ),
        pytest.param(
            "if c:\n    k = {'pin_memory': True}\nelse:\n    k = {'pin_memory': 1}",
            ("YES", ["True", "1"]),
            id="in both branches",
        ),
        pytest.param("k = None or {'pin_memory': True}", PERHAPS, id="or of something"),
        pytest.param("k = (j := {'pin_memory': True})", YES, id="named on the way"),
        pytest.param("j = {'pin_memory': True}\nk = j", YES, id="another name"),
        pytest.param("k = {}\nj = k\nj['pin_memory'] = True", YES, id="by another name"),
        pytest.param("j = {}\nk = j.copy()\nj['pin_memory'] = True", NO, id="a copy"),
        pytest.param(
            "j = {'pin_memory': True}\nk = copy.deepcopy(j)", YES, id="a copy by the module copy"
        ),
        pytest.param("k, j = a", UNSURE, id="unpacked from something"),
        pytest.param("for k in a:\n    pass", UNSURE, id="a loop variable"),
        pytest.param("k = {'pin_memory': True}\nk = {}", NO, id="given up"),
        pytest.param("k = {}\nj = [k]\nlog(k)", NO, id="kept and logged"),
        pytest.param("k = {}\nlen(k)", NO, id="given to a builtin"),
        pytest.param(
            "def f(k):\n    class A:\n        k\n    k['pin_memory'] = True\nk = {}\nf(k)",
            YES,
            id="of a name that a class uses as well",
        ),
        pytest.param("k = {}\n[k['pin_memory'] for k in a]", NO, id="another k in an expression"),
        pytest.param("k = {}\nprint(k[1:2], k[1, 2])", NO, id="read in other ways"),
        pytest.param("k = {}\nfill(k)", UNSURE, id="given to something that may change it"),
        pytest.param("k = {}\nConfig(k)", NO, id="given to a class"),
        pytest.param(
            "def fill(k, n):\n    k['pin_memory'] = True\nk = {}\nfill(k, 1)", YES, id="filled"
        ),
        pytest.param(
            "def fill(n, k):\n    if n:\n        k['pin_memory'] = True\nk = {}\nfill(1, k=k)",
            PERHAPS,
            id="perhaps filled",
        ),
        pytest.param("def show(k):\n    print(k)\nk = {}\nshow(k)", NO, id="shown by a function"),
        pytest.param("def fill(*a):\n    pass\nk = {}\nfill(k)", UNSURE, id="given as one of many"),
        pytest.param(
            "def make():\n    return {'pin_memory': True}\nk = make()", YES, id="made by a function"
        ),
        pytest.param(
            "def make(c):\n    k = {}\n    if c:\n        k['pin_memory'] = True\n    return k\n"
            "k = make(1)",
            PERHAPS,
            id="perhaps made by a function",
        ),
        pytest.param("def make():\n    pass\nk = make()", UNSURE, id="a function without return"),
        pytest.param("def make():\n    yield {}\nk = make()", UNSURE, id="a generator"),
        pytest.param("def make():\n    return make()\nk = make()", UNSURE, id="no end"),
        pytest.param("c = {'a': {'pin_memory': True}}\nk = c['a']", YES, id="in a dictionary"),
        pytest.param("c = {'a': {}}\nk = c['b']", UNSURE, id="not in the dictionary"),
        pytest.param("c = {'a': {}}\nk = c[name]", UNSURE, id="by a computed key"),
        pytest.param(
            "c = {'a': {}}\nc['a']['pin_memory'] = True\nk = c['a']", YES, id="put in it"
        ),
        pytest.param(
            "c = {'a': {}}\nc['b']['pin_memory'] = True\nk = c['a']", UNSURE, id="in another"
        ),
        pytest.param("k = {'a': {}}['a']", NO, id="out of a display"),
    ],
)  # fmt: skip
def test_a_dictionary(source, answer):
    assert ask(f"{source}\nDataLoader(d, **k)") == answer


@pytest.mark.parametrize(
    ("source", "answer"),
    [
        pytest.param(
            "k = {}\nDataLoader(d, **k)\nk['pin_memory'] = True", NO, id="changed afterwards"
        ),
        pytest.param(
            "k = {}\nfor i in a:\n    DataLoader(d, **k)\n    k['pin_memory'] = True",
            PERHAPS,
            id="changed at the end of a turn",
        ),
        pytest.param(
            "k = {}\nif c:\n    k['pin_memory'] = True\n    DataLoader(d, **k)",
            YES,
            id="changed in the same branch",
        ),
        pytest.param(
            "k = {}\nif c:\n    k['pin_memory'] = True\nelse:\n    DataLoader(d, **k)",
            NO,
            id="changed in another branch",
        ),
        pytest.param(
            "k = {}\nif c:\n    k['pin_memory'] = True\ndef f():\n    DataLoader(d, **k)",
            PERHAPS,
            id="used in a function",
        ),
        pytest.param(
            "k = {}\ndef g():\n    k['pin_memory'] = True\nDataLoader(d, **k)",
            PERHAPS,
            id="changed in a function",
        ),
        pytest.param(
            "def f(k):\n    return DataLoader(d, **k)\nf({'pin_memory': True})", YES, id="passed on"
        ),
        pytest.param(
            "def f(k):\n    return DataLoader(d, **k)\ndef g():\n    return f({})",
            UNSURE,
            id="a library: others may call",
        ),
        pytest.param(
            "def f(k):\n    return DataLoader(d, **k)\nif __name__ == '__main__':\n    f({})",
            NO,
            id="a program: nobody else calls",
        ),
        pytest.param(
            "def f(k={}):\n    return DataLoader(d, **k)\nf()\nf({'pin_memory': True})",
            PERHAPS,
            id="a default and a call",
        ),
        pytest.param("def f(k):\n    return DataLoader(d, **k)", UNSURE, id="never called"),
        pytest.param("f = lambda k: DataLoader(d, **k)", UNSURE, id="of a lambda"),
        pytest.param(
            "def f(n, **k):\n    return DataLoader(d, **k)\nf(1, pin_memory=True)",
            YES,
            id="keywords of a call",
        ),
        pytest.param(
            "def f(n, **k):\n    return DataLoader(d, **k)\nf(pin_memory=1, **more)",
            ("YES", ["1"]),
            id="keywords of a call beside others",
        ),
        pytest.param(
            "def f(pin_memory, **k):\n    return DataLoader(d, **k)\nf(pin_memory=1, shuffle=1)",
            NO,
            id="a keyword that the function keeps",
        ),
        pytest.param(
            "class A:\n    def __init__(self):\n        self.k = {'pin_memory': True}\n"
            "    def f(self):\n        DataLoader(d, **self.k)",
            YES,
            id="kept in self",
        ),
        pytest.param(
            "class A:\n    k = {}\n    def g(self):\n        self.k['pin_memory'] = True\n"
            "    def f(self):\n        DataLoader(d, **self.k)",
            PERHAPS,
            id="kept in the class, changed in a method",
        ),
        pytest.param(
            "class A:\n    k = {}\n    def f(self):\n        DataLoader(d, **self.k)\n"
            "class B:\n    def g(self):\n        self.k['pin_memory'] = True",
            NO,
            id="that of another class is changed",
        ),
        pytest.param(
            "class A:\n    k = {}\n    def f(self):\n        DataLoader(d, **self.k)\n"
            "a = A()\na.k['pin_memory'] = True",
            ("YES", ["True"]),
            id="changed from outside",
        ),
        pytest.param(
            "class A:\n    def f(self):\n        DataLoader(d, **self.k)", UNSURE, id="of a base"
        ),
        pytest.param(
            "class A:\n    def __init__(self):\n        self.k, n = load()\n"
            "    def f(self):\n        DataLoader(d, **self.k)",
            UNSURE,
            id="unpacked into self",
        ),
        pytest.param("DataLoader(d, **self.k)", UNSURE, id="self of no class"),
    ],
)  # fmt: skip
def test_dictionaries_across_functions(source, answer):
    assert ask(source) == answer


@pytest.mark.parametrize(
    ("source", "literal"),
    [
        ("DataLoader(d, num_workers=4)", "4"),
        ("DataLoader(d, num_workers=-1)", None),
        ("DataLoader(d, num_workers=n)", None),
        ("DataLoader(d, num_workers='4')", "4"),
        ("DataLoader(d, num_workers=b'4')", None),
        ("DataLoader(d, num_workers=None)", "None"),
        ("DataLoader(d)", None),
        ("k = {'num_workers': 1}\nif c:\n    k = {'num_workers': 2}\nDataLoader(d, **k)", None),
    ],
)
def test_the_literal_that_is_passed(source, literal):
    program = Program(HEAD + source)
    (call,) = program.calls_of(LOADER)
    found = program.argument(call, "num_workers")
    assert found.literal() == literal
    assert found.absent is (found.given is Given.NO)


@pytest.mark.parametrize(
    ("source", "number"),
    [
        ("f(0x10)", 16),
        ("a = 3\nb = a\nf(b)", 3),
        ("a = 3\nif c:\n    a = 4\nf(a)", None),
        ("a, b = 3, 4\nf(a)", None),
        ("a = a\nf(a)", None),
        ("f(3.0)", None),
        ("f(a)", None),
    ],
)
def test_a_number_through_constants(source, number):
    program = Program(HEAD + source)
    call = program.index.of(cst.Call)[-1]
    assert program.arguments.number(call.args[0].value) == number


def test_a_tangle_of_dictionaries_ends():
    lines = ["k = {}"] + [f"if c{n}:\n    k = {{**k, 'a{n}': 1}}" for n in range(40)]
    assert ask("\n".join([*lines, "DataLoader(d, **k)"])) == UNSURE
