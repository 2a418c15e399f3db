"""What options of the command line are by default, in one file and across files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst
import pytest
from probing import probed

from torchlint.analysis.options import option_default
from torchlint.analysis.program import Program
from torchlint.analysis.project import Project
from torchlint.imports import Imports

if TYPE_CHECKING:
    from pathlib import Path

READS = "from options import parse\nargs = parse()\nprobe(args.num_workers)\n"
ADDS = "def parse():\n    parser.add_argument({})\n    return parser.parse_args()\n"


def default(program: Program) -> str | None:
    option = probed(program)
    assert isinstance(option, cst.Attribute)
    found = option_default(program, option)
    return None if found is None else found[0].code(found[1])


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param("probe(args.workers)", None, id="no such option"),
        pytest.param("p.add_argument('--workers')\nprobe(args.workers)", None, id="no default"),
        pytest.param("p.add_argument('--works', default=3)\nprobe(a.workers)", None, id="another"),
        pytest.param("p.add_argument('--workers', default=3)\nprobe(a.workers)", "3", id="option"),
        pytest.param(
            "p.add_argument('-j', '--n-jobs', default=os.cpu_count())\nprobe(a.n_jobs)",
            "os.cpu_count()",
            id="a default of this file is any expression",
        ),
    ],
)
def test_options_of_the_file(source: str, expected: str | None) -> None:
    assert default(Program(source)) == expected


@pytest.mark.parametrize(
    ("train", "options", "expected"),
    [
        pytest.param(READS, ["'--num_workers'"], None, id="no default"),
        pytest.param(READS, ["'--num_workers', default=cpus()"], None, id="no literal"),
        pytest.param(
            READS,
            ["'--num_workers', default=4", "'--num_workers', default=0"],
            None,
            id="options that differ",
        ),
        pytest.param(
            READS, ["'--num_workers', default=4", "'--num_workers'"], None, id="one has no default"
        ),
        pytest.param(
            f"{READS}parser.add_argument('--num_workers')\n",
            ["'--num_workers', default=4"],
            None,
            id="its own option, without a default",
        ),
        pytest.param(
            "import torch, options\nprobe(torch.ones(3).num_workers)\n",
            ["'--num_workers', default=4"],
            None,
            id="an attribute of what is no namespace of options",
        ),
        pytest.param(
            READS.replace("options", "elsewhere"),
            ["'--num_workers', default=4"],
            None,
            id="a file that has nothing to do with it",
        ),
        pytest.param(READS, ["'--num_workers', default=4"], "4", id="a literal"),
        pytest.param(READS, ["'--num-workers', default=4"], "4", id="a dash"),
        pytest.param(
            READS,
            ["'--num_workers', default=4", "'--num_workers', default=4"],
            "4",
            id="options that agree",
        ),
    ],
)
def test_options_of_other_files(
    tmp_path: Path, train: str, options: list[str], expected: str | None
) -> None:
    (tmp_path / "train.py").write_text(train)
    for place, each in enumerate(options):
        name = "options.py" if place == 0 else f"options{place}.py"
        more = "".join(f"import options{one}\n" for one in range(1, len(options)) if place == 0)
        (tmp_path / name).write_text(more + ADDS.format(each))
    program = Project(Imports(tmp_path, lambda _: False)).program(str(tmp_path / "train.py"))
    assert program is not None
    assert default(program) == expected
