from __future__ import annotations

import libcst as cst
import pytest
from engine_tools import nodes, source

from torchlint.edits.fix import Safety
from torchlint.linter import Options, check_source, fix_source
from torchlint.registry import ENGINE_RULES, all_rules
from torchlint.rule import Finding
from torchlint.suppress import add_ignore
from torchlint.syntax.text import apply

HEAD = "import torch\n"


@pytest.fixture
def rules(make_rule):
    """All rules are selected, and one reports the name `bad`, another `worse` as a sub-case."""

    def check(word, case=""):
        def report(script):
            for name in nodes(script.module, cst.Name):
                if name.value == word:
                    yield Finding(name, "m", case=case)

        return report

    fakes = (make_rule("TL201", check("bad")), make_rule("TL303", check("worse", "b")))
    silent = [
        make_rule(rule.code, lambda _: ())
        for rule in all_rules()
        if rule not in ENGINE_RULES and rule.code not in ("TL201", "TL303")
    ]
    return (*ENGINE_RULES, *fakes, *silent)


def found(text, rules):
    options = Options(tuple(rules), frozenset())
    return [(item.code, item.location.row) for item in check_source(source(HEAD + text), options)]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("bad  # torchlint: ignore[TL201]\n", id="same line"),
        pytest.param("bad  # torchlint: ignore[TL201] because\n", id="with a reason"),
        pytest.param("bad  #torchlint:ignore[TL201]\n", id="no blanks"),
        pytest.param("bad  # torchlint: ignore\n", id="every code"),
        pytest.param("bad  # torchlint: ignore[TL2]\n", id="prefix"),
        pytest.param("worse  # torchlint: ignore[TL303]\n", id="rule of a sub-case"),
        pytest.param("worse  # torchlint: ignore[TL303b]\n", id="sub-case"),
        pytest.param("bad, worse  # torchlint: ignore[TL201, TL303b]\n", id="two codes"),
        pytest.param("bad  # see below  # torchlint: ignore[TL201]\n", id="behind another comment"),
        pytest.param("# torchlint: ignore[TL201]\nbad\n", id="above"),
        pytest.param("# torchlint: ignore[TL201]\n# and so on\nbad\n", id="above, with more"),
        pytest.param("if x:\n    # torchlint: ignore[TL201]\n    bad\n", id="above, indented"),
        pytest.param("# torchlint: ignore[TL201]\nf(\n    1,\n    bad,\n)\n", id="above lines"),
        pytest.param("f(\n    1,\n    bad,\n)  # torchlint: ignore[TL201]\n", id="last line"),
        pytest.param("f(  # torchlint: ignore[TL201]\n    bad,\n)\n", id="first line"),
        pytest.param("f(\n    # torchlint: ignore[TL201]\n    bad,\n)\n", id="inside"),
        pytest.param("if bad:  # torchlint: ignore[TL201]\n    x\n", id="header"),
        pytest.param("if (bad\n   ):  # torchlint: ignore[TL201]\n    x\n", id="end of header"),
        pytest.param("@bad  # torchlint: ignore[TL201]\ndef f(): ...\n", id="decorator"),
        pytest.param("@bad\ndef f(): ...  # torchlint: ignore[TL201]\n", id="def below decorator"),
        pytest.param("# torchlint: ignore-file[TL201]\nx\nbad\n", id="file, above"),
        pytest.param("x\nbad\n# torchlint: ignore-file[TL201]\n", id="file, below"),
        pytest.param("bad\n# torchlint: ignore-file", id="file, every code, at the end"),
        pytest.param("bad  # noqa\n", id="noqa"),
        pytest.param("bad  # NOQA: TL201\n", id="noqa with a code"),
        pytest.param("bad  # noqa:E501,TL201\n", id="noqa with other codes"),
        pytest.param("bad  # noqa: TL2\n", id="noqa with a prefix"),
        pytest.param('f(f"""\n{bad}\n""")  # noqa: TL201\n', id="noqa behind a long string"),
        pytest.param("worse  # noqa: TL303b\n", id="noqa with a sub-case"),
    ],
)
def test_suppressed(rules, text):
    assert found(text, rules) == []


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("bad\n'# torchlint: ignore[TL201]'\n", id="in a string"),
        pytest.param("bad; '''\n# torchlint: ignore-file\n'''\n", id="in a string of lines"),
        pytest.param("bad  # torchlint: ignore[TL201\n", id="bracket does not close"),
        pytest.param("bad  # torchlint ignore[TL201]\n", id="no colon"),
        pytest.param("bad  # torchlint: ignored\n", id="another word"),
        pytest.param("bad\n# noqa\n", id="noqa below"),
        pytest.param("# noqa\nbad\n", id="noqa above"),
        pytest.param("f(  # noqa\n    bad,\n)\n", id="noqa on another line of the statement"),
        pytest.param("bad  # noqa: E501\n", id="noqa of others"),
    ],
)
def test_not_suppressed(rules, text):
    assert [code for code, _ in found(text, rules)] == ["TL201"]


@pytest.mark.parametrize(
    ("text", "suppressed"),
    [
        pytest.param("f(  # noqa\n    bad,\n    bad,\n)\n", True, id="first line"),
        pytest.param("f(\n    bad,\n    bad,\n)  # noqa\n", True, id="last line"),
        pytest.param("f(\n    bad,  # noqa\n    bad,\n)\n", True, id="first place"),
        pytest.param("f(\n    bad,\n    bad,  # noqa\n)\n", True, id="last place"),
        pytest.param("f(\n    x,  # noqa\n    bad,\n    bad,\n)\n", False, id="another line"),
        pytest.param("f(\n    bad,\n    bad,\n)\nx  # noqa\n", False, id="below"),
    ],
)
def test_a_finding_of_several_places_is_of_its_statement(make_rule, text, suppressed):
    def report(script):
        first, *more = [name for name in nodes(script.module, cst.Name) if name.value == "bad"]
        yield Finding(first, "m", more=tuple(more))

    assert bool(found(text, [make_rule("TL201", report)])) is not suppressed


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        pytest.param("bad\n# torchlint: ignore[TL201]\n\nx\n", [2, 3], id="below"),
        pytest.param("# torchlint: ignore[TL201]\n\nbad\n", [2, 4], id="above, with a gap"),
        pytest.param(
            "if x:  # torchlint: ignore[TL201]\n    bad\n", [2, 3], id="header, not the block"
        ),
        pytest.param("bad  # torchlint: ignore-file[TL201]\n", [2, 2], id="file, beside code"),
        pytest.param("bad  # torchlint: ignore[TL202]\n", [2, 2], id="another code"),
        pytest.param("bad  # torchlint: ignore[]\n", [2, 2], id="no code"),
    ],
)
def test_a_misplaced_suppression_is_reported_beside_the_finding(rules, text, rows):
    result = found(text, rules)
    assert sorted(code for code, _ in result) == ["TL002", "TL201"]
    assert [row for _, row in result] == rows


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("x  # torchlint: ignore[TL201]\n", "x\n", id="one code"),
        pytest.param("x  # torchlint: ignore[TL201] why\n", "x\n", id="reason goes"),
        pytest.param("x  # torchlint: ignore\n", "x\n", id="every code"),
        pytest.param("x  # torchlint: ignore[TL9]", "x", id="prefix, end of file"),
        pytest.param("x\n# torchlint: ignore-file[TL201]\ny\n", "x\ny\n", id="file"),
        pytest.param(
            "if x:\n    # torchlint: ignore[TL201]\n    y\n", "if x:\n    y\n", id="own line"
        ),
        pytest.param("x\r\n# torchlint: ignore[TL201]\r\ny\r\n", "x\r\ny\r\n", id="own line, CRLF"),
        pytest.param(
            "bad  # torchlint: ignore[TL201, TL202, TL303] why\n",
            "bad  # torchlint: ignore[TL201] why\n",
            id="some codes",
        ),
        pytest.param(
            "x  # torchlint: ignore[TL201] why  # noqa\n", "x  # noqa\n", id="others stay"
        ),
        pytest.param("x  # a  # torchlint: ignore[TL201] b\n", "x  # a\n", id="others stay before"),
        pytest.param("x  # noqa: E501, TL201\n", "x  # noqa: E501\n", id="noqa of others stays"),
        pytest.param("x  # noqa: TL201 because\n", "x\n", id="noqa"),
        pytest.param("x  # torchlint: ignore[TL999]\n", "x\n", id="no such code"),
    ],
)
def test_unused(rules, before, after):
    options = Options(tuple(rules), frozenset({"TL002"}))
    (item,) = check_source(source(HEAD + before), options)
    assert (item.code, item.name) == ("TL002", "unused-suppression")
    assert item.fix.safety is Safety.SAFE
    assert apply(HEAD + before, item.fix.edits) == HEAD + after
    done = fix_source(source(HEAD + before), options, Safety.SAFE)
    assert (done.text, done.remaining, done.notes) == (HEAD + after, (), ())


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("x  # noqa\n", id="bare noqa"),
        pytest.param("x  # noqa: E501\n", id="noqa of others"),
        pytest.param("x  # noqa: TLX1\n", id="noqa that looks like ours"),
        pytest.param("x  # torchlint: ignore[TL002, TL201]\n", id="asked to say nothing"),
    ],
)
def test_not_reported_as_unused(rules, text):
    assert found(text, rules) == []


def test_unused_is_reported_without_parsing(rules):
    assert found("x  # torchlint: ignore[TL201]\n", rules[:1]) == []
    gated = [rule for rule in all_rules() if rule.words or rule in ENGINE_RULES]
    assert found("x = 1  # torchlint: ignore[TL201]\n", gated) == [("TL002", 2)]


@pytest.mark.parametrize("code", ["TL201", "TL2", "TL303b"])
def test_unused_is_not_reported_where_the_rule_was_not_asked(rules, code):
    text = f"x  # torchlint: ignore[{code}]\ny  # torchlint: ignore\n"
    some = [rule for rule in rules if rule.code not in ("TL201", "TL303")]
    assert found(text, some) == []
    assert found(text, [rule for rule in rules if rule.code != "TL002"]) == []


def test_the_message_says_what_is_unused(rules):
    text = HEAD + "x  # torchlint: ignore[TL201,TL202]\ny  # torchlint: ignore-file\n"
    items = check_source(source(text), Options(tuple(rules), frozenset()))
    assert [item.message for item in items] == [
        "unused suppression: TL201 and TL202 are not found here",
        "unused suppression: `ignore-file` counts only on a line of its own",
    ]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("bad\n", "bad  # torchlint: ignore[TL201] why\n", id="new"),
        pytest.param("bad + bad", "bad + bad  # torchlint: ignore[TL201] why", id="end of file"),
        pytest.param("bad \r\n", "bad  # torchlint: ignore[TL201] why\r\n", id="trailing blank"),
        pytest.param(
            "bad, worse  # c\n",
            "bad, worse  # c  # torchlint: ignore[TL201, TL303b] why\n",
            id="two",
        ),
        pytest.param(
            "bad, worse  # torchlint: ignore[TL201] old\n",
            "bad, worse  # torchlint: ignore[TL201, TL303b] old\n",
            id="joined",
        ),
        pytest.param(
            "x = f'''\n{bad}\n'''\n",
            "x = f'''\n{bad}\n'''  # torchlint: ignore[TL201] why\n",
            id="string",
        ),
        pytest.param("x = (\n", "x = (\n", id="syntax error"),
    ],
)
def test_add_ignore(rules, before, after):
    options = Options(tuple(rules), frozenset())
    read = source(HEAD + before)
    text = add_ignore(read, check_source(read, options), "why")
    assert text == HEAD + after
    again = [item.code for item in check_source(source(text), options)]
    assert again == (["TL001"] if before == after else [])
