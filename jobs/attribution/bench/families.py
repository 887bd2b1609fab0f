"""World families that the methods were developed on. Those in `held_out.py` never were."""

import json
import random

from jobs.attribution.bench.worlds import Option, Outcome, Plain, State, sure

TOOLS = ("search", "read", "filter", "calc", "list_items", "open_page")


def _arguments(**values: object) -> str:
    return json.dumps(values)


class Chain(Plain):
    """A chain of decisions; a wrong one cannot be mended. The reward is 1 when all were right.

    This is fault injection with a competent policy: a failed rollout has one or two faulty steps.
    """

    def __init__(self, draw: random.Random) -> None:
        self.length = draw.randint(4, 7)
        self.item = draw.randrange(10**6)
        self.tools = [draw.choice(TOOLS) for _ in range(self.length)]
        self.right = [draw.uniform(0.82, 0.97) for _ in range(self.length)]
        self.wrong_ways = [draw.randint(1, 3) for _ in range(self.length)]
        self.start = (0, True)

    def options(self, state: State) -> list[Option]:
        place, good = state
        if place > self.length:
            return []
        if place == self.length:
            return [Option(1.0, sure((place + 1, good)), arguments=(f"{self.item} {'ok' if good else 'no'}",))]
        name, chance, ways = self.tools[place], self.right[place], self.wrong_ways[place]
        made = [
            Option(
                chance,
                sure((place + 1, good), f"row {self.item} {place} {good}"),
                name,
                (_arguments(q=f"{self.item} part {place}"),),
            )
        ]
        return made + [
            Option(
                (1 - chance) / ways,
                sure((place + 1, False), f"row {self.item} {place} other {way}"),
                name,
                (_arguments(q=f"{self.item} other {place} {way}"),),
            )
            for way in range(ways)
        ]

    def reward(self, state: State) -> float:
        return 1.0 if state[1] else 0.0


class Points(Plain):
    """Each step earns points of its own, some much more than others; nothing is lost for good."""

    def __init__(self, draw: random.Random) -> None:
        self.length = draw.randint(4, 8)
        self.item = draw.randrange(10**6)
        worth = [draw.random() ** 3 for _ in range(self.length)]
        self.worth = [value / sum(worth) for value in worth]
        self.right = [draw.uniform(0.35, 0.8) for _ in range(self.length)]
        self.tools = [draw.choice(TOOLS) for _ in range(self.length)]
        self.start = (0, ())

    def options(self, state: State) -> list[Option]:
        place, got = state
        if place > self.length:
            return []
        if place == self.length:
            return [Option(1.0, sure((place + 1, got)), arguments=(f"found {len(got)} of {self.item}",))]
        chance = self.right[place]
        hit = sure((place + 1, (*got, place)), f"entry {self.item} {place}")
        miss = sure((place + 1, got), "no entry")
        return [
            Option(chance, hit, self.tools[place], (_arguments(key=f"{self.item}-{place}"),)),
            Option(
                1 - chance,
                miss,
                self.tools[place],
                tuple(_arguments(key=f"{self.item}-{place}-{word}") for word in ("a", "b")),
            ),
        ]

    def reward(self, state: State) -> float:
        return sum(self.worth[place] for place in state[1])


class Detour(Plain):
    """One or two decisions among steps that matter little: paraphrases, failed calls that are tried again, looking
    around. The wrong branch looks as busy as the right one."""

    def __init__(self, draw: random.Random) -> None:
        self.length = draw.randint(4, 7)
        self.item = draw.randrange(10**6)
        self.forks = set(draw.sample(range(self.length), draw.choice((1, 1, 2))))
        self.right = draw.uniform(0.4, 0.7)
        self.fail = draw.uniform(0.05, 0.2)
        self.start = (0, 0, 0)

    def options(self, state: State) -> list[Option]:
        place, wrong, tries = state
        if place > self.length:
            return []
        if place == self.length:
            words = f"{self.item}: {'left' if wrong else 'right'}"
            return [Option(1.0, sure((place + 1, wrong, 0)), arguments=(words, words + "."))]
        fail = self.fail if tries < 2 else 0.0
        retry = Outcome(fail, (place, wrong, tries + 1), "time-out, try again", is_error=True)
        if place in self.forks:
            return [
                self._fork(self.right, place, wrong, retry, "main"),
                self._fork(1 - self.right, place, wrong + 1, retry, "side"),
            ]
        where = f"{self.item} {place} {wrong}"
        outcomes = tuple(
            outcome
            for outcome in (Outcome(1 - fail, (place + 1, wrong, 0), f"notes on {where}"), retry)
            if outcome.chance
        )
        texts = tuple(_arguments(q=f"{word} {where}") for word in ("about", "more on", "details of"))
        return [Option(1.0, outcomes, "search", texts)]

    def _fork(self, chance: float, place: int, wrong: int, retry: Outcome, way: str) -> Option:
        after = Outcome(1 - retry.chance, (place + 1, wrong, 0), f"section {way} {self.item} {place} {wrong}")
        outcomes = (after, retry) if retry.chance else (after,)
        return Option(chance, outcomes, "open_page", (_arguments(page=f"{way}-{self.item}-{place}"),))

    def reward(self, state: State) -> float:
        return (1.0, 0.25, 0.0)[min(2, state[1])]


class Desk(Plain):
    """Look up, maybe follow a reference, calculate, answer; calls may be skipped and numbers mistaken."""

    def __init__(self, draw: random.Random) -> None:
        self.item = draw.randrange(10**6)
        self.refers = draw.random() < 0.5
        self.calculates = draw.random() < 0.7
        self.skill = draw.uniform(0.55, 0.9)
        self.start = ("ask", "", 0)

    def options(self, state: State) -> list[Option]:
        where, known, calls = state
        if where == "end" or where == "right" or where == "wrong":
            return []
        skill = self.skill
        if where == "ask":
            found = "see other" if self.refers else "rate"
            return [
                self._look(skill, (found, "a", 1), f"good {self.item}", f"{found} {self.item}"),
                self._look((1 - skill) * 0.5, ("lost", "", 1), f"goods {self.item}", "nothing found", is_error=True),
                self._answer((1 - skill) * 0.5, False, "guess"),
            ]
        if where == "lost":
            return [
                self._look(skill, ("see other" if self.refers else "rate", "a", calls + 1), f"good {self.item}",
                           f"{'see other' if self.refers else 'rate'} {self.item}"),
                self._answer(1 - skill, False, "unknown"),
            ]  # fmt: skip
        if where == "see other":
            return [
                self._look(skill, ("rate", "b", calls + 1), f"other {self.item}", f"rate {self.item} b"),
                self._look(
                    (1 - skill) * 0.6, ("rate", "bad", calls + 1), f"another {self.item}", f"rate {self.item} c"
                ),
                self._answer((1 - skill) * 0.4, False, "see other"),
            ]
        if where == "rate" and self.calculates:
            good = known != "bad"
            return [
                self._calc(skill, ("done", "sum" if good else "bad", calls + 1), known, 1),
                self._calc((1 - skill) * 0.6, ("done", "bad", calls + 1), known, 2),
                self._answer((1 - skill) * 0.4, False, "rate"),
            ]
        good = known != "bad"
        slip = (1 - skill) * 0.3
        return [self._answer(1 - slip, good, "value " + known), self._answer(slip, False, "slip " + known)]

    def _look(self, chance: float, state: State, good: str, result: str, *, is_error: bool = False) -> Option:
        return Option(chance, sure(state, result, is_error=is_error), "lookup", (_arguments(good=good),))

    def _calc(self, chance: float, state: State, known: str, factor: int) -> Option:
        text = _arguments(a=self.item % 90 + 10, b=f"{known}{factor}")
        return Option(chance, sure(state, f"product {self.item} {known} {factor}"), "calc", (text,))

    def _answer(self, chance: float, right: bool, words: str) -> Option:
        return Option(chance, sure(("right" if right else "wrong", "", 0)), arguments=(f"{self.item} {words}",))

    def reward(self, state: State) -> float:
        return 1.0 if state[0] == "right" else 0.0


FAMILIES = (Chain, Points, Detour, Desk)
