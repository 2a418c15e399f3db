"""The faster parse of the command, which gives the same tree, and the keyword of Python 3.6."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import libcst as cst
import pytest

from torchlint.syntax.module import Module
from torchlint.syntax.parsing import OldKeyword, parse

ROOT = Path(__file__).resolve().parents[2]
CODE = """
import abc
import dataclasses
import sys
from pathlib import Path
from torchlint.syntax.lean import import_libcst
before = abc.ABC, dataclasses.dataclass
import_libcst()
import_libcst()
print(before == (abc.ABC, dataclasses.dataclass))
import libcst as cst
from torchlint.syntax.parsing import parse
text = Path(sys.argv[1]).read_text(encoding="utf-8")
tree = parse(text)
print(repr(tree) == Path(sys.argv[2]).read_text(encoding="utf-8"), tree.code == text)
print(cst.Name("").value == "", type(cst.Name) is type)
old = "x.cuda(async=True)  # (async=True)\\n"
print(parse(old).code == old, parse(old).body[0].body[0].value.args[0].keyword.value)
made = cst.Arg(cst.Name("x"))
print(made.star == "", made.keyword, made.whitespace_after_star.value == "")
print(made.with_changes(keyword=cst.Name("y"), equal=cst.AssignEqual()).keyword.value)
"""


def test_the_tree_is_the_same_without_the_checks_of_each_node(tmp_path: Path) -> None:
    script = ROOT / "torchlint" / "semantics" / "values.py"
    shown = tmp_path / "shown.txt"
    shown.write_text(repr(parse(script.read_text(encoding="utf-8"))), encoding="utf-8")
    paths = [str(ROOT), str(ROOT / "rules")]
    start = f"import sys; sys.path[:0] = {paths!r}\n"
    done = subprocess.run(
        [sys.executable, "-c", start + CODE, str(script), str(shown)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [*["True"] * 6, "non_blocking", "True", "None", "True", "y"]


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("def f(:\n    x.cuda(async=True)\n", id="another error"),
        pytest.param("print model\nx.cuda(async=True)\n", id="Python 2"),
        pytest.param("async = True\n", id="a variable"),
        pytest.param("async = True\nx.cuda(async=True)\n", id="a variable as well"),
        pytest.param("def f(x, async=True):\n    return x\n", id="a parameter"),
        pytest.param("x.cuda(async=async)\n", id="passed on"),
        pytest.param("x.async = True\n", id="an attribute"),
        pytest.param("if x.cuda(async==True): pass\n", id="a comparison"),
        pytest.param("x.cuda(async=)\n", id="no value"),
        pytest.param("x.cuda(await=True)\n", id="await"),
        pytest.param("s = '(async=True)'\ndef f(:\n", id="in a string"),
        pytest.param("f(  # async=True\n", id="in a comment"),
        pytest.param("as_36 = 1\nx.cuda(async=True)\n", id="the word it stands for is taken"),
    ],
)
def test_nothing_but_a_keyword_of_old_python_is_parsed(code: str) -> None:
    with pytest.raises(cst.ParserSyntaxError) as error:
        parse(code)
    assert "as_36" not in str(error.value) or "as_36" in code


def test_a_keyword_of_old_python_means_what_torch_renamed_it_to() -> None:
    text = (
        "'async=True'  # (async=True\n"
        "x.cuda(async=True).to(  # now\n"
        "    d, async = flag)\n"
        "f('(async=True)', async_op=True, more=async_)\n"
    )
    module = Module(text)
    assert module.tree.code == text
    first, second = module.index.of(OldKeyword)
    assert first.value == second.value == "non_blocking"
    call = module.index.nearest(first, cst.Call)
    assert module.code(call) == module.brief(call) == "x.cuda(async=True)"


def test_a_coroutine_is_parsed_as_it_is() -> None:
    module = Module("async def f():\n    await g(async_=True)  # f(async=True)\n")
    assert module.index.of(OldKeyword) == []
