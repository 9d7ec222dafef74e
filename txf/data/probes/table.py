"""All probes by name; the one that a config chooses, and what about it is refused."""

import dataclasses
from typing import Any

from ml_collections import ConfigDict

from txf.config import default_config, flatten
from txf.data.probes.base import Probe
from txf.data.probes.meaning import Attribute, Order, PairShift, Reference
from txf.data.probes.recall import DistanceRecall, Recall, TwoHop, TwoRelation
from txf.data.probes.sequences import Copy, Induction, Reverse
from txf.data.probes.shapes import LookaheadTagging, MaskedInfilling, TranslationByRule

PROBES: dict[str, type[Probe]] = {
    "recall": Recall,
    "distance_recall": DistanceRecall,
    "induction": Induction,
    "copy": Copy,
    "reverse": Reverse,
    "pair_shift": PairShift,
    "order": Order,
    "reference": Reference,
    "attribute": Attribute,
    "two_relation": TwoRelation,
    "two_hop": TwoHop,
    "masked_infilling": MaskedInfilling,
    "lookahead_tagging": LookaheadTagging,
    "translation_by_rule": TranslationByRule,
}

# What of the data group a probe reads; all else says how files are read, and must be left alone.
READ = ("source", "seed", "examples", "context_length", "valid_fraction", "test_fraction")
# Ids are kept in 16 bits.
MOST_WORDS = (1 << 16) - 3


def parameters(probe: type[Probe]) -> dict[str, Any]:
    """Return the parameters of a probe, each with its default."""
    return {field.name: field.default for field in dataclasses.fields(probe)}


def chosen_probe(config: ConfigDict) -> Probe:
    """Return the probe that `data.source` names, with the parameters that the config gives it."""
    probe = PROBES[config.data.source]
    given = {key: config.data.probe[key] for key in parameters(probe)}
    return probe(**{key: value for key, value in given.items() if value is not None})


def idle_parameters(config: ConfigDict) -> list[str]:
    """Return a line for each key of `data.probe` that is set and that `data.source` does not read.

    A key is None where the probe's own default holds.
    """
    source = config.data.source
    known = parameters(PROBES[source]) if source in PROBES else {}
    advice = f"it takes {', '.join(known)}" if known else "it is no probe"
    return [
        f"data.probe.{key}={value!r} means nothing to data.source={source!r}; {advice}: leave it"
        " None"
        for key, value in config.data.probe.items()
        if value is not None and key not in known
    ]


def check_probe(config: ConfigDict) -> list[str]:
    """Return what is wrong with the data group of a config whose `data.source` is a probe."""
    data, problems = config.data, idle_parameters(config)
    probe = chosen_probe(config)
    defaults = flatten(default_config().data)
    problems += [
        f"data.{key}={value!r} means nothing to data.source={data.source!r}, which makes its own"
        f" rows of symbols; leave it {defaults[key]!r}"
        for key, value in flatten(data).items()
        if key not in READ and not key.startswith("probe.") and value != defaults[key]
    ]
    if config.task not in probe.tasks:
        problems.append(
            f"task={config.task!r} is not what data.source={data.source!r} asks; set"
            f" {' or '.join(map(repr, probe.tasks))}"
        )
        return problems
    if wrong := probe.problems():
        return problems + wrong
    return problems + _size_problems(config, probe)


def _size_problems(config: ConfigDict, probe: Probe) -> list[str]:
    source, length = config.data.source, config.data.context_length
    problems, least, most = [], probe.needs(config.task), probe.longest()
    settings = ", ".join(f"{key}={value}" for key, value in dataclasses.asdict(probe).items())
    if length < least:
        problems.append(
            f"data.context_length={length} is too short for data.source={source!r}; a row takes"
            f" {least} with {settings}"
        )
    if most is not None and length > most:
        problems.append(
            f"data.context_length={length} is too long for data.source={source!r}; with {settings}"
            f" a row has at most {most}"
        )
    if (words := len(probe.words())) > MOST_WORDS:
        problems.append(
            f"data.source={source!r} has {words} words with {settings}, more than {MOST_WORDS};"
            " lower them"
        )
    return problems
