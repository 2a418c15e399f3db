"""TL101: samples that are prepared by the process that trains."""

from __future__ import annotations

import textwrap

import pytest
from tools import check, check_in, fixed, silent

from torchlint.edits.fix import Safety
from torchlint.preferences import Preferences
from torchlint.rule import Severity

CODE = "TL101"

HEAD = """\
import os
import h5py, numpy as np, torch
from PIL import Image
from torch.utils.data import ConcatDataset, DataLoader, Dataset, IterableDataset, Subset
from torch.utils.data import TensorDataset, random_split
from torchvision import datasets, transforms
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

class Photos(Dataset):
    def __init__(self, paths, transform=None):
        self.paths = paths
        self.transform = transform
    def __getitem__(self, index):
        image = Image.open(self.paths[index])
        return image if self.transform is None else self.transform(image)

class Numbers(Dataset):
    def __init__(self, x, transform=None):
        self.x = x
        self.transform = transform
    def __getitem__(self, index):
        x = torch.tensor(self.x[index])
        return x if self.transform is None else self.transform(x)

"""
LOOP = """\
for x in loader:
    loss = model(x.to(device))
    loss.backward()
    optimizer.step()
"""
EVALUATION = """\
with torch.no_grad():
    for x in loader:
        total += metric(model(x.to(device)))
"""


KEPT = """\
kept = []
for i, x in enumerate(loader):
    kept.append(x.to(device))
    if i == 4:
        break
"""


def loaded(call: str, before: str = "", loop: str = LOOP, head: str = HEAD) -> str:
    """Return a script with a function that makes a loader and goes through it."""
    body = f"{textwrap.dedent(before).strip()}\nloader = {call}\n{loop}".strip()
    return f"{head}def train(model, optimizer):\n{textwrap.indent(body, '    ')}\n"


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(loaded("DataLoader(Photos(p), num_workers=4)"), id="workers"),
        pytest.param(loaded("DataLoader(Photos(p), 1, False, None, None, 2)"), id="by position"),
        pytest.param(loaded("DataLoader(Photos(p), num_workers=args.workers)"), id="an option"),
        pytest.param(loaded("DataLoader(Photos(p), num_workers=n)"), id="a variable"),
        pytest.param(loaded("DataLoader(Photos(p), num_workers=n)", "n = 0"), id="a named zero"),
        pytest.param(loaded("DataLoader(Photos(p), **options)"), id="options from elsewhere"),
        pytest.param(
            loaded(
                "DataLoader(Photos(p))",
                loop="with torch.no_grad():\n    for i, x in enumerate(loader):\n"
                "        if i > 4:\n            break\n        show(model(x.to(device)))\n",
            ),
            id="five batches of it",
        ),
        pytest.param(
            loaded(
                "DataLoader(Photos(p))", loop=f"{KEPT}for x in kept:\n    model(x).backward()\n"
            ),
            id="five batches of it, kept for later",
        ),
        pytest.param(
            loaded(
                "DataLoader(Photos(p))",
                loop="with torch.no_grad():\n    for x in loader:\n"
                "        show(model(x.to(device)))\n        input()\n",
            ),
            id="a person asks for each batch",
        ),
        pytest.param(
            loaded("DataLoader(Photos(p), **options)", "options = {'num_workers': 2}"),
            id="workers by a dictionary",
        ),
        pytest.param(
            loaded("DataLoader(Photos(p), **options)", "options = {'num_workers': 0}  # Windows"),
            id="no workers by a dictionary, with a reason",
        ),
        pytest.param(
            loaded(
                "DataLoader(Photos(p), **options)",
                "options = {'num_workers': 0}\nif big: options['num_workers'] = 2",
            ),
            id="workers on some paths to a dictionary",
        ),
        pytest.param(
            loaded(
                "DataLoader(Photos(p), **options)",
                "options = {'num_workers': 0}\nif big: options.update(asked)",
            ),
            id="what may be in a dictionary",
        ),
        pytest.param(
            loaded("DataLoader(\n    Photos(p),\n    num_workers=0,  # Windows\n)"),
            id="refused, with a reason",
        ),
        pytest.param(
            loaded("DataLoader(Photos(p), num_workers=0, timeout=0)  # the dataset changes"),
            id="refused, with a reason at the end of the line",
        ),
        pytest.param(loaded("DataLoader(TensorDataset(x, y))"), id="tensors in memory"),
        pytest.param(loaded("DataLoader(Subset(TensorDataset(x), i))"), id="some tensors"),
        pytest.param(loaded("DataLoader([1, 2, 3])"), id="a list"),
        pytest.param(loaded("DataLoader(x)", "x = torch.zeros(9, 9)"), id="a tensor"),
        pytest.param(
            loaded("DataLoader(TensorDataset(x), collate_fn=c)", "c = lambda b: tokenizer(b)"),
            id="tensors, and a collate_fn that works",
        ),
        pytest.param(
            loaded("DataLoader(d)", "d = Photos(p)\nif small:\n    d = TensorDataset(x)"),
            id="perhaps tensors in memory",
        ),
        pytest.param(loaded("DataLoader(Numbers(x))"), id="a row of an array"),
        pytest.param(loaded("DataLoader(Numbers(x, None))"), id="a transform that is None"),
        pytest.param(loaded("DataLoader(dataset)"), id="a dataset from elsewhere"),
        pytest.param(loaded("DataLoader(make())"), id="a dataset that cannot be seen"),
        pytest.param(loaded("DataLoader(wrap(Photos(p)))"), id="wrapped by a library: read once?"),
        pytest.param(
            loaded(
                "DataLoader(Videos(p))",
                """
                class Videos(Dataset):
                    def __getitem__(self, index):
                        path = self.paths[self.next]
                        self.next += 1
                        return Image.open(path)
                """,
            ),
            id="each worker would give the same samples",
        ),
        pytest.param(
            loaded(
                "DataLoader(Lines())",
                """
                class Lines(IterableDataset):
                    def __iter__(self):
                        return open("lines")
                """,
            ),
            id="an iterable would give everything twice",
        ),
        pytest.param(
            loaded(
                "DataLoader(Lines())",
                """
                class Lines(Stream):
                    def __iter__(self):
                        return open("lines")
                """,
            ),
            id="perhaps an iterable",
        ),
        pytest.param(
            loaded("DataLoader(Moved(p))").replace(
                "def train",
                "class Moved(Photos):\n    def __getitem__(self, i):\n"
                "        return np_to(Image.open(self.paths[i])).cuda()\ndef train",
            ),
            id="the dataset uses the GPU",
        ),
        pytest.param(
            loaded("DataLoader(Photos(p), collate_fn=lambda b: torch.stack(b).to(device))"),
            id="collate_fn uses the GPU",
        ),
        pytest.param(loaded("DataLoader(Photos(p))", loop=""), id="never iterated"),
        pytest.param(
            loaded("DataLoader(Photos(p))", loop="x = next(iter(loader))"), id="one batch"
        ),
        pytest.param(
            loaded("DataLoader(Photos(p))", loop="for x in loader:\n    show(x)"),
            id="no training and no evaluation",
        ),
        pytest.param(
            loaded("DataLoader(d)", "d = Dataset()").replace("class Photos", "class Unused"),
            id="torch's own base class",
        ),
        pytest.param(
            loaded("DataLoader(Photos(p))").replace("torch.utils.data", "mine"),
            id="another DataLoader",
        ),
    ],
)
def test_left_alone(source: str) -> None:
    silent(source, CODE)


def test_a_first_look_at_what_is_then_gone_through() -> None:
    assert len(check(loaded("DataLoader(Photos(p))", loop=KEPT + EVALUATION), CODE)) == 1


@pytest.mark.parametrize(
    ("call", "cost"),
    [
        ("DataLoader(Photos(p))", "Image.open(self.paths[index])"),
        ("DataLoader(Photos(p), num_workers=0)", "Image.open(self.paths[index])"),
        ("DataLoader(Subset(Photos(p), i))", "Image.open(self.paths[index])"),
        ("DataLoader(ConcatDataset([Photos(p), Photos(q)]))", "Image.open(self.paths[index])"),
        ("DataLoader(random_split(Photos(p), [8, 2])[0])", "Image.open(self.paths[index])"),
        ("DataLoader(Numbers(x, transforms.Normalize(0, 1)))", "self.transform(x)"),
        ("DataLoader(datasets.CIFAR10('d'))", "torchvision.datasets.CIFAR10"),
        ("DataLoader(datasets.CIFAR10('d'), **{'shuffle': True})", "torchvision.datasets.CIFAR10"),
    ],
)
def test_reported(call: str, cost: str) -> None:
    (found,) = check(loaded(call), CODE)
    assert found.message == (
        f"this DataLoader prepares its samples (`{cost}`) in the main process: "
        "training waits for every batch"
    )
    assert found.severity is Severity.WARNING
    assert found.fix is not None
    assert found.fix.safety is Safety.UNSAFE


# -- an option that is 0 by default -----------------------------------------------------------


def by_option(asked: str = "args.workers", default: str = "default=0", before: str = "") -> str:
    """Return a script whose loader has as many workers as the command line says."""
    option = f"parser = options()\nparser.add_argument('--workers', {default})\n"
    return option + loaded(f"DataLoader(Photos(p), num_workers={asked})", before)


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(by_option(default="default=2"), id="some workers by default"),
        pytest.param(by_option(default="type=int"), id="no default"),
        pytest.param(by_option().replace("'--workers'", "'--threads'"), id="another option"),
        pytest.param(by_option().replace("=0)", "=0)  # more fail here"), id="with a reason"),
        pytest.param(
            by_option().replace("parser.", "# fork fails here\nparser."), id="a reason above"
        ),
        pytest.param(by_option("args.workers or 4"), id="not as it is"),
        pytest.param(by_option("self.workers"), id="kept by an object"),
        pytest.param(by_option(before="args.workers = count()"), id="set by the code"),
        pytest.param(by_option(before="args.workers += 4"), id="counted up by the code"),
        pytest.param(by_option(before="parser.set_defaults(**read())"), id="other defaults"),
        pytest.param(by_option(before="vars(args).update(read())"), id="options of a file"),
        pytest.param(by_option(before="vars(args)['workers'] = count()"), id="an entry of them"),
        pytest.param(by_option(before="args.__dict__.update(read())"), id="of a file, below"),
        pytest.param(by_option(before="setattr(args, key, value)"), id="set by a name"),
        pytest.param(by_option().replace("Photos(p)", "TensorDataset(x)"), id="tensors in memory"),
    ],
)
def test_options_left_alone(source: str) -> None:
    silent(source, CODE)


def test_an_option_that_is_none_by_default_is_information() -> None:
    (found,) = check(by_option(), CODE)
    assert found.severity is Severity.INFO
    assert found.fix is None
    assert "in the main process, unless `workers` is above 0: training waits" in found.message
    assert found.help.startswith("The option has 0 as its default")


def test_what_stands_in_the_way_of_an_option() -> None:
    (found,) = check(by_option() + "train(model, optimizer)\n", CODE)
    assert '`if __name__ == "__main__":`' in found.help


@pytest.mark.parametrize(
    "options",
    [
        pytest.param("{'num_workers': 0}", id="always"),
        pytest.param("{'num_workers': 0, 'pin_memory': True} if cuda else {}", id="or none"),
    ],
)
def test_a_dictionary_that_says_0_is_reported_without_a_fix(options: str) -> None:
    source = loaded("DataLoader(Photos(p), **options)", f"options = {options}")
    (found,) = check(source, CODE)
    assert found.severity is Severity.WARNING
    assert found.fix is None


def test_work_of_collate_fn_counts() -> None:
    source = loaded("DataLoader(Numbers(x), collate_fn=pad)").replace(
        "def train", "def pad(rows):\n    return tokenizer.pad(rows)\ndef train"
    )
    (found,) = check(source, CODE)
    assert "`tokenizer.pad(rows)`" in found.message


def test_an_evaluation_waits_too() -> None:
    (found,) = check(loaded("DataLoader(Photos(p))", loop=EVALUATION), CODE)
    assert found.message.endswith("in the main process: the evaluation waits for every batch")
    assert found.severity is Severity.WARNING


@pytest.mark.parametrize(
    ("loop", "severity"),
    [
        pytest.param(EVALUATION, Severity.INFO, id="once"),
        pytest.param(
            "for epoch in range(9):\n" + textwrap.indent(EVALUATION, "    "),
            Severity.WARNING,
            id="in each epoch",
        ),
        pytest.param(LOOP, Severity.WARNING, id="it trains"),
    ],
)
def test_an_evaluation_that_runs_once_waits_a_little(loop: str, severity: Severity) -> None:
    (found,) = check(f"{HEAD}loader = DataLoader(Photos(p))\n{loop}", CODE)
    assert found.severity is severity


def test_batches_taken_one_by_one() -> None:
    loop = """\
batches = iter(loader)
for step in range(steps):
    loss = model(next(batches).to(device))
    loss.backward()
    optimizer.step()
"""
    assert "num_workers=min(4" in fixed(loaded("DataLoader(Photos(p))", loop=loop), CODE)
    silent(loaded("DataLoader(Photos(p))", loop=loop.replace("next(batches)", "probe()")), CODE)
    (found,) = check(f"{HEAD}loader = DataLoader(Photos(p))\n{loop}", CODE)
    assert found.fix is None


def test_advice_without_a_gpu() -> None:
    source = loaded("DataLoader(Photos(p))").replace(
        '"cuda" if torch.cuda.is_available() else "cpu"', '"cpu"'
    )
    (found,) = check(source, CODE)
    assert found.severity is Severity.INFO


# -- fixes ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (
            "DataLoader(Photos(p), batch_size=8)",
            "DataLoader(Photos(p), batch_size=8, num_workers=min(4, os.cpu_count() or 1))",
        ),
        (
            "DataLoader(Photos(p), num_workers=0, shuffle=True)",
            "DataLoader(Photos(p), num_workers=min(4, os.cpu_count() or 1), shuffle=True)",
        ),
        (
            "DataLoader(Photos(p), 8, True, None, None, 0)",
            "DataLoader(Photos(p), 8, True, None, None, min(4, os.cpu_count() or 1))",
        ),
        (
            "DataLoader(Photos(p), **{'batch_size': 8})",
            "DataLoader(Photos(p), num_workers=min(4, os.cpu_count() or 1), **{'batch_size': 8})",
        ),
    ],
)
def test_fixed(call: str, expected: str) -> None:
    assert fixed(loaded(call), CODE) == loaded(expected)
    assert fixed(loaded(call), CODE, unsafe=False, settles=False) == loaded(call)


def test_the_project_chooses_the_number() -> None:
    call = "DataLoader(Photos(p), {})"
    chosen = fixed(loaded(call.format("8")), CODE, preferences=Preferences(num_workers=6))
    assert chosen == loaded(call.format("8, num_workers=6"))


def test_os_is_imported() -> None:
    source = loaded("DataLoader(Photos(p))").removeprefix("import os\n")
    assert fixed(source, CODE).startswith("import os\n\n")


def test_fixed_under_the_main_guard() -> None:
    body = textwrap.indent(f"loader = DataLoader(Photos(p))\n{LOOP}", "    ")
    source = f'{HEAD}if __name__ == "__main__":\n{body}'
    assert "num_workers=min(4" in fixed(source, CODE)


# -- reported without a fix -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "help_"),
    [
        pytest.param(
            f"{HEAD}loader = DataLoader(Photos(p))\n{LOOP}",
            '`if __name__ == "__main__":`',
            id="training starts when the file is imported",
        ),
        pytest.param(
            loaded("DataLoader(Photos(p))") + "train(model, optimizer)\n",
            '`if __name__ == "__main__":`',
            id="a function that an import calls",
        ),
        pytest.param(
            loaded("DataLoader(Photos(p), collate_fn=lambda b: b)"),
            "Define `lambda b: b` at the level",
            id="a lambda",
        ),
        pytest.param(
            loaded(
                "DataLoader(datasets.MNIST('x', transform=t))",
                "t = transforms.Compose([transforms.ToTensor(), transforms.Lambda(lambda x: -x)])",
            ),
            "Define `lambda x: -x` at the level",
            id="a lambda in a transform",
        ),
        pytest.param(
            loaded(
                "DataLoader(Local())",
                """
                class Local(Dataset):
                    def __getitem__(self, index):
                        return np.load(files[index])
                """,
            ),
            "Define `class Local` at the level",
            id="a local class",
        ),
        pytest.param(
            loaded("DataLoader(Kept(p))").replace(
                "def train",
                "class Kept(Dataset):\n    def __init__(self, path):\n"
                "        self.file = h5py.File(path)\n    def __getitem__(self, index):\n"
                "        return transforms.functional.to_tensor(self.file[index])\ndef train",
            ),
            "Open `h5py.File(path)` in each worker",
            id="an open file",
        ),
        pytest.param(
            loaded("DataLoader(Kept(p))").replace(
                "def train",
                "class Kept(Dataset):\n    def __getitem__(self, index):\n"
                "        self.seen[index] = np.load(files[index])\n"
                "        return self.seen[index]\ndef train",
            ),
            "Each worker has a `Kept` of its own",
            id="a cache",
        ),
        pytest.param(
            "from accelerate import Accelerator\n" + loaded("DataLoader(Photos(p))"),
            "the framework does not choose it",
            id="a framework",
        ),
        pytest.param(
            loaded("DataLoader(Photos(p))", "os = 1"),
            "How many workers",
            id="os is something else",
        ),
    ],
)
def test_reported_without_a_fix(source: str, help_: str) -> None:
    (found,) = check(source, CODE)
    assert found.fix is None
    assert help_ in found.help


@pytest.mark.parametrize(
    ("make", "waits"),
    [
        ("create_supervised_trainer(model, optimizer, f, device)", "training waits"),
        ("create_supervised_evaluator(model, metrics, device)", "the evaluation waits"),
    ],
)
def test_an_engine_of_ignite_takes_the_loader_as_it_is(make: str, waits: str) -> None:
    source = f"""{HEAD}
from ignite.engine import create_supervised_evaluator, create_supervised_trainer

def train(p):
    loader = DataLoader(Photos(p))
    engine = {make}
    engine.run(loader, max_epochs=5)
"""
    (found,) = check(source, CODE)
    assert found.fix is not None
    assert waits in found.message
    assert found.severity is Severity.WARNING
    silent(source.replace(".run(", ".load("), CODE)


def test_an_engine_that_runs_on_import() -> None:
    source = f"""{HEAD}
from ignite.engine import create_supervised_trainer
loader = DataLoader(Photos(p))
create_supervised_trainer(model, optimizer, f, device).run(loader)
"""
    (found,) = check(source, CODE)
    assert found.fix is None
    assert "__main__" in found.help


def test_hooks_of_a_framework() -> None:
    source = f"""{HEAD}
import lightning as L

class Data(L.LightningDataModule):
    def train_dataloader(self):
        return DataLoader(Photos(self.paths), batch_size=8)
"""
    (found,) = check(source, CODE)
    assert found.severity is Severity.INFO
    assert found.fix is None


def test_a_hook_of_which_no_loop_is_seen_is_not_run_once() -> None:
    data = "class Data:\n    def train_dataloader(self):\n        return DataLoader(Photos(p))\n"
    (found,) = check(f"{HEAD}import ignite\n{data}", CODE)
    assert found.severity is Severity.WARNING


ROWS = """
import datasets
import torch
from torch.utils.data import DataLoader

rows = datasets.load_dataset("squad")
{before}
def train(model, optimizer):
    for batch in DataLoader(rows, {arguments}):
        model(batch["x"].cuda()).sum().backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("arguments", "before", "severity"),
    [
        ("batch_size=1", "", None),
        ("batch_size=8", "", Severity.INFO),
        ("batch_size=8", "rows.set_transform(read)\n", Severity.WARNING),
        ("batch_size=1", "rows.set_transform(read)\n", Severity.WARNING),
        (
            "batch_size=1, collate_fn=collate",
            "def collate(rows):\n    return tokenizer.batch_encode_plus(rows)\n",
            Severity.WARNING,
        ),
    ],
)
def test_rows_of_hugging_face_cost_little_by_themselves(arguments, before, severity) -> None:
    source = ROWS.replace("{arguments}", arguments).replace("{before}", before)
    assert [one.severity for one in check(source, CODE)] == ([severity] if severity else [])


ONE_PHOTO = """\
class Photo(Dataset):
    def __init__(self, path):
        self.image = Image.open(path)
    def __len__(self):
        return LENGTH
    def __getitem__(self, index):
        return self.image

class Scaled(Dataset):
    def __init__(self, photos, transform):
        self.photos = photos
        self.transform = transform
    def __len__(self):
        return len(self.photos)
    def __getitem__(self, index):
        return self.transform(self.photos[index])

"""
CROPPED = """\
class Cropped(Scaled):
    def __init__(self, size, photos):
        super().__init__(photos, crop)

"""
EPOCHS = f"for epoch in range(100):\n{textwrap.indent(LOOP, '    ')}"


def of_photo(length: str, dataset: str = "Scaled(Photo(p), resize)", before: str = "") -> str:
    """Return a script that goes through a dataset around one of the given length."""
    head = HEAD + ONE_PHOTO.replace("LENGTH", length)
    return loaded(f"DataLoader({dataset}, batch_size=1)", before, EPOCHS, head)


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(of_photo("1"), id="by the dataset inside"),
        pytest.param(of_photo("4"), id="a few samples"),
        pytest.param(of_photo("1", "Scaled(Scaled(Photo(p), crop), resize)"), id="twice inside"),
        pytest.param(of_photo("1", "Subset(Scaled(Photo(p), crop), [0])"), id="a part of it"),
        pytest.param(of_photo("1", "Cropped(9, Photo(p))", CROPPED), id="handed on to its base"),
        pytest.param(
            of_photo("1", "Scaled(Photo(p), crop) if one else Photos(p, crop)"),
            id="one of two datasets",
        ),
    ],
)
def test_workers_for_a_pass_of_a_few_samples_would_cost_more(source: str) -> None:
    silent(source, CODE)


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(of_photo("5000"), id="many samples"),
        pytest.param(of_photo("len(self.image)"), id="the length of something else"),
        pytest.param(of_photo("1", "Scaled(photos, resize)"), id="a dataset that is not seen"),
        pytest.param(of_photo("1", "Scaled(Photos(p), resize)"), id="around another dataset"),
        pytest.param(
            of_photo("1", "ConcatDataset([Scaled(Photo(p), crop) for p in paths])"), id="many of it"
        ),
        pytest.param(of_photo("1 if one else 900"), id="one of two lengths"),
        pytest.param(of_photo("1\n        return 900"), id="one of two returns"),
    ],
)
def test_workers_for_more_samples(source: str) -> None:
    assert check(source, CODE)


OUTSIDE = "import corpora\nfrom corpora import collate\n\n"
OUTSIDE_CALL = "DataLoader(data, 8, shuffle=True, collate_fn=collate)"


@pytest.mark.parametrize(
    ("before", "call", "loop", "waits"),
    [
        pytest.param("data = corpora.load('train')", OUTSIDE_CALL, LOOP, "training", id="a call"),
        pytest.param(
            "data, other = corpora.split('train')", OUTSIDE_CALL, LOOP, "training", id="one of two"
        ),
        pytest.param(
            "data = corpora.Corpus('train')",
            "DataLoader(data, 8, sampler=Some(data), collate_fn=collate)",
            EVALUATION,
            "the evaluation",
            id="in the order of a sampler",
        ),
    ],
)
def test_what_samples_from_outside_of_the_project_cost_is_not_seen(
    before, call, loop, waits, tmp_path
):
    source = loaded(call, before, loop, OUTSIDE + HEAD)
    (found,) = check_in(tmp_path, {"train.py": source}, "train.py", CODE)
    assert found.severity is Severity.INFO
    assert found.fix is None
    assert f"in the main process: {waits} waits" in found.message


@pytest.mark.parametrize(
    ("before", "call", "head"),
    [
        pytest.param(
            "data = corpora.load()", "DataLoader(data, 8, shuffle=True)", HEAD, id="no collate_fn"
        ),
        pytest.param(
            "parser.add_argument('--workers', default=0)\ndata = corpora.load()",
            OUTSIDE_CALL.replace("collate)", "collate, num_workers=args.workers)"),
            HEAD,
            id="perhaps with workers",
        ),
        pytest.param(
            "data = corpora.load()",
            "DataLoader(data, 8, collate_fn=collate)",
            HEAD,
            id="perhaps one without a length",
        ),
        pytest.param(
            "data = corpora.load()", OUTSIDE_CALL.replace("True", "False"), HEAD, id="in its order"
        ),
        pytest.param(
            "data = [corpora.load(), list(x)][i]", OUTSIDE_CALL, HEAD, id="perhaps a list"
        ),
        pytest.param("data = TensorDataset(corpora.load())", OUTSIDE_CALL, HEAD, id="tensors"),
        pytest.param("data = self.data", OUTSIDE_CALL, HEAD, id="who knows what"),
        pytest.param(
            "data = corpora.load()",
            OUTSIDE_CALL,
            "from torch.utils.data import DataLoader\n",
            id="nothing speaks of a GPU",
        ),
    ],
)
def test_is_silent_on_what_may_not_come_from_outside(before, call, head, tmp_path):
    loop = LOOP.replace(".to(device)", "") if head is not HEAD else LOOP
    source = loaded(call, before, loop, OUTSIDE + head)
    assert check_in(tmp_path, {"train.py": source}, "train.py", CODE) == []


@pytest.mark.parametrize("made", ["load('train')", "Corpus.of('train')", "missing('train')"])
def test_a_module_of_the_project_is_not_outside(made, tmp_path):
    files = {
        "corpora.py": "def load(split):\n    return read(split)\n\n\nclass Corpus:\n"
        "    @classmethod\n    def of(cls, split):\n        return cls(read(split))\n",
        "train.py": loaded(OUTSIDE_CALL, f"data = corpora.{made}", head=OUTSIDE + HEAD),
    }
    assert check_in(tmp_path, files, "train.py", CODE) == []


def test_without_a_project_nothing_is_known_to_be_outside():
    silent(loaded(OUTSIDE_CALL, "data = corpora.load()", head=OUTSIDE + HEAD), CODE)


OWN = """
class Own(datasets.CIFAR10):
    def __getitem__(self, index):
        {gives}
"""


@pytest.mark.parametrize(
    ("gives", "severity"),
    [
        pytest.param("return torch.from_numpy(self.data[index])", Severity.INFO, id="arrays"),
        pytest.param(
            "x = self.data[index]\n        return self.transform(x) if self.transform else x",
            Severity.INFO,
            id="what is not seen to cost",
        ),
        pytest.param("return Image.fromarray(self.data[index])", Severity.WARNING, id="images"),
        pytest.param(
            "x, y = super().__getitem__(index)\n        return x", Severity.WARNING, id="its base's"
        ),
    ],
)
def test_what_extends_a_dataset_of_torchvision(gives: str, severity: Severity) -> None:
    source = loaded("DataLoader(Own('d'))", OWN.format(gives=gives))
    (found,) = check(source, CODE)
    assert found.severity is severity
