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
from torchlint.analysis.program import Program, trust_parser
text = Path(sys.argv[1]).read_text(encoding="utf-8")
before = Program(text).module
try:
    cst.Name("")
except cst.CSTValidationError:
    print("checked")
trust_parser()
trust_parser()
after = Program(text).module
print(before.deep_equals(after), after.code == text, cst.Name("").value == "")
"""


def test_the_tree_is_the_same_without_the_checks_of_each_node():
    script = ROOT / "fixtures" / "scripts" / "gan.py"
    paths = [str(ROOT), str(ROOT / "rules")]
    start = f"import sys; sys.path[:0] = {paths!r}\n"
    done = subprocess.run(
        [sys.executable, "-c", start + CODE, str(script)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["checked", "True", "True", "True"]
