"""How word lists and sentence shapes are written down."""

from __future__ import annotations

import re
from collections.abc import Mapping

from txf.data.storyworld.grammar import Choice, Option, article

LISTS: dict[str, Choice] = {}  # every list, by the name that templates use

_SHAPE = re.compile(r"(\d+) (?:(\w+) )?\| (.*)")


def entries(words: str, forms: Mapping[str, str] | None = None) -> list[Option]:
    """Read "red:4 | blue": red four times as likely as blue; each has its article as form ".a"."""
    options = []
    for entry in words.split("|"):
        word, _, weight = entry.strip().partition(":")
        agreeing = {".a": article(word), **(forms or {})}
        options.append(Option(word, int(weight or 1), forms=agreeing))
    return options


def with_form(suffix: str, words: str) -> list[Option]:
    """Read "in: woods, valley | on: hill": what stands before the colon is the words' form."""
    options = []
    for group in words.split("|"):
        form, _, members = group.partition(":")
        for word in members.split(","):
            forms = {".a": article(word.strip()), suffix: form.strip()}
            options.append(Option(word.strip(), forms=forms))
    return options


def spots(words: str) -> list[Option]:
    """Read "under, behind: bench | ...": every preposition with every noun."""
    return [
        Option(f"{preposition.strip()} the {noun.strip()}")
        for group in words.split("|")
        for preposition in group.partition(":")[0].split(",")
        for noun in group.partition(":")[2].split(",")
    ]


def define(name: str, *groups: list[Option] | str) -> Choice:
    """Make the list that templates call by this name."""
    options = [o for g in groups for o in (entries(g) if isinstance(g, str) else g)]
    LISTS[name] = Choice(name, options, LISTS)
    return LISTS[name]


def shapes(name: str, block: str, before: str = " ") -> Choice:
    """Make a list of sentence shapes.

    Args:
      name: what templates call it.
      block: one shape a line, "weight value | template"; a line without a bar goes on with the
        shape above it.  A value ending in "_x" makes two shapes: the roles X and Y in the template
        are a and b, value ending in "_a", and b and a, ending in "_b".
      before: what stands before every shape.
    """
    lines: list[str] = []
    for line in block.strip().splitlines():
        if _SHAPE.match(line.strip()):
            lines.append(line.strip())
        else:
            lines[-1] += " " + line.strip()
    options = []
    for line in lines:
        weight, value, template = _SHAPE.match(line).groups()
        template = before + template
        if value is not None and value.endswith("_x"):
            for x, y in ("ab", "ba"):
                cast = template.replace("{X", "{" + x).replace("{Y", "{" + y)
                options.append(Option(cast, int(weight), value[:-1] + x))
        else:
            options.append(Option(template, int(weight), value))
    return define(name, options)


def merged(name: str, *parts: tuple[int, Choice]) -> Choice:
    """Make one list of several, the weights of each multiplied by its factor."""
    options = [
        Option(o.template, o.weight * factor, o.value)
        for factor, part in parts
        for o in part.options
    ]
    return define(name, options)
