"""Writes the oracle fixtures: transformers built from torch's own layers, and what they compute.

    pip install 'torch>=2.6,<2.14' && python tests/oracles/make_fixtures.py

Each .npz holds the `model` config that txf needs to build the same model (JSON), a batch, torch's
parameters (`param/<torch's name>`), its logits, the loss Σ weights · nats / Σ weights, and the
gradients of that (`grad/<torch's name>`), all computed in float64 and stored in float32. `gpt.npz`
holds the losses of some optimizer steps too. test_torch.py compares them with txf; where torch is
there, it also compares txf with fresh cases from other seeds.
"""

import json
import pathlib

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

HERE = pathlib.Path(__file__).parent

# No two sizes alike, so that no two axes can be swapped unseen.
BATCH, TOKENS, SOURCE, VOCAB, CONTEXT, DEPTH = 3, 7, 5, 13, 11, 2
HEADS, KEY_DIM, HIDDEN = 3, 4, 17
WIDTH = HEADS * KEY_DIM

MODEL = {
    "depth": DEPTH,
    "width": WIDTH,
    "num_heads": HEADS,
    "mlp_ratio": HIDDEN / WIDTH,
    "tie_embeddings": False,
}
OPTIMIZER = {"learning_rate": 0.01, "b1": 0.9, "b2": 0.97, "eps": 1e-8, "weight_decay": 0.3}
CLIP_NORM, STEPS = 0.5, 5


def layer_options(placement, activation):
    return {
        "d_model": WIDTH,
        "nhead": HEADS,
        "dim_feedforward": HIDDEN,
        "dropout": 0.0,
        "activation": activation,
        "batch_first": True,
        "norm_first": placement == "pre",
    }


def final_norm(placement):
    return nn.LayerNorm(WIDTH) if placement == "pre" else None


class Encoder(nn.Module):
    """torch.nn.TransformerEncoder between an embedding and a head; causal or not."""

    def __init__(self, placement, activation, causal):
        super().__init__()
        self.causal = causal
        self.embed = nn.Embedding(VOCAB, WIDTH)
        layer = nn.TransformerEncoderLayer(**layer_options(placement, activation))
        self.encoder = nn.TransformerEncoder(
            layer, DEPTH, norm=final_norm(placement), enable_nested_tensor=False
        )
        self.head = nn.Linear(WIDTH, VOCAB, bias=False)

    def forward(self, batch):
        mask = future(TOKENS) if self.causal else None
        padding = batch["segments"] == 0
        x = self.encoder(self.embed(batch["inputs"]), mask, src_key_padding_mask=padding)
        return self.head(x)


class EncoderDecoder(nn.Module):
    """torch.nn.Transformer between one embedding for both languages and a head."""

    def __init__(self, placement, activation):
        super().__init__()
        options = layer_options(placement, activation)
        self.embed = nn.Embedding(VOCAB, WIDTH)
        encoder = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(**options),
            DEPTH,
            norm=final_norm(placement),
            enable_nested_tensor=False,
        )
        decoder = nn.TransformerDecoder(
            nn.TransformerDecoderLayer(**options), DEPTH, norm=final_norm(placement)
        )
        self.transformer = nn.Transformer(
            WIDTH, HEADS, custom_encoder=encoder, custom_decoder=decoder, batch_first=True
        )
        self.head = nn.Linear(WIDTH, VOCAB, bias=False)

    def forward(self, batch):
        source_padding = batch["source_segments"] == 0
        x = self.transformer(
            self.embed(batch["source"]),
            self.embed(batch["inputs"]),
            tgt_mask=future(TOKENS),
            src_key_padding_mask=source_padding,
            tgt_key_padding_mask=batch["segments"] == 0,
            memory_key_padding_mask=source_padding,
        )
        return self.head(x)


class GptAttention(nn.Module):
    """Causal attention the way GPT-2's code has it: one projection for q, k and v together."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.proj = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        batch, tokens, _ = x.shape
        heads = [
            part.view(batch, tokens, HEADS, KEY_DIM).transpose(1, 2)
            for part in self.qkv(x).split(WIDTH, dim=2)
        ]
        y = F.scaled_dot_product_attention(*heads, is_causal=True)
        return self.proj(y.transpose(1, 2).reshape(batch, tokens, WIDTH))


class GptBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1 = nn.LayerNorm(WIDTH)
        self.attn = GptAttention()
        self.ln_2 = nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, HIDDEN), nn.GELU(), nn.Linear(HIDDEN, WIDTH))

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt(nn.Module):
    """GPT-2 in small: learned positions, pre-norm blocks, a head tied to the embedding."""

    def __init__(self):
        super().__init__()
        self.wte = nn.Embedding(VOCAB, WIDTH)
        self.wpe = nn.Embedding(CONTEXT, WIDTH)
        self.h = nn.ModuleList(GptBlock() for _ in range(DEPTH))
        self.ln_f = nn.LayerNorm(WIDTH)

    def forward(self, batch):
        x = self.wte(batch["inputs"]) + self.wpe(torch.arange(TOKENS))
        for block in self.h:
            x = block(x)
        return self.ln_f(x) @ self.wte.weight.T


def future(tokens):
    """Torch's masks are true where attention is forbidden."""
    return torch.ones(tokens, tokens, dtype=torch.bool).triu(1)


def encoder_config(placement, activation, causal):
    return MODEL | {
        "structure": "decoder" if causal else "encoder",
        "positions": "none",
        "norm_placement": placement,
        "activation": activation,
    }


CASES = {
    "encoder_post_relu": (
        encoder_config("post", "relu", False),
        lambda: Encoder("post", "relu", causal=False),
    ),
    "encoder_pre_gelu": (
        encoder_config("pre", "gelu", False),
        lambda: Encoder("pre", "gelu", causal=False),
    ),
    "decoder_post_gelu": (
        encoder_config("post", "gelu", True),
        lambda: Encoder("post", "gelu", causal=True),
    ),
    "transformer_post_relu": (
        encoder_config("post", "relu", True) | {"structure": "encoder_decoder"},
        lambda: EncoderDecoder("post", "relu"),
    ),
    "transformer_pre_gelu": (
        encoder_config("pre", "gelu", True) | {"structure": "encoder_decoder"},
        lambda: EncoderDecoder("pre", "gelu"),
    ),
    "gpt": (MODEL | {"tie_embeddings": True}, Gpt),
}


def make_batch(name, generator):
    def integers(*shape):
        return torch.randint(VOCAB, shape, generator=generator)

    batch = {"inputs": integers(BATCH, TOKENS), "targets": integers(BATCH, TOKENS)}
    # Rows of different lengths. The last rows are whole, so that the longest is seen too.
    lengths = torch.tensor([TOKENS - 3, TOKENS - 1, TOKENS])
    if name == "gpt":
        lengths = torch.full((BATCH,), TOKENS)
    batch["segments"] = (torch.arange(TOKENS) < lengths[:, None]).long()
    if name.startswith("transformer"):
        batch["source"] = integers(BATCH, SOURCE)
        lengths = torch.tensor([SOURCE, SOURCE - 3, SOURCE - 2])
        batch["source_segments"] = (torch.arange(SOURCE) < lengths[:, None]).long()
    return batch


def compute_loss(logits, batch):
    weights = batch["segments"].to(logits.dtype)
    nats = F.cross_entropy(logits.transpose(1, 2), batch["targets"], reduction="none")
    return (nats * weights).sum() / weights.sum()


def train(model, batch):
    """Returns the loss before each of STEPS steps of clipped AdamW on one batch.

    Norms, biases and positions do not decay.
    """
    parameters = dict(model.named_parameters())
    decayed = [p for name, p in parameters.items() if p.ndim == 2 and name != "wpe.weight"]
    others = [p for name, p in parameters.items() if p.ndim < 2 or name == "wpe.weight"]
    numbers = OPTIMIZER
    groups = [
        {"params": decayed, "weight_decay": numbers["weight_decay"]},
        {"params": others, "weight_decay": 0.0},
    ]
    betas = (numbers["b1"], numbers["b2"])
    optimizer = torch.optim.AdamW(groups, numbers["learning_rate"], betas, numbers["eps"])
    losses = []
    for _ in range(STEPS):
        loss = compute_loss(model(batch), batch)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(parameters.values(), CLIP_NORM)
        optimizer.step()
        losses.append(loss.item())
    return losses


def make_case(name, seed):
    """Returns what is stored of a case: a dict of numpy arrays."""
    model_config, build = CASES[name]
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    model = build().double()
    with torch.no_grad():
        for parameter in model.parameters():
            # Away from the zeros and ones that norms and biases start from, and without rounding.
            noise = 0.5 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.copy_((parameter + noise).float().double())
    batch = make_batch(name, generator)
    logits = model(batch)
    loss = compute_loss(logits, batch)
    loss.backward()
    stored = {"model": json.dumps(model_config), "context_length": CONTEXT, "vocab_size": VOCAB}
    stored |= {key: value.int().numpy() for key, value in batch.items()}
    stored |= {"logits": logits.detach().float().numpy(), "loss": np.float32(loss.item())}
    for key, parameter in model.named_parameters():
        stored[f"param/{key}"] = parameter.detach().float().numpy()
        stored[f"grad/{key}"] = parameter.grad.float().numpy()
    if name == "gpt":
        optimizer = OPTIMIZER | {"name": "adamw", "clip_norm": CLIP_NORM, "schedule": "constant"}
        stored["optimizer"] = json.dumps(optimizer)
        stored["losses"] = np.array(train(model, batch), np.float32)
    return {key: np.asarray(value) for key, value in stored.items()}


def main():
    for seed, name in enumerate(CASES, start=10):
        path = HERE / f"{name}.npz"
        np.savez_compressed(path, **make_case(name, seed))
        print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
