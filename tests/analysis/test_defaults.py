"""Which conditions on options hold where nobody asks for anything else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst
import pytest
from probing import parsed, parsed_in, probes

from torchlint.analysis.defaults import holds_by_default

if TYPE_CHECKING:
    from pathlib import Path

    from torchlint.analysis.program import Program

ADDS = "p.add_argument({})\nargs = p.parse_args()\n"
TEST = "if {}:\n    pass\n"


def holds(program: Program) -> bool:
    """Whether the one condition of a file holds by default."""
    (branch,) = program.index.of(cst.If)
    assert isinstance(branch, cst.If)
    return holds_by_default(program, branch.test)


@pytest.mark.parametrize(
    ("option", "test"),
    [
        pytest.param("'--log', action='store_true'", "args.log", id="a switch that is off"),
        pytest.param("'--log', default=False", "args.log", id="off by its default"),
        pytest.param("'--log'", "args.log", id="without a default"),
        pytest.param("'--log', default=None", "args.log > 0", id="None is no number"),
        pytest.param("'--log', default=''", "args.log", id="an empty text"),
        pytest.param("'--log', default='no', type=boolean", "args.log", id="a text that is parsed"),
        pytest.param("'--log', default=cpus()", "args.log", id="a default that is computed"),
        pytest.param("'--log', required=True", "not args.log", id="one that has to be given"),
        pytest.param("'--log', action='count'", "not args.log", id="one that is counted"),
        pytest.param("'--log', **more", "not args.log", id="what stars hide"),
        pytest.param("'--log', default=1.0", "args.log > 1", id="too small"),
        pytest.param("'--log', default=1.0", "args.log is other", id="another comparison"),
        pytest.param("'--log', default=1.0", "args.log > least", id="with what is not known"),
        pytest.param("'--log', default=True", "batch.log", id="of another object"),
        pytest.param("'--log', default=True", "args.loud", id="another option"),
        pytest.param("'--log', default=True", "args.log and step % 9 == 0", id="now and then"),
        pytest.param("'--log', default=True", "not args.log", id="not"),
        pytest.param("'--log', default=True", "log", id="a name"),
    ],
)
def test_leaves_open(option: str, test: str) -> None:
    assert not holds(parsed(ADDS.format(option) + TEST.format(test)))


@pytest.mark.parametrize(
    ("option", "test"),
    [
        pytest.param("'--quiet', action='store_false'", "args.quiet", id="a switch that is on"),
        pytest.param("'--log', action='store_true', default=True", "args.log", id="on already"),
        pytest.param("'--quiet', action='store_true'", "not args.quiet", id="not off"),
        pytest.param("'--weight', type=float, default=1.0", "args.weight > 0", id="a weight"),
        pytest.param("'--local-rank', default=-1", "args.local_rank == -1", id="a dash"),
        pytest.param("'--loss', default='l1'", "args.loss != 'l2'", id="a name of a kind"),
        pytest.param("'--loss', type=str, default='l1'", "args.loss == 'l1'", id="a text"),
        pytest.param("'--w', default=1", "args.w and self.args.w < 2", id="of several"),
    ],
)
def test_holds(option: str, test: str) -> None:
    assert holds(parsed(ADDS.format(option) + TEST.format(test)))


@pytest.mark.parametrize(
    ("more", "found"),
    [
        pytest.param("", True, id="as it is added"),
        pytest.param("args.log = rank == 0\n", False, id="set later"),
        pytest.param("p.set_defaults(quiet=1, log=False)\n", False, id="another default"),
        pytest.param(
            "p.add_argument('--quiet', dest='log', action='store_false')\n",
            False,
            id="another switch for it",
        ),
        pytest.param("p.add_argument('--log', default=0)\n", False, id="added twice, otherwise"),
        pytest.param("p.add_argument('--log', default=True)\n", True, id="added twice"),
    ],
)
def test_options_of_the_file(more: str, *, found: bool) -> None:
    source = ADDS.format("'--log', default=True") + more + TEST.format("args.log")
    assert holds(parsed(source)) is found


@pytest.mark.parametrize(
    ("default", "after", "found"),
    [
        pytest.param("True", "", True, id="on"),
        pytest.param("False", "", False, id="off"),
        pytest.param("True", "args.log = rank == 0", False, id="set there"),
    ],
)
def test_options_of_another_file(tmp_path: Path, default: str, after: str, *, found: bool) -> None:
    adds = f"p.add_argument('--log', default={default})\nargs = p.parse_args()\n{after}\n"
    main = "from options import args\nopt = args\n" + TEST.format("opt.log")
    assert holds(parsed_in(tmp_path, {"options.py": adds, "main.py": main}, "main.py")) is found


@pytest.mark.parametrize(
    ("options", "first", "second"),
    [
        pytest.param("'--log', type=bool, default=True", False, True, id="on, whatever is given"),
        pytest.param("'--log', type=bool, default=False", False, False, id="on where it is given"),
        pytest.param("'--log', action='store_true', default=True", False, True, id="always on"),
        pytest.param(
            "'--log', dest='log', action='store_true', default=True", False, True, id="by its name"
        ),
        pytest.param(
            "'--log', action='store_true', default=True)\n"
            "p.add_argument('--off', dest='log', action='store_false'",
            False,
            False,
            id="another switches it off",
        ),
        pytest.param("'--log', type=int, default=True", False, False, id="0 is off"),
        pytest.param("'--log', type=str2bool, default=True", False, False, id="a reader of texts"),
        pytest.param("'--log', default=True", False, False, id="as it is given"),
        pytest.param(
            "'--log', type=bool, default=True)\nargs.log = (rank == 0", False, False, id="set later"
        ),
    ],
)
def test_arms_of_an_option_that_cannot_be_off(options: str, *, first: bool, second: bool) -> None:
    source = ADDS.format(options) + "if args.log:\n    probe(1)\nelse:\n    probe(2)\n"
    program = parsed(source)
    assert [program.unreached.at(one) for one in probes(program)] == [first, second]
