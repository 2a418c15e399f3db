"""Compare the abstract tree of real files with libcst's own: run by hand over thousands.

    python benchmarks/trees.py FOLDER...

Every file of Python below the folders that both parsers read is read as a rule sees it
(`torchlint.syntax.abstract`) and by libcst.  It is shown that

* both trees have the same nodes in the same order, names, numbers and strings included;
* every place that is told of a node of the abstract tree (`torchlint.syntax.spans`), with and
  without its parentheses, is the one that libcst tells.

Exits with 1 if anything differs.
"""

from __future__ import annotations

import argparse
import collections
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "rules")]

from torchlint.syntax.lean import import_libcst  # noqa: E402

import_libcst()  # as the command does: parsing takes half of the time

import libcst as cst  # noqa: E402

from torchlint.errors import TorchlintError  # noqa: E402
from torchlint.source import read_source  # noqa: E402
from torchlint.syntax.abstract import read  # noqa: E402
from torchlint.syntax.codegen import Recorder, spans_of  # noqa: E402
from torchlint.syntax.index import Index  # noqa: E402
from torchlint.syntax.parsing import parse  # noqa: E402
from torchlint.syntax.spans import Spans  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from torchlint.syntax.text import Span

SHOWN = 20


class Unread(Exception):  # noqa: N818 - a file of another kind, not an error
    """One of the parsers does not read the text, or libcst does not give it back."""


def differences(text: str, counts: collections.Counter[str] | None = None) -> Iterator[str]:
    """Yield what differs between the two trees of a text; count the nodes and places compared.

    Raises:
        Unread: there are no two trees to compare.

    """
    counts = collections.Counter() if counts is None else counts
    try:
        module = parse(text)
    except cst.ParserSyntaxError:
        raise Unread("libcst does not read it") from None
    if (reader := read(text)) is None:
        raise Unread("Python's parser does not read it, or not as libcst does")
    concrete, abstract = Index(module).nodes, (index := Index(reader.module)).nodes
    counts["nodes"] += len(concrete)
    ours, theirs = [list(map(_told, nodes)) for nodes in (abstract, concrete)]
    if ours != theirs:
        pairs = zip(ours, theirs, strict=False)
        at = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(ours), len(theirs)))
        yield f"node {at}: {ours[at : at + 1]} for libcst's {theirs[at : at + 1]}"
        return
    wanted = (id(node) for node in concrete)
    recorder = Recorder(wanted, indent=module.default_indent, newline=module.default_newline)
    module._codegen(recorder)  # noqa: SLF001 - as `torchlint.syntax.places` does
    if "".join(recorder.tokens) != text:
        raise Unread("libcst does not give it back as it was")
    full, span = spans_of(recorder, 0)
    spans = Spans(reader, index)
    for node, twin in zip(abstract, concrete, strict=True):
        own = full.get(id(twin))
        if own is None:
            continue
        body = getattr(twin, "body", None)
        pairs = [
            ("place", spans.span(node), span.get(id(twin), own)),
            ("full place", spans.full(node), own),
        ]
        if isinstance(body, cst.BaseSuite):
            pairs.append(("block", _from(spans.body(node), full[id(body)]), full[id(body)]))
        for what, told, true in pairs:
            if told is None:
                continue
            counts["places"] += 1
            if told != true:
                yield f"{what} of a {type(node).__name__}: {_cut(text, told)}, {_cut(text, true)}"


def _told(node: cst.CSTNode) -> tuple[object, ...]:
    """Return what a node says by itself: its type, its text, its stars."""
    words = [getattr(node, name, None) for name in ("value", "star")]
    dots = len(node.relative) if isinstance(node, cst.ImportFrom) else 0
    is_async = getattr(node, "asynchronous", None) is not None
    return type(node), *(one for one in words if isinstance(one, str)), dots, is_async


def _from(start: int | None, span: Span) -> Span | None:
    """Return the span of a block whose start alone is told."""
    return None if start is None else type(span)(start, span.end)


def _cut(text: str, span: Span) -> str:
    return f"{text[span.start : span.end][:60]!r} at {span.start}"


def files_below(folders: Sequence[Path]) -> Iterator[Path]:
    """Yield the files of Python below folders, links followed, in order."""
    for folder in folders:
        for place, folders_below, names in os.walk(folder, followlinks=True):
            folders_below.sort()
            yield from (Path(place, name) for name in sorted(names) if name.endswith(".py"))


def main(paths: Iterable[str]) -> int:
    """Compare all files below the paths and say what was found."""
    counts: collections.Counter[str] = collections.Counter()
    found = 0
    for path in files_below([Path(path) for path in paths]):
        counts["files"] += 1
        try:
            text = read_source(path, str(path)).text
            for said in differences(text, counts):
                found += 1
                if found <= SHOWN:
                    print(f"{path}: {said}")
        except (Unread, TorchlintError) as reason:
            counts[f"not compared: {reason if isinstance(reason, Unread) else 'unreadable'}"] += 1
    for what, count in counts.items():
        print(f"{count:12,} {what}")
    print(f"{found:12,} differences")
    return int(bool(found))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("paths", nargs="+", metavar="FOLDER")
    sys.exit(main(parser.parse_args().paths))
