"""The abstract tree of a file: libcst's nodes without layout, made by way of Python's own parser.

Rules look at what code does, and ask for its layout only where they change it.  libcst's parser
makes a node of every blank; Python's own is many times as fast, and what it says is told here in
libcst's nodes: 3.2 s for 1,423 files that `libcst.parse_module` takes 15.8 s for (2 CPU cores,
Python 3.11, libcst 1.9.0, the files that `benchmarks/speed.py` parses).  The nodes have the fields
that carry meaning and no others: whoever asks one for its commas, its parentheses or its whitespace
gets an `AttributeError`, and has to ask the concrete tree (`Program.concrete`).
`benchmarks/trees.py` compares the two.

Strings with expressions in them, and strings in several parts, are left to libcst: before Python
3.12 the places of what stands in them are not to be trusted.
"""

from __future__ import annotations

import ast
import dataclasses
import re
import warnings
from typing import TYPE_CHECKING, Any, ClassVar

import libcst as cst

from torchlint.analysis.index import LAYOUT
from torchlint.lexer import NEWLINE, PLAIN_STRING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_MEANT = ("asynchronous", "relative")  # layout to the walk over the tree, but not to rules
_STRING = re.compile(rf"[rRbBuU]{{0,2}}(?:{PLAIN_STRING})", re.DOTALL | re.VERBOSE)
_NEXT_LINE = re.compile(r"[ \t\f]*;(?:[ \t\f]|\\(?:\r\n|\r|\n))*\\(?:\r\n|\r|\n)")
_IS_LEAN = type(cst.CSTNode) is type  # see `torchlint.lean`: nodes take what they are given


def _maker(kind: type[cst.CSTNode]) -> Callable[..., Any]:
    """Return a function that makes a node with the fields that carry meaning, in their order."""
    known: dict[str, Any] = {"new": object.__new__, "kind": kind}
    head, body = [], ["node = new(kind)"]
    for item in dataclasses.fields(kind):
        name = item.name
        if name.startswith(LAYOUT) and name not in _MEANT:
            continue
        if item.default is not dataclasses.MISSING:
            known[f"default_{name}"] = item.default
        head.append(f"{name}=default_{name}" if f"default_{name}" in known else name)
        known[f"set_{name}"] = getattr(kind, name).__set__
        body.append(f"node.{name} = {name}" if _IS_LEAN else f"set_{name}(node, {name})")
    text = f"def make({', '.join(head)}):\n  " + "\n  ".join([*body, "return node"])
    exec(text, known)  # noqa: S102 - of nothing but the names of fields
    made: Callable[..., Any] = known["make"]
    return made


class _Makers:
    """A function for each class of nodes, under its name, written when it is first asked for."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        made = _maker(getattr(cst, name))
        setattr(self, name, made)
        return made


_new = _Makers()

_BINARY: dict[type, Any] = {
    ast.Add: _new.Add, ast.Sub: _new.Subtract, ast.Mult: _new.Multiply, ast.Div: _new.Divide,
    ast.FloorDiv: _new.FloorDivide, ast.Mod: _new.Modulo, ast.Pow: _new.Power,
    ast.LShift: _new.LeftShift, ast.RShift: _new.RightShift, ast.BitOr: _new.BitOr,
    ast.BitXor: _new.BitXor, ast.BitAnd: _new.BitAnd, ast.MatMult: _new.MatrixMultiply,
}  # fmt: skip
_AUGMENTED: dict[type, Any] = {
    ast.Add: _new.AddAssign, ast.Sub: _new.SubtractAssign, ast.Mult: _new.MultiplyAssign,
    ast.Div: _new.DivideAssign, ast.FloorDiv: _new.FloorDivideAssign,
    ast.Mod: _new.ModuloAssign, ast.Pow: _new.PowerAssign, ast.LShift: _new.LeftShiftAssign,
    ast.RShift: _new.RightShiftAssign, ast.BitOr: _new.BitOrAssign,
    ast.BitXor: _new.BitXorAssign, ast.BitAnd: _new.BitAndAssign,
    ast.MatMult: _new.MatrixMultiplyAssign,
}  # fmt: skip
_UNARY: dict[type, Any] = {
    ast.Not: _new.Not, ast.USub: _new.Minus, ast.UAdd: _new.Plus, ast.Invert: _new.BitInvert,
}  # fmt: skip
_BOOLEAN: dict[type, Any] = {ast.And: _new.And, ast.Or: _new.Or}
_COMPARED: dict[type, Any] = {
    ast.Eq: _new.Equal, ast.NotEq: _new.NotEqual, ast.Lt: _new.LessThan,
    ast.LtE: _new.LessThanEqual, ast.Gt: _new.GreaterThan, ast.GtE: _new.GreaterThanEqual,
    ast.Is: _new.Is, ast.IsNot: _new.IsNot, ast.In: _new.In, ast.NotIn: _new.NotIn,
}  # fmt: skip
_NUMBERS: dict[type, Any] = {
    int: _new.Integer, float: _new.Float, complex: _new.Imaginary,
}  # fmt: skip


class _UnlikeError(Exception):
    """Python's tree does not say what libcst's says."""


def call(func: cst.BaseExpression, args: Sequence[cst.Arg]) -> cst.Call:
    """Return a call that stands nowhere in the text, of nodes that do."""
    made: cst.Call = _new.Call(func, args)
    return made


def read(text: str) -> Reader | None:
    """Return what reads the text as an abstract tree; None where only libcst's parser reads it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
        return Reader(text, tree)
    except (SyntaxError, ValueError, RecursionError, MemoryError, _UnlikeError):
        return None


class Lines:
    """Where lines start in a text; Python counts in bytes of UTF-8 from there."""

    __slots__ = ("_is_ascii", "_starts", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._starts = [0, *(found.end() for found in NEWLINE.finditer(text))]
        self._is_ascii = text.isascii()

    def at(self, line: int, column: int) -> int:
        """Return the offset of a line, from 1, and of bytes behind its start."""
        start = self._starts[line - 1]
        if self._is_ascii:
            return start + column
        end = self._starts[line] if line < len(self._starts) else len(self.text)
        row = self.text[start:end]
        return start + (column if row.isascii() else len(row.encode()[:column].decode()))

    def start(self, node: Any) -> int:
        """Return where a node of Python's tree starts."""
        return self.at(node.lineno, node.col_offset)

    def end(self, node: Any) -> int:
        """Return where a node of Python's tree ends."""
        return self.at(node.end_lineno, node.end_col_offset)

    def is_in_parentheses(self, node: ast.Tuple) -> bool | None:
        """Whether a tuple has parentheses of its own, which Python counts to it; None: unclear.

        ``(a), b`` starts with one as well, that closes before the comma.
        """
        start = self.start(node)
        if self.text[start] != "(" or not node.elts:
            return not node.elts
        before = self.text[start : self.start(node.elts[0])]
        opened = before.count("(")
        closed = 0
        for sign in self.text[self.end(node.elts[0]) :]:
            if sign == ")":
                closed += 1
            elif sign == "," or closed == opened:
                break
            elif not sign.isspace():
                return None
        return None if "#" in before else closed < opened


class _Table(dict[type, Any]):
    """What reads a node of Python's tree, by its type; libcst has to read what is not here."""

    def __missing__(self, kind: type) -> Any:
        raise _UnlikeError


_SIMPLE = frozenset({
    ast.Expr, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Return, ast.Delete, ast.Pass,
    ast.Break, ast.Continue, ast.Import, ast.ImportFrom, ast.Global, ast.Nonlocal, ast.Raise,
    ast.Assert,
})  # fmt: skip


class Reader:
    """Tells what Python's tree says in libcst's nodes.

    ``origins`` has, by the identity of a node, the node of Python's tree that it was made of, and
    ``pieces`` the expressions that libcst read.
    """

    def __init__(self, text: str, tree: ast.Module) -> None:
        self.lines = Lines(text)
        self.origins: dict[int, ast.AST] = {}
        self.pieces: dict[int, cst.BaseExpression] = {}
        self._text = text
        self._continues = ";" in text and "\\" in text
        self.module: cst.Module = _new.Module(self._statements(tree.body))

    # -- statements --------------------------------------------------------------------------

    def _statements(self, body: list[ast.stmt]) -> tuple[Any, ...]:
        """Return the statements of a block, those of one line in one `SimpleStatementLine`."""
        found: list[Any] = []
        before: Any = None
        for one in body:
            kind = type(one)
            made = self._STATEMENTS[kind](self, one)
            self.origins[id(made)] = one
            if kind not in _SIMPLE:
                found.append(made)
                before = None
                continue
            if before is not None and self._is_same_line(before, one):
                made = _new.SimpleStatementLine((*found.pop().body, made))
            else:
                made = _new.SimpleStatementLine((made,))
            found.append(made)
            before = one
        return tuple(found)

    def _is_same_line(self, before: Any, statement: Any) -> bool:
        if before.end_lineno == statement.lineno:
            return True
        return self._continues and bool(_NEXT_LINE.match(self._text, self.lines.end(before)))

    def _block(self, body: list[ast.stmt]) -> Any:
        """Return the block of a compound statement, which may stand on the line of its header."""
        first = body[0]
        if type(first) in _SIMPLE:
            start = self.lines.at(first.lineno, 0)
            before = self._text[start : start + first.col_offset]
            if before and not before.isspace():
                return _new.SimpleStatementSuite(self._statements(body)[0].body)
        return _new.IndentedBlock(self._statements(body))

    def _function(self, node: Any) -> Any:
        if getattr(node, "type_params", None):
            raise _UnlikeError
        return _new.FunctionDef(
            _new.Name(node.name),
            self._parameters(node.args),
            self._block(node.body),
            self._decorators(node),
            None if node.returns is None else _new.Annotation(self._expression(node.returns)),
            _new.Asynchronous() if type(node) is ast.AsyncFunctionDef else None,
        )

    def _class(self, node: Any) -> Any:
        if getattr(node, "type_params", None):
            raise _UnlikeError
        args = self._args(node.bases, node.keywords)
        named = tuple([one for one in args if one.keyword is not None or one.star == "**"])
        return _new.ClassDef(
            _new.Name(node.name),
            self._block(node.body),
            tuple([one for one in args if one not in named]) if named else args,
            named,
            self._decorators(node),
        )

    def _decorators(self, node: Any) -> tuple[Any, ...]:
        return tuple([_new.Decorator(self._expression(one)) for one in node.decorator_list])

    def _parameters(self, node: ast.arguments) -> Any:
        plain = [*node.posonlyargs, *node.args]
        defaults = [*[None] * (len(plain) - len(node.defaults)), *node.defaults]
        pairs = zip(plain, defaults, strict=True)
        made = tuple([self._parameter(one, what) for one, what in pairs])
        star: Any = cst.MaybeSentinel.DEFAULT
        if node.vararg is not None:
            star = self._parameter(node.vararg, None, "*")
        elif node.kwonlyargs:
            star = _new.ParamStar()
        named = zip(node.kwonlyargs, node.kw_defaults, strict=True)
        return _new.Parameters(
            made[len(node.posonlyargs) :],
            star,
            tuple([self._parameter(one, what) for one, what in named]),
            None if node.kwarg is None else self._parameter(node.kwarg, None, "**"),
            made[: len(node.posonlyargs)],
        )

    def _parameter(self, node: ast.arg, default: ast.expr | None, star: str = "") -> Any:
        noted = node.annotation
        return _new.Param(
            _new.Name(node.arg),
            None if noted is None else _new.Annotation(self._expression(noted)),
            self._maybe(default),
            star,
        )

    def _return(self, node: Any) -> Any:
        return _new.Return(self._maybe(node.value))

    def _delete(self, node: Any) -> Any:
        targets, lines = node.targets, self.lines
        if len(targets) == 1 and "," not in self._text[lines.end(targets[0]) : lines.end(node)]:
            return _new.Del(self._expression(targets[0]))
        return _new.Del(_new.Tuple(self._elements(targets)))

    def _assign(self, node: Any) -> Any:
        targets = tuple([_new.AssignTarget(self._expression(one)) for one in node.targets])
        return _new.Assign(targets, self._expression(node.value))

    def _augmented(self, node: Any) -> Any:
        operator = _AUGMENTED[type(node.op)]()
        return _new.AugAssign(self._expression(node.target), operator, self._expression(node.value))

    def _annotated(self, node: Any) -> Any:
        noted = _new.Annotation(self._expression(node.annotation))
        return _new.AnnAssign(self._expression(node.target), noted, self._maybe(node.value))

    def _for(self, node: Any) -> Any:
        return _new.For(
            self._expression(node.target),
            self._expression(node.iter),
            self._block(node.body),
            self._else(node.orelse),
            _new.Asynchronous() if type(node) is ast.AsyncFor else None,
        )

    def _while(self, node: Any) -> Any:
        test = self._expression(node.test)
        return _new.While(test, self._block(node.body), self._else(node.orelse))

    def _else(self, body: list[ast.stmt]) -> Any:
        return _new.Else(self._block(body)) if body else None

    def _if(self, node: Any) -> Any:
        orelse = node.orelse
        last: Any = None
        if len(orelse) == 1 and type(orelse[0]) is ast.If and self._is_elif(orelse[0]):
            last = self._if(orelse[0])
            self.origins[id(last)] = orelse[0]
        elif orelse:
            last = _new.Else(self._block(orelse))
        return _new.If(self._expression(node.test), self._block(node.body), last)

    def _is_elif(self, node: ast.If) -> bool:
        return self._text.startswith("elif", self.lines.start(node))

    def _with(self, node: Any) -> Any:
        items = []
        for one in node.items:
            name = one.optional_vars
            named = None if name is None else _new.AsName(self._expression(name))
            items.append(_new.WithItem(self._expression(one.context_expr), named))
        asynchronous = _new.Asynchronous() if type(node) is ast.AsyncWith else None
        return _new.With(tuple(items), self._block(node.body), asynchronous)

    def _raise(self, node: Any) -> Any:
        cause = None if node.cause is None else _new.From(self._expression(node.cause))
        return _new.Raise(self._maybe(node.exc), cause)

    def _try(self, node: Any) -> Any:
        is_plain = type(node) is ast.Try
        make = _new.ExceptHandler if is_plain else _new.ExceptStarHandler
        handlers = []
        for one in node.handlers:
            named = None if one.name is None else _new.AsName(_new.Name(one.name))
            made = make(self._block(one.body), self._maybe(one.type), named)
            self.origins[id(made)] = one
            handlers.append(made)
        return (_new.Try if is_plain else _new.TryStar)(
            self._block(node.body),
            tuple(handlers),
            self._else(node.orelse),
            _new.Finally(self._block(node.finalbody)) if node.finalbody else None,
        )

    def _assert(self, node: Any) -> Any:
        return _new.Assert(self._expression(node.test), self._maybe(node.msg))

    def _import(self, node: Any) -> Any:
        return _new.Import(self._aliases(node.names))

    def _import_from(self, node: Any) -> Any:
        is_star = node.names[0].name == "*"
        return _new.ImportFrom(
            None if node.module is None else _dotted(node.module),
            _new.ImportStar() if is_star else self._aliases(node.names),
            tuple([_new.Dot() for _ in range(node.level)]),
        )

    def _aliases(self, names: list[ast.alias]) -> tuple[Any, ...]:
        found = []
        for one in names:
            named = None if one.asname is None else _new.AsName(_new.Name(one.asname))
            made = _new.ImportAlias(_dotted(one.name), named)
            self.origins[id(made)] = one
            found.append(made)
        return tuple(found)

    def _global(self, node: Any) -> Any:
        return _new.Global(_name_items(node.names))

    def _nonlocal(self, node: Any) -> Any:
        return _new.Nonlocal(_name_items(node.names))

    def _expression_statement(self, node: Any) -> Any:
        return _new.Expr(self._expression(node.value))

    def _pass(self, node: Any) -> Any:  # noqa: ARG002
        return _new.Pass()

    def _break(self, node: Any) -> Any:  # noqa: ARG002
        return _new.Break()

    def _continue(self, node: Any) -> Any:  # noqa: ARG002
        return _new.Continue()

    # -- expressions -------------------------------------------------------------------------

    def _expression(self, node: Any) -> Any:
        made = self._EXPRESSIONS[type(node)](self, node)
        self.origins[id(made)] = node
        return made

    def _maybe(self, node: Any) -> Any:
        return None if node is None else self._expression(node)

    def _name(self, node: Any) -> Any:
        return _new.Name(node.id)

    def _constant(self, node: Any) -> Any:
        value = node.value
        if value is None or value is True or value is False:
            return _new.Name(str(value))
        if value is ...:
            return _new.Ellipsis()
        code = self._text[self.lines.start(node) : self.lines.end(node)]
        if make := _NUMBERS.get(type(value)):
            return make(code)
        return _new.SimpleString(code) if _STRING.fullmatch(code) else self._piece(node)

    def _piece(self, node: Any) -> Any:
        """Return what libcst reads in the place of a node, layout included."""
        code = self._text[self.lines.start(node) : self.lines.end(node)]
        made = cst.parse_expression(f"({code})").with_changes(lpar=(), rpar=())
        self.pieces[id(made)] = made
        return made

    def _attribute(self, node: Any) -> Any:
        return _new.Attribute(self._expression(node.value), _new.Name(node.attr))

    def _call(self, node: Any) -> Any:
        return _new.Call(self._expression(node.func), self._args(node.args, node.keywords))

    def _args(self, args: list[Any], keywords: list[Any]) -> tuple[Any, ...]:
        """Return the arguments of a call in the order of the text."""
        found = []
        starred = False
        for one in args:
            if type(one) is ast.Starred:
                starred = True
                made = _new.Arg(self._expression(one.value), None, "*")
                self.origins[id(made)] = one
                found.append(made)
            else:
                found.append(_new.Arg(self._expression(one)))
        for one in keywords:
            if one.arg is None:
                made = _new.Arg(self._expression(one.value), None, "**")
            else:
                made = _new.Arg(self._expression(one.value), _new.Name(one.arg))
            self.origins[id(made)] = one
            found.append(made)
        if starred and keywords:  # the only ones that may stand behind keywords
            both = [*args, *keywords]
            order = sorted(range(len(both)), key=lambda at: self.lines.start(both[at]))
            found = [found[at] for at in order]
        return tuple(found)

    def _subscript(self, node: Any) -> Any:
        what = node.slice
        parts = [what]
        if type(what) is ast.Tuple:
            if (own := self.lines.is_in_parentheses(what)) is None:
                raise _UnlikeError
            parts = [what] if own else what.elts
        value = self._expression(node.value)
        made = tuple([_new.SubscriptElement(self._item(one)) for one in parts])
        return _new.Subscript(value, made)

    def _item(self, node: Any) -> Any:
        if type(node) is ast.Starred:
            return _new.Index(self._expression(node.value), "*")
        if type(node) is not ast.Slice:
            return _new.Index(self._expression(node))
        ends = (self._maybe(one) for one in (node.lower, node.upper, node.step))
        return _new.Slice(*ends)

    def _comparison(self, node: Any) -> Any:
        left = self._expression(node.left)
        targets = [
            _new.ComparisonTarget(_COMPARED[type(operator)](), self._expression(to))
            for operator, to in zip(node.ops, node.comparators, strict=True)
        ]
        return _new.Comparison(left, tuple(targets))

    def _boolean(self, node: Any) -> Any:
        make = _BOOLEAN[type(node.op)]
        first, *rest = node.values
        made = self._expression(first)
        for one in rest:
            made = _new.BooleanOperation(made, make(), self._expression(one))
        return made

    def _binary(self, node: Any) -> Any:
        operator = _BINARY[type(node.op)]()
        return _new.BinaryOperation(
            self._expression(node.left), operator, self._expression(node.right)
        )

    def _unary(self, node: Any) -> Any:
        return _new.UnaryOperation(_UNARY[type(node.op)](), self._expression(node.operand))

    def _if_else(self, node: Any) -> Any:
        test, body = self._expression(node.test), self._expression(node.body)
        return _new.IfExp(test, body, self._expression(node.orelse))

    def _lambda(self, node: Any) -> Any:
        return _new.Lambda(self._parameters(node.args), self._expression(node.body))

    def _elements(self, nodes: list[Any]) -> tuple[Any, ...]:
        found = []
        for one in nodes:
            made = self._expression(one)
            found.append(made if type(one) is ast.Starred else _new.Element(made))
        return tuple(found)

    def _starred(self, node: Any) -> Any:
        return _new.StarredElement(self._expression(node.value))

    def _tuple(self, node: Any) -> Any:
        return _new.Tuple(self._elements(node.elts))

    def _list(self, node: Any) -> Any:
        return _new.List(self._elements(node.elts))

    def _set(self, node: Any) -> Any:
        return _new.Set(self._elements(node.elts))

    def _dict(self, node: Any) -> Any:
        elements = []
        for key, value in zip(node.keys, node.values, strict=True):
            made = self._expression(value)
            elements.append(
                _new.StarredDictElement(made)
                if key is None
                else _new.DictElement(self._expression(key), made)
            )
        return _new.Dict(tuple(elements))

    def _list_comp(self, node: Any) -> Any:
        return _new.ListComp(self._expression(node.elt), self._for_in(node.generators))

    def _set_comp(self, node: Any) -> Any:
        return _new.SetComp(self._expression(node.elt), self._for_in(node.generators))

    def _generator(self, node: Any) -> Any:
        return _new.GeneratorExp(self._expression(node.elt), self._for_in(node.generators))

    def _dict_comp(self, node: Any) -> Any:
        key, value = self._expression(node.key), self._expression(node.value)
        return _new.DictComp(key, value, self._for_in(node.generators))

    def _for_in(self, generators: Sequence[Any]) -> Any:
        made: Any = None
        for one in reversed(generators):
            made = _new.CompFor(
                self._expression(one.target),
                self._expression(one.iter),
                tuple([_new.CompIf(self._expression(test)) for test in one.ifs]),
                made,
                _new.Asynchronous() if one.is_async else None,
            )
        return made

    def _named(self, node: Any) -> Any:
        return _new.NamedExpr(self._expression(node.target), self._expression(node.value))

    def _await(self, node: Any) -> Any:
        return _new.Await(self._expression(node.value))

    def _yield(self, node: Any) -> Any:
        return _new.Yield(self._maybe(node.value))

    def _yield_from(self, node: Any) -> Any:
        return _new.Yield(_new.From(self._expression(node.value)))

    _STATEMENTS: ClassVar[_Table] = _Table({
        ast.FunctionDef: _function, ast.AsyncFunctionDef: _function,
        ast.ClassDef: _class, ast.Return: _return, ast.Delete: _delete,
        ast.Assign: _assign, ast.AugAssign: _augmented,
        ast.AnnAssign: _annotated, ast.For: _for, ast.AsyncFor: _for,
        ast.While: _while, ast.If: _if, ast.With: _with,
        ast.AsyncWith: _with, ast.Raise: _raise, ast.Try: _try,
        ast.Assert: _assert, ast.Import: _import, ast.ImportFrom: _import_from,
        ast.Global: _global, ast.Nonlocal: _nonlocal,
        ast.Expr: _expression_statement, ast.Pass: _pass, ast.Break: _break,
        ast.Continue: _continue,
    })  # fmt: skip
    if hasattr(ast, "TryStar"):  # from Python 3.11 on
        _STATEMENTS[ast.TryStar] = _try
    _EXPRESSIONS: ClassVar[_Table] = _Table({
        ast.BoolOp: _boolean, ast.NamedExpr: _named, ast.BinOp: _binary,
        ast.UnaryOp: _unary, ast.Lambda: _lambda, ast.IfExp: _if_else,
        ast.Dict: _dict, ast.Set: _set, ast.ListComp: _list_comp,
        ast.SetComp: _set_comp, ast.DictComp: _dict_comp,
        ast.GeneratorExp: _generator, ast.Await: _await, ast.Yield: _yield,
        ast.YieldFrom: _yield_from, ast.Compare: _comparison, ast.Call: _call,
        ast.JoinedStr: _piece, ast.Constant: _constant,
        ast.Attribute: _attribute, ast.Subscript: _subscript,
        ast.Starred: _starred, ast.Name: _name, ast.List: _list,
        ast.Tuple: _tuple,
    })  # fmt: skip


def _name_items(names: list[str]) -> tuple[Any, ...]:
    return tuple([_new.NameItem(_new.Name(one)) for one in names])


def _dotted(name: str) -> Any:
    first, *rest = name.split(".")
    made = _new.Name(first)
    for one in rest:
        made = _new.Attribute(made, _new.Name(one))
    return made
