from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from queue import SimpleQueue

import libcst as cst
import pytest
from engine_tools import nodes, source

from torchlint import checking, deep
from torchlint.checking import Options, check_source, examine
from torchlint.deep import with_deep_stack
from torchlint.edits.fix import Fix, Safety
from torchlint.edits.rewrites import InsertAfter, Replace
from torchlint.errors import InternalError, UnreadableFileError
from torchlint.registry import ENGINE_RULES
from torchlint.rule import Finding, Location, Severity
from torchlint.source import decode_source
from torchlint.syntax.text import Edit, Span


def names(word):
    """A check that reports every use of a name."""

    def check(script):
        for name in nodes(script.module, cst.Name):
            if name.value == word:
                yield Finding(name, f"{word} is used")

    return check


def options(*rules):
    return Options(rules, frozenset(rule.code for rule in rules))


TEXT = "import torch\n\nx = bad + (bad)\n"


def test_findings_are_sorted_and_placed(make_rule):
    rules = make_rule("TL901", names("x")), make_rule("TL902", names("bad"))
    first, second, third = check_source(source(TEXT), options(*rules))
    assert (first.code, first.span, first.location) == ("TL901", Span(14, 15), Location(3, 1))
    assert (second.code, second.message) == ("TL902", "bad is used")
    assert (third.location, third.end_location) == (Location(3, 12), Location(3, 15))
    assert third.filename == "snippet.py"
    assert (third.severity, third.fix, third.suppression_row) == (Severity.WARNING, None, 3)


def test_a_finding_overrides_severity_case_and_help(make_rule):
    def check(script):
        yield Finding(
            nodes(script.module, cst.Name)[0], "m", severity=Severity.INFO, case="b", help="do this"
        )

    (found,) = check_source(source(TEXT), options(make_rule("TL901", check)))
    assert (found.code, found.severity, found.help) == ("TL901b", Severity.INFO, "do this")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("x = bad\n", (), id="no framework"),
        pytest.param(TEXT, (("DataLoader",),), id="no word"),
        pytest.param(TEXT, (("bad", "good"), ("worse",)), id="only one of two words"),
    ],
)
def test_the_words_gate(make_rule, text, words):
    assert check_source(source(text), options(make_rule("TL901", names("bad"), words=words))) == []


def test_a_closed_gate_imports_neither_libcst_nor_a_rule():
    code = (
        "import sys; from torchlint.linter import Options, check_source;"
        "from torchlint.registry import all_rules; from torchlint.source import decode_source;"
        "o = Options(all_rules(), frozenset());"
        "check_source(decode_source(b'x = 1', 'a.py'), o);"
        "check_source(decode_source(b'import torch', 'a.py'), o);"
        "print([m for m in ('libcst', 'rich') if m in sys.modules])"
    )
    paths = {"PYTHONPATH": ":".join(p for p in sys.path if p)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=paths
    )
    assert done.stdout.strip() == "[]"


def test_a_fix_is_given_as_edits(make_rule):
    def check(script):
        node = nodes(script.module, cst.Name)[-1]
        fix = Fix("do better", Safety.UNSAFE, (Replace(node, "good"),), "all")
        yield Finding(node, "bad", fix)

    (found,) = check_source(source(TEXT), options(make_rule("TL901", check)))
    assert found.fix.edits == (Edit(25, 28, "good"),)
    assert (found.fix.title, found.fix.safety, found.fix.changes) == (
        "do better",
        Safety.UNSAFE,
        "all",
    )


def test_a_fix_that_cannot_be_placed_is_left_out_with_the_reason(make_rule):
    def check(script):
        line = nodes(script.module, cst.Expr)[0]
        yield Finding(line, "bad", Fix("t", Safety.SAFE, (InsertAfter(line, "y"),)), help="Do it.")

    text = "import torch\nbad; good\n"
    (found,) = check_source(source(text), options(make_rule("TL901", check)))
    assert found.fix is None
    assert found.help == (
        "Do it. It has no fix here because another statement follows it on the same line."
    )


def test_a_rule_that_fails_hides_no_other(make_rule):
    def fails(script):
        yield Finding(nodes(script.module, cst.Name)[0], "lost")
        raise KeyError("oh")

    rules = make_rule("TL901", fails), make_rule("TL902", names("bad")), *ENGINE_RULES
    text = TEXT + "y = 1  # torchlint: ignore[TL902]\n"
    checked = examine(source(text), options(*rules))
    assert [item.code for item in checked.diagnostics] == ["TL902", "TL902"]
    (error,) = checked.errors
    assert (error.rule, error.filename) == ("TL901", "snippet.py")
    assert str(error) == (
        "snippet.py: internal error in rule TL901: KeyError: 'oh'; "
        "this is a bug of torchlint, please report it with the file"
    )
    assert isinstance(error.__cause__, KeyError)
    with pytest.raises(InternalError, match="TL901"):
        check_source(source(text), options(*rules))


def test_a_fix_in_its_own_way_is_the_rules_error(make_rule):
    def check(script):
        node = nodes(script.module, cst.Name)[-1]
        yield Finding(node, "bad", Fix("t", Safety.SAFE, (Replace(node, "a"), Replace(node, "b"))))

    checked = examine(source(TEXT), options(make_rule("TL901", check)))
    assert checked.diagnostics[0].fix is None
    assert "TL901: ValueError: two of its rewrites" in str(checked.errors[0])


def test_a_node_that_is_not_in_the_file_is_an_error(make_rule):
    def check(_):
        yield Finding(cst.Name("stranger"), "bad")

    checked = examine(
        source(TEXT), options(make_rule("TL901", check), make_rule("TL902", names("bad")))
    )
    assert "in rule TL901: the place of a Name is unknown" in str(checked.errors[0])
    assert [item.code for item in checked.diagnostics] == ["TL902", "TL902"]


@pytest.mark.parametrize(
    ("known", "text", "said"),
    [
        pytest.param(True, TEXT.replace("bad", "good"), "libcst does not give", id="text"),
        pytest.param(False, TEXT + "x\n", "Python's parser and libcst read", id="nodes"),
        pytest.param(False, "something else", "libcst does not read this file", id="syntax"),
    ],
)
def test_a_concrete_tree_that_is_another_one_is_an_error(make_rule, known, text, said):
    def check(script):
        if known:
            assert script.module.concrete
            vars(script.module.concrete)["_text"] = text
        script.module.text = text
        yield Finding(nodes(script.module, cst.AssignTarget)[0], "m")

    checked = examine(source(TEXT), options(make_rule("TL901", check)))
    assert checked.diagnostics == ()
    (error,) = checked.errors
    assert str(error).startswith(f"snippet.py: internal error in rule TL901: {said}")


@pytest.mark.parametrize(
    ("code", "row", "column", "said"),
    [
        pytest.param("def f(:\n  pass\n", 2, 7, "invalid syntax", id="bracket"),
        pytest.param("print 'a'\n", 2, 1, "Missing parentheses", id="Python 2"),
        pytest.param("x = 'abc\n", 2, 5, "unterminated", id="string"),
        pytest.param("if x:\npass\n", 3, 1, "indented", id="indentation"),
        pytest.param("f(async=True)\n", 2, 3, "invalid syntax", id="Python 3.6"),
    ],
)
def test_syntax_errors(make_rule, code, row, column, said):
    text = "import torch\n" + code
    (found,) = check_source(source(text), options(make_rule("TL901", names("x"))))
    assert (found.code, found.name, found.severity) == ("TL001", "syntax-error", Severity.ERROR)
    assert (found.location.row, found.location.column) == (row, column)
    assert said in found.message


@pytest.mark.parametrize(
    ("filename", "code"),
    [
        pytest.param("{{name}}/train.py", "import {{name}}\n", id="by its path"),
        pytest.param("train.py", "{% if cuda %}\nx = 1\n{% endif %}\n", id="by its lines"),
    ],
)
def test_a_template_is_information(make_rule, filename, code):
    text = replace(source("import torch\n" + code), filename=filename)
    (found,) = check_source(text, options(make_rule("TL901", names("x"))))
    assert (found.code, found.severity) == ("TL001", Severity.INFO)
    assert "this is a template" in found.message


def test_what_only_libcst_cannot_parse_is_a_finding_too(make_rule, monkeypatch):
    def fails(text, *_):
        raise cst.ParserSyntaxError("no", lines=text.splitlines(), raw_line=3, raw_column=2)

    monkeypatch.setattr("torchlint.syntax.module.Module.__init__", lambda _, *a: fails(*a))
    (found,) = check_source(source(TEXT), options(make_rule("TL901", names("x"))))
    assert found.location == Location(3, 3)
    assert "libcst cannot parse" in found.message


class PanicException(BaseException):
    """What a crash of libcst's parser looks like."""


@pytest.mark.parametrize(
    ("error", "said"),
    [
        pytest.param(RecursionError(), "nests too deeply", id="recursion"),
        pytest.param(PanicException(), "parser fails", id="panic"),
    ],
)
def test_a_parser_that_gives_up_makes_the_file_unreadable(make_rule, monkeypatch, error, said):
    def fails(*_):
        raise error

    monkeypatch.setattr("torchlint.syntax.module.Module.__init__", fails)
    with pytest.raises(UnreadableFileError, match=f"snippet.py: .*{said}.*exclude it"):
        check_source(source(TEXT), options(make_rule("TL901", names("x"))))


def test_an_interrupt_is_passed_on(make_rule, monkeypatch):
    def fails(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("torchlint.syntax.module.Module.__init__", fails)
    with pytest.raises(KeyboardInterrupt):
        check_source(source(TEXT), options(make_rule("TL901", names("x"))))


def test_a_file_that_is_too_deep_is_unreadable(make_rule):
    text = "import torch\nx = " + "(" * 1000 + "1" + ")" * 1000 + "\n"
    with pytest.raises(UnreadableFileError, match=r"snippet.py: .*line 2: too many nested paren"):
        check_source(source(text), options(make_rule("TL901", names("x"))))


def test_a_file_that_takes_too_long_is_unreadable(make_rule, monkeypatch):
    monkeypatch.setattr(checking, "TIME_LIMIT", -1.0)
    with pytest.raises(UnreadableFileError, match=r"snippet.py: took more than .* after parsing"):
        check_source(source(TEXT), options(make_rule("TL901", names("x"))))


def test_the_deep_stack_gives_results_and_errors_back():
    def depth(n):
        return 1 + depth(n - 1) if n else 0

    before = sys.getrecursionlimit(), threading.stack_size()
    assert with_deep_stack(lambda: with_deep_stack(lambda: depth(10_000))) == 10_000
    with pytest.raises(KeyError, match="oh"):
        with_deep_stack(lambda: {}["oh"])
    assert (sys.getrecursionlimit(), threading.stack_size()) == before


def test_one_thread_has_the_deep_stack_for_all_files():
    """A thread for each file costs 5 % of a check."""
    assert with_deep_stack(threading.get_ident) == with_deep_stack(threading.get_ident)


def test_what_was_interrupted_does_not_answer_for_what_comes_after(monkeypatch):
    def interrupted(_self):
        raise KeyboardInterrupt

    with_deep_stack(lambda: None)
    with monkeypatch.context() as patched:
        patched.setattr(deep, "SimpleQueue", type("Q", (SimpleQueue,), {"get": interrupted}))
        with pytest.raises(KeyboardInterrupt):
            with_deep_stack(lambda: "before")
    assert with_deep_stack(lambda: "after") == "after"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_child_gets_a_deep_stack_of_its_own():
    with_deep_stack(lambda: None)
    child = os.fork()
    if not child:
        os._exit(with_deep_stack(lambda: 7))
    for _ in range(500):
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            break
        time.sleep(0.02)
    else:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        pytest.fail("the child waits for a thread that only its parent has")
    assert os.waitstatus_to_exitcode(status) == 7


@pytest.mark.parametrize(
    ("statement", "row"),
    [
        pytest.param("x = f(\n    bad,\n)\n", 3, id="in brackets"),
        pytest.param('x = """a\n{bad}\n""" + bad\n', 4, id="after a string of lines"),
        pytest.param('x = f"""{bad}\n"""\n', 3, id="in an f-string of lines"),
        pytest.param("x = bad + \\\n    1\n", 3, id="backslash"),
        pytest.param("x = '\\\n' + bad + '''\n'''\n", 4, id="string that goes on"),
        pytest.param("if bad and \\\n   1:\n    pass\n", 3, id="backslash in a header"),
        pytest.param("if (bad and\n   1):\n    pass\n", 2, id="brackets in a header"),
    ],
)
def test_the_row_that_takes_a_suppression_comment(make_rule, statement, row):
    rule = make_rule("TL901", names("bad"))
    (found,) = check_source(source("import torch\n" + statement), options(rule))
    assert found.suppression_row == row


def test_byte_order_mark_and_carriage_returns(make_rule):
    data = b"\xef\xbb\xbfimport torch\rx = 1\r\nbad\n"
    (found,) = check_source(decode_source(data, "a.py"), options(make_rule("TL901", names("bad"))))
    assert found.location == Location(3, 1)
    assert replace(found, span=Span(20, 23)) == found
