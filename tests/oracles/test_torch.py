"""txf against torch's own layers: logits, loss, every parameter's gradient, and steps of AdamW.

The fixtures come from make_fixtures.py, which is also asked for fresh cases where torch is there.
"""

import json
import re
from functools import cache
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax.traverse_util import flatten_dict, unflatten_dict

from txf.config import default_config
from txf.nn.build import build_model
from txf.training.losses import weighted_nats
from txf.training.optimizers import hyper_from_config, make_optimizer

HERE = Path(__file__).parent
CASES = [
    "encoder_post_relu",
    "encoder_pre_gelu",
    "decoder_post_gelu",
    "transformer_post_relu",
    "transformer_pre_gelu",
    "gpt",
]
TOLERANCE = {"rtol": 1e-5, "atol": 1e-5}

# Torch's names of parts, and txf's, applied in turn.
RENAMED = [
    (r"^transformer\.(encoder|decoder)\.", r"\1/"),
    (r"^encoder\.", ""),
    (r"\b(layers|h)\.(\d+)\.", r"block_\2/"),
    (r"\b(wte|embed)\.weight", "embed/embedding"),
    (r"\bwpe\.weight", "positions/table"),
    (r"\bmultihead_attn\.", "cross_attention/"),
    (r"\b(self_attn|attn)\.", "attention/"),
    (r"\b(out_proj|proj)\.", "output/"),
    (r"\b(linear1|mlp\.0)\.", "feedforward/up/"),
    (r"\b(linear2|mlp\.2)\.", "feedforward/down/"),
    (r"\b(norm1|ln_1)\.", "attention_norm/"),
    (r"(decoder/.*)\bnorm2\.", r"\1cross_attention_norm/"),
    (r"\b(norm2|norm3|ln_2)\.", "feedforward_norm/"),
    (r"\b(norm|ln_f)\.", "final_norm/"),
    (r"_norm/weight", "_norm/scale"),
    (r"\bhead\.", "head/"),
    (r"\bweight", "kernel"),
]


def from_torch(arrays, num_heads):
    """Renames and reshapes torch's parameters, or their gradients, to txf's tree."""
    tree = {}
    for name, array in arrays.items():
        for pattern, replacement in RENAMED:
            name = re.sub(pattern, replacement, name)
        path = tuple(name.split("/"))
        if joined := re.fullmatch(r"(?:in_proj_|qkv\.)(weight|kernel|bias)", path[-1]):
            # Queries, keys and values of all heads, one below the other.
            width = array.shape[0] // 3
            shape = (3, num_heads, width // num_heads)
            leaf = "bias" if joined[1] == "bias" else "kernel"
            parts = array.reshape(*shape, *array.shape[1:])
            for part, role in zip(parts, ["query", "key", "value"], strict=True):
                tree[*path[:-1], role, leaf] = part if leaf == "bias" else np.moveaxis(part, -1, 0)
        elif path[-2:] == ("output", "kernel"):
            tree[path] = array.T.reshape(num_heads, -1, array.shape[0])
        else:
            tree[path] = array.T if path[-1] == "kernel" else array
    return unflatten_dict(tree)


class Case:
    """What torch computed, in txf's terms, and the model that should compute the same."""

    def __init__(self, stored):
        self.config = default_config()
        self.config.model.update(json.loads(str(stored["model"])))
        self.vocab_size = int(stored["vocab_size"])
        self.logits, self.loss = stored["logits"], stored["loss"]
        self.batch = {
            key: jnp.asarray(stored[key])
            for key in ("inputs", "targets", "segments", "source", "source_segments")
            if key in stored
        }
        self.batch["weights"] = self.batch["segments"].astype(jnp.float32)
        task = {
            "encoder": "masked_language_model",
            "decoder": "language_model",
            "encoder_decoder": "translation",
        }[self.config.model.structure]
        context_length = int(stored["context_length"])
        self.model = build_model(self.config.model, self.vocab_size, context_length, task)
        heads = self.config.model.num_heads
        self.params, self.gradients = (
            from_torch(
                {key.removeprefix(kind): stored[key] for key in stored if key.startswith(kind)},
                heads,
            )
            for kind in ("param/", "grad/")
        )

        self.losses = stored.get("losses")
        self.optimizer = json.loads(str(stored.get("optimizer", "{}")))
        self.evaluate = jax.jit(jax.value_and_grad(self._loss_and_logits, has_aux=True))

    def _loss_and_logits(self, params):
        batch = self.batch
        sources = {key: batch[key] for key in ("source", "source_segments") if key in batch}
        logits = self.model.apply({"params": params}, batch["inputs"], batch["segments"], **sources)
        nats, weight = weighted_nats(logits, batch)
        return nats / weight, logits


@cache
def load(name, origin):
    if origin == "stored":
        with np.load(HERE / f"{name}.npz") as arrays:
            return Case(dict(arrays))
    pytest.importorskip("torch", reason="torch is not installed; the stored fixtures are tested")
    from tests.oracles.make_fixtures import make_case

    return Case(make_case(name, seed=1000))


@pytest.mark.parametrize("origin", ["stored", "live"])
@pytest.mark.parametrize("name", CASES)
def test_logits_loss_and_gradients_are_torchs(name, origin):
    case = load(name, origin)
    (loss, logits), gradients = case.evaluate(case.params)

    real = np.asarray(case.batch["segments"]) > 0
    np.testing.assert_allclose(logits[real], case.logits[real], **TOLERANCE)
    np.testing.assert_allclose(loss, case.loss, **TOLERANCE)
    gradients, expected = flatten_dict(gradients, sep="/"), flatten_dict(case.gradients, sep="/")
    assert gradients.keys() == expected.keys()
    for path, gradient in gradients.items():
        largest = np.abs(expected[path]).max()
        # Many of a float32 sum's terms cancel: its error is that of the large ones.
        tolerance = {"rtol": 1e-5, "atol": max(1e-5 * largest, 1e-6)}
        np.testing.assert_allclose(gradient, expected[path], **tolerance, err_msg=path)
        if not path.endswith("key/bias"):  # a softmax does not change with it
            assert largest > 1e-4, path


@pytest.mark.parametrize("name", CASES)
def test_torch_has_the_parameters_that_txf_makes(name):
    case = load(name, "stored")
    sources = {key: case.batch[key] for key in ("source",) if key in case.batch}
    made = jax.eval_shape(
        lambda: case.model.init(jax.random.key(0), case.batch["inputs"], **sources)["params"]
    )
    assert jax.tree.map(jnp.shape, made) == jax.tree.map(jnp.shape, case.params)


@pytest.mark.parametrize("origin", ["stored", "live"])
def test_steps_of_clipped_adamw_are_torchs(origin):
    case = load("gpt", origin)
    case.config.optimizer.update(case.optimizer)
    optimizer = make_optimizer(
        case.config.optimizer.name,
        case.config.optimizer.schedule,
        hyper_from_config(case.config),
        clips=True,
        decay_all=False,
    )
    update = jax.jit(optimizer.update)
    params = case.params
    state = jax.jit(optimizer.init)(params)
    for expected in case.losses:
        (loss, _), gradients = case.evaluate(params)
        np.testing.assert_allclose(loss, expected, **TOLERANCE)
        norm = np.sqrt(sum(np.square(leaf).sum() for leaf in jax.tree.leaves(gradients)))
        assert norm > case.config.optimizer.clip_norm  # otherwise clipping is not tested
        updates, state = update(gradients, state, params)
        params = jax.tree.map(np.add, params, updates)
    assert case.losses[-1] < case.losses[0]
