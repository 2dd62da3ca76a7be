"""Constraints as text: a small grammar, parsed and checked once, evaluated on many points at a time.

    condition  = all { "or" all }              all     = not { "and" not }
    not        = "not" not | comparison        comparison = sum { ("<=" | ">=" | "<" | ">" | "==" | "!=") sum }
    sum        = product { ("+" | "-") product }   product = factor { ("*" | "/") factor }
    factor     = ("-" | "+") factor | power    power   = atom [ ("**" | "^") factor ]
    atom       = number | text | name | "true" | "false" | "none" | function "(" sum { "," sum } ")" | "(" condition ")"

A name that is no word of this grammar is written `between backquotes`. Numbers that agree to twelve digits count as
equal, so that 0.1 + 0.2 <= 0.3 holds. A comparison with a number that is not finite is unknown: so is its negation,
and a constraint holds only where it is known to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool as Bools
from jaxtyping import Float as Floats

from poolwise.space import terms
from poolwise.space.errors import SpaceError, did_you_mean
from poolwise.space.parameters import Parameter
from poolwise.space.scalars import Scalar, key, listed
from poolwise.space.terms import FUNCTIONS, KINDS, OPERATIONS, Columns, Run, Term
from poolwise.space.tokens import Token, fault, tokenize

DEEPEST = 20
WORDS: dict[str, Scalar] = {"true": True, "false": False, "none": None}


@dataclass(frozen=True)
class Constraint:
    """A condition on parameters: called with codes, it says for which points it holds."""

    text: str
    names: tuple[str, ...]
    run: Run

    def __call__(self, codes: Columns, n: int) -> Bools[np.ndarray, " n"]:
        return self.gap(codes, n) == 0.0

    def gap(self, codes: Columns, n: int) -> Floats[np.ndarray, " n"]:
        """How far each point is from satisfying the condition: zero where it does, infinite where nobody can say."""
        fixed = np.zeros(n)
        with np.errstate(all="ignore"):
            gap, _ = self.run({name: codes.get(name, fixed) for name in self.names})
        return np.broadcast_to(np.asarray(gap, dtype=float), (n,))


def parse(text: str, parameters: Mapping[str, Parameter]) -> Constraint:
    """The constraint that a text states; an error shows the text with a caret at the fault."""
    if not isinstance(text, str):
        raise SpaceError(f"constraint: expected text such as 'x + y <= 1', got {type(text).__name__}.")
    parser = Parser(text, parameters)
    term = parser.condition()
    if parser.next.kind != "end":
        raise parser.fault(parser.next, f"did not expect {parser.next.text!r} here.")
    if term.kind != "truth":
        raise parser.fault(term, f"this gives {KINDS[term.kind]}, not a condition; compare it, as in 'x + y <= 1'.")
    return Constraint(text, tuple(parser.names), term.run)


class Parser:
    """Recursive descent over the words of one expression."""

    def __init__(self, text: str, parameters: Mapping[str, Parameter]) -> None:
        self.text = text
        self.parameters = parameters
        self.tokens = tokenize(text)
        self.place = 0
        self.depth = 0
        self.names: dict[str, None] = {}

    @property
    def next(self) -> Token:
        return self.tokens[self.place]

    def take(self, *texts: str) -> Token | None:
        """The next word, if it is one of these."""
        token = self.next
        quoted = self.text[token.at : token.at + 1] == "`"
        if token.kind not in ("sign", "name") or token.text not in texts or quoted:
            return None
        self.place += 1
        return token

    def fault(self, where: Token | Term, message: str) -> SpaceError:
        return fault(self.text, where.at, message)

    def nested(self, part: Callable[[], Term]) -> Term:
        """A part inside another one, within the limit of depth."""
        self.depth += 1
        if self.depth > DEEPEST:
            raise self.fault(self.next, f"nested more than {DEEPEST} deep; split the constraint in two.")
        term = part()
        self.depth -= 1
        return term

    def condition(self) -> Term:
        return self.joined("or", self.every, terms.any_of)

    def every(self) -> Term:
        return self.joined("and", self.negation, terms.all_of)

    def joined(self, word: str, part: Callable[[], Term], rule: Callable[[list[Any]], Any]) -> Term:
        found = [part()]
        while joint := self.take(word):
            found.append(part())
            for term in found[-2:]:
                self.expect(term, "truth", joint)
        if len(found) == 1:
            return found[0]
        runs = [term.run for term in found]
        return Term("truth", lambda columns: rule([run(columns) for run in runs]), found[0].at)

    def negation(self) -> Term:
        if word := self.take("not"):
            term = self.nested(self.negation)
            self.expect(term, "truth", word)
            return Term("truth", lambda columns: term.run(columns)[::-1], word.at)
        return self.comparison()

    def comparison(self) -> Term:
        left = first = self.sum()
        runs = []
        while sign := self.take("<=", ">=", "<", ">", "==", "!="):
            right = self.sum()
            runs.append(self.compared(left, sign, right))
            left = right
        if not runs:
            return first
        return Term("truth", lambda columns: terms.all_of([run(columns) for run in runs]), first.at)

    def compared(self, left: Term, sign: Token, right: Term) -> Run:
        if left.kind == right.kind == "number":
            return terms.comparison(sign.text, left.run, right.run)
        if sign.text in ("==", "!="):
            run = self.same(left, sign, right)
            return run if sign.text == "==" else lambda columns: run(columns)[::-1]
        for term in (left, right):
            self.expect(term, "number", sign)
        raise AssertionError  # one of the two was no number

    def same(self, left: Term, sign: Token, right: Term) -> Run:
        if left.kind == right.kind == "truth":
            return terms.same_truth(left.run, right.run)
        if left.pick is None or right.pick is None or left.options is None or right.options is None:
            raise self.fault(sign, f"compares {KINDS[left.kind]} with {KINDS[right.kind]}.")
        for one, other in ((left, right), (right, left)):
            self.expect_option(one, other)
        table = np.array([[key(a) == key(b) for b in right.options] for a in left.options])
        return terms.same_value(table, left.pick, right.pick)

    def expect_option(self, literal: Term, choice: Term) -> None:
        """A literal beside a choice must be one of its values, or it is a slip of the pen."""
        if literal.name is not None or choice.name is None or not literal.options or not choice.options:
            return
        [value] = literal.options
        if len(choice.options) > 1 and key(value) not in map(key, choice.options):
            hint = did_you_mean(str(value), [v for v in choice.options if isinstance(v, str)])
            raise self.fault(literal, f"{value!r} is no value of {choice.name}: {listed(choice.options)}.{hint}")

    def sum(self) -> Term:
        return self.chain(self.product, "+", "-")

    def product(self) -> Term:
        return self.chain(self.factor, "*", "/")

    def chain(self, part: Callable[[], Term], *signs: str) -> Term:
        first = part()
        rest: list[tuple[Callable[..., Any], Run]] = []
        while sign := self.take(*signs):
            term = part()
            for operand in (term,) if rest else (first, term):
                self.expect(operand, "number", sign)
            rest.append((OPERATIONS[sign.text], term.run))
        if not rest:
            return first
        return Term("number", terms.chained(first.run, rest), first.at)

    def factor(self) -> Term:
        if sign := self.take("-", "+"):
            term = self.nested(self.factor)
            self.expect(term, "number", sign)
            return Term("number", (lambda columns: -term.run(columns)) if sign.text == "-" else term.run, sign.at)
        return self.power()

    def power(self) -> Term:
        base = self.atom()
        if sign := self.take("**", "^"):
            exponent = self.nested(self.factor)
            for operand in (base, exponent):
                self.expect(operand, "number", sign)
            return Term("number", lambda columns: np.power(base.run(columns), exponent.run(columns)), base.at)
        return base

    def atom(self) -> Term:
        token = self.next
        if self.take("("):
            term = self.nested(self.condition)
            self.close(token)
            return Term(term.kind, term.run, token.at)
        self.place += 1
        if token.kind == "number":
            return self.number(token)
        if token.kind == "text":
            return terms.literal(token.text[1:-1], token.at)
        if token.kind == "name":
            return self.named(token)
        raise self.fault(token, f"expected a number, a name or a parenthesis{instead(token)}.")

    def number(self, token: Token) -> Term:
        if not np.isfinite(float(token.text)):
            raise self.fault(token, "this number is too large.")
        return terms.literal(float(token.text), token.at)

    def named(self, token: Token) -> Term:
        if token.text in self.parameters and not self.calls(token):
            self.names[token.text] = None
            return terms.parameter(token.text, self.parameters[token.text], token.at)
        if self.next.text == "(" and self.next.kind == "sign":
            return self.call(token)
        if token.text.lower() in WORDS:
            return terms.literal(WORDS[token.text.lower()], token.at)
        hint = did_you_mean(token.text, [*self.parameters, *FUNCTIONS])
        raise self.fault(token, f"there is no parameter {token.text!r}.{hint}")

    def calls(self, token: Token) -> bool:
        return token.text in FUNCTIONS and self.next.kind == "sign" and self.next.text == "("

    def call(self, token: Token) -> Term:
        if token.text not in FUNCTIONS:
            known = ", ".join(FUNCTIONS)
            hint = did_you_mean(token.text, FUNCTIONS)
            raise self.fault(token, f"there is no function {token.text!r}; there are {known}.{hint}")
        opened = self.next
        self.place += 1
        arguments = [self.nested(self.sum)]
        while self.take(","):
            arguments.append(self.nested(self.sum))
        self.close(opened)
        for term in arguments:
            self.expect(term, "number", token)
        several = token.text in ("min", "max")
        if several != (len(arguments) > 1):
            raise self.fault(token, f"{token.text} takes {'two numbers or more' if several else 'one number'}.")
        return Term("number", terms.called(FUNCTIONS[token.text], [term.run for term in arguments]), token.at)

    def close(self, opened: Token) -> None:
        if self.take(")") is None:
            found = self.next
            where = opened if found.kind == "end" else found
            raise self.fault(
                where, "this parenthesis is not closed." if where is opened else f"expected ){instead(found)}."
            )

    def expect(self, term: Term, kind: str, user: Token) -> None:
        if term.kind != kind:
            raise self.fault(term, f"{user.text!r} needs {KINDS[kind]}, and this is {KINDS[term.kind]}.")


def instead(token: Token) -> str:
    return ", but the text ends" if token.kind == "end" else f", got {token.text!r}"
