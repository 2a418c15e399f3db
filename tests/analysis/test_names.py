"""What a name stands for: imports, aliases, and everything that makes it doubtful."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from probing import parsed, probed

from torchlint.analysis.names import canonical
from torchlint.analysis.project import Project
from torchlint.imports import Imports

if TYPE_CHECKING:
    from pathlib import Path

    from torchlint.analysis.program import Program


@pytest.mark.parametrize(
    ("source", "name"),
    [
        pytest.param("import torch\nprobe(torch.nn.Linear)", "torch.nn.Linear", id="import"),
        pytest.param("import torch.nn\nprobe(torch.nn.Linear)", "torch.nn.Linear", id="a package"),
        pytest.param("import torch.nn as nn\nprobe(nn.Linear)", "torch.nn.Linear", id="import as"),
        pytest.param("from torch import nn\nprobe(nn.Linear)", "torch.nn.Linear", id="from"),
        pytest.param("from torch.nn import Linear as L\nprobe(L)", "torch.nn.Linear", id="from as"),
        pytest.param(
            "import torch as t\nn = t.nn\nL = n.Linear\nprobe(L)",
            "torch.nn.Linear",
            id="plain assignments",
        ),
        pytest.param(
            "from torch.nn.modules.conv import Conv2d\nprobe(Conv2d)",
            "torch.nn.Conv2d",
            id="where it really lives",
        ),
        pytest.param(
            "def f():\n    import torch\n    probe(torch.ones)",
            "torch.ones",
            id="an import in a function",
        ),
        pytest.param("from .models import Net\nprobe(Net)", "@.models.Net", id="a relative import"),
        pytest.param("from .. import util\nprobe(util.f)", "@..util.f", id="two dots"),
        pytest.param("class Net: pass\nprobe(Net)", ".Net", id="a class of this file"),
        pytest.param(
            "from torch.nn import Linear\nclass Linear(Linear): pass\nprobe(Linear)",
            ".Linear",
            id="a class named as the import that it extends",
        ),
        pytest.param(
            "from torch.nn import Linear\nclass Linear(Conv2d): pass\nprobe(Linear)",
            ".Linear",
            id="a class named as an import that it does not extend",
        ),
        pytest.param(
            "class torch:\n    ones = 1\nprobe(torch.ones)",
            ".torch.ones",
            id="a local class named torch",
        ),
        pytest.param(
            "def f():\n    class Net: pass\n    probe(Net)", "", id="a class in a function"
        ),
        pytest.param("import torch\ntorch = fake()\nprobe(torch.ones)", "", id="rebound"),
        pytest.param(
            "import torch\nif x:\n    torch = fake()\nprobe(torch.ones)", "", id="perhaps rebound"
        ),
        pytest.param(
            "import torch\nfor x in y:\n    probe(torch.ones)\n    torch = fake()",
            "",
            id="rebound in the turn before",
        ),
        pytest.param(
            "import torch\ndef f():\n    probe(torch.ones)\nfor torch in x: f()",
            "",
            id="in a function, which may be called after it is rebound",
        ),
        pytest.param(
            "import torch\nprobe(torch.ones)\nfor torch in x: pass",
            "torch.ones",
            id="before it is rebound",
        ),
        pytest.param(
            "import torch\ntorch = probe(torch.ones)", "torch.ones", id="in what rebinds it"
        ),
        pytest.param(
            "import torch\ndef f(torch):\n    probe(torch.ones)", "", id="shadowed by a parameter"
        ),
        pytest.param("import torch\ntorch, y = f()\nprobe(torch.ones)", "", id="unpacked over it"),
        pytest.param("import torch\ndel torch\nprobe(torch.ones)", "", id="deleted"),
        pytest.param("from torch import *\nprobe(nn.Linear)", "", id="a star import"),
        pytest.param(
            "try:\n    import torch\nexcept ImportError:\n    torch = None\nprobe(torch.x)",
            "torch.x",
            id="an import that may fail",
        ),
        pytest.param(
            "try:\n    from torch.optim import AdamW\nexcept ImportError:\n"
            "    class AdamW: pass\nprobe(AdamW)",
            "torch.optim.AdamW",
            id="a class that stands in",
        ),
        pytest.param(
            "try:\n    from tqdm import tqdm\nexcept ImportError:\n"
            "    def tqdm(x): return x\nprobe(tqdm)",
            "tqdm.tqdm",
            id="a function that stands in",
        ),
        pytest.param(
            "from torch.optim import AdamW\nif old:\n    class AdamW: pass\nprobe(AdamW)",
            "",
            id="a class that takes its place",
        ),
        pytest.param(
            "try:\n    x = 1\nexcept ValueError:\n    class AdamW: pass\nprobe(AdamW)",
            ".AdamW",
            id="a class of a handler alone",
        ),
        pytest.param(
            "try:\n    from torch.optim import AdamW\nexcept ImportError:\n"
            "    from transformers import AdamW\nprobe(AdamW)",
            "",
            id="one of two imports",
        ),
        pytest.param(
            "try:\n    from .nets import Net\nexcept ImportError:\n    from nets import Net\n"
            "probe(Net)",
            "@.nets.Net",
            id="one file, in a package and as a script",
        ),
        pytest.param(
            "try:\n    from .nets import Net\nexcept ImportError:\n    from others import Net\n"
            "probe(Net)",
            "",
            id="one of two files",
        ),
        pytest.param(
            "if new:\n    from torch import nn\nelse:\n    import torch.nn as nn\nprobe(nn.x)",
            "torch.nn.x",
            id="two ways to one thing",
        ),
        pytest.param("x = x\nprobe(x)", "", id="a name that is itself"),
        pytest.param("a = b\nb = a\nprobe(a)", "", id="two names that are each other"),
        pytest.param("probe(f().x)", "", id="a call"),
        pytest.param("probe(x)", "", id="a name of nobody"),
    ],
)
def test_qualified_name(source: str, name: str) -> None:
    program = parsed(source)
    assert program.qualified(probed(program)) == name


def starred(root: Path, source: str, files: dict[str, str]) -> Program:
    """Return ``main.py`` of a project with other files."""
    for name, text in {"requirements.txt": "", "main.py": source, **files}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    program = Project(Imports(root, lambda _: False)).program(str(root / "main.py"))
    assert program is not None
    return program


NETS = {"nets.py": "import torch\nimport torch.nn as nn\n"}
LINEAR = "probe(nn.Linear)"


@pytest.mark.parametrize(
    ("source", "files", "name"),
    [
        pytest.param(LINEAR, NETS, "torch.nn.Linear", id="what the file imports"),
        pytest.param(
            LINEAR, {"nets.py": "from more import *", "more.py": "from torch import nn"},
            "torch.nn.Linear", id="by way of another star",
        ),
        pytest.param(
            LINEAR, {"nets/__init__.py": "from .a import *", "nets/a.py": "from torch import nn"},
            "torch.nn.Linear", id="by way of a package",
        ),
        pytest.param(
            "from more import *\nprobe(F.relu)",
            {"nets.py": "import a.F as F", "more.py": "import torch.nn.functional as F"},
            "torch.nn.functional.relu", id="the last that brings it counts",
        ),
        pytest.param(
            "probe(tools.f)", {"nets.py": "import tools", "tools.py": "def f(): pass"},
            "nets.tools.f", id="a module of the project",
        ),
        pytest.param(f"nn = 1\n{LINEAR}", NETS, "", id="bound in the file itself"),
        pytest.param(
            LINEAR, {"nets.py": NETS["nets.py"] + "__all__ = ['Net']\n"}, "",
            id="all but what __all__ says stays there",
        ),
        pytest.param(
            "probe(_nn.Linear)", {"nets.py": "import torch.nn as _nn"}, "", id="a private name"
        ),
        pytest.param(
            LINEAR, {"nets.py": "if new:\n    import a as nn\nelse:\n    import b as nn\n"}, "",
            id="one of two modules",
        ),
        pytest.param(
            LINEAR, {"nets.py": "def f():\n    import torch.nn as nn\n"}, "", id="in a function"
        ),
        pytest.param(LINEAR, {"nets.py": "from main import *"}, "", id="a circle"),
    ],
)  # fmt: skip
def test_what_a_star_import_of_a_file_brings(tmp_path, source, files, name) -> None:
    """Research code star-imports its files, and takes `torch` itself from there."""
    program = starred(tmp_path, f"from nets import *\n{source}\n", files)
    assert program.qualified(probed(program)) == name


@pytest.mark.parametrize(
    ("source", "files", "name"),
    [
        pytest.param(
            "from nets import Net\nprobe(Net)", {"nets.py": "class Net:\n    pass\n"},
            "nets.Net", id="what the file defines",
        ),
        pytest.param(
            "from nets import Linear\nprobe(Linear)",
            {"nets.py": "from torch.nn import Linear\n\nclass Linear(Linear):\n    pass\n"},
            "nets.Linear", id="what the file defines in the place of the library's",
        ),
        pytest.param(
            "from nets import nn\nprobe(nn.Linear)",
            {"nets.py": "if new:\n    import torch.nn as nn\nelse:\n    import other as nn\n"},
            "nets.nn.Linear", id="one of two modules",
        ),
        pytest.param(
            "from nets import nn\nprobe(nn.Linear)",
            {"nets.py": "def f():\n    import torch.nn as nn\n"},
            "nets.nn.Linear", id="in a function",
        ),
        pytest.param(
            "from nets import Thing\nprobe(Thing)", {"nets.py": "from things import Thing\n"},
            "nets.Thing", id="of a library that no rule knows",
        ),
        pytest.param(
            "from nets import a\nprobe(a)", {"nets.py": "from main import a\n"},
            "nets.a", id="a circle",
        ),
        pytest.param(
            "from nets import Linear\nprobe(Linear)", {"nets.py": "import torch\nLinear = 1 +\n"},
            "nets.Linear", id="a file that cannot be parsed",
        ),
        pytest.param(
            "from nets import nn as layers\nprobe(layers.Linear)", NETS,
            "torch.nn.Linear", id="a module under another name",
        ),
        pytest.param(
            "from nets import Linear\nprobe(Linear)",
            {"nets.py": "from torch.nn import (\n    Conv2d,\n    Linear,\n)\n"},
            "torch.nn.Linear", id="from an import of several lines",
        ),
        pytest.param(
            "from nets import torch\nprobe(torch.ones)", NETS, "torch.ones", id="torch itself"
        ),
        pytest.param(
            "from nets import F\nprobe(F.relu)",
            {
                "nets/__init__.py": "from .a import F",
                "nets/a.py": "import torch.nn.functional as F",
            },
            "torch.nn.functional.relu", id="by way of a package",
        ),
    ],
)  # fmt: skip
def test_what_is_imported_from_a_file_that_has_it_from_a_library(
    tmp_path, source, files, name
) -> None:
    program = starred(tmp_path, source, files)
    assert program.qualified(probed(program)) == name


def test_the_frameworks_that_a_star_import_brings(tmp_path) -> None:
    files = {"nets.py": "import pytorch_lightning as pl\nimport torch\nimport accelerate\n"}
    program = starred(tmp_path, "from nets import *\npl.Trainer()\n", files)
    assert program.frameworks == {"pytorch_lightning"}


def test_nothing_has_no_name() -> None:
    assert not parsed("").qualified(None)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("torch.utils.data.dataloader.DataLoader", "torch.utils.data.DataLoader"),
        ("torch.optim.adamw.AdamW", "torch.optim.AdamW"),
        ("torch.nn.modules.a.b", "torch.nn.modules.a.b"),
        ("torch.nn.functional.relu", "torch.nn.functional.relu"),
    ],
)
def test_canonical(old: str, new: str) -> None:
    assert canonical(old) == new
