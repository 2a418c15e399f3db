"""The abstract tree of a file: libcst's nodes without layout, made by way of Python's own parser.

Rules look at what code does, and ask for its layout only where they change it.  libcst's parser
makes a node of every blank; Python's own is many times as fast, and what it says is told here in
libcst's nodes: 3.2 s for 1,423 files that `libcst.parse_module` takes 15.8 s for (2 CPU cores,
Python 3.11, libcst 1.9.0, the files that `benchmarks/speed.py` parses).  The nodes have the fields
that carry meaning and no others: whoever asks one for its commas, its parentheses or its whitespace
gets an `AttributeError`, and has to ask the concrete tree (`Module.concrete`).
`benchmarks/trees.py` compares the two.

Strings with expressions in them, and strings in several parts, are left to libcst: before Python
3.12 the places of what stands in them are not to be trusted.
"""

from __future__ import annotations

import ast
import re
import warnings
from typing import TYPE_CHECKING, Any, ClassVar

import libcst as cst

from torchlint.syntax.lexer import PLAIN_STRING
from torchlint.syntax.lines import Lines
from torchlint.syntax.makers import (
    AUGMENTED,
    BINARY,
    BOOLEAN,
    COMPARED,
    NUMBERS,
    UNARY,
    Table,
    UnlikeError,
    dotted_name,
    new,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

_STRING = re.compile(rf"[rRbBuU]{{0,2}}(?:{PLAIN_STRING})", re.DOTALL | re.VERBOSE)
_NEXT_LINE = re.compile(r"[ \t\f]*;(?:[ \t\f]|\\(?:\r\n|\r|\n))*\\(?:\r\n|\r|\n)")


def read(text: str) -> Reader | None:
    """Return what reads the text as an abstract tree; None where only libcst's parser reads it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
        return Reader(text, tree)
    except (SyntaxError, ValueError, RecursionError, MemoryError, UnlikeError):
        return None


def _named_alike(node: ast.AST) -> Any:
    """Return what makes the node of libcst that has the name of one of Python's tree."""
    return getattr(new, type(node).__name__)


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
        self.module: cst.Module = new.Module(self._statements(tree.body))

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
                made = new.SimpleStatementLine((*found.pop().body, made))
            else:
                made = new.SimpleStatementLine((made,))
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
                return new.SimpleStatementSuite(self._statements(body)[0].body)
        return new.IndentedBlock(self._statements(body))

    def _function(self, node: Any) -> Any:
        if getattr(node, "type_params", None):
            raise UnlikeError
        return new.FunctionDef(
            new.Name(node.name),
            self._parameters(node.args),
            self._block(node.body),
            self._decorators(node),
            None if node.returns is None else new.Annotation(self._expression(node.returns)),
            new.Asynchronous() if type(node) is ast.AsyncFunctionDef else None,
        )

    def _class(self, node: Any) -> Any:
        if getattr(node, "type_params", None):
            raise UnlikeError
        args = self._args(node.bases, node.keywords)
        named = tuple([one for one in args if one.keyword is not None or one.star == "**"])
        return new.ClassDef(
            new.Name(node.name),
            self._block(node.body),
            tuple([one for one in args if one not in named]) if named else args,
            named,
            self._decorators(node),
        )

    def _decorators(self, node: Any) -> tuple[Any, ...]:
        return tuple([new.Decorator(self._expression(one)) for one in node.decorator_list])

    def _parameters(self, node: ast.arguments) -> Any:
        plain = [*node.posonlyargs, *node.args]
        defaults = [*[None] * (len(plain) - len(node.defaults)), *node.defaults]
        pairs = zip(plain, defaults, strict=True)
        made = tuple([self._parameter(one, what) for one, what in pairs])
        star: Any = cst.MaybeSentinel.DEFAULT
        if node.vararg is not None:
            star = self._parameter(node.vararg, None, "*")
        elif node.kwonlyargs:
            star = new.ParamStar()
        named = zip(node.kwonlyargs, node.kw_defaults, strict=True)
        return new.Parameters(
            made[len(node.posonlyargs) :],
            star,
            tuple([self._parameter(one, what) for one, what in named]),
            None if node.kwarg is None else self._parameter(node.kwarg, None, "**"),
            made[: len(node.posonlyargs)],
        )

    def _parameter(self, node: ast.arg, default: ast.expr | None, star: str = "") -> Any:
        noted = node.annotation
        return new.Param(
            new.Name(node.arg),
            None if noted is None else new.Annotation(self._expression(noted)),
            self._maybe(default),
            star,
        )

    def _return(self, node: Any) -> Any:
        return new.Return(self._maybe(node.value))

    def _delete(self, node: Any) -> Any:
        targets, lines = node.targets, self.lines
        if len(targets) == 1 and "," not in self._text[lines.end(targets[0]) : lines.end(node)]:
            return new.Del(self._expression(targets[0]))
        return new.Del(new.Tuple(self._elements(targets)))

    def _assign(self, node: Any) -> Any:
        targets = tuple([new.AssignTarget(self._expression(one)) for one in node.targets])
        return new.Assign(targets, self._expression(node.value))

    def _augmented(self, node: Any) -> Any:
        operator = AUGMENTED[type(node.op)]()
        return new.AugAssign(self._expression(node.target), operator, self._expression(node.value))

    def _annotated(self, node: Any) -> Any:
        noted = new.Annotation(self._expression(node.annotation))
        return new.AnnAssign(self._expression(node.target), noted, self._maybe(node.value))

    def _for(self, node: Any) -> Any:
        return new.For(
            self._expression(node.target),
            self._expression(node.iter),
            self._block(node.body),
            self._else(node.orelse),
            new.Asynchronous() if type(node) is ast.AsyncFor else None,
        )

    def _while(self, node: Any) -> Any:
        test = self._expression(node.test)
        return new.While(test, self._block(node.body), self._else(node.orelse))

    def _else(self, body: list[ast.stmt]) -> Any:
        return new.Else(self._block(body)) if body else None

    def _if(self, node: Any) -> Any:
        orelse = node.orelse
        last: Any = None
        if len(orelse) == 1 and type(orelse[0]) is ast.If and self._is_elif(orelse[0]):
            last = self._if(orelse[0])
            self.origins[id(last)] = orelse[0]
        elif orelse:
            last = new.Else(self._block(orelse))
        return new.If(self._expression(node.test), self._block(node.body), last)

    def _is_elif(self, node: ast.If) -> bool:
        return self._text.startswith("elif", self.lines.start(node))

    def _with(self, node: Any) -> Any:
        items = []
        for one in node.items:
            name = one.optional_vars
            named = None if name is None else new.AsName(self._expression(name))
            items.append(new.WithItem(self._expression(one.context_expr), named))
        asynchronous = new.Asynchronous() if type(node) is ast.AsyncWith else None
        return new.With(tuple(items), self._block(node.body), asynchronous)

    def _raise(self, node: Any) -> Any:
        cause = None if node.cause is None else new.From(self._expression(node.cause))
        return new.Raise(self._maybe(node.exc), cause)

    def _try(self, node: Any) -> Any:
        is_plain = type(node) is ast.Try
        make = new.ExceptHandler if is_plain else new.ExceptStarHandler
        handlers = []
        for one in node.handlers:
            named = None if one.name is None else new.AsName(new.Name(one.name))
            made = make(self._block(one.body), self._maybe(one.type), named)
            self.origins[id(made)] = one
            handlers.append(made)
        return (new.Try if is_plain else new.TryStar)(
            self._block(node.body),
            tuple(handlers),
            self._else(node.orelse),
            new.Finally(self._block(node.finalbody)) if node.finalbody else None,
        )

    def _assert(self, node: Any) -> Any:
        return new.Assert(self._expression(node.test), self._maybe(node.msg))

    def _import(self, node: Any) -> Any:
        return new.Import(self._aliases(node.names))

    def _import_from(self, node: Any) -> Any:
        is_star = node.names[0].name == "*"
        return new.ImportFrom(
            None if node.module is None else dotted_name(node.module),
            new.ImportStar() if is_star else self._aliases(node.names),
            tuple([new.Dot() for _ in range(node.level)]),
        )

    def _aliases(self, names: list[ast.alias]) -> tuple[Any, ...]:
        found = []
        for one in names:
            named = None if one.asname is None else new.AsName(new.Name(one.asname))
            made = new.ImportAlias(dotted_name(one.name), named)
            self.origins[id(made)] = one
            found.append(made)
        return tuple(found)

    def _outer(self, node: Any) -> Any:
        items = [new.NameItem(new.Name(one)) for one in node.names]
        return _named_alike(node)(tuple(items))

    def _expression_statement(self, node: Any) -> Any:
        return new.Expr(self._expression(node.value))

    def _word(self, node: Any) -> Any:
        return _named_alike(node)()

    # -- expressions -------------------------------------------------------------------------

    def _expression(self, node: Any) -> Any:
        made = self._EXPRESSIONS[type(node)](self, node)
        self.origins[id(made)] = node
        return made

    def _maybe(self, node: Any) -> Any:
        return None if node is None else self._expression(node)

    def _name(self, node: Any) -> Any:
        return new.Name(node.id)

    def _constant(self, node: Any) -> Any:
        value = node.value
        if value is None or value is True or value is False:
            return new.Name(str(value))
        if value is ...:
            return new.Ellipsis()
        code = self._text[self.lines.start(node) : self.lines.end(node)]
        if make := NUMBERS.get(type(value)):
            return make(code)
        return new.SimpleString(code) if _STRING.fullmatch(code) else self._piece(node)

    def _piece(self, node: Any) -> Any:
        """Return what libcst reads in the place of a node, layout included."""
        code = self._text[self.lines.start(node) : self.lines.end(node)]
        made = cst.parse_expression(f"({code})").with_changes(lpar=(), rpar=())
        self.pieces[id(made)] = made
        return made

    def _attribute(self, node: Any) -> Any:
        return new.Attribute(self._expression(node.value), new.Name(node.attr))

    def _call(self, node: Any) -> Any:
        return new.Call(self._expression(node.func), self._args(node.args, node.keywords))

    def _args(self, args: list[Any], keywords: list[Any]) -> tuple[Any, ...]:
        """Return the arguments of a call in the order of the text."""
        found = []
        starred = False
        for one in args:
            if type(one) is ast.Starred:
                starred = True
                made = new.Arg(self._expression(one.value), None, "*")
                self.origins[id(made)] = one
                found.append(made)
            else:
                found.append(new.Arg(self._expression(one)))
        for one in keywords:
            if one.arg is None:
                made = new.Arg(self._expression(one.value), None, "**")
            else:
                made = new.Arg(self._expression(one.value), new.Name(one.arg))
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
                raise UnlikeError
            parts = [what] if own else what.elts
        value = self._expression(node.value)
        made = tuple([new.SubscriptElement(self._item(one)) for one in parts])
        return new.Subscript(value, made)

    def _item(self, node: Any) -> Any:
        if type(node) is ast.Starred:
            return new.Index(self._expression(node.value), "*")
        if type(node) is not ast.Slice:
            return new.Index(self._expression(node))
        ends = (self._maybe(one) for one in (node.lower, node.upper, node.step))
        return new.Slice(*ends)

    def _comparison(self, node: Any) -> Any:
        left = self._expression(node.left)
        targets = [
            new.ComparisonTarget(COMPARED[type(operator)](), self._expression(to))
            for operator, to in zip(node.ops, node.comparators, strict=True)
        ]
        return new.Comparison(left, tuple(targets))

    def _boolean(self, node: Any) -> Any:
        make = BOOLEAN[type(node.op)]
        first, *rest = node.values
        made = self._expression(first)
        for one in rest:
            made = new.BooleanOperation(made, make(), self._expression(one))
        return made

    def _binary(self, node: Any) -> Any:
        operator = BINARY[type(node.op)]()
        return new.BinaryOperation(
            self._expression(node.left), operator, self._expression(node.right)
        )

    def _unary(self, node: Any) -> Any:
        return new.UnaryOperation(UNARY[type(node.op)](), self._expression(node.operand))

    def _if_else(self, node: Any) -> Any:
        test, body = self._expression(node.test), self._expression(node.body)
        return new.IfExp(test, body, self._expression(node.orelse))

    def _lambda(self, node: Any) -> Any:
        return new.Lambda(self._parameters(node.args), self._expression(node.body))

    def _elements(self, nodes: list[Any]) -> tuple[Any, ...]:
        found = []
        for one in nodes:
            made = self._expression(one)
            found.append(made if type(one) is ast.Starred else new.Element(made))
        return tuple(found)

    def _starred(self, node: Any) -> Any:
        return new.StarredElement(self._expression(node.value))

    def _sequence(self, node: Any) -> Any:
        return _named_alike(node)(self._elements(node.elts))

    def _dict(self, node: Any) -> Any:
        elements = []
        for key, value in zip(node.keys, node.values, strict=True):
            made = self._expression(value)
            elements.append(
                new.StarredDictElement(made)
                if key is None
                else new.DictElement(self._expression(key), made)
            )
        return new.Dict(tuple(elements))

    def _comprehension(self, node: Any) -> Any:
        return _named_alike(node)(self._expression(node.elt), self._for_in(node.generators))

    def _dict_comp(self, node: Any) -> Any:
        key, value = self._expression(node.key), self._expression(node.value)
        return new.DictComp(key, value, self._for_in(node.generators))

    def _for_in(self, generators: Sequence[Any]) -> Any:
        made: Any = None
        for one in reversed(generators):
            made = new.CompFor(
                self._expression(one.target),
                self._expression(one.iter),
                tuple([new.CompIf(self._expression(test)) for test in one.ifs]),
                made,
                new.Asynchronous() if one.is_async else None,
            )
        return made

    def _named(self, node: Any) -> Any:
        return new.NamedExpr(self._expression(node.target), self._expression(node.value))

    def _await(self, node: Any) -> Any:
        return new.Await(self._expression(node.value))

    def _yield(self, node: Any) -> Any:
        return new.Yield(self._maybe(node.value))

    def _yield_from(self, node: Any) -> Any:
        return new.Yield(new.From(self._expression(node.value)))

    _STATEMENTS: ClassVar[Table] = Table({
        ast.FunctionDef: _function, ast.AsyncFunctionDef: _function,
        ast.ClassDef: _class, ast.Return: _return, ast.Delete: _delete,
        ast.Assign: _assign, ast.AugAssign: _augmented,
        ast.AnnAssign: _annotated, ast.For: _for, ast.AsyncFor: _for,
        ast.While: _while, ast.If: _if, ast.With: _with,
        ast.AsyncWith: _with, ast.Raise: _raise, ast.Try: _try,
        ast.Assert: _assert, ast.Import: _import, ast.ImportFrom: _import_from,
        ast.Global: _outer, ast.Nonlocal: _outer, ast.Expr: _expression_statement,
        ast.Pass: _word, ast.Break: _word, ast.Continue: _word,
    })  # fmt: skip
    if hasattr(ast, "TryStar"):  # from Python 3.11 on
        _STATEMENTS[ast.TryStar] = _try
    _EXPRESSIONS: ClassVar[Table] = Table({
        ast.BoolOp: _boolean, ast.NamedExpr: _named, ast.BinOp: _binary,
        ast.UnaryOp: _unary, ast.Lambda: _lambda, ast.IfExp: _if_else,
        ast.Dict: _dict, ast.Set: _sequence, ast.ListComp: _comprehension,
        ast.SetComp: _comprehension, ast.DictComp: _dict_comp,
        ast.GeneratorExp: _comprehension, ast.Await: _await, ast.Yield: _yield,
        ast.YieldFrom: _yield_from, ast.Compare: _comparison, ast.Call: _call,
        ast.JoinedStr: _piece, ast.Constant: _constant,
        ast.Attribute: _attribute, ast.Subscript: _subscript,
        ast.Starred: _starred, ast.Name: _name, ast.List: _sequence,
        ast.Tuple: _sequence,
    })  # fmt: skip
