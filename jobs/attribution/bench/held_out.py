"""World families kept apart: no method, prior or feature was chosen by looking at results on these."""

import json
import random

from jobs.attribution.bench.worlds import Option, Outcome, Plain, State, sure


def _arguments(**values: object) -> str:
    return json.dumps(values)


class Grid(Plain):
    """A walk on a small grid with holes, slippery ice, and a time limit. Places are met again by other ways."""

    SIDE = 4

    def __init__(self, draw: random.Random) -> None:
        cells = [(x, y) for x in range(self.SIDE) for y in range(self.SIDE)]
        inner = [cell for cell in cells if cell not in ((0, 0), (self.SIDE - 1, self.SIDE - 1))]
        self.holes = set(draw.sample(inner, 3))
        self.goal = (self.SIDE - 1, self.SIDE - 1)
        self.slip = draw.choice((0.0, 0.1))
        self.sense = draw.uniform(0.45, 0.75)
        self.start = (0, 0, 0)

    def options(self, state: State) -> list[Option]:
        x, y, time = state
        if (x, y) in self.holes or (x, y) == self.goal or time >= 8:
            return []
        weights = {"right": 1.0, "down": 1.0, "left": 0.35, "up": 0.35}
        for way in weights:
            if self._to(x, y, way) in self.holes:
                weights[way] *= 1 - self.sense
        whole = sum(weights.values())
        return [self._move(weight / whole, x, y, time, way) for way, weight in weights.items()]

    def _to(self, x: int, y: int, way: str) -> tuple[int, int]:
        dx, dy = {"right": (1, 0), "left": (-1, 0), "down": (0, 1), "up": (0, -1)}[way]
        return min(self.SIDE - 1, max(0, x + dx)), min(self.SIDE - 1, max(0, y + dy))

    def _move(self, chance: float, x: int, y: int, time: int, way: str) -> Option:
        there = self._to(x, y, way)
        outcomes = [Outcome(1 - self.slip, (*there, time + 1), f"now at {there[0]},{there[1]}")]
        if self.slip:
            outcomes.append(Outcome(self.slip, (x, y, time + 1), f"now at {x},{y}"))
        return Option(chance, tuple(outcomes), "move", (_arguments(direction=way),), (3, 6))

    def reward(self, state: State) -> float:
        return 1.0 if (state[0], state[1]) == self.goal else 0.0


class Sources(Plain):
    """Read sources of unequal worth in any order, then answer; each call costs a little. Long searches do not pay."""

    def __init__(self, draw: random.Random) -> None:
        self.item = draw.randrange(10**6)
        self.count = draw.randint(4, 6)
        self.key = draw.randrange(self.count)
        self.help = draw.randrange(self.count)
        self.stop = draw.uniform(0.2, 0.4)
        self.start = ((), False)

    def options(self, state: State) -> list[Option]:
        read, over = state
        if over:
            return []
        left = [index for index in range(self.count) if index not in read]
        stop = 1.0 if not left else (0.05 if not read else self.stop)
        made = [Option(stop, sure((read, True)), arguments=(f"answer {self.item} from {len(read)}", "so it is"))]
        for index in left:
            text = tuple(_arguments(source=f"{self.item}/{index}", note=word) for word in ("", "again", "please"))
            result = f"text {self.item} {index}"
            made.append(Option((1 - stop) / len(left), sure(((*read, index), False), result), "read_source", text))
        return made

    def reward(self, state: State) -> float:
        read, _ = state
        value = 0.1 + 0.6 * (self.key in read) + 0.3 * (self.help in read)
        return max(0.0, value - 0.05 * max(0, len(read) - 2))


class Judged(Plain):
    """A draft, some edits of which one often spoils it, and a judge whose marks are noisy."""

    def __init__(self, draw: random.Random) -> None:
        self.item = draw.randrange(10**6)
        self.length = draw.randint(3, 6)
        self.good = [draw.uniform(0.5, 0.9) for _ in range(self.length)]
        self.size = [draw.choice((0.05, 0.1, 0.3)) for _ in range(self.length)]
        self.noise = 0.1
        self.start = (0, 0.5)

    def options(self, state: State) -> list[Option]:
        place, level = state
        if place > self.length:
            return []
        if place == self.length:
            return [
                Option(1.0, sure((place + 1, level)), arguments=(f"text {self.item} at {level}",), tokens=(60, 120))
            ]
        better, worse = round(min(1.0, level + self.size[place]), 3), round(max(0.0, level - self.size[place]), 3)
        chance = self.good[place]
        return [
            Option(chance, sure((place + 1, better), f"saved {self.item}.{place}"), "edit",
                   tuple(_arguments(part=place, change=f"clearer {word}") for word in ("wording", "order"))),
            Option(1 - chance, sure((place + 1, worse), f"saved {self.item}.{place}"), "edit",
                   tuple(_arguments(part=place, change=f"shorter {word}") for word in ("wording", "order"))),
        ]  # fmt: skip

    def reward(self, state: State) -> float:
        return state[1]

    def paid(self, state: State, random_: random.Random) -> float:
        return min(1.0, max(0.0, state[1] + random_.gauss(0.0, self.noise)))


HELD_OUT = (Grid, Sources, Judged)
