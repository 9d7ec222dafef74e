"""The models and batches that are measured, by name."""

import dataclasses

from ml_collections import ConfigDict

from txf.config import default_config
from txf.errors import UserError
from txf.nn.cost import parameter_count, training_flops_per_token


@dataclasses.dataclass(frozen=True)
class Shape:
    """A pre-LN decoder with learned positions, and the batch that it is trained on.

    Attributes:
        depth: blocks.
        heads: heads of each block; the feed-forward layer is four times `width`.
        width: numbers a token.
        context: tokens a row.
        batch: rows a step.
        vocab: tokens there are.
        tied: whether the head shares the embedding's matrix.
        bias: whether linear maps and LayerNorms have biases.
        dtype: what is computed in; parameters are float32.
        accelerator: whether a CPU would take minutes for a step.
    """

    name: str
    depth: int
    heads: int
    width: int
    context: int
    batch: int
    vocab: int
    tied: bool = False
    bias: bool = False
    dtype: str = "float32"
    accelerator: bool = False

    @property
    def tokens(self) -> int:
        """Tokens a step."""
        return self.batch * self.context

    def config(self) -> ConfigDict:
        """Return the config whose model and batch these are."""
        config = default_config()
        config.data.tokenizer = "bpe"
        config.data.vocab_size = self.vocab
        config.data.context_length = self.context
        config.model.depth = self.depth
        config.model.num_heads = self.heads
        config.model.width = self.width
        config.model.tie_embeddings = self.tied
        config.model.bias = self.bias
        config.model.dtype = self.dtype
        config.training.batch_size = self.batch
        return config

    def parameters(self) -> int:
        """Return how many numbers are trained."""
        return parameter_count(self.config().model, self.vocab, self.context)

    def flops(self) -> float:
        """Return the floating-point operations of all matrix products of a train step.

        A product of [m, k] with [k, n] counts 2mkn, forward and twice backward; masked scores are
        counted. See `txf.nn.cost`.
        """
        model = self.config().model
        return self.tokens * training_flops_per_token(model, self.vocab, self.context)


SHAPES = {
    shape.name: shape
    for shape in (
        Shape("anchor_depth1", depth=1, heads=1, width=128, context=32, batch=64, vocab=2048),
        Shape("anchor_depth4", depth=4, heads=4, width=128, context=32, batch=64, vocab=2048),
        # nanoGPT's setting of characters for a CPU.
        Shape("shakespeare_char", 4, 4, 128, context=64, batch=12, vocab=65, tied=True),
        Shape(
            "gpt2_small",
            depth=12,
            heads=12,
            width=768,
            context=1024,
            batch=16,
            vocab=50304,
            tied=True,
            dtype="bfloat16",
            accelerator=True,
        ),
    )
}


def find_shapes(names: list[str], platform: str) -> list[Shape]:
    """Return the shapes of these names; `all` stands for those that the platform is fit for.

    Raises:
        UserError: a name is unknown, or the platform is a CPU and the shape not fit for one.
    """
    fit = [s for s in SHAPES.values() if platform != "cpu" or not s.accelerator]
    if names in ([], ["all"]):
        return fit
    for name in names:
        if name not in SHAPES:
            known = ", ".join(SHAPES)
            raise UserError(f"--shapes={name} is unknown; choose from {known}, or all")
        if SHAPES[name] not in fit:
            raise UserError(f"--shapes={name} needs an accelerator, and this is a CPU")
    return [SHAPES[name] for name in names]
