"""Everything that training changes, as one pytree."""

from typing import Any

import flax.struct
import jax
import numpy as np

from txf.training.parallel import place


class Tally(flax.struct.PyTreeNode):
    """What happened since the last logged step; part of the state, so that a resume loses none."""

    # Leaves may also be shapes, shardings or anything else that a tree is mapped to: no types.
    nats: Any  # float32 []
    weight: Any  # float32 []
    bad_step: Any  # int32 []: the first step whose loss was not finite, or -1

    @classmethod
    def empty(cls) -> "Tally":
        """Return the tally of no steps."""
        return cls(nats=np.float32(0), weight=np.float32(0), bad_step=np.int32(-1))


class TrainState(flax.struct.PyTreeNode):
    """Parameters, optimizer state, steps taken, random key data, and the running tally."""

    step: Any  # int32 []
    params: Any
    opt_state: Any
    rng: Any  # uint32 [...], key data
    tally: Any  # Tally

    def key(self) -> jax.Array:
        """Return the key that this step's randomness is derived from."""
        return jax.random.fold_in(jax.random.wrap_key_data(self.rng), self.step)

    def with_tally(self, tally: Tally) -> "TrainState":
        """Return this state with another tally, which is on the host, in the place of its own."""
        return self.replace(
            tally=jax.tree.map(lambda new, old: place(new, old.sharding), tally, self.tally)
        )
