"""What a config compiles to, and the data it runs on: made once, shared by all runs alike."""

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import numpy as np
from jax.sharding import Mesh, Sharding
from ml_collections import ConfigDict

from txf import hosts
from txf.config import default_config, flatten, from_json, set_key
from txf.data import tokenizers
from txf.data.batches import Batch, epoch_batches
from txf.data.dataset import Dataset, load_dataset
from txf.nn.build import build_model
from txf.nn.cost import parameter_count, training_flops_per_token
from txf.training import parallel
from txf.training.diagnostics import diagnose
from txf.training.evaluation import eval_step, evaluate
from txf.training.optimizers import Hyper, Params, hyper_from_config
from txf.training.scores import Judge, make_judge
from txf.training.state import TrainState
from txf.training.step import StepSpec, init_state, train_steps

# Training data up to this size lies on the device, and a dispatch is told which rows to take. What
# is larger stays on the host, perhaps memory-mapped, and a dispatch is given its batches.
RESIDENT_BYTES = 1 << 28
# The steps that a dispatch has room for, where the config leaves it open: draws of rows are small,
# batches are not.
MOST_STEPS, MOST_STREAMED_STEPS = 64, 16

# What a compiled program takes as an argument instead of having it built in.
TRACED = (
    "seed",
    "data.seed",
    "model.init_scale",
    "model.dropout",
    "optimizer.learning_rate",
    "optimizer.warmup_steps",
    "optimizer.final_fraction",
    "optimizer.weight_decay",
    "optimizer.b1",
    "optimizer.b2",
    "optimizer.eps",
    "optimizer.clip_norm",
)


@dataclasses.dataclass(frozen=True, eq=False)
class Compiled:
    """The model and its compiled functions; runs that differ in `TRACED` keys alone share them."""

    model: nn.Module
    state_like: TrainState
    initialize: Callable[..., TrainState]
    train_steps: Callable[..., tuple[TrainState, dict[str, jax.Array]]]
    pure_steps: Callable[..., tuple[TrainState, dict[str, jax.Array]]]  # what packs compile
    eval_step: Callable[..., dict[str, jax.Array]]
    diagnose: Callable[..., dict[str, jax.Array]]
    draws_place: Sharding


@dataclasses.dataclass(frozen=True)
class Program:
    """Compiled functions, the data on the device, and the numbers of one run."""

    compiled: Compiled
    dataset: Dataset
    data: dict[str, jax.Array] | None  # None: each dispatch is given its batches
    hyper: Hyper
    seed: int
    data_seed: int
    batch_size: int
    make_judge: Callable[[], Judge | None]
    most_steps: int
    parameters: int
    flops_per_token: float

    def evaluate(self, params: Params, split: str, batch_size: int) -> dict[str, float]:
        """Return the metrics of `params` on a whole split."""
        return evaluate(
            self.compiled.eval_step,
            params,
            self.dataset.splits[split],
            batch_size=batch_size,
            judge=self.make_judge(),
        )

    def init_state(self) -> TrainState:
        """Return the state of step 0."""
        return self.compiled.initialize(self.hyper, np.uint32(self.seed))

    def diagnose(self, state: TrainState) -> dict[str, np.ndarray]:
        """Return the figures (see `txf.training.diagnostics`) of a state and its last batch."""
        draws = self.placed_draws(int(state.step) - 1, 1)
        return jax.device_get(self.compiled.diagnose(state, self.data, draws, self.hyper))

    def draws(self, step: int, count: int, columns: slice = slice(None)) -> dict[str, np.ndarray]:
        """Return what a dispatch needs of the `count` batches from `step` on.

        Leaves are [K, batch, ...], K being the room a dispatch has for steps, and of each batch
        the `columns` asked for. A pure function of the data seed and the step.
        """
        train, size = self.dataset.splits["train"], self.batch_size
        rows, draws = epoch_batches(train.num_rows, self.data_seed, step, count, size)
        rows, draws = rows[:, columns], draws[:, columns]
        needed = {"rows": rows, "draws": draws}
        if self.data is None:
            taken = train.take(train.arrays, rows.ravel(), draws.ravel())
            needed = {key: x.reshape(*rows.shape, *x.shape[1:]) for key, x in taken.items()}
        room = self.most_steps - count
        return {key: np.pad(x, [(0, room)] + [(0, 0)] * (x.ndim - 1)) for key, x in needed.items()}

    def placed_draws(self, step: int, count: int) -> Mapping[str, np.ndarray | jax.Array]:
        """Return `draws` as `train_steps` takes them; of several hosts, each makes its own part."""
        if hosts.count() == 1:
            return self.draws(step, count)
        make = partial(self.draws, step, count)
        return parallel.place_columns(
            make, self.compiled.draws_place, self.most_steps, self.batch_size
        )


def prepare(config: ConfigDict, tokenizer: tokenizers.Tokenizer | None = None) -> Program:
    """Return the program of a config: data loaded, functions made (compiled at their first call).

    `tokenizer` is the one a run was begun with; without it one is made from the training split.
    """
    mode, mesh = _devices(config)
    parallel.check_batch(config, mesh)
    dataset, data = _load(
        _json_of(config, "task", "data", "model.structure"), tokenizer and tokenizer.to_json(), mesh
    )
    take = dataset.splits["train"].take
    options = tuple(sorted(take.keywords.items()))
    compiled = _compile(
        *_identity(config, dataset.vocab_size, dataset.num_classes),
        _Given() if data is None else _Rows(take.func, options),
        mode,
        mesh,
    )
    shape = (config.model, dataset.vocab_size, config.data.context_length)
    kind = {"task": config.task, "num_classes": dataset.num_classes}
    return Program(
        compiled=compiled,
        dataset=dataset,
        data=data,
        hyper=hyper_from_config(config),
        seed=config.seed,
        data_seed=config.data.seed,
        batch_size=config.training.batch_size,
        make_judge=partial(make_judge, config, dataset, compiled.model),
        most_steps=config.training.steps_per_dispatch
        or (MOST_STREAMED_STEPS if data is None else MOST_STEPS),
        parameters=parameter_count(*shape, **kind),
        flops_per_token=training_flops_per_token(*shape, **kind),
    )


def program_key(config: ConfigDict) -> str:
    """Return a text equal for configs that run the same compiled program on data of one kind."""
    flat = {key: value for key, value in flatten(config).items() if key not in TRACED}
    return json.dumps([flat, StepSpec.from_config(config)], sort_keys=True)


def model_of(
    config: ConfigDict, vocab_size: int, num_classes: int | None
) -> tuple[nn.Module, TrainState]:
    """Return a config's model, and the shapes of its state, without touching its data."""
    compiled = _compile(*_identity(config, vocab_size, num_classes), None, *_devices(config))
    return compiled.model, compiled.state_like


def _identity(config: ConfigDict, vocab_size: int, num_classes: int | None) -> tuple[Any, ...]:
    model = _json_of(config, "task", "data.context_length", "model", without=TRACED)
    return model, vocab_size, num_classes, StepSpec.from_config(config)


def _devices(config: ConfigDict) -> tuple[str, Mesh]:
    shape = parallel.mesh_shape(config.parallel, jax.device_count())
    return config.parallel.mode, parallel.make_mesh(shape)


@lru_cache(maxsize=2)
def _load(data_json: str, tokenizer_json: str | None, mesh: Mesh) -> tuple[Dataset, Any]:
    tokenizer = tokenizer_json and tokenizers.from_json(tokenizer_json, "the run's tokenizer.json")
    dataset = load_dataset(from_json(data_json), tokenizer)
    arrays = dataset.splits["train"].arrays
    if sum(array.nbytes for array in arrays.values()) > RESIDENT_BYTES:
        return dataset, None
    return dataset, parallel.place(arrays, parallel.replicated(mesh))


class _Rows(NamedTuple):
    """Makes a batch of a draw of rows; equal for equal functions and options."""

    function: Callable[..., Batch]
    options: tuple[tuple[str, Any], ...]

    def __call__(self, data: Any, draw: Any) -> Batch:
        return self.function(data, draw["rows"], draw["draws"], **dict(self.options))


class _Given(NamedTuple):
    """Takes a draw for the batch it is."""

    def __call__(self, data: Any, draw: Any) -> Batch:
        return draw


@lru_cache(maxsize=16)
def _compile(
    model_json: str,
    vocab_size: int,
    num_classes: int | None,
    spec: StepSpec,
    take: _Rows | _Given | None,
    mode: str,
    mesh: Mesh,
) -> Compiled:
    """Make the compiled functions of a model; `take` is None where nothing is to be trained."""
    config = from_json(model_json)
    # Built at scale 1: the run's own init_scale is an argument of `initialize`.
    model = build_model(
        config.model,
        vocab_size,
        config.data.context_length,
        task=config.task,
        num_classes=num_classes,
    )
    initialize = partial(init_state, model, spec)
    shapes = jax.eval_shape(initialize, hyper_from_config(config), np.uint32(0))
    places = parallel.state_shardings(mesh, shapes)
    # Initialization runs once; on a CPU its random numbers take longer to optimize than to draw.
    quick = {"xla_backend_optimization_level": 0} if jax.default_backend() == "cpu" else None
    return Compiled(
        model=model,
        state_like=jax.tree.map(_with_sharding, shapes, places),
        initialize=jax.jit(initialize, out_shardings=places, compiler_options=quick),
        train_steps=_compile_train_steps(model, spec, take, mode, mesh, places),
        pure_steps=partial(train_steps, model, spec, take),
        eval_step=jax.jit(
            partial(eval_step, model),
            in_shardings=(places.params, parallel.replicated(mesh)),
            out_shardings=parallel.replicated(mesh),
        ),
        diagnose=_compile_diagnose(model, spec, take, mesh, places),
        draws_place=parallel.draws_sharding(mesh),
    )


def _with_sharding(shape: jax.ShapeDtypeStruct, place: Sharding) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape.shape, shape.dtype, sharding=place)


def _compile_train_steps(model, spec, take, mode: str, mesh: Mesh, places: Any):
    """Return `train_steps(state, data, draws, count, hyper)`, as the mode compiles it."""

    def fetch(data, draw):
        batch = take(data, draw)
        return batch if mode == "pmap" else parallel.split_batch(mesh, batch)

    if mode == "jit":
        whole, split = parallel.replicated(mesh), parallel.draws_sharding(mesh)
        return jax.jit(
            partial(train_steps, model, spec, fetch),
            in_shardings=(places, whole, split, whole, whole),
            out_shardings=(places, whole),
            donate_argnums=0,
        )
    on_each = jax.pmap(
        partial(train_steps, model, spec, fetch, axis_name="data"),
        axis_name="data",
        devices=list(mesh.devices.flat),
        in_axes=(None, None, 1, None, None),
        out_axes=(None, None),
    )

    def spread(state, data, draws, count, hyper):
        parts = mesh.shape["data"]
        draws = jax.tree.map(
            lambda leaf: leaf.reshape(len(leaf), parts, -1, *leaf.shape[2:]), draws
        )
        return on_each(state, data, draws, count, hyper)

    return spread


def _compile_diagnose(model, spec, take, mesh: Mesh, places: Any):
    """Return `diagnose(state, data, draws, hyper)`, on the first of the batches of `draws`."""

    def diagnose_first(state, data, draws, hyper):
        batch = take(data, jax.tree.map(lambda leaf: leaf[0], draws))
        return diagnose(model, spec, state, parallel.split_batch(mesh, batch), hyper)

    whole, split = parallel.replicated(mesh), parallel.draws_sharding(mesh)
    return jax.jit(diagnose_first, in_shardings=(places, whole, split, whole), out_shardings=whole)


def _json_of(config: ConfigDict, *prefixes: str, without: Sequence[str] = ()) -> str:
    """Return, in JSON, the default config with these keys and groups as in `config`."""
    kept = default_config()
    for key, value in flatten(config).items():
        chosen = any(key == prefix or key.startswith(prefix + ".") for prefix in prefixes)
        if chosen and key not in without:
            set_key(kept, key, value)
    return json.dumps(kept.to_dict(), sort_keys=True)
