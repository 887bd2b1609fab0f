"""The `calculate_output` formula of a multi grader: read, checked, computed, said in words. Portable.

Operators + - * / ^, functions min max abs floor ceil exp sqrt log, numbers, parentheses, names of graders. The
grammar is small on purpose; `**`, comparisons, attributes and everything else are refused with their position.
"""

import math
import operator
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import pairwise

MAX_DEPTH = 60
MAX_LENGTH = 10_000

_FUNCTIONS: dict[str, Callable[..., float]] = {
    "min": min,
    "max": max,
    "abs": abs,
    "floor": lambda x: float(math.floor(x)),
    "ceil": lambda x: float(math.ceil(x)),
    "exp": math.exp,
    "sqrt": math.sqrt,
    "log": math.log,
}
FUNCTIONS = tuple(_FUNCTIONS)
_OPERATIONS: dict[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}
_MANY = {"min", "max"}
_TOKEN = re.compile(
    r"[ \t\r\n]*(?:(?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)|(?P<sign>\*\*|[-+*/^(),])|(?P<other>\S))"
)
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

Values = dict[str, float]
Node = Callable[[Values], float]


class FormulaError(ValueError):
    """A formula that cannot be read or computed; `position` counts characters from 0."""

    def __init__(self, message: str, *, position: int = 0, code: str = "formula_syntax", fix: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.position = position
        self.code = code
        self.fix = fix


@dataclass(frozen=True)
class Token:
    kind: str
    text: str
    position: int


class Formula:
    """A formula ready to compute. `names` are the graders it reads."""

    def __init__(self, source: str, names: Iterable[str]) -> None:
        errors = formula_errors(source, names)
        if errors:
            raise errors[0]
        self.source = source
        parser = _Parser(_tokens(source))
        self._node = parser.read()
        self.names = frozenset(parser.names)

    def compute(self, values: Values) -> float:
        """The number; FormulaError for division by zero, a domain error or a result that is not finite."""
        try:
            result = float(self._node(values))
        except ZeroDivisionError:
            raise FormulaError("Division by zero.", code="formula_division") from None
        except ValueError:
            raise FormulaError(
                "Domain error: log, sqrt or ^ was given a number that it has no result for.", code="formula_domain"
            ) from None
        except OverflowError:
            raise FormulaError("The result is too large for a number.", code="formula_overflow") from None
        if not math.isfinite(result):
            raise FormulaError("The result is not a finite number.", code="formula_overflow")
        return result


def formula_errors(source: str, names: Iterable[str]) -> list[FormulaError]:
    """Everything that is wrong with a formula, in the order of its text; empty when it can be computed."""
    names = list(names)
    if not isinstance(source, str) or not source.strip():
        return [
            FormulaError("The formula is empty.", code="formula_empty", fix=f"For instance: {' + '.join(names) or '1'}")
        ]
    if len(source) > MAX_LENGTH:
        return [FormulaError(f"The formula is longer than {MAX_LENGTH:,} characters.", code="formula_long")]
    tokens = _tokens(source)
    errors = [*_bad_tokens(tokens), *_bad_parentheses(tokens), *_unknown_names(tokens, names)]
    if not errors:
        try:
            _Parser(tokens).read()
        except FormulaError as error:
            errors.append(error)
    return sorted(errors, key=lambda error: error.position)


def _tokens(source: str) -> list[Token]:
    found = [Token(m.lastgroup or "", m[m.lastgroup or 0], m.start(m.lastgroup or 0)) for m in _TOKEN.finditer(source)]
    return [*found, Token("end", "", len(source))]


def _bad_tokens(tokens: list[Token]) -> list[FormulaError]:
    errors = []
    for token in tokens:
        if token.text == "**":
            errors.append(
                FormulaError('"**" is not an operator here.', position=token.position, fix="Write ^ for power.")
            )
        elif token.kind == "other":
            errors.append(
                FormulaError(
                    f'"{token.text}" at character {token.position + 1} is not part of a formula.',
                    position=token.position,
                    fix="Use + - * / ^, parentheses, plain digits, names of graders and " + ", ".join(FUNCTIONS) + ".",
                )
            )
    return errors


def _bad_parentheses(tokens: list[Token]) -> list[FormulaError]:
    open_at: list[int] = []
    for token in tokens:
        if token.text == "(":
            open_at.append(token.position)
            if len(open_at) > MAX_DEPTH:
                return [_too_deep(token.position)]
        elif token.text == ")":
            if not open_at:
                return [_unbalanced(")", token.position)]
            open_at.pop()
    return [_unbalanced("(", open_at[-1])] if open_at else []


def _unbalanced(which: str, position: int) -> FormulaError:
    return FormulaError(
        f'Unbalanced "{which}" at character {position + 1}.',
        position=position,
        code="formula_unbalanced",
        fix="Each ( needs a ) and the other way round.",
    )


def _too_deep(position: int) -> FormulaError:
    return FormulaError(f"More than {MAX_DEPTH} levels of nesting.", position=position, code="formula_deep")


def _unknown_names(tokens: list[Token], names: list[str]) -> list[FormulaError]:
    errors = []
    for token, following in pairwise(tokens):
        if token.kind != "name" or token.text in names or (token.text in _FUNCTIONS and following.text == "("):
            continue
        near = get_close_matches(token.text, names, 1, 0.5)
        exist = f"The graders are: {', '.join(names)}." if names else "There are no graders."
        errors.append(
            FormulaError(
                f"Unknown name {token.text} at character {token.position + 1}.",
                position=token.position,
                code="formula_unknown_name",
                fix=f"Did you mean {near[0]}? {exist}" if near else exist,
            )
        )
    return errors


class _Parser:
    """Recursive descent over tokens; builds closures, so computing walks no tree."""

    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = tokens
        self.at = 0
        self.depth = 0
        self.names: set[str] = set()

    def read(self) -> Node:
        node = self.expression()
        if self.peek.kind != "end":
            raise self.unexpected()
        return node

    @property
    def peek(self) -> Token:
        return self.tokens[self.at]

    def take(self, *texts: str) -> str:
        if self.peek.kind == "sign" and self.peek.text in texts:
            self.at += 1
            return self.tokens[self.at - 1].text
        return ""

    def unexpected(self) -> FormulaError:
        token = self.peek
        what = f'"{token.text}" at character {token.position + 1}' if token.text else "The end"
        return FormulaError(f"{what} comes where a number, a name or an operator belongs.", position=token.position)

    def expression(self) -> Node:
        return self.chain(self.term, "+", "-")

    def term(self) -> Node:
        return self.chain(self.unary, "*", "/")

    def chain(self, operand: Callable[[], Node], *signs: str) -> Node:
        """Operands of one precedence, from left to right; flat, so that a long sum does not nest."""
        first = operand()
        rest = []
        while sign := self.take(*signs):
            rest.append((_OPERATIONS[sign], operand()))
        return _chained(first, rest) if rest else first

    def unary(self) -> Node:
        self.depth += 1
        if self.depth > MAX_DEPTH * 4:
            raise _too_deep(self.peek.position)
        sign = self.take("-", "+")
        node = self.power()
        self.depth -= 1
        return _negate(node) if sign == "-" else node

    def power(self) -> Node:
        base = self.atom()
        return _raise(base, self.unary()) if self.take("^") else base

    def atom(self) -> Node:
        token = self.peek
        if token.kind == "number":
            self.at += 1
            if not math.isfinite(number := float(token.text)):
                raise FormulaError(
                    f"The number at character {token.position + 1} is too large.",
                    position=token.position,
                    code="formula_overflow",
                )
            return _constant(number)
        if token.kind == "name":
            self.at += 1
            return self.call(token) if self.peek.text == "(" and token.text in _FUNCTIONS else self.name(token)
        if self.take("("):
            node = self.expression()
            if not self.take(")"):
                raise self.unexpected()
            return node
        raise self.unexpected()

    def name(self, token: Token) -> Node:
        self.names.add(token.text)
        return _variable(token.text)

    def call(self, token: Token) -> Node:
        self.take("(")
        arguments = [self.expression()]
        while self.take(","):
            arguments.append(self.expression())
        if not self.take(")"):
            raise self.unexpected()
        if token.text not in _MANY and len(arguments) != 1:
            raise FormulaError(
                f"{token.text} takes one number, not {len(arguments)}.", position=token.position, code="formula_arity"
            )
        return _apply(token.text, arguments)


def _constant(number: float) -> Node:
    return lambda values: number


def _variable(name: str) -> Node:
    return lambda values: values[name]


def _chained(first: Node, rest: list[tuple[Callable[[float, float], float], Node]]) -> Node:
    if len(rest) == 1:
        operation, second = rest[0]
        return lambda values: _finite(operation(first(values), second(values)))

    def compute(values: Values) -> float:
        result = first(values)
        for operation, operand in rest:
            result = operation(result, operand(values))
        return _finite(result)

    return compute


def _finite(number: float) -> float:
    """Infinity must not travel on: 1 / infinity would be a 0 that nobody earned."""
    if number - number != 0.0:  # true of infinity and of NaN, and quicker than math.isfinite
        raise OverflowError
    return number


def _raise(a: Node, b: Node) -> Node:
    return lambda values: math.pow(a(values), b(values))  # math.pow: never a complex number, never an endless integer


def _negate(a: Node) -> Node:
    return lambda values: -a(values)


def _apply(function: str, arguments: list[Node]) -> Node:
    call = _FUNCTIONS[function]
    if len(arguments) == 1:
        only = arguments[0]
        if function in _MANY:
            return only
        return lambda values: call(only(values))
    return lambda values: call(argument(values) for argument in arguments)
