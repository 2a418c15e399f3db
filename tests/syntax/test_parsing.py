"""The faster parse of the command, which gives the same tree."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from torchlint.syntax.parsing import parse

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
    assert done.stdout.split() == [*["True"] * 6, "None", "True", "y"]
