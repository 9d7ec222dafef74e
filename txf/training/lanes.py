"""Where the states of training lie on the device: of one run, or of a pack of runs side by side."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np

from txf.training import parallel
from txf.training.program import Compiled, Program
from txf.training.state import Tally, TrainState

Reading = tuple[Tally, dict[str, Any]]  # on the host, of one lane


@runtime_checkable
class Lanes(Protocol):
    """The states of runs that take their steps together, each in its lane."""

    metrics: Any  # of the steps taken last, perhaps still being computed

    def advance(self, steps: Sequence[int], count: int, moving: Sequence[bool]) -> None:
        """Take `count` steps in every lane that is moving, from where it is (`steps`)."""

    def state(self, lane: int) -> TrainState:
        """Return the state of one lane, as a run alone has it; valid until the next `advance`."""

    def read(self) -> list[Reading]:
        """Wait for the steps under way; return each lane's tally and its last step's metrics."""

    def forget(self, lanes: Sequence[int]) -> None:
        """Empty the tallies of these lanes: they are logged."""


def make_lanes(
    programs: Sequence[Program],
    states: Sequence[TrainState],
    places: Sequence[int],
    size: int,
) -> Lanes:
    """Return `size` lanes, in which these runs have their `places`; one run in one lane is alone.

    Lanes that no run is in repeat the last run, and nobody looks at them. So what is left of a pack
    goes on through the very program that the whole pack had, each run where it was, and to the same
    bits: a lane's place decides how its numbers are grouped for the processor, and so how they
    round.

    Raises:
        ValueError: several runs that do not share a compiled program.
    """
    if size == 1:
        return Solo(programs[0], states[0])
    if len({id(program.compiled) for program in programs}) > 1:
        raise ValueError("runs of different compiled programs cannot be in one pack")
    return Pack(programs, states, places, size)


class Solo:
    """One run, its state as it is."""

    def __init__(self, program: Program, state: TrainState):
        self._program, self._state = program, state
        self.metrics: Any = {}

    def advance(self, steps: Sequence[int], count: int, moving: Sequence[bool]) -> None:
        """Take `count` steps."""
        program = self._program
        draws = program.placed_draws(steps[0], count)
        self._state, self.metrics = program.compiled.train_steps(
            self._state, program.data, draws, np.int32(count), program.hyper
        )

    def state(self, lane: int) -> TrainState:
        """Return the state."""
        return self._state

    def read(self) -> list[Reading]:
        """Return the run's tally and metrics."""
        return [jax.device_get((self._state.tally, self.metrics))]

    def forget(self, lanes: Sequence[int]) -> None:
        """Empty the tally."""
        self._state = self._state.with_tally(Tally.empty())


class Pack:
    """Several runs as one program: `vmap` over a leading axis of members, spread over devices."""

    def __init__(
        self,
        programs: Sequence[Program],
        states: Sequence[TrainState],
        places: Sequence[int],
        size: int,
    ):
        self._programs = programs
        self._places = list(places)
        self._size = size
        datas = [program.data for program in programs]
        shared = all(data is datas[0] for data in datas)
        self._functions = pack_functions(programs[0].compiled, size, shared)
        hyper = _stack(self._filled([program.hyper for program in programs]))
        self._hyper = parallel.place(hyper, self._functions.members)
        self._data = datas[0] if shared else _stack_padded(self._filled(datas))
        self._data = parallel.place(self._data, self._functions.data_place)
        self._state = self._functions.stack(self._filled(list(states)))
        self.metrics: Any = {}

    def advance(self, steps: Sequence[int], count: int, moving: Sequence[bool]) -> None:
        """Take `count` steps in the lanes that are moving; the others stay where they are."""
        draws = [
            program.draws(step, count) for program, step in zip(self._programs, steps, strict=True)
        ]
        before = None if all(moving) else jax.tree.map(jnp.copy, self._state)
        draws = parallel.place(_stack(self._filled(draws)), self._functions.members)
        self._state, self.metrics = self._functions.train_steps(
            self._state, self._data, draws, np.int32(count), self._hyper
        )
        if before is not None:
            mask = np.asarray(self._filled(list(moving)))
            self._state = self._functions.choose(mask, self._state, before)

    def state(self, lane: int) -> TrainState:
        """Return the state of one lane, placed as that of a run alone."""
        return self._functions.state(self._state, np.int32(self._places[lane]))

    def read(self) -> list[Reading]:
        """Return each run's tally and metrics."""
        stacked = parallel.fetch((self._state.tally, self.metrics))
        return [
            jax.tree.map(lambda leaf, place=place: leaf[place], stacked) for place in self._places
        ]

    def forget(self, lanes: Sequence[int]) -> None:
        """Empty the tallies of these lanes."""
        tally = parallel.fetch(self._state.tally)
        logged = np.isin(np.arange(self._size), [self._places[lane] for lane in lanes])
        tally = jax.tree.map(lambda old, new: np.where(logged, new, old), tally, Tally.empty())
        self._state = self._state.with_tally(tally)

    def _filled(self, items: list[Any]) -> list[Any]:
        filled = [items[-1]] * self._size
        for place, item in zip(self._places, items, strict=True):
            filled[place] = item
        return filled


class PackFunctions(NamedTuple):
    """The compiled functions of packs of one size; leaves have a leading axis of members."""

    train_steps: Any
    stack: Any
    state: Any
    choose: Any
    members: Any  # the sharding of what has a leading axis of members
    data_place: Any


@lru_cache(maxsize=16)
def pack_functions(compiled: Compiled, size: int, shared: bool) -> PackFunctions:
    """Return the functions of packs of `size`; `shared`: all members read the same data."""
    members, whole = parallel.member_shardings(size)
    data_place = whole if shared else members
    places = jax.tree.map(lambda leaf: leaf.sharding, compiled.state_like)
    return PackFunctions(
        train_steps=jax.jit(
            jax.vmap(compiled.pure_steps, in_axes=(0, None if shared else 0, 0, None, 0)),
            in_shardings=(members, data_place, members, whole, members),
            out_shardings=members,
            donate_argnums=0,
        ),
        stack=jax.jit(_stack_arrays, out_shardings=members),
        state=jax.jit(_lane, out_shardings=places),
        choose=jax.jit(_choose, out_shardings=members),
        members=members,
        data_place=data_place,
    )


def _stack_arrays(states: list[TrainState]) -> TrainState:
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)


def _lane(stacked: TrainState, lane: jax.Array) -> TrainState:
    return jax.tree.map(lambda leaf: leaf[lane], stacked)


def _choose(mask: jax.Array, new: TrainState, old: TrainState) -> TrainState:
    def one(a, b):
        return jnp.where(mask.reshape(-1, *[1] * (a.ndim - 1)), a, b)

    return jax.tree.map(one, new, old)


def _stack(trees: Sequence[Any]) -> Any:
    return jax.tree.map(lambda *leaves: np.stack(leaves), *trees)


def _stack_padded(datas: Sequence[dict[str, jax.Array]]) -> dict[str, np.ndarray]:
    """Stack data sets of perhaps different lengths; no row is drawn from what fills them up."""

    def stack(*arrays):
        length = max(len(array) for array in arrays)
        fill = [[(0, length - len(array))] + [(0, 0)] * (array.ndim - 1) for array in arrays]
        return np.stack([np.pad(*pair) for pair in zip(arrays, fill, strict=True)])

    return jax.tree.map(stack, *datas)
