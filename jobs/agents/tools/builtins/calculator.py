"""Built-in tool: exact decimal arithmetic, parsed by hand (no `eval`).

Without configuration it takes an `expression`: + - * / ^ ( ), a % after a number, and abs, min, max, round.
With `operation` (product, sum, difference, quotient) it takes two numbers, named by `operands` (default a and b).
Fractions are carried exactly; an endless decimal is rounded to 28 significant digits when it is written.
"""

import re
from collections.abc import Callable
from decimal import Context, Decimal, InvalidOperation, localcontext
from fractions import Fraction
from typing import Any

from jobs.agents.tools.arguments import ArgumentError
from jobs.agents.tools.spec import ToolSpec

PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {"expression": {"type": "string", "description": "For instance (12.5 + 7) * 3."}},
    "required": ["expression"],
}
OPERATIONS: dict[str, Callable[[Fraction, Fraction], Fraction]] = {
    "product": lambda a, b: a * b,
    "sum": lambda a, b: a + b,
    "difference": lambda a, b: a - b,
    "quotient": lambda a, b: a / b,
}
MAX_LENGTH = 1_000
MAX_BITS = 20_000  # about 6,000 digits: beyond it a power would only burn time
MAX_DEPTH = 50
_TOKEN = re.compile(r"\s*(?:(\d+(?:\.\d*)?(?:[eE][+-]?\d{1,3})?|\.\d+)|([a-z]+)|(\*\*|[-+*/^%(),×÷−·]))")
_GROUPED = re.compile(r"[-+]?\d{1,3}(?:,\d{3})+(?:\.\d*)?")
_SAME = {"**": "^", "×": "*", "·": "*", "÷": "/", "−": "-"}


def config_problems(config: dict[str, Any]) -> list[str]:
    operation = config.get("operation")
    if operation and operation not in OPERATIONS:
        return [f"The operation must be one of: {', '.join(OPERATIONS)}."]
    return []


def ready(spec: ToolSpec, item: dict[str, Any]) -> Callable[[dict[str, Any]], str]:
    operation = spec.config.get("operation")
    if operation:
        names = spec.config.get("operands") or ["a", "b"]
        return lambda arguments: _on_two(OPERATIONS[operation], names, arguments)
    return lambda arguments: calculate(str(arguments.get("expression", "")))


def calculate(expression: str) -> str:
    """The value of an expression, as plain decimal digits. Raises ArgumentError in words for the model."""
    if not expression.strip():
        raise ArgumentError("Error: the expression is empty.")
    if len(expression) > MAX_LENGTH:
        raise ArgumentError(f"Error: the expression is longer than {MAX_LENGTH} characters.")
    try:
        return write(_Parser(expression).value())
    except ZeroDivisionError as exc:
        raise ArgumentError("Error: division by zero.") from exc


def write(value: Fraction) -> str:
    """Plain digits without exponent; exact where the decimal ends, else 28 significant digits."""
    with localcontext(Context(prec=MAX_BITS)) as exact:
        power = value.denominator
        while power % 2 == 0:
            power //= 2
        while power % 5 == 0:
            power //= 5
        if power != 1:
            exact.prec = 28
        quotient = Decimal(value.numerator) / Decimal(value.denominator)
        text = format(quotient, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def _on_two(operate: Callable, names: list[str], arguments: dict[str, Any]) -> str:
    try:
        first, second = (_number(arguments[name], name) for name in names)
        return write(_kept_small(operate(first, second)))
    except KeyError as exc:
        raise ArgumentError(f"Error: missing argument: {exc.args[0]}.") from exc
    except ZeroDivisionError as exc:
        raise ArgumentError("Error: division by zero.") from exc


def _number(value: Any, name: str) -> Fraction:
    text = str(value).strip().replace("\u2212", "-").replace(" ", "")
    percent = text.endswith("%")
    if "," in text and _GROUPED.fullmatch(text.removesuffix("%")):
        text = text.replace(",", "")  # 1,000 is a thousand; 1,5 is refused, for it is no fifteen
    try:
        number = Decimal(text.removesuffix("%"))
        if isinstance(value, bool) or not number.is_finite() or abs(number.adjusted()) > 1_000:
            raise InvalidOperation
    except InvalidOperation as exc:
        raise ArgumentError(f"Error: {name} must be a number, not {str(value)[:40]!r}.") from exc
    return Fraction(number) / (100 if percent else 1)


def _kept_small(value: Fraction) -> Fraction:
    if value.numerator.bit_length() > MAX_BITS or value.denominator.bit_length() > MAX_BITS:
        raise ArgumentError("Error: the result has too many digits.")
    return value


class _Parser:
    """Recursive descent: sum → product → sign → power → atom."""

    def __init__(self, text: str) -> None:
        self.tokens = list(_tokens(text))
        self.at = 0
        self.depth = 0

    def value(self) -> Fraction:
        result = self._sum()
        if self.at < len(self.tokens):
            raise ArgumentError(f"Error: {self.tokens[self.at]!r} is not expected there.")
        return result

    def _peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def _take(self, *wanted: str) -> str:
        if self._peek() not in wanted or not self._peek():
            return ""
        self.at += 1
        return self.tokens[self.at - 1]

    def _sum(self) -> Fraction:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise ArgumentError("Error: the expression is nested too deep.")
        value = self._product()
        while sign := self._take("+", "-"):
            value = _kept_small(value + self._product() if sign == "+" else value - self._product())
        self.depth -= 1
        return value

    def _product(self) -> Fraction:
        value = self._signed()
        while sign := self._take("*", "/"):
            value = _kept_small(value * self._signed() if sign == "*" else value / self._signed())
        return value

    def _signed(self) -> Fraction:
        negative = False
        while sign := self._take("+", "-"):
            negative ^= sign == "-"
        value = self._power()
        return -value if negative else value

    def _power(self) -> Fraction:
        base = self._atom()
        while self._take("%"):
            base /= 100
        if not self._take("^"):
            return base
        exponent = self._signed_exponent()
        size = max(base.numerator.bit_length(), base.denominator.bit_length())
        if abs(exponent) * size > MAX_BITS:
            raise ArgumentError("Error: the result has too many digits.")
        return base**exponent

    def _signed_exponent(self) -> int:
        negative = bool(self._take("-"))
        exponent = self._power()
        if exponent.denominator != 1:
            raise ArgumentError("Error: only whole exponents are exact.")
        return -int(exponent) if negative else int(exponent)

    def _atom(self) -> Fraction:
        if self._take("("):
            value = self._sum()
            self._close()
            return value
        token = self._peek()
        if not token:
            raise ArgumentError("Error: the expression ends too early.")
        self.at += 1
        if token.isalpha():
            return self._function(token)
        if not (token[0].isdigit() or token[0] == "."):
            raise ArgumentError(f"Error: {token!r} is not expected there.")
        return Fraction(Decimal(token))

    def _function(self, name: str) -> Fraction:
        if name not in {"abs", "min", "max", "round"} or not self._take("("):
            raise ArgumentError(f"Error: {name} is not known. Use numbers, + - * / ^ ( ) and abs, min, max, round.")
        values = [self._sum()]
        while self._take(","):
            values.append(self._sum())
        self._close()
        if name == "round":
            return _round(values)
        if name == "abs" and len(values) != 1:
            raise ArgumentError("Error: abs takes one number.")
        return abs(values[0]) if name == "abs" else (min if name == "min" else max)(values)

    def _close(self) -> None:
        if not self._take(")"):
            raise ArgumentError("Error: a closing parenthesis is missing.")


def _round(values: list[Fraction]) -> Fraction:
    """Half away from zero, as people round."""
    places = values[1] if len(values) == 2 else Fraction(0)
    if len(values) > 2 or places.denominator != 1 or abs(places) > 100:
        raise ArgumentError("Error: round takes a number and how many decimals.")
    scale = Fraction(10) ** int(places)
    whole = int(abs(values[0]) * scale + Fraction(1, 2))
    return Fraction(whole) / scale * (1 if values[0] >= 0 else -1)


def _tokens(text: str):
    at = 0
    text = text.rstrip()
    while at < len(text):
        found = _TOKEN.match(text, at)
        if not found:
            rest = text[at:].lstrip()
            place = len(text) - len(rest) + 1
            raise ArgumentError(f"Error: {rest[:1]!r} at character {place} is not arithmetic.")
        token = found[1] or found[2] or found[3]
        yield _SAME.get(token, token)
        at = found.end()
