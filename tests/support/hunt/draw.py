"""Random decisions that can be simplified one by one.

A `Draw` is a node in a tree of decisions. Each node has random numbers of its own, made from the seed and its path, so a
change below one node does not change the others. A node that is marked simple, and every node below it, takes the simplest
decision each time: the first option, the smallest number, no. Shrinking a case means marking more nodes.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Draw:
    def __init__(self, seed: int, simple: frozenset[str] = frozenset(), path: str = "", seen: list[str] | None = None):
        self.seed = seed
        self.path = path
        self.seen = [] if seen is None else seen  # every path of the tree, in the order of its creation
        self._simple = simple
        self._is_simple = any(path == each or path.startswith(f"{each}/") for each in simple)
        self._random = random.Random(f"{seed}:{path}")
        self._children: Counter[str] = Counter()
        self.seen.append(path)

    def at(self, name: str) -> Draw:
        """A node below this one. The second node of one name gets a number."""
        self._children[name] += 1
        count = self._children[name]
        step = name if count == 1 else f"{name}{count}"
        return Draw(self.seed, self._simple, f"{self.path}/{step}", self.seen)

    def pick(self, options: Sequence[T]) -> T:
        chosen = self._random.randrange(len(options))
        return options[0 if self._is_simple else chosen]

    def chance(self, share: float) -> bool:
        return self._random.random() < share and not self._is_simple

    def number(self, least: int, most: int) -> int:
        chosen = self._random.randint(least, most)
        return least if self._is_simple else chosen

    def some(self, options: Sequence[T], least: int, most: int) -> list[T]:
        """Some options, without repetition."""
        most = min(most, len(options))
        count = self._random.randint(min(least, most), most)
        chosen = self._random.sample(range(len(options)), count)
        return list(options[:least]) if self._is_simple else [options[i] for i in chosen]
