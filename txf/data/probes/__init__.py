"""Synthetic tasks that isolate one mechanism, each with known scores to compare with.

A probe is a `data.source` of its own name. It makes rows of symbols, `data.context_length` long; in
each row some positions ask for an answer that follows from the row. Only answers have a weight:
loss and accuracy are those of the answers, and the loss of a perfect reader is 0. Metrics carry
`chance`, the accuracy of a reader that knows which tokens are answers but lacks the mechanism, and
`ceiling`, that of a perfect reader.

| probe               | asks                                               | chance              |
|---------------------|----------------------------------------------------|---------------------|
| recall              | the value that followed a key                      | 1/pairs             |
| distance_recall     | the same, by distance                              | 1/values            |
| induction           | what followed a symbol                             | 1/(half a row - 1)  |
| copy, reverse       | a sequence of n symbols again, or backwards        | (1+(n-1)/vocab)/n   |
| pair_shift          | a word's partner, at positions where it never was  | 1/pairs             |
| order               | who does it and who suffers it                     | 1/2                 |
| reference           | the noun that a pronoun stands for                 | 1/pairs             |
| attribute           | a property of that noun                            | above 1/pairs       |
| two_relation        | the values of two things at once                   | 1/(pairs (pairs-1)) |
| two_hop             | the end of two links                               | 1/pairs             |
| masked_infilling    | a token that both its neighbours determine         | 1/vocab             |
| lookahead_tagging   | the class of the next word                         | 1/classes           |
| translation_by_rule | each word's translation, each two in another order | by sentence length  |

Every ceiling is 1. Each probe's class says how its rows are made; `PROBES` has them all.
"""

from txf.data.probes.base import Probe
from txf.data.probes.loading import load_probe, make_rows, take_asked
from txf.data.probes.table import (
    PROBES,
    check_probe,
    chosen_probe,
    idle_parameters,
    parameters,
)

__all__ = [
    "PROBES",
    "Probe",
    "check_probe",
    "chosen_probe",
    "idle_parameters",
    "load_probe",
    "make_rows",
    "parameters",
    "take_asked",
]
