"""Write what torch's recurrent layers give, forward and backward, for tests that lack torch.

Run from the root of the repository, with torch (CPU) importable:

    python tests/oracles/make_baseline_fixtures.py

It writes tests/oracles/recurrent_{rnn,gru,lstm}.npz.  tests/nn/test_baselines.py reads them, and
calls `oracle` itself where torch is importable.
"""

from pathlib import Path

import numpy as np

BATCH, TOKENS, WIDTH, LAYERS = 3, 11, 5, 2
FAMILIES = ("rnn", "gru", "lstm")


def oracle(family: str) -> dict[str, np.ndarray]:
    """Return inputs, parameters, outputs, and gradients of sum(outputs * weights), all float32.

    Parameters keep torch's names (`weight_ih_l0`, ...); their gradients are `grad_<name>`.
    """
    import torch

    random = np.random.Generator(np.random.Philox(key=FAMILIES.index(family)))

    def draw(*shape: int) -> torch.Tensor:
        return torch.tensor(random.normal(size=shape), dtype=torch.float32)

    kind = {"rnn": torch.nn.RNN, "gru": torch.nn.GRU, "lstm": torch.nn.LSTM}[family]
    layers = kind(WIDTH, WIDTH, num_layers=LAYERS, batch_first=True)
    for parameter in layers.parameters():
        parameter.data = draw(*parameter.shape) / WIDTH**0.5
    x = draw(BATCH, TOKENS, WIDTH).requires_grad_()
    weights = draw(BATCH, TOKENS, WIDTH)
    outputs, _ = layers(x)
    (outputs * weights).sum().backward()
    arrays = {"x": x, "grad_x": x.grad, "weights": weights, "outputs": outputs}
    for name, parameter in layers.named_parameters():
        arrays |= {name: parameter, f"grad_{name}": parameter.grad}
    return {name: array.detach().numpy() for name, array in arrays.items()}


if __name__ == "__main__":
    for family in FAMILIES:
        np.savez(Path(__file__).parent / f"recurrent_{family}.npz", **oracle(family))
