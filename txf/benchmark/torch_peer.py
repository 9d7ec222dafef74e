"""A peer in PyTorch: nanoGPT's model and training step, written with torch.nn. Needs torch.

Fused QKV projection, torch's own scaled_dot_product_attention, exact GELU, AdamW that decays
matrices alone, gradients clipped at 1.0: what nanoGPT does in a step, fetching batches and logging
left out.
"""

import dataclasses
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from txf.benchmark.shapes import Shape
from txf.benchmark.timing import Contender

BATCHES = 8


class Attention(nn.Module):
    """Causal attention."""

    def __init__(self, shape: Shape):
        super().__init__()
        self.heads = shape.heads
        self.qkv = nn.Linear(shape.width, 3 * shape.width, bias=shape.bias)
        self.output = nn.Linear(shape.width, shape.width, bias=shape.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Attend to what came before."""
        batch, tokens, width = x.shape
        q, k, v = (
            part.view(batch, tokens, self.heads, width // self.heads).transpose(1, 2)
            for part in self.qkv(x).split(width, dim=2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.output(y.transpose(1, 2).contiguous().view(batch, tokens, width))


class Block(nn.Module):
    """Pre-LN: attention, then feed-forward."""

    def __init__(self, shape: Shape):
        super().__init__()
        self.attention_norm = nn.LayerNorm(shape.width, bias=shape.bias)
        self.attention = Attention(shape)
        self.feedforward_norm = nn.LayerNorm(shape.width, bias=shape.bias)
        self.feedforward = nn.Sequential(
            nn.Linear(shape.width, 4 * shape.width, bias=shape.bias),
            nn.GELU(),
            nn.Linear(4 * shape.width, shape.width, bias=shape.bias),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Pass x through both sublayers."""
        x = x + self.attention(self.attention_norm(x))
        return x + self.feedforward(self.feedforward_norm(x))


class Decoder(nn.Module):
    """Embedding, positions, blocks, head, loss."""

    def __init__(self, shape: Shape):
        super().__init__()
        self.embedding = nn.Embedding(shape.vocab, shape.width)
        self.positions = nn.Embedding(shape.context, shape.width)
        self.blocks = nn.ModuleList([Block(shape) for _ in range(shape.depth)])
        self.norm = nn.LayerNorm(shape.width, bias=shape.bias)
        self.head = nn.Linear(shape.width, shape.vocab, bias=False)
        self.apply(_init_weights)
        if shape.tied:
            self.embedding.weight = self.head.weight

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return the mean loss in nats."""
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.embedding(tokens) + self.positions(places)
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.reshape(-1))


def _init_weights(module: nn.Module) -> None:
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)


@dataclasses.dataclass
class Trainer:
    """A model, its optimizer, and the step that trains it."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    device: str
    dtype: torch.dtype

    @classmethod
    def make(cls, shape: Shape) -> "Trainer":
        """Return a fresh trainer of the shape on the GPU that torch sees, or else on the CPU."""
        device = "cuda" if torch.cuda.is_available() else "cpu"
        model = Decoder(shape).to(device)
        decayed = [p for p in model.parameters() if p.dim() >= 2]
        others = [p for p in model.parameters() if p.dim() < 2]
        groups = [
            {"params": decayed, "weight_decay": 0.1},
            {"params": others, "weight_decay": 0.0},
        ]
        options: dict[str, Any] = {"fused": True} if device == "cuda" else {}
        optimizer = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.99), **options)
        return cls(model, optimizer, device, getattr(torch, shape.dtype))

    def step(self, model: nn.Module, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Take one step with `model`, this trainer's own or its compiled form."""
        lower = self.dtype != torch.float32
        with torch.autocast(self.device, self.dtype, enabled=lower):
            loss = model(tokens, targets)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss


def make_torch(shape: Shape, steps: int, compiled: bool) -> Contender:
    """Return torch's step, eager or with the model compiled by `torch.compile`."""
    trainer = Trainer.make(shape)
    model = torch.compile(trainer.model) if compiled else trainer.model
    random = np.random.Generator(np.random.Philox(key=0))
    size = (BATCHES, shape.batch, shape.context + 1)
    text = torch.from_numpy(random.integers(0, shape.vocab, size)).to(trainer.device)

    def run() -> None:
        for number in range(steps):
            batch = text[number % BATCHES]
            trainer.step(model, batch[:, :-1].contiguous(), batch[:, 1:].contiguous())
        if trainer.device == "cuda":
            torch.cuda.synchronize()

    return Contender(run, steps)
