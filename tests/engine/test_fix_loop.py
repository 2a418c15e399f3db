from __future__ import annotations

import libcst as cst
import pytest
from engine_tools import nodes, source

from torchlint import linter
from torchlint.edits.fix import Fix, Safety
from torchlint.edits.rewrites import (
    AddArgument,
    AddImport,
    DeleteStatement,
    InsertAfter,
    InsertBefore,
    Replace,
)
from torchlint.linter import Options, fix_source
from torchlint.registry import ENGINE_RULES
from torchlint.rule import Finding
from torchlint.source import decode_source
from torchlint.syntax.text import Edit


def rename(old, new, safety=Safety.SAFE):
    """A check that wants a name replaced."""

    def check(script):
        for name in nodes(script.module, cst.Name):
            if name.value == old:
                yield Finding(name, f"{old} is bad", Fix("t", safety, (Replace(name, new),)))

    return check


def keyword(key, code="1"):
    """A check that wants every call of f to have an argument."""

    def check(script):
        for call in nodes(script.module, cst.Call):
            keys = {arg.keyword.value for arg in call.args if arg.keyword}
            if isinstance(call.func, cst.Name) and call.func.value == "f" and key not in keys:
                yield Finding(
                    call, f"no {key}", Fix("t", Safety.SAFE, (AddArgument(call, key, code),))
                )

    return check


class Raw:
    """A rewrite that does whatever a broken rule might do."""

    def __init__(self, node, content, widen=0):
        self.node, self.content, self.widen = node, content, widen

    def edits(self, places):
        span = places.span(self.node)
        return (Edit(span.start, span.end + self.widen, self.content),)


def raw(old, content, *, widen=0):
    def check(script):
        for name in nodes(script.module, cst.Name):
            if name.value == old:
                yield Finding(name, "m", Fix("t", Safety.SAFE, (Raw(name, content, widen),)))

    return check


def fix(text, *rules, safety=Safety.SAFE, fixable=None):
    codes = frozenset(rule.code for rule in rules) if fixable is None else fixable
    return fix_source(source(text), Options(rules, codes), safety)


HEAD = "import torch\n"


def codes(found):
    return [item.code for item in found]


def test_a_fix_is_applied_and_what_is_left_is_found_again(make_rule):
    rules = make_rule("TL901", rename("bad", "good")), make_rule("TL902", rename("good", "good"))
    done = fix(HEAD + "x = bad  # bad\ny = bad\n", *rules, fixable=frozenset({"TL901"}))
    assert done.text == HEAD + "x = good  # bad\ny = good\n"
    assert codes(done.applied) == ["TL901", "TL901"]
    assert codes(done.remaining) == ["TL902", "TL902"]
    assert done.remaining[0].location.row == 2
    assert (done.notes, done.errors) == ((), ())


@pytest.mark.parametrize(
    ("given", "wanted", "applied"),
    [
        pytest.param(Safety.SAFE, Safety.SAFE, True, id="safe"),
        pytest.param(Safety.UNSAFE, Safety.SAFE, False, id="unsafe is not asked for"),
        pytest.param(Safety.SAFE, Safety.UNSAFE, True, id="unsafe takes both"),
        pytest.param(Safety.UNSAFE, Safety.UNSAFE, True, id="unsafe"),
    ],
)
def test_safety(make_rule, given, wanted, applied):
    done = fix(HEAD + "bad\n", make_rule("TL901", rename("bad", "good", given)), safety=wanted)
    assert done.text == HEAD + ("good\n" if applied else "bad\n")
    assert bool(done.applied) is applied
    assert bool(done.remaining) is not applied


def test_nothing_to_fix_gives_the_text_back(make_rule):
    done = fix(HEAD + "x = 1\n", make_rule("TL901", rename("bad", "good")))
    assert (done.text, done.applied, done.remaining) == (HEAD + "x = 1\n", (), ())


def test_a_syntax_error_is_left_as_it_is(make_rule):
    done = fix(HEAD + "x = bad(\n", make_rule("TL901", rename("bad", "good")))
    assert done.text == HEAD + "x = bad(\n"
    assert codes(done.remaining) == ["TL001"]


def test_a_sub_case_is_fixed_with_its_rule(make_rule):
    def check(script):
        for name in nodes(script.module, cst.Name):
            if name.value == "bad":
                yield Finding(name, "m", Fix("t", Safety.SAFE, (Replace(name, "x"),)), case="b")

    done = fix(HEAD + "bad\n", make_rule("TL901", check))
    assert codes(done.applied) == ["TL901b"]


@pytest.mark.parametrize(("first", "second"), [(1, 2), (2, 1)])
def test_fixes_of_one_call_are_merged_in_the_order_of_their_groups(make_rule, first, second):
    rules = (
        make_rule("TL901", keyword("a"), group=first),
        make_rule("TL902", keyword("b"), group=second),
    )
    done = fix(HEAD + "f(x)\nf(\n    x,  # c\n)\n", *rules)
    one, two = ("a", "b") if first < second else ("b", "a")
    assert (
        done.text
        == HEAD + f"f(x, {one}=1, {two}=1)\nf(\n    x,  # c\n    {one}=1,\n    {two}=1,\n)\n"
    )
    assert codes(done.applied)[:2] == [f"TL90{first}"] * 2
    assert len(done.applied) == 4


def test_fixes_inside_of_each_other_take_two_passes(make_rule):
    done = fix(HEAD + "f(f(f()))\n", make_rule("TL901", keyword("a")))
    assert done.text == HEAD + "f(f(f(a=1), a=1), a=1)\n"


def test_fixes_that_need_the_same_import_add_it_once(make_rule):
    def check(script):
        for name in nodes(script.module, cst.Name):
            if name.value == "bad":
                parts = (Replace(name, "math.pi"), AddImport("math"))
                yield Finding(name, "m", Fix("t", Safety.SAFE, parts))

    done = fix(HEAD + "bad\nbad\n", make_rule("TL901", check))
    assert done.text == "import math\n\n" + HEAD + "math.pi\nmath.pi\n"


def test_a_group_waits_as_a_whole_for_those_before_it(make_rule):
    """The fix of TL903 would take the reason of TL902 away, which has to wait for TL901."""

    def insert(code):
        def check(script):
            if code not in script.module.text and "late" not in script.module.text:
                (line,) = nodes(script.module, cst.SimpleStatementLine)[-1:]
                yield Finding(line, "m", Fix("t", Safety.SAFE, (InsertBefore(line, code),)))

        return check

    def late(script):
        for name in nodes(script.module, cst.Name):
            if name.value == "early":
                yield Finding(name, "m", Fix("t", Safety.SAFE, (Replace(name, "late"),)))

    rules = [
        make_rule("TL901", insert("a()"), group=1),
        make_rule("TL902", insert("b()"), group=2),
        make_rule("TL903", late, group=3),
    ]
    assert fix(HEAD + "early()\nx\n", *rules).text == HEAD + "late()\na()\nb()\nx\n"


def test_one_fix_settles_all_findings_that_share_it(make_rule):
    def check(script):
        names = [name for name in nodes(script.module, cst.Name) if name.value == "bad"]
        shared = Fix("t", Safety.SAFE, tuple(Replace(name, "good") for name in names))
        for name in names:
            yield Finding(name, "m", shared)

    done = fix(HEAD + "bad\nbad\n", make_rule("TL901", check))
    assert done.text == HEAD + "good\ngood\n"
    assert codes(done.applied) == ["TL901", "TL901"]
    assert done.notes == ()


def test_fixes_that_undo_each_other_leave_the_file_alone(make_rule):
    rules = make_rule("TL901", rename("bad", "good")), make_rule("TL902", rename("good", "bad"))
    done = fix(HEAD + "bad = 1\n", *rules)
    assert (done.text, done.applied) == (HEAD + "bad = 1\n", ())
    assert codes(done.remaining) == ["TL901"]
    assert "snippet.py: the fixes of TL901 and TL902 find no end" in done.notes[0]


def test_a_fix_without_end_leaves_the_file_alone(make_rule):
    def check(script):
        last = script.module.tree.body[-1]
        yield Finding(last, "m", Fix("t", Safety.SAFE, (InsertAfter(last, "y = 1"),)))

    done = fix(HEAD + "x = 1\n", make_rule("TL901", check))
    assert (done.text, done.applied) == (HEAD + "x = 1\n", ())
    assert "the fixes of TL901 find no end in 50 passes" in done.notes[0]


def test_a_fix_that_takes_no_end_of_passes(make_rule, monkeypatch):
    monkeypatch.setattr(linter, "MAX_PASSES", 1)
    rules = make_rule("TL901", rename("bad", "good")), make_rule("TL902", rename("good", "fine"))
    done = fix(HEAD + "bad = 1\n", *rules)
    assert done.text == HEAD + "bad = 1\n"
    assert "find no end in 1 passes" in done.notes[0]


@pytest.mark.parametrize(
    ("check", "said"),
    [
        pytest.param(raw("bad", "(("), "leaves a file that cannot be parsed", id="syntax"),
        pytest.param(raw("bad", "return"), "cannot be compiled ('return' outside", id="compile"),
        pytest.param(raw("bad", "good  ", widen=7), "loses the comment `# why`", id="comment"),
        pytest.param(raw("bad", "(bad)"), "does not settle the finding", id="still there"),
        pytest.param(raw("bad", "bad"), "changes nothing", id="nothing"),
        pytest.param(raw("bad", "("*300 + "1" + ")"*300), "line 2: too many nested", id="deep"),
    ],
)  # fmt: skip
def test_a_bad_fix_is_taken_back_and_the_others_are_kept(make_rule, check, said):
    rules = make_rule("TL901", check), make_rule("TL902", rename("worse", "better"))
    text = HEAD + "bad  # why\nx = worse\nz = worse\n"
    done = fix(text, *rules)
    assert done.text == text.replace("worse", "better")
    assert codes(done.applied) == ["TL902", "TL902"]
    assert codes(done.remaining) == ["TL901"]
    (note,) = done.notes
    assert note.startswith("snippet.py:2: the fix of TL901 (fake-0) ")
    assert said in note
    assert note.endswith("this is a bug of the rule, please report it with the file")


def test_a_fix_that_makes_another_rule_fail_is_taken_back(make_rule):
    def brittle(script):
        if any(name.value == "good" for name in nodes(script.module, cst.Name)):
            raise KeyError("good")
        return ()

    done = fix(
        HEAD + "bad\n", make_rule("TL901", rename("bad", "good")), make_rule("TL902", brittle)
    )
    assert done.text == HEAD + "bad\n"
    assert "makes TL902 fail (KeyError: 'good')" in done.notes[0]


def test_a_rule_that_fails_from_the_start_does_not_stop_the_fixes(make_rule):
    def fails(_):
        raise KeyError("oh")

    done = fix(HEAD + "bad\n", make_rule("TL901", rename("bad", "good")), make_rule("TL902", fails))
    assert done.text == HEAD + "good\n"
    assert [error.rule for error in done.errors] == ["TL902"]


def test_a_fix_that_the_encoding_cannot_hold_is_taken_back(make_rule):
    data = b"# coding: latin-1\nimport torch\nbad = '\xe4'\n"
    rule = make_rule("TL901", rename("bad", "\u03b1"))
    done = fix_source(
        decode_source(data, "a.py"), Options((rule,), frozenset({"TL901"})), Safety.SAFE
    )
    assert done.text.encode("latin-1") == data
    assert "a fix needs '\u03b1', which iso8859-1 does not have" in done.notes[0]


def test_settling_is_judged_by_place_when_another_finding_appears(make_rule):
    def check(script):
        names = nodes(script.module, cst.Name)
        for name in names:
            if name.value == "bad" or (name.value == "late" and "good" in {n.value for n in names}):
                yield Finding(name, "m", Fix("t", Safety.SAFE, (Replace(name, "good"),)))

    done = fix(HEAD + "x = bad\nlate\n", make_rule("TL901", check))
    assert done.text == HEAD + "x = good\ngood\n"
    assert done.notes == ()


def test_a_fix_that_is_refused_late_is_no_cycle(make_rule):
    rules = make_rule("TL901", rename("bad", "good")), make_rule("TL902", raw("good", "(("))
    done = fix(HEAD + "x = bad\n", *rules)
    assert done.text == HEAD + "x = good\n"
    assert codes(done.applied) == ["TL901"]
    assert ["leaves a file that cannot be parsed" in note for note in done.notes] == [True]


def test_a_finding_inside_of_replaced_code_is_looked_for_there(make_rule):
    def check(script):
        for call in nodes(script.module, cst.Call):
            name = nodes(script.module, cst.Name)[-1]
            yield Finding(name, "m", Fix("t", Safety.SAFE, (Replace(call, "g(0, bad)"),)))

    done = fix(HEAD + "x = f(bad)\n", make_rule("TL901", check))
    assert done.text == HEAD + "x = f(bad)\n"
    assert "does not settle" in done.notes[0]


def test_places_are_followed_through_the_fixes_above(make_rule):
    rules = make_rule("TL901", raw("bad", "(bad)")), make_rule("TL902", rename("worse", "better"))
    done = fix(HEAD + "x = worse\ny = worse + bad\n", *rules)
    assert done.text == HEAD + "x = better\ny = better + bad\n"
    assert "does not settle" in done.notes[0]


def test_python_that_gives_up_on_a_file_is_no_judge(make_rule, monkeypatch):
    def fails(*_, **__):
        raise RecursionError

    monkeypatch.setattr(linter, "compile", fails, raising=False)
    done = fix(HEAD + "bad\n", make_rule("TL901", rename("bad", "good")))
    assert (done.text, done.notes) == (HEAD + "good\n", ())


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_bytes_outside_of_the_edits_stay(make_rule, newline):
    text = "import torch\n\tif 1:\n\t\tx = bad \t\n\n\f\n# ä\nif 2:\n  y\nz=bad".replace(
        "\tif", "if"
    )
    text = text.replace("\t\tx", "\tx").replace("\n", newline)
    data = b"\xef\xbb\xbf" + text.encode()
    before = decode_source(data, "a.py")
    rule = make_rule("TL901", rename("bad", "good"))
    done = fix_source(before, Options((rule,), frozenset({"TL901"})), Safety.SAFE)
    assert before.encode(done.text) == data.replace(b"bad", b"good")


def test_a_loop_rewrite_of_several_parts(make_rule):
    def check(script):
        for loop in nodes(script.module, cst.For):
            for part in nodes(script.module, cst.Call):
                if script.module.code(part) == "sync()":
                    statement = script.module.smallest_statement(part)
                    parts = (DeleteStatement(statement), InsertAfter(loop, "sync()"))
                    if script.module.parent(script.module.parent(statement)) is loop.body:
                        yield Finding(part, "m", Fix("t", Safety.SAFE, parts))

    text = HEAD + "for x in y:\n    # why\n    sync()  # here\n    f(x)\n"
    done = fix(text, make_rule("TL901", check))
    assert done.text == HEAD + "for x in y:\n    # why\n    # here\n    f(x)\nsync()\n"


def test_an_unused_suppression_is_removed_and_its_comment_may_go(make_rule):
    rules = make_rule("TL201", rename("bad", "good")), *ENGINE_RULES
    text = HEAD + "bad\nx = 1  # torchlint: ignore[TL201] old\n"
    done = fix(text, *rules)
    assert done.text == HEAD + "good\nx = 1\n"
    assert sorted(codes(done.applied)) == ["TL002", "TL201"]
    assert done.notes == ()


def test_a_suppressed_finding_is_not_fixed(make_rule):
    rules = make_rule("TL201", rename("bad", "good")), *ENGINE_RULES
    text = HEAD + "bad  # torchlint: ignore[TL201]\n"
    assert fix(text, *rules).text == text
