"""Every option either matters or is refused by name; so is every combination that does not fit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.nn import tiny
from txf.config import default_config
from txf.errors import UserError
from txf.nn import build
from txf.nn.build import build_model, check_model

TEXT = jnp.asarray([[3, 4, 5, 6, 7, 8, 9], [9, 3, 8, 4, 7, 5, 6]])

REFUSED = [
    ({"num_heads": 5}, "model.num_heads=5 does not divide model.width=12; try 4 or 6"),
    ({"num_kv_heads": 2}, "model.num_kv_heads=2 does not divide model.num_heads=3; try 1 or 3"),
    ({"num_kv_heads": 1, "attention": "raw"}, "model.num_kv_heads=1 needs model.attention='qkv'"),
    ({"key_dim": 5, "attention": "raw"}, "model.key_dim=5 has no projection"),
    ({"value_dim": 5, "attention": "qk"}, "model.value_dim=5 has no projection"),
    ({"value_dim": 5, "output_projection": False}, "model.output_projection=False leaves"),
    ({"qk_norm": True, "attention": "raw"}, "model.qk_norm=True needs queries and keys"),
    ({"qk_norm": True, "similarity": "cosine"}, "model.qk_norm=True does what"),
    ({"positions": "rope", "key_dim": 5}, "model.positions='rope' rotates pairs, and key_dim=5"),
    ({"residual": False, "norm_placement": "rezero"}, "model.residual=False leaves"),
    ({"residual": False, "norm_placement": "deepnorm"}, "model.residual=False leaves"),
    ({"mlp_ratio": 2.0, "feedforward": "none"}, "model.mlp_ratio=2.0 would change nothing"),
    ({"activation": "relu", "feedforward": "none"}, "model.activation='relu' would change nothing"),
    (
        {"activation": "relu", "feedforward": "swiglu"},
        "model.activation='relu' would change nothing",
    ),
    ({"norm": "rmsnorm", "norm_placement": "none"}, "model.norm='rmsnorm' would change nothing"),
    ({"pooling": "first"}, "model.pooling='first' would change nothing"),
    ({"forget_bias": 2.0}, "model.forget_bias=2.0 would change nothing"),
    (
        {"depth_scaled_init": True, "output_projection": False, "feedforward": "none"},
        "model.depth_scaled_init=True would change nothing",
    ),
    (
        {
            "bias": False,
            "attention": "raw",
            "output_projection": False,
            "feedforward": "none",
            "norm_placement": "none",
        },
        "model.bias=False would change nothing",
    ),
    ({"structure": "decodre"}, "model.structure='decodre' is unknown; choose one of decoder"),
    ({"depth": 0}, "model.depth=0 is out of range"),
]

# A value of each key that is not its default, and what else it takes for it to be allowed.
CHANGES = {
    "structure": [{"structure": "encoder"}],
    "depth": [{"depth": 2}],
    "width": [{"width": 18}],
    "num_heads": [{"num_heads": 2}],
    "num_kv_heads": [{"num_kv_heads": 1}],
    "key_dim": [{"key_dim": 5}],
    "value_dim": [{"value_dim": 5}],
    "attention": [{"attention": "qk"}, {"attention": "raw"}],
    "similarity": [{"similarity": "cosine"}],
    "scale_scores": [{"scale_scores": False}],
    "output_projection": [{"output_projection": False}],
    "causal": [{"causal": False}],
    "qk_norm": [{"qk_norm": True}],
    "positions": [{"positions": kind} for kind in ("none", "sinusoidal", "rope", "alibi")],
    "norm": [{"norm": "rmsnorm"}],
    "norm_placement": [
        {"norm_placement": kind} for kind in ("none", "post", "sandwich", "deepnorm", "rezero")
    ],
    "residual": [{"residual": False}],
    "feedforward": [{"feedforward": "swiglu"}, {"feedforward": "none"}],
    "mlp_ratio": [{"mlp_ratio": 2.0}],
    "activation": [{"activation": "relu"}, {"activation": "silu"}],
    "tie_embeddings": [{"tie_embeddings": False}],
    "bias": [{"bias": False}],
    "dtype": [{"dtype": "bfloat16"}],
}
# These say how a model starts, how it is trained, or what it costs.
ELSEWHERE = {
    "family": "tests/nn/test_baselines.py",
    "dropout": "a rate that the training loop hands to the call",
    "pooling": "test_pooling_matters_to_a_classifier",
    "forget_bias": "the lstm's, in tests/nn/test_baselines.py",
    "init_scale": "tests/nn/test_initialization.py",
    "depth_scaled_init": "tests/nn/test_initialization.py",
    "fused_attention": "tests/nn/test_fused.py",
    "remat": "tests/nn/test_transformer.py",
    "scan_layers": "tests/nn/test_transformer.py",
}


def logits(**options):
    model = tiny.build(**options)
    return np.asarray(model.apply({"params": tiny.parameters(model)}, TEXT))


@pytest.mark.parametrize(("options", "line"), REFUSED, ids=lambda value: str(value)[:60])
def test_what_does_not_fit_or_could_not_matter_is_refused_by_name(options, line):
    config = tiny.config(**options)
    (problem,) = check_model(config)
    assert problem.startswith(line)
    with pytest.raises(UserError, match=line.split("=")[0]):
        build_model(config, tiny.VOCAB, tiny.CONTEXT)


def test_every_key_of_the_model_group_is_tested_to_matter():
    assert set(CHANGES) | set(ELSEWHERE) == set(default_config().model)
    assert not set(CHANGES) & set(ELSEWHERE)


@pytest.mark.parametrize("key", list(CHANGES))
def test_every_switch_changes_what_the_model_says(key):
    base = logits()
    for options in CHANGES[key]:
        assert key in options
        assert np.abs(logits(**options) - base).max() > 1e-4, options


@pytest.mark.parametrize("key", ["family", *build.WORDS])
def test_an_unknown_word_is_refused_with_the_known_ones(key):
    (problem,) = check_model(tiny.config(**{key: "wrod"}))
    known = build.FAMILIES if key == "family" else build.WORDS[key]
    assert problem == f"model.{key}='wrod' is unknown; choose one of {', '.join(known)}"


def test_every_problem_is_named_at_once():
    problems = check_model(tiny.config(mlp_ratio=2.0, activation="relu", feedforward="none"))
    assert len(problems) == 2


def test_tasks_take_the_structures_that_can_do_them():
    both = tiny.config(structure="encoder_decoder")
    assert not check_model(both, task="translation")
    assert not check_model(both)
    assert "generates" in check_model(both, task="tagging")[0]
    assert "reads no source" in check_model(tiny.config(), task="translation")[0]
    for task in ("masked_language_model", "classification", "tagging"):
        for structure in ("encoder", "decoder"):
            assert not check_model(tiny.config(structure=structure), task=task)
    assert "task='parsing' is unknown" in check_model(tiny.config(), task="parsing")[0]
    with pytest.raises(UserError, match="needs num_classes"):
        tiny.build("tagging")
    first = tiny.config(pooling="first")
    assert "has seen no other" in check_model(first, task="classification")[0]
    tied = tiny.config(tie_embeddings=False)
    assert "head of its own" in check_model(tied, task="tagging")[0]


def test_shapes_of_logits_are_those_of_the_task():
    for task, classes, shape in (
        ("language_model", None, (2, 7, tiny.VOCAB)),
        ("masked_language_model", None, (2, 7, tiny.VOCAB)),
        ("classification", 3, (2, 3)),
        ("tagging", 5, (2, 7, 5)),
    ):
        model = tiny.build(task, classes, structure="encoder")
        said = jax.eval_shape(model.apply, {"params": tiny.shapes(model)}, TEXT)
        assert said.shape == shape
        assert said.dtype == jnp.float32


def test_pooling_matters_to_a_classifier_and_padding_does_not():
    segments = jnp.asarray([[0, 0, 1, 1, 1, 1, 1]] * 2)
    said = {}
    for pooling in ("mean", "first"):
        model = tiny.build("classification", 3, structure="encoder", pooling=pooling)
        params = {"params": tiny.parameters(model)}
        said[pooling] = np.asarray(model.apply(params, TEXT, segments))
        other = TEXT.at[:, :2].set(1)
        np.testing.assert_allclose(model.apply(params, other, segments), said[pooling], atol=1e-6)
        moved = jnp.roll(TEXT, -2, 1)
        np.testing.assert_allclose(
            model.apply(params, moved, jnp.roll(segments, -2, 1)), said[pooling], atol=1e-5
        )
    assert np.abs(said["mean"] - said["first"]).max() > 1e-3
