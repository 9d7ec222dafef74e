"""Every intermediate of a forward pass, by name, at no cost to those who do not ask."""

from collections.abc import Collection
from typing import Any

import jax
from flax import linen as nn
from jaxtyping import Array, Float, Int

from txf.errors import UserError

NAMES = {
    "embeddings": "what enters the first block: token embeddings plus positions",
    "residual": "the residual stream after each sublayer",
    "norm_input": "what each norm is given",
    "query": "queries by head, as they are compared",
    "key": "keys by head, as they are compared",
    "value": "values by head, as they are mixed",
    "scores": "scores by head, before the mask",
    "weights": "attention weights by head, before dropout",
}

# A module cannot hold an intermediate and a submodule of one name: these are kept as plurals.
PLURALS = {"query": "queries", "key": "keys", "value": "values"}


def record(module: nn.Module, name: str, value: Array) -> None:
    """Note `value` as the intermediate `name` of `module`; does nothing unless they are asked for.

    `name` is one of NAMES, or one of them with a place before it (`attention_residual`).
    """
    kept_as = PLURALS.get(name, name)
    module.sow("intermediates", kept_as, value, reduce_fn=lambda _, new: new, init_fn=lambda: None)


def inspect(
    model: nn.Module,
    params: Any,
    tokens: Int[Array, "batch tokens"],
    segments: Int[Array, "batch tokens"] | None = None,
    *,
    names: Collection[str] = tuple(NAMES),
    **inputs: Any,
) -> tuple[Float[Array, "..."], dict[str, Array]]:
    """Return the model's logits and its intermediates: {"block_0/attention/weights": array, ...}.

    `names` picks kinds of intermediates (see NAMES); the rest are not computed for longer than the
    forward pass needs them.  The logits are those of `model.apply`.  `inputs` are the model's other
    arguments (`source=...`).

    Raises:
        UserError: a name is unknown.
    """
    for name in names:
        if name not in NAMES:
            raise UserError(f"there is no intermediate {name!r}; there are {', '.join(NAMES)}")
    logits, state = model.apply(
        {"params": params}, tokens, segments, mutable=["intermediates"], **inputs
    )
    wanted = tuple(names)
    singulars = {plural: name for name, plural in PLURALS.items()}
    found = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(state.get("intermediates", {})):
        *places, name = (key.key for key in path)
        name = singulars.get(name, name)
        if name.endswith(wanted):
            found["/".join([*places, name])] = leaf
    return logits, found
