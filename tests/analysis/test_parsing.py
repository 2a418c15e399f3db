"""The faster parse of the command: the same tree, and nothing changes for others by default."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CODE = """
import sys
from pathlib import Path
import libcst as cst
from torchlint.analysis.parsing import parse, trust_parser
text = Path(sys.argv[1]).read_text(encoding="utf-8")
before = parse(text)
try:
    cst.Name("")
except cst.CSTValidationError:
    print("checked")
trust_parser()
trust_parser()
after = parse(text)
print(before.deep_equals(after), after.code == text, cst.Name("").value == "")
made = cst.Arg(cst.Name("x"))
print(made.star == "", made.keyword, made.whitespace_after_star.value == "")
print(made.with_changes(keyword=cst.Name("y"), equal=cst.AssignEqual()).keyword.value)
"""


def test_the_tree_is_the_same_without_the_checks_of_each_node():
    script = ROOT / "torchlint" / "analysis" / "evaluate.py"
    paths = [str(ROOT), str(ROOT / "rules")]
    start = f"import sys; sys.path[:0] = {paths!r}\n"
    done = subprocess.run(
        [sys.executable, "-c", start + CODE, str(script)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [
        *("checked", "True", "True", "True"),
        *("True", "None", "True"),
        "y",
    ]
