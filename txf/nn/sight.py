"""What each query of a stack may see, and from how far: worked out once, used by every block."""

from typing import NamedTuple

from jaxtyping import Array, Bool, Float, Int


class Sight(NamedTuple):
    """What attention needs to know about where tokens stand; None where it does not apply.

    Attributes:
        mask: the keys each query may see.
        bias: what alibi adds to the scores.
        rotation: by what rope turns queries and keys, as cosines and sines.
        places: where in the cache each token's key and value belong; beyond its end for padding.
        in_order: whether the mask is the causal order and nothing else.
    """

    mask: Bool[Array, "#batch 1 queries keys"] | None = None
    bias: Float[Array, "#batch heads queries keys"] | None = None
    rotation: (
        tuple[Float[Array, "#batch tokens 1 half"], Float[Array, "#batch tokens 1 half"]] | None
    ) = None
    places: Int[Array, "batch tokens"] | None = None
    in_order: bool = False
