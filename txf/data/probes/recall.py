"""Probes of finding again what was read: recall, by distance, two at once, over two steps."""

import dataclasses

import numpy as np

from txf.data.probes.base import FIRST, Probe, Rows, ask_at_the_end, asked, numbered
from txf.data.probes.draws import Draws

STEPS = ("one", "two")  # how many of them `TwoHop` asks for


@dataclasses.dataclass(frozen=True)
class Recall(Probe):
    """Multi-query associative recall: `k3 v5 k1 v2 ... k1 . k3 .`, where k1 asks for v2.

    The settings of Zoology (Arora et al. 2023): keys are the first half of the vocabulary, values
    the second; each key is asked for once, in the part of the row behind the pairs, divided into
    slots of two tokens; the chance that a query falls into slot i is proportional to
    i**(power_a - 1). The paper's scale is vocab=8192 with pairs=4 and context_length=64 up to
    pairs=64 and context_length=512. As there, an answer is not shown after it was asked for. Unlike
    there, a row begins with `<|endoftext|>`, and random tokens between queries are never keys of
    the row: each query has one answer.
    """

    pairs: int = 4
    vocab: int = 32
    power_a: float = 0.01
    random_non_queries: bool = True

    summary = "a key asks for the value that followed it"
    guess = "takes one of the row's values"
    origin = "multi-query associative recall, Arora et al. 2023"

    def problems(self) -> list[str]:
        """Return a line if there are too few keys."""
        return _too_few("pairs", self.pairs, "vocab", self.vocab, self.vocab // 2, "keys")

    def needs(self, task: str) -> int:
        """Return room for the pairs and a slot of two tokens a query."""
        return 1 + 4 * self.pairs

    def words(self) -> list[str]:
        """Return keys, values and, where it stands between queries, a dot."""
        keys = self.vocab // 2
        dot = [] if self.random_non_queries else ["."]
        return numbered("k", keys) + numbered("v", self.vocab - keys) + dot

    def chance(self, length: int) -> float:
        """Return 1 / pairs."""
        return 1 / self.pairs

    def make(self, draws: Draws, length: int, task: str) -> Rows:
        """Return rows of pairs, then queries among other tokens."""
        pairs, half = self.pairs, self.vocab // 2
        keys = draws.distinct("keys", pairs, half)
        values = half + draws.distinct("values", pairs, self.vocab - half)
        context = 1 + 2 * pairs
        if self.random_non_queries:
            inputs = draws.integers("between", length, self.vocab - pairs)
            for key in np.sort(keys, axis=1).T:
                inputs += inputs >= key[:, None]
        else:
            inputs = np.full((draws.rows, length), self.vocab)
        inputs += FIRST
        inputs[:, 0] = 0
        inputs[:, 1:context:2] = FIRST + keys
        inputs[:, 2:context:2] = FIRST + values
        slots = np.arange(1, (length - context) // 2 + 1, dtype=np.float64)
        places = context + 2 * draws.weighted("slots", pairs, slots ** (self.power_a - 1))
        np.put_along_axis(inputs, places, FIRST + keys, axis=1)
        return asked(inputs, FIRST + values, places)


@dataclasses.dataclass(frozen=True)
class DistanceRecall(Probe):
    """Recall at distances 4, 8, 16 ... tokens, one of each in every row, told apart as kinds.

    A row is slots of two tokens. For each distance a key and its value take one slot, and the key
    takes the first half of the slot that lies this distance further on, asking for the value. All
    else is filled with words that mean nothing.
    """

    distance: int = 128
    vocab: int = 32

    summary = "a key asks for the value that followed it, at distances of 4, 8, 16 ... tokens"
    guess = "takes any of the values"
    origin = "associative recall, Graves et al. 2014; by distance as Hochreiter & Schmidhuber 1997"

    FILLERS = 8

    @property
    def distances(self) -> list[int]:
        """The powers of two from 4 to `distance`."""
        return [1 << power for power in range(2, self.distance.bit_length())]

    @property
    def kinds(self) -> tuple[str, ...]:
        """A kind a distance."""
        return tuple(f"distance_{distance}" for distance in self.distances)

    def problems(self) -> list[str]:
        """Return a line for a distance that is no power of two, and one for too few keys."""
        if self.distance < 4 or self.distance & (self.distance - 1):
            return [f"data.probe.distance={self.distance} takes a power of two, 4 or more"]
        keys, count = self.vocab // 2, len(self.distances)
        if count <= keys:
            return []
        return [
            f"data.probe.vocab={self.vocab} has {keys} keys, and data.probe.distance="
            f"{self.distance} takes {count}; try {2 * count}"
        ]

    def needs(self, task: str) -> int:
        """Return room to place every distance, the longest first, whatever the draws.

        A pair and its query take two slots, and each taken slot rules out at most two places for
        a later pair.
        """
        longest_first = reversed(self.distances)
        slots = max(gap // 2 + 4 * before + 1 for before, gap in enumerate(longest_first))
        return 1 + 2 * slots

    def words(self) -> list[str]:
        """Return keys, values and fillers."""
        keys = self.vocab // 2
        return numbered("k", keys) + numbered("v", self.vocab - keys) + numbered("f", self.FILLERS)

    def chance(self, length: int) -> float:
        """Return 1 / the number of values."""
        return 1 / (self.vocab - self.vocab // 2)

    def make(self, draws: Draws, length: int, task: str) -> Rows:
        """Return rows with one pair and one query a distance."""
        count, half, slots = len(self.distances), self.vocab // 2, (length - 1) // 2
        keys = FIRST + draws.distinct("keys", count, half)
        values = FIRST + half + draws.integers("values", count, self.vocab - half)
        chances = draws.uniform("places", count)
        inputs = FIRST + self.vocab + draws.integers("between", length, self.FILLERS)
        inputs[:, 0] = 0
        free = np.ones((draws.rows, slots), bool)
        row, places = np.arange(draws.rows), np.empty((draws.rows, count), np.int64)
        for number in reversed(range(count)):
            gap = self.distances[number] // 2
            fits = (free[:, :-gap] & free[:, gap:]).cumsum(axis=1)
            # The first start at which as many fit as the draw says: a random one of those that fit.
            wanted = (chances[:, number] * fits[:, -1]).astype(np.int64)
            start = (fits > wanted[:, None]).argmax(axis=1)
            free[row, start] = free[row, start + gap] = False
            inputs[row, 1 + 2 * start] = keys[:, number]
            inputs[row, 2 + 2 * start] = values[:, number]
            places[:, number] = 1 + 2 * (start + gap)
            inputs[row, places[:, number]] = keys[:, number]
        return asked(inputs, values, places, np.arange(count)[None])


@dataclasses.dataclass(frozen=True)
class TwoRelation(Probe):
    """One query must fetch two things at once: `k0=v3 k2=v1 k1=v6 ... k2&k1` asks for `v1,v6`.

    A thing carries its name and its value in one token, so that finding it takes one layer. A row
    has one thing of each of `pairs` names, with different values; a query names two, in an order
    that matters. A head that mixes the two things evenly cannot tell `v1,v6` from `v6,v1`.
    """

    pairs: int = 4
    vocab: int = 8

    summary = "one query asks for the values of two things, in order"
    guess = "takes two of the row's values, in any order"
    origin = "claim C06: several heads catch several relations"

    def problems(self) -> list[str]:
        """Return a line for each parameter that leaves nothing to ask."""
        if self.pairs < 2:
            return [f"data.probe.pairs={self.pairs} leaves no two things to ask for; try 4"]
        return _too_few("pairs", self.pairs, "vocab", self.vocab, self.vocab, "values")

    def needs(self, task: str) -> int:
        """Return room for the things and one query."""
        return 2 + self.pairs

    def words(self) -> list[str]:
        """Return things, queries and answers; one of each for every combination."""
        names, values = range(self.pairs), range(self.vocab)
        things = [f"k{name}=v{value}" for name in names for value in values]
        queries = [f"k{one}&k{two}" for one in names for two in names]
        return things + queries + [f"v{one},v{two}" for one in values for two in values]

    def chance(self, length: int) -> float:
        """Return 1 / (pairs (pairs - 1))."""
        return 1 / (self.pairs * (self.pairs - 1))

    def make(self, draws: Draws, length: int, task: str) -> Rows:
        """Return rows of things, then queries."""
        names, vocab = self.pairs, self.vocab
        values = draws.distinct("values", names, vocab)
        things = np.take_along_axis(
            np.arange(names) * vocab + values, draws.orders("order", names), axis=1
        )
        count = length - 1 - names
        one = draws.integers("first", count, names)
        two = (one + 1 + draws.integers("second", count, names - 1)) % names
        first, second = (np.take_along_axis(values, name, axis=1) for name in (one, two))
        queries = names * vocab + one * names + two
        answers = names * vocab + names * names + first * vocab + second
        return ask_at_the_end(FIRST + things, FIRST + queries, FIRST + answers)


@dataclasses.dataclass(frozen=True)
class TwoHop(Probe):
    """Two steps from link to link: `two a3>b5 a1>b0 b0>c7 b5>c2 a3` asks for c2.

    A link is one token, so that following it takes one look, and the second step can only be taken
    when the first is done: two blocks solve it. A row has `pairs` chains of two links, first those
    from a to b, then those from b to c, each in random order, then queries. `vocab` is the number
    of a, of b and of c. One block can only have its MLP know by heart what each b and each link
    give together: a model of width 64 learns that for a vocabulary of 8, and hardly for 12.

    Half the rows of training, by chance, begin with `one`: there a3 asks for b5, and b5 for c2. Two
    steps that only pay together are hardly ever found. Valid and test ask for two steps only.
    """

    pairs: int = 6
    vocab: int = 12

    summary = "a asks for c where the row links a to b and b to c"
    guess = "takes one of the row's c"
    origin = "claim C07; k-hop induction heads, Sanford et al. 2024"

    def problems(self) -> list[str]:
        """Return a line if there are too few symbols for the chains."""
        return _too_few("pairs", self.pairs, "vocab", self.vocab, self.vocab, "symbols a step")

    def needs(self, task: str) -> int:
        """Return room for the number of steps, the links and one query."""
        return 3 + 2 * self.pairs

    def words(self) -> list[str]:
        """Return the links of each step, the symbols, and the numbers of steps."""
        numbers = range(self.vocab)
        links = [
            f"{one}{i}>{two}{j}" for one, two in ("ab", "bc") for i in numbers for j in numbers
        ]
        return [*links, *(word for kind in "abc" for word in numbered(kind, self.vocab)), *STEPS]

    def chance(self, length: int) -> float:
        """Return 1 / pairs."""
        return 1 / self.pairs

    def make(self, draws: Draws, length: int, task: str) -> Rows:
        """Return rows of links, then queries."""
        pairs, vocab, count = self.pairs, self.vocab, length - 2 - 2 * self.pairs
        a, b, c = (draws.distinct(kind, pairs, vocab) for kind in "abc")
        order = draws.orders("order", pairs)
        second_links = np.take_along_axis(b * vocab + c, order, axis=1)
        steps = 1 + (draws.integers("steps", 1, 2) | (draws.split != "train"))
        number = (2 * vocab + 3) * vocab + steps - 1
        context = np.concatenate([number, a * vocab + b, vocab * vocab + second_links], axis=1)
        chain = draws.integers("queries", count, pairs)
        of_a, of_b, of_c = (
            (2 * vocab + kind) * vocab + np.take_along_axis(symbols, chain, axis=1)
            for kind, symbols in enumerate((a, b, c))
        )
        from_b = (draws.integers("start", count, 2) == 1) & (steps == 1)
        queries = np.where(from_b, of_b, of_a)
        answers = np.where(from_b | (steps == 2), of_c, of_b)
        return ask_at_the_end(FIRST + context, FIRST + queries, FIRST + answers)


def _too_few(key: str, wanted: int, other: str, value: int, there_are: int, what: str) -> list[str]:
    if wanted <= there_are:
        return []
    return [
        f"data.probe.{key}={wanted} needs as many {what}, and data.probe.{other}={value} has"
        f" {there_are}; raise the one or lower the other"
    ]
