from __future__ import annotations

import textwrap

import pytest
from tools import check, check_in, fixed, silent

CODE = "TL204"

HEAD = """\
import torch
from torch import nn

device = torch.device("cuda")
model = nn.Linear(4, 2).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
kept = []


def train(loader):
    for step, (x, y) in enumerate(loader):
        out = model(x.to(device))
        loss = out.mean()
        loss.backward()
        optimizer.step()
"""


def loop(statements: str) -> str:
    return HEAD + textwrap.indent(textwrap.dedent(statements), " " * 8)


@pytest.mark.parametrize(
    "statements",
    [
        pytest.param("if step % 10 == 0:\n    kept.append(out.cpu())", id="every n steps"),
        pytest.param("kept.append(y.cpu())", id="a batch that was not moved"),
        pytest.param("kept.append(y.numpy())", id="numpy() is for tensors on the host"),
        pytest.param("model.cpu()", id="a module"),
        pytest.param("kept.append(loss.cpu().item())", id="one number: another rule's"),
        pytest.param("shared.grad = model.weight.grad.cpu()", id="a gradient of the host"),
        pytest.param("env.step(out.argmax(1).cpu().numpy())", id="an action for a simulator"),
        pytest.param("kept.append(thing(step).cpu())", id="type not known"),
        pytest.param("kept.append(out.to(torch.float16))", id="a cast"),
        pytest.param("kept.append(out.detach())", id="stays on the device"),
        pytest.param("rows = torch.zeros(3).tolist()", id="made on the host"),
        pytest.param(
            "rows = nn.Upsample(size=(8, 8))(thing(step).cpu())\nkept.append(rows.data.cpu())",
            id="made by a layer on the host",
        ),
    ],
)
def test_leaves_alone(statements: str) -> None:
    silent(loop(statements), CODE)


ASIDE = """\
event = thing(step)
target = event["y"].float().cuda()
kept.append(event["y"].clone().detach().cpu())
"""


@pytest.mark.parametrize(
    ("old", "new", "waits"),
    [
        pytest.param("", "", False, id="by another name"),
        pytest.param(".clone().detach()", ".detach()", False, id="as it is"),
        pytest.param("target =", "event['z'] =", False, id="in another place"),
        pytest.param("target =", 'event["y"] =', True, id="in its own place"),
        pytest.param("kept", "event = other(step)\nkept", True, id="of another object"),
        pytest.param("target", 'target = event["z"].cuda()\ny', False, id="and another part"),
        pytest.param('event["y"].float().cuda()', 'event["z"].cuda()', True, id="another part"),
        pytest.param(".float().cuda()", ".float()", True, id="not moved"),
    ],
)
def test_what_the_gpu_gets_by_another_name_is_on_the_host(
    old: str, new: str, *, waits: bool
) -> None:
    source = loop(ASIDE.replace(old, new) if old else ASIDE)
    assert len(check(source, CODE)) == waits


def test_leaves_copies_after_the_loop_alone() -> None:
    silent(HEAD + "    kept.append(out.cpu())\n", CODE)


@pytest.mark.parametrize(
    ("statements", "read"),
    [
        ("kept.append(out.detach().cpu())", "out.detach().cpu()"),
        ("score = metric(out.cpu().numpy())", "out.cpu()"),
        ("rows = out.tolist()", "out.tolist()"),
        ("rows = out.to('cpu')", "out.to('cpu')"),
        ("rows = out.data.cpu().numpy()[0]", "out.data.cpu()"),
    ],
)
def test_reports_the_copy(statements: str, read: str) -> None:
    source = loop(statements)
    (found,) = check(source, CODE)
    assert source[found.span.start : found.span.end] == read
    assert found.severity.word == "warning"
    assert found.fix is None


def test_evaluation_is_information() -> None:
    source = """\
    import torch

    def evaluate(model, loader):
        model.eval()
        rows = []
        with torch.no_grad():
            for x in loader:
                rows.append(model(x.cuda()).sigmoid().cpu())
        return rows
    """
    assert [found.severity.word for found in check(source, CODE)] == ["info"]


@pytest.mark.parametrize(
    ("made", "count"),
    [("file.create_dataset('x', (9, 2))", 0), ("numpy.zeros((9, 2))", 1), ("rows", 1)],
)
def test_what_an_evaluation_fills_a_file_with(made: str, count: int) -> None:
    source = f"""\
    import numpy
    import torch

    def evaluate(model, loader, file, rows):
        model.eval()
        kept = {made}
        with torch.no_grad():
            for i, x in enumerate(loader):
                kept[i : i + len(x)] = model(x.cuda()).sigmoid().cpu().numpy()
    """
    assert len(check(source, CODE)) == count


@pytest.mark.parametrize("move", [".cuda()", ".to(device)", ".to('cuda')"])
def test_there_and_back_is_dropped(move: str) -> None:
    source = loop(f"kept.append(out.cpu(){move} + 1)  # why")
    assert "kept.append(out + 1)  # why" in fixed(source, CODE, unsafe=False)


def test_a_named_copy_is_unsafe_to_drop() -> None:
    (found,) = check(loop("copy = out.cpu().to(device)"), CODE)
    assert found.fix is not None
    assert found.fix.safety.word == "unsafe"
    assert "copy" in found.fix.changes


@pytest.mark.parametrize(
    "statements",
    [
        pytest.param("a = out.cpu().to('cuda:1')", id="may be another device"),
        pytest.param("a = out.cpu().to(device, torch.float16)", id="casts as well"),
        pytest.param("a = out.cpu().to(other)", id="target not known"),
    ],
)
def test_reported_without_a_fix(statements: str) -> None:
    (found,) = check(loop(statements), CODE)
    assert found.fix is None


def test_the_only_device_of_the_file_is_where_everything_is() -> None:
    source = loop("kept.append(out.cpu().to(device) + 1)").replace(
        'torch.device("cuda")', 'torch.device("cuda" if torch.cuda.is_available() else "cpu")'
    )
    assert "kept.append(out + 1)" in fixed(source, CODE, unsafe=False)
    other = source.replace("optimizer =", "spare = model.to(second)\noptimizer =")
    assert [found.fix for found in check(other, CODE)] == [None]


def test_an_evaluation_that_writes_its_results_needs_them_on_the_host() -> None:
    source = """\
        import torch
        from torchvision.utils import save_image
        @torch.no_grad()
        def sample(model, loader):
            model.cuda()
            for x in loader:
                y = model(x.cuda())
                save_image(y.cpu(), "y.png")
    """
    silent(source, CODE)
    (found,) = check(source.replace('save_image(y.cpu(), "y.png")', "ys.append(y.cpu())"), CODE)
    assert found.severity.word == "info"


@pytest.mark.parametrize(
    ("keep", "show"),
    [
        ("# on the host, to bound GPU memory\n            rows.append(out.cpu())", "pass"),
        ("view(out)", "cv2.imshow('flow', out.cpu().numpy())"),
    ],
)
def test_an_evaluation_that_shows_images_or_spares_memory(keep: str, show: str) -> None:
    source = f"""\
    import cv2, torch

    def view(out):
        {show}

    def evaluate(model, loader, rows):
        model = model.cuda()
        for x in loader:
            out = model(x.cuda())
            {keep}
    """
    silent(textwrap.dedent(source), CODE)


GENERATES = """\
import torch

@torch.no_grad()
def evaluate(model, other, loader, rows, kind):
    model = model.cuda()
    for x in loader:
        x = x.cuda()
        {}
        rows.append(ids.cpu())
"""
ONE_OF_TWO = "if kind == 'own': ids = {}\n        else: ids = {}"


@pytest.mark.parametrize(
    ("turn", "count"),
    [
        pytest.param(ONE_OF_TWO.format("model(x)", "model.generate(x)"), 0, id="one of two ways"),
        pytest.param(ONE_OF_TWO.format("model(x)", "model(x + 1)"), 1, id="two single runs"),
        pytest.param(
            "ids = model(model.generate(x))", 1, id="a run beside what may be a run as well"
        ),
        pytest.param("ids = model(other.generate(x, num_beams=4))", 0, id="it says how it decodes"),
        pytest.param(
            "if step % 50 == 0: other.generate(x, num_beams=4)\n        ids = model(x)",
            1,
            id="now and then",
        ),
    ],
)
def test_a_turn_that_generates(turn: str, count: int) -> None:
    assert len(check(GENERATES.format(turn), CODE)) == count


TURNS = """\
import cv2, torch
from PIL import Image

@torch.no_grad()
def evaluate(model, loader, rows, limit):
    model = model.cuda()
    for x in loader:
        out = model(x.cuda())
        {}
"""


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("mask = cv2.resize(out.cpu().numpy(), (9, 9))", id="an image"),
        pytest.param(
            "mask = out.cpu().numpy()\n        rows.append(Image.fromarray(mask))", id="by a name"
        ),
        pytest.param(
            "boxes, rest = [one.cpu() for one in out]\n        for box in boxes:\n            "
            "cv2.rectangle(x, box)",
            id="drawn into an image",
        ),
        pytest.param("print(names[out.tolist()[0]])", id="printed"),
        pytest.param(
            "rows.append(out.cpu())\n        del out\n        torch.cuda.empty_cache()",
            id="memory is freed in each turn",
        ),
        pytest.param("rows.append(out.cpu())\n        input('more?')", id="somebody is asked"),
        pytest.param("canvas.draw_boxes(out.cpu())", id="drawn by a method"),
        pytest.param("top = out.tolist()\n        writer.add_images('x', top)", id="TensorBoard"),
        pytest.param(
            "kept = batched_nms(out, 0.5)\n        rows.append(out[kept].cpu())", id="NMS"
        ),
    ],
)
def test_an_evaluation_that_needs_its_results_in_the_turn(line: str) -> None:
    silent(TURNS.format(line), CODE)


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("rows.append(out.cpu())\n    cv2.imread(rows)", id="something else"),
        pytest.param(
            "rows.append(out.cpu())\n        if limit % 9 == 0:\n            cv2.imshow(x)",
            id="drawn now and then",
        ),
        pytest.param("x = cv2.imread(x)\n        rows.append(out.cpu())", id="an image before it"),
        pytest.param("rows.append(out.cpu())\n        batched_nms(out, 0.5)", id="NMS after it"),
        pytest.param("rows.append(out.cpu())\n    torch.cuda.empty_cache()", id="freed at the end"),
        pytest.param(
            "rows.append(out.cpu())\n        if limit % 9 == 0:\n            "
            "torch.cuda.empty_cache()",
            id="freed now and then",
        ),
    ],
)
def test_an_evaluation_that_keeps_results(line: str) -> None:
    (found,) = check(TURNS.format(line), CODE)
    assert found.severity.word == "info"


def test_a_training_step_may_need_an_array() -> None:
    source = loop("from scipy.optimize import linear_sum_assignment as match\nmatch(out.cpu())")
    (found,) = check(source, CODE)
    assert found.severity.word == "info"
    assert "on the device" in found.help


@pytest.mark.parametrize(
    ("way", "named"),
    [
        pytest.param("kept.append(torch.from_numpy(a).to(device))", True, id="straight back"),
        pytest.param(
            "b = a * 2\nkept.append(torch.from_numpy(b).to(device))", True, id="what comes of it"
        ),
        pytest.param(
            "rows = []\nrows.append(a)\nkept.append(torch.tensor(rows).cuda())",
            True,
            id="by a list",
        ),
        pytest.param("kept.append(torch.from_numpy(a))", False, id="stays on the host"),
        pytest.param("kept.append(torch.tensor([step]).to(device))", False, id="something else"),
        pytest.param(
            "kept.append(a)\na = [step]\nkept.append(torch.tensor(a).to(device))",
            False,
            id="something else of its name",
        ),
    ],
)
def test_names_the_way_back(way: str, named: bool) -> None:
    (found,) = check(loop(f"a = out.detach().cpu().numpy()\n{way}"), CODE)
    assert ("back to the GPU: look for a way to compute that" in found.help) is named
    assert ("copy once after the loop" in found.help) is not named


def test_a_way_back_after_the_loop_is_another_matter() -> None:
    after = "    kept.append(torch.from_numpy(a).to(device))\n"
    (found,) = check(loop("a = out.detach().cpu().numpy()") + "\n" + after, CODE)
    assert "copy once after the loop" in found.help


LABELS = """\
import cv2, torch
from torch import nn

def label(canvas, preds):
    tops = []
    for pred in preds:
        tops.append(pred.tolist())
    {}
    return tops

def evaluate(model, loader, canvas):
    model = model.cuda().eval()
    for x in loader:
        canvas.keep += label(canvas, model(x.cuda()))

class Net(nn.Module):
    def forward(self, x):
        y = x.cuda().cpu()
        {}

def train(loader, optimizer):
    net = Net().cuda()
    for x in loader:
        net(x).sum().backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("lines", "rows"),
    [
        pytest.param(("canvas.draw_text(tops)", "cv2.imshow(y)"), [], id="drawn"),
        pytest.param(("canvas.keep(tops)", "return y"), [7, 18], id="kept"),
    ],
)
def test_what_a_function_draws_in_the_turn_of_another(
    lines: tuple[str, str], rows: list[int]
) -> None:
    assert [found.location.row for found in check(LABELS.format(*lines), CODE)] == rows


HELPER = """\
import cv2, torch

def to_image(tensors):
    if torch.is_tensor(tensors):
        tensors = [tensors]
    return [one.float().cpu().numpy() for one in tensors]

def visuals(out):
    found = {{}}
    found["out"] = out.detach().cpu()
    return found

def best(out):
    places, _ = found_in(out.cpu().numpy())
    return places

def validate(model, loader, rows):
    model = model.cuda().eval()
    for x in loader:
        out = model(x.cuda())
        {}

def show(model, x):
    cv2.imwrite("x.png", to_image(model(x.cuda())))
"""


@pytest.mark.parametrize(
    ("lines", "rows"),
    [
        pytest.param("rows.append(to_image(x))", [], id="a batch that was not moved"),
        pytest.param("rows.append(out.cpu())\n        to_image([rows])", [21], id="copied before"),
        pytest.param("for y in x:\n            best(out)\n        cv2.imshow(x)", [], id="shown"),
        pytest.param("rows.append(best(out))", [], id="what somebody makes of it is kept"),
        pytest.param("cv2.imwrite('x.png', to_image(out))", [], id="written in the turn"),
        pytest.param("if len(rows) % 9 == 0:\n            to_image(out)", [], id="now and then"),
        pytest.param("rows.append(visuals(out))", [10], id="kept"),
        pytest.param(
            "rows.append(visuals(out))\n        torch.cuda.empty_cache()", [], id="memory is freed"
        ),
        pytest.param("rows.append(to_image(out))", [6], id="a tensor of the GPU"),
        pytest.param("rows.append(to_image([x, out]))", [6], id="one of several"),
    ],
)
def test_what_the_calls_of_a_helper_give_it(lines: str, rows: list[int]) -> None:
    found = check(HELPER.format(lines), CODE)
    assert [one.location.row for one in found] == rows


@pytest.mark.parametrize(
    ("between", "alone"),
    [
        pytest.param("z = torch.from_numpy(rows).cuda()", True, id="a copy that is waited for"),
        pytest.param("z = Variable(torch.from_numpy(rows).to('cuda'))", True, id="in a variable"),
        pytest.param("n = loss.nelement()", True, id="a number"),
        pytest.param("z = torch.from_numpy(rows).cuda(non_blocking=True)", False, id="queued"),
        pytest.param("z = torch.from_numpy(rows).to('cuda', torch.float)", False, id="converted"),
    ],
)
def test_what_is_queued_between_two_copies(between: str, alone: bool) -> None:
    head = "from torch.autograd import Variable\n"
    source = head + loop(f"kept.append(out.cpu())\n{between}\nkept.append(loss.cpu())")
    _, second = check(source, CODE)
    assert ("its own copy alone" in second.message) is alone


def test_what_is_copied_back_at_once_leaves_nothing_queued() -> None:
    back = "z = Variable(torch.from_numpy(out.cpu().numpy()[picked]){}); kept.append(loss.cpu())"
    head = "from torch.autograd import Variable\n"
    for copied, alone in ((".cuda()", True), (".cuda(non_blocking=True)", False)):
        _, second = check(head + loop(back.format(copied)), CODE)
        assert ("its own copy alone" in second.message) is alone


def test_a_copy_right_after_a_read_is_information() -> None:
    first, second = check(loop("kept.append(out.cpu())\nkept.append(loss.cpu())"), CODE)
    assert [first.severity.word, second.severity.word] == ["warning", "info"]
    assert "its own copy alone" in second.message


def test_a_loop_over_parameters_is_no_evaluation() -> None:
    source = """\
    import torch

    def log_validation(model, writer):
        model.cuda()
        for name, value in model.named_parameters():
            writer.add_histogram(name, value.data.cpu().numpy())
    """
    silent(source, CODE)


# -- loops that are no evaluation -----------------------------------------------------------------

KMEANS = """
import torch

def train(loader, model, optimizer, bank, sizes):
    assigned = cluster(model, bank, sizes)
    for i, x in enumerate(loader):
        loss = model(x.cuda()).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        bank[i] = loss.detach()

def cluster(model, bank, sizes):
    found = []
    bank = bank.cuda()
    with torch.no_grad():
        for size in sizes:
            centroids = torch.empty(size, 8, device="cuda")
            for turn in range(10):
                _, nearest = torch.mm(bank, centroids.t()).max(dim=1)
                counts = torch.bincount(nearest.cpu())
                {more}
            found.append(torch.cat([nearest]).cpu())
    return found

def main(loader, model, optimizer, bank):
    for epoch in range(10):
        train(loader, model, optimizer, bank, [3, 9])
"""
RESULTS = """
import json
import torch

def names(scores, k):
    values, places = torch.topk(scores, k)
    return [places[i].item() for i in range(k)] + [values.cpu()]

def inference(loader, model):
    model = model.cuda()
    model.eval()
    results = {{}}
    with torch.no_grad():
        for x, key in loader:
            results[key] = model(x.cuda()){copy}
    best = {{}}
    for key, scores in results.items():
        best[key] = names(scores, 3)
    json.dump(best, open("best.json", "w"))
"""


def test_turns_of_a_clustering_before_each_epoch_are_no_evaluation() -> None:
    silent(KMEANS.format(more="pass"), CODE)
    assert check(KMEANS.format(more="model(nearest)"), CODE)


def test_a_loop_over_results_is_no_evaluation() -> None:
    found = check(RESULTS.format(copy=".cpu()"), CODE)
    assert [one.location.row for one in found] == [15]
    silent(RESULTS.format(copy=""), CODE)


DRAWN = """
import torch

@torch.no_grad()
def evaluate(model, loader, board):
    for x in loader:
        out = model(x.cuda())
        {}
"""


@pytest.mark.parametrize(
    "line",
    ["plot_input(out.cpu(), 'a.mp4')", "img = out.cpu(); board.add_image('x', img)",
     "vid = out.cpu(); self.pen.draw_clip(vid)"],
)  # fmt: skip
def test_silent_where_the_turn_draws(line: str) -> None:
    silent(DRAWN.format(line), CODE)


def test_a_turn_that_draws_nothing() -> None:
    assert check(DRAWN.format("board.append(out.cpu()); withdraw(x); plotting(x)"), CODE)


FRAMES = """
import torch

class Pen:
    def show(self, frame, scores):
        labels = []
        for score in scores:
            labels.append(score.cuda().tolist())
        {}
        self.kept += labels

@torch.no_grad()
def evaluate(model, loader, pen: Pen):
    for x in loader:
        pen.show(x, model(x.cuda()))
"""


def test_silent_where_a_helper_of_the_turn_draws() -> None:
    silent(FRAMES.format("self.draw_labels(frame, labels)"), CODE)
    assert check(FRAMES.format("self.keep(frame, labels)"), CODE)


VOCODER = """
import torch

class Vocoder(torch.nn.Module):
    def vocode(self, mels):
        output = []
        with torch.no_grad():
            mels = mels.cuda()
            for i in range(mels.size(1)):
                output.append(self.layer(mels[:, i]))
        output = torch.stack(output)
        output = output.cpu().numpy()
        return output / 2

def vocode_all(model: Vocoder, loader):
    model.eval()
    for i, (mel, _) in enumerate(loader):
        wave = model.vocode(mel)
        {}
"""


def test_a_copy_that_a_function_returns_to_be_written() -> None:
    silent(VOCODER.format("save_wav(wave, names[i])"), CODE)
    [found] = check(VOCODER.format("total += wave.sum()").replace("generate(", "voice("), CODE)
    assert found.location.row == 12


def test_a_copy_that_a_generator_yields() -> None:
    source = """\
    import torch

    @torch.no_grad()
    def generate(model, ids):
        ids = ids.cuda()
        model.cuda()
        while True:
            token = model(ids).argmax(-1)
            numbers = token.tolist()
            column = []
            for number in numbers:
                column.append(number)
            yield {}
    """
    silent(source.format("column"), CODE)


def test_a_copy_right_after_what_counts_by_itself() -> None:
    source = """\
    import torch
    from torchvision.ops import batched_nms

    @torch.no_grad()
    def evaluate(model, loader):
        model = model.cuda()
        for x in loader:
            boxes, scores = model(x.cuda()), model(x.cuda()).mean(1)
            {}
            found.append(boxes.cpu())
    """
    for wait in ("keep = batched_nms(boxes, scores, scores, 0.5)", "b = boxes[boxes > 2]"):
        silent(source.format(wait), CODE)
    assert check(source.format("b = boxes[boxes > 2]; model(b)"), CODE)


def test_what_is_named_after_drawing() -> None:
    source = """\
    import torch

    @torch.no_grad()
    def {}(model, loader):
        model = model.cuda()
        for x in loader:
            masks.append(model(x.cuda()).abs().cpu())
    """
    silent(source.format("draw_masks"), CODE)
    silent(source.format("visualise"), CODE)
    assert check(source.format("redrawn"), CODE)


@pytest.mark.parametrize(
    ("copy", "count"),
    [
        pytest.param("table[x.tolist()]", 0, id="a list"),
        pytest.param("solve(x.detach().cpu().numpy())", 0, id="an array"),
        pytest.param("nn.utils.rnn.pack_padded_sequence(x, x.cpu())", 1, id="a tensor"),
    ],
)
def test_what_a_forward_pass_computes_on_the_host(copy: str, count: int) -> None:
    source = f"""\
    import torch
    from torch import nn

    class Net(nn.Module):
        def forward(self, x):
            x = x.cuda()
            return {copy}

    def train(loader, optimizer):
        net = Net().cuda()
        for x in loader:
            net(x).sum().backward()
            optimizer.step()
    """
    assert len(check(source, CODE)) == count


PICKED = """\
import numpy as np, torch

def counts(tops):
    return np.bincount(tops.reshape(-1), minlength=9)

def shares(tops):
    return counts(tops) / 9

def halves(tops):
    return tops / 2

def copied(out):
    return out.cpu(), out.shape[0]

@torch.no_grad()
def evaluate(model, loader, rows, total, limit):
    model = model.cuda()
    for step, x in enumerate(loader):
        out = model(x.cuda())
        {}
    rows.append(np.unique(top))
"""


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("a = out.cpu().numpy(); b = np.where(a > 2)[0]; rows.append(b)", id="where"),
        pytest.param("a = out.cpu(); rows.append(a.nonzero())", id="a method"),
        pytest.param("a = out.cpu().numpy(); rows.append(a[np.argsort(-a)[:9]])", id="sorted"),
        pytest.param("a = out.cpu(); a /= 2; rows.append(a[a > limit])", id="a mask"),
        pytest.param(
            "a = out.tolist()\n        rows.append(a)\n        for k in a: total[k] += 1",
            id="looked up",
        ),
        pytest.param(
            "for k in out.tolist():\n            rows.append(k)\n            if k < 2: break",
            id="ends the loop",
        ),
        pytest.param("rows.append(1 if out.cpu().mean() > 2 else 0)", id="a choice"),
        pytest.param("rows.append([k for k in out.tolist() if k > 2])", id="one by one"),
        pytest.param("a = out.cpu(); rows.append(a); total += counts(a)", id="a function counts"),
        pytest.param("a = out.cpu(); rows.append(a); total += shares(a)", id="another counts"),
        pytest.param("a, n = copied(out); rows.append(a[a > limit])", id="a function copies"),
    ],
)
def test_an_evaluation_that_picks_by_the_values_of_a_copy(line: str) -> None:
    silent(PICKED.format(line), CODE)


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("rows.append(out.cpu().numpy())", id="an array"),
        pytest.param("rows.append(out.cpu().numpy().astype(int).reshape(-1))", id="a type"),
        pytest.param("rows.extend(out.flatten().tolist())", id="a list"),
        pytest.param("total += np.argmax(out.cpu().numpy(), 1).sum()", id="row by row"),
        pytest.param("rows.append(np.where(out.cpu().numpy() > 2, 1, 0))", id="one for each"),
        pytest.param("a = out.cpu(); rows.append(a[:, 2:])", id="a part"),
        pytest.param("a = out.cpu(); rows.append(a); limit.unique(a)", id="something else"),
        pytest.param("a = out.cpu(); rows.append(a if a.shape[0] > 2 else 0)", id="its size"),
        pytest.param("a = out.cpu(); rows.append(a if len(a) > 2 else 0)", id="its length"),
        pytest.param("a = out.cpu(); rows.append(0 if a is None else a)", id="is there"),
        pytest.param("for i, k in enumerate(out.tolist()): rows[i] = k", id="the place"),
        pytest.param("for k, i in zip(out.tolist(), limit): rows[i] = k", id="beside it"),
        pytest.param("b = out[out > 2]; model(b); b = b.cpu(); rows.append(b)", id="before it"),
        pytest.param("top = out.cpu(); rows.append(top)", id="after the loop"),
        pytest.param("a = out.cpu(); rows.append(a); total += halves(a)", id="a function"),
        pytest.param("a, n = copied(out); rows.append(a if n > 2 else 0)", id="the other result"),
        pytest.param(
            "a = out.cpu(); rows.append(a)\n        if step % 9 == 0: total += a[a > 2]",
            id="seldom",
        ),
    ],
)
def test_an_evaluation_that_only_collects_a_copy(line: str) -> None:
    (found,) = check(PICKED.format(line), CODE)
    assert found.severity.word == "info"


ASKED = """
def project(rows):
    kept.append(rows.cpu())
"""


@pytest.mark.parametrize(
    ("statements", "severity", "where"),
    [
        (
            "if (out < 0).any():\n    project(out)",
            "info",
            "in training steps where `(out < 0).any()`",
        ),
        ("if out.sum().item() < 0:\n    project(out)", "info", "where `out.sum().item() < 0`"),
        ("if len(x) > 3:\n    project(out)", "warning", "in every training step"),
        ("project(out)", "warning", "in every training step"),
        ("if (out < 0).any():\n    project(out)\nproject(out * 2)", "warning", "in every"),
    ],
)
def test_called_where_a_value_of_the_gpu_asks_for_it(
    statements: str, severity: str, where: str
) -> None:
    found = [one for one in check(loop(statements) + ASKED, CODE) if "rows" in one.message]
    assert [one.severity.name.lower() for one in found] == [severity]
    assert where in found[0].message


IN_PAIRS = """\
import torch

@torch.no_grad()
def evaluate(model, loader, rows, others):
    model = model.cuda()
    for x in loader:
        out = model(x.cuda())
        for {}
"""


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("a, b in zip(out.cpu(), others): tell(a); rows.append(b)", id="in pairs"),
        pytest.param("i, (a, b) in enumerate(zip(out.cpu(), others)): tell(a); rows.append(b)",
                     id="counted"),
    ],
)  # fmt: skip
def test_an_evaluation_that_collects_what_stands_beside_a_copy(line: str) -> None:
    silent(IN_PAIRS.format(line), CODE)


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("a, b in zip(out.cpu(), others): tell(b); rows.append(a)", id="in pairs"),
        pytest.param("b, a in zip(others, out.cpu()): tell(b); rows.append(a)", id="the second"),
        pytest.param("i, (a, b) in enumerate(zip(out.cpu(), others)): rows.append(a)",
                     id="counted"),
        pytest.param("p in zip(out.cpu(), others): rows.append(p)", id="whole pairs"),
        pytest.param("a, b in zip(*out.cpu()): rows.append(b)", id="of itself"),
    ],
)  # fmt: skip
def test_an_evaluation_that_collects_one_side_of_pairs(line: str) -> None:
    (found,) = check(IN_PAIRS.format(line), CODE)
    assert found.severity.word == "info"


def test_copies_around_one_that_has_to_stay() -> None:
    source = """\
    import torch

    @torch.no_grad()
    def evaluate(model, loader, rows):
        model = model.cuda()
        for x in loader:
            out = model(x.cuda())
            rows.append(out.max(1)[0].cpu())
            {}
            rows.append(out.min(1)[0].cpu())
    """
    silent(source.format("tell(out.cpu())"), CODE)
    assert [d.location.row for d in check(source.format("rows.append(out.cpu())"), CODE)] == [
        8,
        9,
        10,
    ]
    assert len(check(source.format("tell(out.cpu()); more = model(x.cuda())"), CODE)) == 1


def parts(target: str, before: str, collected: str) -> str:
    """Return an evaluation that moves parts of its batches, and collects something."""
    lines = "\n".join([*before.splitlines(), "net(x)", f"rows.append({collected})"])
    return (
        "import torch\n\ndef evaluate(net, loader, device):\n    rows = []\n"
        f"    with torch.no_grad():\n        for {target} in loader:\n"
        f"{textwrap.indent(lines, ' ' * 12)}\n    return torch.cat(rows)\n"
    )


UNPACKED = "x, y, index = batch[0], batch[1], batch[-1]\nx, y = x.to(device), y.to(device)"


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(parts("batch", UNPACKED, "index.detach().cpu()"), id="one of three parts"),
        pytest.param(
            parts("x, index", "x = x.cuda()", "index.detach().view(-1).cpu()"), id="of a target"
        ),
        pytest.param(
            parts("batch", "x = batch['x'].to(device)", "batch['index'].detach().cpu()"),
            id="of a dictionary",
        ),
        pytest.param(
            parts("batch", "x, index = batch\nx = x.to(device)", "index.detach().cpu()"),
            id="unpacked in the loop",
        ),
    ],
)
def test_parts_of_a_batch_that_are_not_moved_stay_on_the_host(source: str) -> None:
    silent(source, CODE)


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(parts("batch", UNPACKED, "y.detach().cpu()"), id="a part that is moved"),
        pytest.param(parts("x, y", "x.cuda()", "net(y).detach().cpu()"), id="what a model gives"),
        pytest.param(
            parts("x, index", "index = net.pick(index)\nx = x.cuda()", "index.detach().cpu()"),
            id="a name that stands for something else",
        ),
        pytest.param(
            parts(
                "x, index",
                "x = x.cuda()\nkey = net.pick()\nif net.picks:\n    key = index",
                "key.detach().cpu()",
            ),
            id="a name that may stand for something else",
        ),
        pytest.param(
            parts("x, index", "net.cuda()\nx = net.prepare(x)", "index.detach().cpu()"),
            id="no part is moved",
        ),
        pytest.param(
            parts("batch", "net.move(batch)\nx = batch[0].cuda()", "batch[1].detach().cpu()"),
            id="the batch is handed on before",
        ),
        pytest.param(
            parts(
                "batch",
                "for k in batch:\n    batch[k] = batch[k].cuda()\nx = batch['x'].cuda()",
                "batch['y'].detach().cpu()",
            ),
            id="put back into the batch",
        ),
        pytest.param(
            parts("batch", "batch['x'].to(device)", "batch['x']['y'].detach().cpu()"),
            id="a part of what moves itself",
        ),
    ],
)
def test_parts_of_a_batch_that_may_be_on_the_gpu(source: str) -> None:
    assert check(source, CODE)


BASE = """\
import torch

class Base:
    def __init__(self):
        self.device = torch.device("cuda")

    def train(self, loader):
        for batch in loader:
            batch = {MOVED}
            self.step(batch)

    def step(self, batch):
        raise NotImplementedError
"""
HEIR = """\
import torch
from base import Base

torch.cuda.set_device(0)

class Own(Base):
    def step(self, batch):
        self.model.train()
        self.table[batch["id"].cpu()] = 1
        loss = self.model(batch["x"])
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
"""
MOVED = "{k: v.to(self.device) if isinstance(v, torch.Tensor) else v for k, v in batch.items()}"


def base(moved: str = MOVED, then: str = "") -> dict[str, str]:
    """Return two files: a loop that moves the entries of a batch, and the step that gets them."""
    text = BASE.replace("{MOVED}", moved)
    return {
        "base.py": text.replace("self.step(batch)", f"{then}self.step(batch)"),
        "own.py": HEIR,
        "main.py": "from own import Own\n\nOwn().train(loader)\n",
    }


FILL = "batch['id'] = torch.arange(9)\n            "


@pytest.mark.parametrize(
    "files",
    [
        pytest.param(base("{k: v for k, v in batch.items()}"), id="nobody moves them"),
        pytest.param(base("{k: v.cpu() for k, v in batch.items()}"), id="they go to the host"),
        pytest.param(base("{'x': batch['x'].to(self.device), 'id': batch['id']}"), id="one stays"),
        pytest.param(base(then=FILL), id="an entry is set before"),
        pytest.param(base("{'x': batch['x'].to(self.device)}"), id="an heir may get more"),
        pytest.param(base(then="batch.update(ids())\n            "), id="entries are added before"),
    ],
)
def test_entries_that_another_function_does_not_move(tmp_path, files):
    assert not check_in(tmp_path, files, "own.py", CODE)


def test_entries_that_the_loop_of_a_base_class_has_moved(tmp_path):
    (found,) = check_in(tmp_path, base(), "own.py", CODE)
    assert found.location.row == 9


def test_entries_that_several_loops_have_moved(tmp_path):
    files = base()
    files["base.py"] += (
        BASE[BASE.index("    def train") : BASE.index("    def step")]
        .replace("def train", "def again")
        .replace("{MOVED}", MOVED)
    )
    assert check_in(tmp_path, files, "own.py", CODE)
    files["base.py"] = files["base.py"].replace(MOVED, "dict(batch)", 1)
    assert not check_in(tmp_path, files, "own.py", CODE)


BOXES = """
import torch

class Boxes:
    def __init__(self, corners):
        self.corners, self.fields = corners, {}

    def convert(self, mode):
        return Boxes(self.corners.clone())

    def field(self, name):
        return self.fields[name]
"""
SCORED = """
import torch
import numpy as np

def evaluate(found):
    rows = [torch.load("first.pt", map_location=torch.device("cpu"))]
    for one in found:
        corners = one.convert("xy").corners.detach().cpu().numpy()
        scores = one.field("scores").detach().cpu().numpy()
        rows.append(np.column_stack((corners, scores)))
    return np.concatenate(rows)
"""
SCORES = """
import torch
from score import evaluate

model = torch.nn.Linear(3, 3).cuda().eval()
evaluate([torch.load(path) for path in paths])
"""


def test_a_loop_that_only_asks_results_is_no_evaluation(tmp_path):
    files = {"boxes.py": BOXES, "score.py": SCORED, "main.py": SCORES}
    assert check_in(tmp_path, files, "score.py", CODE) == []
    files["score.py"] = SCORED.replace('one.field("scores")', "one.predict()")
    assert check_in(tmp_path, files, "score.py", CODE)
