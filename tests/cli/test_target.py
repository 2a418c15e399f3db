"""The torch version that a project declares."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from torchlint.config import Layer, settle
from torchlint.target import Targets, is_floor, lower_bound


def settings(**values):
    return settle([Layer("command line", Path("/"), values)], Path("/"), None)


def target(project, folder=".", *, isolated=False, **values):
    return Targets(isolated=isolated).of(project.root / folder, settings(**values))


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("torch", None),
        ("torch>=2.0", "2.0"),
        ("torch >= 2.0, < 3", "2.0"),
        ("torch<3,>=2.1.1", "2.1.1"),
        ("torch~=2.1", "2.1"),
        ("torch==1.13.1", "1.13.1"),
        ("torch==1.13.1+cu117", "1.13.1"),
        ("torch===2.2", "2.2"),
        ("torch==2.*", "2"),
        ("torch>2.0", "2.0"),
        ("torch<2", None),
        ("torch!=2.0.1", None),
        ("torch (>=1.8)", "1.8"),
        ("torch[opt-einsum]>=2.2", "2.2"),
        ('torch>=2.0; python_version >= "3.9"', "2.0"),
        ('torch; sys_platform == "linux"', None),
        ("torch ^2.1", "2.1"),
        ("torch 2.1.0", "2.1.0"),
        ("torch *", None),
        ("torch @ https://x.org/whl/cu118/torch-2.0.1%2Bcu118-cp310-cp310-linux.whl", "2.0.1"),
        ("torch @ git+https://github.com/pytorch/pytorch@v2.0", None),
        ("pytorch =1.7.1", "1.7.1"),
        ("torch>=2.6.0.dev20240101", "2.6.0"),
        ("torch @ https://x.org/torch-2..0-cp310.whl", None),
    ],
)
def test_lower_bound(text: str, bound: str | None) -> None:
    found = lower_bound(text)
    assert (str(found) if found else None) == bound


@pytest.mark.parametrize(
    ("text", "floor"),
    [
        ("torch==1.8", False),
        ("torch 1.8", False),
        ("pytorch =1.7.1", False),
        ("torch~=1.8", False),
        ("torch ^1.8", False),
        ("torch>=1.8,<2", False),
        ("torch>=1.8,<1.13", False),
        ("torch<2.0,>=1.8", False),
        ("torch>=1.8", True),
        ("torch>=1.8,!=1.9", True),
        ("torch>=1.8,<3", True),
        ("torch<=2.4,>=1.8", True),
    ],
)
def test_is_floor(text: str, floor: bool) -> None:
    assert is_floor(text) is floor


def test_a_floor_says_where_the_versions_begin(project) -> None:
    project.write("requirements.txt", "torch>=1.8\n")
    assert target(project).floor
    project.write("environment.yml", "dependencies:\n  - pytorch=1.7\n")
    assert not target(project).floor, "the version that is in use"


DECLARATIONS = [
    ("requirements.txt", "numpy\ntorch>=1.12  # old\n", "1.12"),
    ("requirements-dev.txt", "torch==2.1.0 \\\n    --hash=sha256:00\n", "2.1.0"),
    ("requirements/base.txt", "torch>=2.2 --no-binary :all:\n", "2.2"),
    ("requirements.txt", "https://x.org/whl/torch-2.0.1%2Bcpu-cp310-none-any.whl\n", "2.0.1"),
    ("requirements.txt", "# torch>=9\ntorchvision>=0.15\ntorch-geometric==3\nTorch>=1.9\n", "1.9"),
    ("pyproject.toml", '[project]\ndependencies = ["torch>=2.0", "numpy"]\n', "2.0"),
    ("pyproject.toml", '[project.optional-dependencies]\ngpu = ["torch~=2.1"]\n', "2.1"),
    (
        "pyproject.toml",
        '[dependency-groups]\ndev = ["torch==2.2", {include-group = "x"}]\n',
        "2.2",
    ),
    ("pyproject.toml", '[tool.uv]\ndev-dependencies = ["torch>=2.4"]\n', "2.4"),
    ("pyproject.toml", '[tool.poetry.dependencies]\ntorch = "^2.1"\n', "2.1"),
    ("pyproject.toml", '[tool.poetry.dependencies]\ntorch = "^2.1 || ^1.13"\n', "1.13"),
    (
        "pyproject.toml",
        '[tool.poetry.group.ml.dependencies]\ntorch = [{version = "2.3"}, {version = "2.2"}]\n',
        "2.2",
    ),
    (
        "pyproject.toml",
        '[tool.poetry.dependencies]\ntorch = {url = "https://x/torch-2.0.1-cp3-none.whl"}\n',
        "2.0.1",
    ),
    ("setup.cfg", "[options]\ninstall_requires =\n  numpy\n  torch>=1.10  # reason\n", "1.10"),
    ("setup.cfg", "[options.extras_require]\ngpu =\n  torch>=1.11\n", "1.11"),
    ("setup.py", 'setup(name="x", install_requires=["numpy", "torch==1.3.1"])\n', "1.3.1"),
    ("setup.py", 'NEEDS = ["torch>=1.4"]\nNEEDS += ["x"]\nsetup(install_requires=NEEDS)\n', "1.4"),
    (
        "setup.py",
        'extras = {}\nextras["gpu"] = ["torch>=1.5"]\nsetup(extras_require=extras)\n',
        "1.5",
    ),
    ("setup.py", 'needs: list = ["torch>=1.6"]\nsetup(install_requires=needs + more)\n', "1.6"),
    ("setup.py", 'setup(**{"install_requires": """\nnumpy\ntorch>=1.7\n"""})\n', "1.7"),
    ("setup.py", 'a = [b, "torch==1.8"]\nb = [a]\nsetup(install_requires=a)\n', "1.8"),
    ("environment.yml", "dependencies:\n  - python=3.9\n  - pytorch=1.7.1=py3.8_cuda11\n", "1.7.1"),
    ("environment.yaml", "dependencies:\n  - pytorch::pytorch>=1.12,<2\n", "1.12"),
    ("environment.yml", "dependencies:\n  - pip:\n    - torch==2.0.1\n", "2.0.1"),
    ("conda_env.yml", "dependencies:\n  - cudatoolkit=11.1\n  - pytorch=1.9.0\n", "1.9.0"),
    ("environment-gpu.yaml", "dependencies:\n  - pytorch::pytorch=1.10\n", "1.10"),
    ("env.yml", "dependencies:\n  - pip:\n    - torch==1.8.1\n", "1.8.1"),
    ("conda_env.yml", "dependencies:\n  - cudatoolkit=11.1\n  - pytorch::pytorch\n", "any"),
    ("env_config.yaml", "backends:\n  - pytorch=1.7\n", "any"),
    ("requirements.txt", "python=3.6.9\npytorch==1.5.1\n", "1.5.1"),
    ("requirements.txt", "PyTorch >= 1.4.0\npytorch-lightning==0.7\n", "1.4.0"),
    ("requirements.txt", "pytorch-lightning==0.7\npytorch_msssim==1.0\n", "any"),
    ("uv.lock", '[[package]]\nname = "torch"\nversion = "2.3.1"\n', "2.3.1"),
    (
        "poetry.lock",
        '[[package]]\nname = "torch"\nversion = "2.3.0"\n\n[[package]]\nname = "torchvision"\n',
        "2.3.0",
    ),
    (
        "uv.lock",
        '[[package]]\nname = "torch"\n\n[[package]]\nname = "other"\nversion = "0.1"\n',
        "any",
    ),
    ("pylock.toml", '[[packages]]\nname = "torch"\nmarker = "x"\nversion = "2.5.0"\n', "2.5.0"),
    ("environment.yml", "channels:\n  - pytorch\ndependencies:\n  - pytorch-cuda=11.7\n", "any"),
    ("models/requirements.txt", "torch==1.3\n", "any"),
    ("pyproject.toml", 'project = "torch"\n', "any"),
    ("pyproject.toml", '[project]\nname = "x"\n', "any"),
    ("setup.cfg", "[metadata]\nname = x\n", "any"),
    ("requirements.txt", "torch<2\n", "any"),
    ("requirement.txt", "torch==0.3.1\n", "0.3.1"),
    ("require.txt", "torch==0.3.1\n", "any"),
    ("other.txt", "torch>=2\n", "any"),
]


@pytest.mark.parametrize(("name", "text", "bound"), DECLARATIONS, ids=range(len(DECLARATIONS)))
def test_declarations(project, name: str, text: str, bound: str) -> None:
    file = project.write(name, text)
    found = target(project)
    assert str(found) == bound
    assert (str(file) in found.origin) is (bound != "any")


def test_the_lowest_of_several_counts(project) -> None:
    project.write("requirements.txt", "torch==2.1\n")
    project.write("pyproject.toml", '[project]\ndependencies = ["torch>=1.13", "torch<3"]\n')
    project.write("uv.lock", '[[package]]\nname = "torch"\nversion = "2.3.1"\n')
    assert str(target(project)) == "1.13"


def test_includes_are_followed_once(project) -> None:
    project.write("requirements.txt", "-r deps/all.txt\n")
    project.write("deps/all.txt", "-r ../requirements.txt\n-c pins.txt\n--requirement=none.txt\n")
    project.write("deps/pins.txt", "torch==2.0\n")
    assert str(target(project)) == "2.0"


def test_the_closest_folder_that_declares_a_bound_counts(project) -> None:
    project.write("requirements.txt", "torch>=2.0\n")
    project.write("example/requirements.txt", "torch\n")
    project.write("other/requirements.txt", "torch>=1.8\n")
    assert str(target(project, "example/deep")) == "2.0"
    assert str(target(project, "other")) == "1.8"


def test_the_repository_is_the_border(project) -> None:
    (project.root.parent / "requirements.txt").write_text("torch>=2.0\n")
    assert str(target(project)) == "any"
    (project.root / ".git").rmdir()
    assert str(target(project)) == "2.0"


def test_a_home_folder_is_no_project(project, monkeypatch) -> None:
    (project.root / ".git").rmdir()
    project.write("requirements.txt", "torch>=2.0\n")
    monkeypatch.setattr(Path, "home", lambda: project.root)
    assert str(target(project)) == "any"

    def nowhere() -> Path:
        raise RuntimeError("no home")

    monkeypatch.setattr(Path, "home", nowhere)
    assert str(target(project)) == "2.0"


def test_a_setting_wins(project) -> None:
    project.write("requirements.txt", "torch>=2.0\n")
    assert str(target(project, **{"torch-version": "1.9"})) == "1.9"
    assert target(project, **{"torch-version": "1.9"}).origin == "command line"
    assert str(target(project, **{"torch-version": "any"})) == "any"
    assert target(project, **{"torch-version": "any"}).origin == "command line"


def test_isolated_reads_nothing(project) -> None:
    project.write("requirements.txt", "torch>=2.0\n")
    assert str(target(project, isolated=True)) == "any"
    assert str(target(project, isolated=True, **{"torch-version": "2.1"})) == "2.1"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("pyproject.toml", b'dependencies = ["torch>=2'),
        ("setup.cfg", b"torch\n[options\n"),
        ("setup.py", b"print 'torch'\n"),
        ("setup.py", b"torch\0"),
        ("requirements.txt", b"torch>=2\n\xff\n"),
    ],
)
def test_a_broken_file_is_named_and_passed_over(project, name, content) -> None:
    file = project.write(name, content)
    project.write("environment.yml", "dependencies:\n  - pytorch=2.0\n")
    targets = Targets(isolated=False)
    assert str(targets.of(project.root, settings())) == "2.0"
    assert str(targets.of(project.root, settings())) == "2.0"
    assert len(targets.warnings) == 1
    assert targets.warnings[0].startswith(f"{file}: not read for the torch version")


# A training step whose `zero_grad()` and optimizer gain by what newer versions of torch have:
# `set_to_none` from 1.7 on (which 2.0 does by itself), `fused` from 2.0 on.
TRAINS = """\
import torch
from data import batches

layers = [torch.nn.Linear(512, 512) for _ in range(8)]
model = torch.nn.Sequential(*layers).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for x in batches:
    optimizer.zero_grad()
    model(x.cuda()).sum().backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("name", "text", "codes"),
    [
        ("requirements.txt", "torch\n", ["TL601", "TL602"]),
        ("requirements.txt", "torch==0.4.1\n", []),
        ("requirements.txt", "torch==1.0.1.post2\n", []),
        ("requirements.txt", "torch>=0.4,<1.2\n", []),
        ("requirements.txt", "torch >= 1.0, <= 1.6\n", []),
        ("requirements.txt", "torch==1.6.*\n", []),
        ("requirements.txt", "torch~=1.7.1\n", ["TL602"]),
        ("requirements.txt", "torch==1.8.0\n", ["TL602"]),
        ("requirements.txt", "torch==1.13.1+cu117\n", ["TL602"]),
        ("requirements.txt", "torch>=1.8,<2\n", ["TL602"]),
        ("requirements.txt", "torch==2.0.1\n", ["TL601"]),
        ("requirements.txt", "torch>=2\n", ["TL601"]),
        ("environment.yml", "dependencies:\n  - pytorch=1.1\n", []),
        ("environment.yml", "dependencies:\n  - pytorch==1.1.0=py3.7_cuda10.0\n", []),
        ("environment.yml", "dependencies:\n  - pip:\n    - torch==1.6.0\n", []),
        ("environment.yml", "dependencies:\n  - pytorch=1.10.2\n", ["TL602"]),
        ("setup.py", 'setup(name="x", install_requires=["torch>=1.0,<1.5"])\n', []),
        ("pyproject.toml", '[tool.poetry.dependencies]\ntorch = "~1.4"\n', []),
    ],
)
def test_no_rule_asks_for_what_a_declared_torch_has_not(
    project, run, name: str, text: str, codes: list[str]
) -> None:
    project.write(name, text)
    project.write("train.py", TRAINS)
    done = run("check", "--no-cache", "--select", "TL601,TL602", "--output-format", "json", ".")
    assert sorted({item["code"] for item in json.loads(done.out)}) == codes
