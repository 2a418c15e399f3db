from __future__ import annotations

from textwrap import dedent

import pytest
import torch
from packaging.version import Version
from tools import check, check_in, fixed, silent

from torchlint.edits.fix import Safety
from torchlint.rule import Severity

CODE = "TL906"
NEW = "2.6"


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("import torch\ntorch.amp.autocast('cuda')\n", id="the new name"),
        pytest.param("import torch\ntorch.autocast('cuda', enabled=amp)\n", id="its short form"),
        pytest.param(
            "from torch.amp import GradScaler\nscaler = GradScaler('cuda')\n", id="imported"
        ),
        pytest.param("import torch.cuda.amp\nfrom x import autocast\nautocast()\n", id="another's"),
        pytest.param(
            "from torch_npu.npu.amp import autocast\nautocast()  # not torch.cuda.amp\n",
            id="another device's own",
        ),
        pytest.param(
            """
            import torch
            def scale(scaler: torch.cuda.amp.GradScaler | None):
                return isinstance(scaler, torch.cuda.amp.GradScaler)
            """,
            id="not called: it does not warn",
        ),
        pytest.param(
            """
            try:
                from torch.amp import autocast
            except ImportError:
                from torch.cuda.amp import autocast
            autocast()
            """,
            id="whichever torch has",
        ),
        pytest.param(
            """
            import torch
            def make(device):
                try:
                    return torch.amp.GradScaler(device)
                except (AttributeError, TypeError):
                    return torch.cuda.amp.GradScaler()
            """,
            id="tried after the new one",
        ),
        pytest.param(
            """
            import torch
            TORCH_2_4 = check_version(torch.__version__, "2.4.0")
            scaler = torch.amp.GradScaler("cuda") if TORCH_2_4 else torch.cuda.amp.GradScaler()
            """,
            id="by version, in an expression",
        ),
        pytest.param(
            """
            import torch
            if device.type == "cuda":
                cast = torch.cuda.amp.autocast()
            else:
                cast = torch.amp.autocast(device.type)
            """,
            id="beside the new one, which the author knows",
        ),
        pytest.param("from torch.cuda.amp import *\nautocast()\n", id="a star: whose is it"),
    ],
)
def test_is_silent(source):
    silent(source, CODE, NEW)


@pytest.mark.parametrize(
    ("call", "since"),
    [
        ("torch.cuda.amp.autocast()", "1.12"),
        ("torch.cuda.amp.GradScaler()", "2.3"),
        ("torch.cuda.amp.custom_fwd(f)", "2.4"),
        ("torch.cuda.amp.custom_bwd(f)", "2.4"),
    ],
)
def test_the_version_decides(call, since):
    source = f"import torch\nx = {call}\n"
    old = Version(since)
    silent(source, CODE, f"{old.major}.{old.minor - 1}")
    (unknown,) = check(source, CODE)
    (first,) = check(source, CODE, since)
    (new,) = check(source, CODE, NEW)
    assert [found.fix.safety for found in (unknown, first, new)] == [
        Safety.UNSAFE,
        Safety.SAFE,
        Safety.SAFE,
    ]
    assert unknown.severity is Severity.INFO
    assert "--torch-version" in unknown.message
    assert first.severity is (Severity.WARNING if since == "2.4" else Severity.INFO)
    assert new.severity is Severity.WARNING
    assert "--torch-version" not in new.message


@pytest.mark.parametrize(
    ("source", "rows"),
    [
        pytest.param("import torch\ntorch.cuda.amp.autocast()\n", [2], id="in full"),
        pytest.param("import torch as th\nth.cpu.amp.autocast()\n", [2], id="on the CPU"),
        pytest.param("from torch import cuda\ncuda.amp.GradScaler()\n", [2], id="from cuda"),
        pytest.param("from torch.cuda import amp\namp.GradScaler()\n", [2], id="from amp"),
        pytest.param(
            "from torch.cuda.amp.grad_scaler import GradScaler\nGradScaler()\n", [2], id="from deep"
        ),
        pytest.param(
            "from torch.cuda.amp import autocast as cast\n@cast()\ndef f(): ...\n",
            [2],
            id="a decorator",
        ),
        pytest.param(
            "from torch.cuda.amp import custom_fwd\n@custom_fwd\ndef f(): ...\n",
            [2],
            id="a decorator that is not called",
        ),
        pytest.param(
            "import torch\ncast = torch.cuda.amp.autocast\ncast()\n", [3], id="another name"
        ),
        pytest.param(
            """
            try:
                from torch.cuda.amp import autocast
            except ImportError:
                autocast = None
            autocast()
            """,
            [6],
            id="for a torch without mixed precision",
        ),
        pytest.param(
            """
            import torch
            def step(args):
                if args.version_2 or hasattr(model, "module"):
                    cast = torch.cuda.amp.autocast()
                if torch.__version__ < "1.7":
                    raise RuntimeError
                return torch.cuda.amp.GradScaler()
            """,
            [5, 8],
            id="conditions on something else",
        ),
        pytest.param(
            """
            import torch
            from torch.cuda.amp import GradScaler
            if args.amp:
                scaler = GradScaler()
            with torch.autocast("cuda"), torch.cuda.amp.autocast(False):
                pass
            """,
            [5, 6],
            id="under an option, beside the new name of something else",
        ),
    ],
)
def test_reports(source, rows):
    assert [found.location.row for found in check(source, CODE, NEW)] == rows


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            "import torch\nwith torch.cuda.amp.autocast(): pass",
            'import torch\nwith torch.amp.autocast("cuda"): pass',
            id="in full",
        ),
        pytest.param(
            "import torch as th\nx = th.cuda.amp.autocast(amp, th.bfloat16, False)",
            'import torch as th\nx = th.amp.autocast("cuda", enabled=amp, dtype=th.bfloat16, '
            "cache_enabled=False)",
            id="arguments by place get keywords",
        ),
        pytest.param(
            "import torch\nx = torch.cpu.amp.autocast(dtype=torch.float16)",
            'import torch\nx = torch.amp.autocast("cpu", dtype=torch.float16)',
            id="on the CPU",
        ),
        pytest.param(
            "from torch.cuda import amp\nx = amp.GradScaler(2.0 ** 10, growth_interval=5)\n"
            "with amp.autocast(): pass",
            'from torch import amp\nx = amp.GradScaler("cuda", init_scale=2.0 ** 10, '
            'growth_interval=5)\nwith amp.autocast("cuda"): pass',
            id="a module from torch.cuda",
        ),
        pytest.param(
            "import torch.cuda.amp as amp, os\nx = amp.GradScaler(**options)",
            'import torch.amp as amp, os\nx = amp.GradScaler("cuda", **options)',
            id="a module by import, options in a dictionary",
        ),
        pytest.param(
            "from torch.cuda.amp import (\n    GradScaler,  # scales\n    autocast as cast,\n)\n"
            "@cast()\ndef step(scaler: GradScaler): ...\n\nstep(GradScaler())",
            "from torch.amp import (\n    GradScaler,  # scales\n    autocast as cast,\n)\n"
            '@cast("cuda")\ndef step(scaler: GradScaler): ...\n\nstep(GradScaler("cuda"))',
            id="names from one import, annotations with them",
        ),
        pytest.param(
            "from torch.cuda.amp import custom_fwd, custom_bwd\n\n@custom_fwd\ndef f(): ...\n\n"
            "@custom_bwd\ndef b(): ...\n\n@custom_fwd(cast_inputs=None)\ndef g(): ...",
            "from torch.amp import custom_fwd, custom_bwd\n\n"
            '@custom_fwd(device_type="cuda")\ndef f(): ...\n\n'
            '@custom_bwd(device_type="cuda")\ndef b(): ...\n\n'
            '@custom_fwd(cast_inputs=None, device_type="cuda")\ndef g(): ...',
            id="decorators",
        ),
        pytest.param(
            "from torch.cuda.amp import GradScaler\ndef f(GradScaler): GradScaler()\nGradScaler()",
            'from torch.amp import GradScaler\ndef f(GradScaler): GradScaler()\nGradScaler("cuda")',
            id="a parameter of that name is something else",
        ),
    ],
)
def test_fixes(before, after):
    assert fixed(before, CODE, unsafe=False, target=NEW) == after


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("from torch import cuda\ncuda.amp.GradScaler()\n", id="torch is not there"),
        pytest.param(
            "import torch\ncast = torch.cuda.amp.autocast\ncast()\n", id="through another name"
        ),
        pytest.param("import torch\ntorch.cuda.amp.autocast(*options)\n", id="a star"),
        pytest.param(
            "from torch.cuda.amp import autocast\nautocast()\nf(autocast)\n", id="handed on"
        ),
        pytest.param(
            "import torch\ns = torch.cuda.amp.GradScaler()\n"
            "isinstance(s, torch.cuda.amp.GradScaler)\n",
            id="the class is asked for",
        ),
        pytest.param(
            "from torch.cuda import amp\namp.GradScaler()\namp.common.x()\n",
            id="more of the module",
        ),
        pytest.param(
            "from torch.cuda.amp import autocast\n__all__ = ['autocast']\nautocast()\n",
            id="other files take it from here",
        ),
    ],
)
def test_reports_without_a_fix(source):
    found = check(source, CODE, NEW)
    assert found
    assert not any(one.fix for one in found)


def test_names_that_another_file_takes_from_here_stay(tmp_path):
    engine = "from torch.cuda.amp import GradScaler, autocast\nwith autocast(): GradScaler()\n"
    files = {"engine.py": engine, "train.py": "from engine import autocast\nautocast(True)\n"}
    assert not any(one.fix for one in check_in(tmp_path, files, "engine.py", CODE))
    files["train.py"] = "from engine import run\nfrom torch.amp import autocast\nautocast()\n"
    assert all(one.fix for one in check_in(tmp_path, files, "engine.py", CODE))


def test_a_file_that_asks_for_the_class(tmp_path):
    files = {
        "engine.py": "from torch.cuda.amp import GradScaler\nscaler = GradScaler()\n",
        "train.py": "import engine\nfrom torch.cuda.amp import GradScaler\n"
        "assert isinstance(engine.scaler, GradScaler)\n",
    }
    (found,) = check_in(tmp_path, files, "engine.py", CODE)
    assert found.fix is None


def test_only_what_every_torch_has_is_renamed():
    source = "from torch.cuda.amp import GradScaler, autocast\nautocast()\nGradScaler()\n"
    (found,) = check(source, CODE, "2.0")
    assert (found.location.row, found.severity, found.fix) == (2, Severity.INFO, None)


FORWARD = """
import torch

class Net(torch.nn.Module):
    def forward(self, x):
        with {}:
            return self.layer(x)
"""


@pytest.mark.parametrize(
    ("source", "safety"),
    [
        pytest.param(
            FORWARD.format("torch.cuda.amp.autocast()"),
            Safety.UNSAFE,
            id="inside of another autocast it would take that one's type",
        ),
        pytest.param(
            FORWARD.format("torch.cuda.amp.autocast(amp, torch.float16)"), Safety.SAFE, id="typed"
        ),
        pytest.param(
            FORWARD.format("torch.cuda.amp.autocast(enabled=False)"), Safety.SAFE, id="turned off"
        ),
        pytest.param(
            "import torch\nf = torch.jit.script(f)\ntorch.cuda.amp.autocast()\n",
            Safety.UNSAFE,
            id="TorchScript",
        ),
        pytest.param(
            "import torch, ignite\ntorch.cuda.amp.GradScaler()\n", Safety.UNSAFE, id="a framework"
        ),
        pytest.param(
            "import torch, ignite\ntorch.cuda.amp.autocast()\n", Safety.SAFE, id="no scaler"
        ),
    ],
)
def test_safety(source, safety):
    (found,) = check(source, CODE, NEW)
    assert found.fix.safety is safety
    assert bool(found.fix.changes) == (safety is Safety.UNSAFE)


def test_all_fixes_of_one_import_are_as_safe_as_the_worst():
    source = "from torch.cuda.amp import autocast\nautocast()\n" + dedent(
        FORWARD.format("autocast()")
    )
    assert {found.fix.safety for found in check(source, CODE, NEW)} == {Safety.UNSAFE}


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_what_torch_does():
    """A new autocast without a type takes that of the one around it; the old one does not."""
    with torch.autocast("cpu", dtype=torch.float16):
        assert (
            torch.cpu.amp.autocast().fast_dtype is torch.bfloat16
        )  # torchlint: ignore[TL906] the test runs it
        assert torch.amp.autocast("cpu").fast_dtype is torch.float16
    assert issubclass(torch.cuda.amp.GradScaler, torch.amp.GradScaler)
