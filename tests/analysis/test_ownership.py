"""Who else can reach an array's memory, and what is done in place to a tensor."""

from __future__ import annotations

import textwrap

import pytest
from probing import HEAD, parsed, probed, probes

from torchlint.analysis.ownership import Effect, Fate, Owner, Ownership, effect_of


def owner(source: str) -> Owner:
    program = parsed(source, HEAD)
    return Ownership(program).of(probed(program)).owner


def function(lines: str) -> str:
    body = textwrap.indent(textwrap.dedent(lines), "    ")
    return f"def f(x, y, given: np.ndarray, t: torch.Tensor):\n{body}\n"


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("np.zeros(3)", Owner.SOLE),
        ("np.zeros(3) + 1", Owner.SOLE),
        ("given + 1", Owner.SOLE),
        ("given.copy()", Owner.SOLE),
        ("given.astype(int)", Owner.SOLE),
        ("given.astype(int, copy=False)", Owner.SHARED),
        ("given", Owner.SHARED),
        ("given.T", Owner.SHARED),
        ("given.reshape(-1)", Owner.SHARED),
        ("np.reshape(given, -1)", Owner.SHARED),
        ("np.asarray(given)", Owner.SHARED),
        ("np.float32(given)", Owner.SHARED),
        ("np.array(given, copy=False)", Owner.SHARED),
        ("np.asarray([1, 2])", Owner.SOLE),
        ("np.array([x, y], copy=False)", Owner.SOLE),
        ("np.float32([1, 2])", Owner.SOLE),
        ("np.asarray(x)", Owner.NEEDED),
        ("np.array(x, copy=False)", Owner.NEEDED),
        ("np.broadcast_to(given, (2, 2))", Owner.NEEDED),
        ("np.load(x, mmap_mode='r')", Owner.NEEDED),
        ("np.load(x)", Owner.SOLE),
        ("np.load(x)['a']", Owner.SOLE),
        ("given[given > 0]", Owner.SOLE),
        ("given[1:]", Owner.SHARED),
        ("np.split(given, 2)[0]", Owner.SHARED),
        ("np.zeros(3)[1:]", Owner.SOLE),
        ("np.zeros(3) if x else given", Owner.SHARED),
        ("np.zeros(3) if x else np.ones(3)", Owner.SOLE),
        ("given or np.zeros(3)", Owner.SHARED),
        ("t.numpy()", Owner.SHARED),
        ("t.numpy().copy()", Owner.SOLE),
        ("x.field", Owner.SHARED),
        ("x()", Owner.SHARED),
        ("missing", Owner.SHARED),
    ],
)
def test_expressions(expression: str, expected: Owner) -> None:
    assert owner(function(f"probe({expression})")) is expected


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("a = np.zeros(3)\nprobe(a)", Owner.SOLE),
        ("a = None\nif x:\n    a = np.zeros(3)\nprobe(a)", Owner.SOLE),
        ("a = x\nprobe(a)", Owner.SHARED),
        ("a, b = np.zeros(3), x\nprobe(a)", Owner.SOLE),
        ("b, a = np.zeros(3), x\nprobe(a)", Owner.SHARED),
        ("a, *b = np.zeros(3), x\nprobe(a)", Owner.SOLE),
        ("*b, a = np.zeros(3), np.zeros(3)\nprobe(a)", Owner.SOLE),
        ("a, (b, c) = np.zeros(3), x\nprobe(b)", Owner.SHARED),
        ("counts, a = np.histogram(x)\nprobe(a)", Owner.SOLE),
        ("a, b = x\nprobe(a)", Owner.SHARED),
        ("for a in given:\n    probe(a)", Owner.SHARED),
        ("with x as a:\n    probe(a)", Owner.SHARED),
        ("a = np.zeros(3)\na += 1\na *= 2\nprobe(a)", Owner.SOLE),
        ("a = given\na += 1\nprobe(a)", Owner.SHARED),
        ("a = np.zeros(3)\ng = lambda: a\nprobe(a)", Owner.NEEDED),
        ("a = np.zeros(3)\ndef g():\n    return a[0]\nprobe(a)", Owner.NEEDED),
        ("a = np.zeros(3)\ndef g():\n    return a.shape\nprobe(a)", Owner.SOLE),
        ("a = np.zeros(3)\nb = a[1:]\nprobe(a)", Owner.SHARED),
        ("a = np.zeros(3)\nb = a[[0, 1]]\nprobe(a)", Owner.SOLE),
        ("a = np.zeros(3)\nx.b = a\nprobe(a)", Owner.SHARED),
        ("a = np.zeros(3)\nprobe(a)\nx.b = a", Owner.NEEDED),
        ("a = np.zeros(3)\nprobe(a)\nx[0] = a", Owner.NEEDED),
        ("a = np.zeros(3)\nprobe(a)\nt[0] = a", Owner.SHARED),
        ("a = np.zeros(3)\nprobe(a)\ndel a", Owner.SOLE),
        ("a = np.zeros(3)\nprobe(a)\ndel a[0]", Owner.NEEDED),
        ("a = np.zeros(3)\nprobe(a)\na = np.ones(3)\na[0] = 1", Owner.SOLE),
        ("a = np.zeros(3)\na = keep(probe(a))\na[0] = 1", Owner.SOLE),
        ("a = np.zeros(3)\nb = [probe(a) for i in x]", Owner.SHARED),
        ("a = np.zeros(3)\nwhile x:\n    probe(a)", Owner.SHARED),
        ("while x:\n    a = np.zeros(3)\n    probe(a)", Owner.SOLE),
        ("a = np.zeros(3)\nif x:\n    probe(a)\nelse:\n    a[0] = 1", Owner.SOLE),
        ("a = np.zeros(3)\nif x:\n    a[0] = 1\n    keep(a)\nelse:\n    probe(a)", Owner.SOLE),
        ("a = np.zeros(3)\nif x:\n    probe(a)\n    return\na[0] = 1", Owner.SOLE),
        ("a = np.zeros(3)\nif x:\n    return a\nprobe(a)", Owner.SOLE),
        ("a = np.zeros(3)\nif x:\n    raise E(probe(a))\nreturn a", Owner.SOLE),
        ("a = np.zeros(3)\nreturn probe(a), a", Owner.NEEDED),
        ("a = make(3)\nprobe(a)", Owner.SHARED),
    ],
)
def test_names(lines: str, expected: Owner) -> None:
    assert owner(function(lines)) is expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return np.zeros(3)", Owner.SOLE),
        ("return kept", Owner.SHARED),
        ("a = np.zeros(3)\n    kept.append(a)\n    return a", Owner.SHARED),
        ("yield np.zeros(3)", Owner.SHARED),
        ("pass", Owner.SHARED),
        ("if kept: return np.zeros(3)\n    return", Owner.SHARED),
        ("return make(kept)", Owner.SHARED),
    ],
)
def test_functions_of_the_file(body: str, expected: Owner) -> None:
    assert owner(f"def make(kept):\n    {body}\nprobe(make(x))\n") is expected


def test_a_decorated_function_may_keep_what_it_returns() -> None:
    source = "@cache\ndef make():\n    return np.zeros(3)\nprobe(make())\n"
    assert owner(source) is Owner.SHARED


def test_one_of_several_results() -> None:
    source = "def make():\n    return np.zeros(3), given\na, b = make()\nprobe({})\n"
    assert owner(source.format("a")) is Owner.SOLE
    assert owner(source.format("b")) is Owner.SHARED
    source = "def make():\n    return given\na, b = make()\nprobe(a)\n"
    assert owner(source) is Owner.SHARED


@pytest.mark.parametrize(("name", "expected"), [("make", Owner.SHARED), ("_make", Owner.SOLE)])
def test_a_public_method_may_be_another_one(name: str, expected: Owner) -> None:
    source = f"""\
    class A:
        def {name}(self):
            return np.zeros(3)

        def f(self):
            probe(self.{name}())
    """
    assert owner(source) is expected


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("self.a[0] = 1", Owner.NEEDED),
        ("self.a += 1", Owner.NEEDED),
        ("self.a.fill(0)", Owner.NEEDED),
        ("np.copyto(self.a, 1)", Owner.NEEDED),
        ("other.a[0] = 1", Owner.NEEDED),
        ("print(self.a)", Owner.SHARED),
        ("self.b[0] = 1", Owner.SHARED),
    ],
)
def test_attributes(change: str, expected: Owner) -> None:
    source = f"""\
    class A:
        def __init__(self):
            self.a = np.zeros(3)

        def change(self, other):
            {change}

        def f(self):
            probe(self.a)
    """
    assert owner(source) is expected


def test_a_module_is_a_scope_of_its_own() -> None:
    assert owner("a = np.zeros(3)\nprobe(a)\n") is Owner.SOLE
    assert owner("a = np.zeros(3)\ndef f():\n    probe(a)\n") is Owner.SHARED
    assert owner("a = np.zeros(3)\ndef f():\n    return a\nprobe(f())\n") is Owner.SHARED
    assert owner("class A:\n    a = np.zeros(3)\n    probe(a)\n") is Owner.SHARED


@pytest.mark.parametrize(
    ("expression", "part"),
    [
        ("np.zeros((3, 4))[1:]", False),
        ("np.zeros((3, 4))[None, :]", False),
        ("np.zeros((3, 4))[:, np.newaxis]", False),
        ("np.zeros((3, 4))[..., :]", False),
        ("np.zeros((3, 4))[0, :]", False),
        ("np.zeros((3, 4))[:, 1:]", True),
        ("np.zeros((3, 4))[::2]", True),
        ("np.zeros((3, 4))[:, 0]", True),
        ("np.zeros((3, 4))[:, 1:].T", True),
        ("np.zeros((3, 4))[:, 1:].copy()", False),
    ],
)
def test_slices_with_gaps(expression: str, part: bool) -> None:
    program = parsed(f"probe({expression})\n", HEAD)
    assert Ownership(program).of(probed(program)).part is part


@pytest.mark.parametrize(
    ("use", "expected"),
    [
        ("probe(x).shape", Effect.LOOK),
        ("probe(x).T.fill(0)", Effect.CHANGE),
        ("probe(x).reshape(3).sort()", Effect.CHANGE),
        ("probe(x).mean()", Effect.READ),
        ("probe(x).unheard_of()", Effect.SHARE),
        ("probe(x).unheard_of", Effect.SHARE),
        ("y[probe(x)]", Effect.READ),
        ("f'{probe(x)}'", Effect.READ),
        ("-probe(x)", Effect.READ),
        ("1 < probe(x)", Effect.READ),
        ("assert probe(x)", Effect.READ),
        ("y = 1 if probe(x) else 2", Effect.READ),
        ("y = probe(x) if z else 2", Effect.SHARE),
        ("y = {'a': probe(x)}", Effect.KEEP),
        ("y.z = [probe(x)]", Effect.KEEP),
        ("y = lambda: probe(x)", Effect.KEEP),
        ("y += probe(x)", Effect.READ),
        ("f(*probe(x))", Effect.SHARE),
        ("np.add(1, 2, out=probe(x))", Effect.CHANGE),
        ("np.put(probe(x), 0, 1)", Effect.CHANGE),
        ("np.put(y, probe(x), 1)", Effect.READ),
        ("random.shuffle(probe(x))", Effect.SHARE),
        ("np.random.shuffle(probe(x))", Effect.CHANGE),
        ("np.stack([probe(x), y])", Effect.READ),
        ("np.reshape(probe(x), 3)[0] = 1", Effect.CHANGE),
        ("np.sum(probe(x), axis=y)", Effect.READ),
        ("z = np.unheard_of(probe(x))", Effect.SHARE),
        ("torch.tensor(probe(x))", Effect.READ),
        ("torch.from_numpy(probe(x))", Effect.SHARE),
        ("import math; math.sqrt(probe(x))", Effect.READ),
        ("print(probe(x))", Effect.READ),
        ("enumerate(probe(x))", Effect.SHARE),
        ("y.append(probe(x))", Effect.KEEP),
        ("y.show(probe(x))", Effect.SHARE),
        ("for z in probe(x): pass", Effect.SHARE),
        ("while probe(x): pass", Effect.READ),
    ],
)
def test_effects(use: str, expected: Effect) -> None:
    program = parsed(f"{use}\n", HEAD)
    (call,) = probes(program)
    assert effect_of(program, call) is expected


@pytest.mark.parametrize(
    ("use", "expected"),
    [
        ("probe(x).resize_(3)", Fate.RESIZED),
        ("probe(x).float().mul_(2).resize_(3)", Fate.RESIZED | Fate.CHANGED),
        ("probe(x).mean()", Fate.NOTHING),
        ("probe(x).data[0] = 1", Fate.CHANGED),
        ("probe(x)[0] += 1", Fate.CHANGED),
        ("y[0] += probe(x)[0]", Fate.NOTHING),
        ("y += probe(x)", Fate.NOTHING),
        ("t = probe(x)\nt += 1", Fate.CHANGED),
        ("t = probe(x)\nt = t + 1", Fate.NOTHING),
        ("t = probe(x)\nt = 1\nt.t = 2\nf(t=3)", Fate.NOTHING),
        ("t = probe(x) if y else z\nt.view(3).zero_()", Fate.CHANGED),
        ("a.t = probe(x)\nb.t.zero_()", Fate.CHANGED),
        ("a.t = probe(x)\nb.u.zero_()", Fate.NOTHING),
        ("a, b = probe(x), y\na.zero_()", Fate.NOTHING),
        ("torch.add(1, 2, out=probe(x))", Fate.CHANGED),
        ("nn.Parameter(probe(x))", Fate.CHANGED),
        ("nn.Embedding.from_pretrained(probe(x))", Fate.CHANGED),
        ("y.register_buffer('b', probe(x))", Fate.CHANGED),
        ("y.show(probe(x))", Fate.NOTHING),
        ("probe(x).__len__()", Fate.NOTHING),
        ("probe(x).numpy_", Fate.NOTHING),
    ],
)
def test_fates(use: str, expected: Fate) -> None:
    program = parsed(f"{use}\n", HEAD)
    (call,) = probes(program)
    assert Ownership(program).fate(call) == expected


def test_long_chains_are_not_followed_to_the_end() -> None:
    chain = "probe(x)" + ".view(3)" * 40 + ".zero_()"
    program = parsed(f"{chain}\n", HEAD)
    (call,) = probes(program)
    assert Ownership(program).fate(call) == Fate.NOTHING
    assert effect_of(program, call) is Effect.SHARE
    assert owner("probe(np.zeros(3)" + ".reshape(3)" * 40 + ")\n") is Owner.SHARED
