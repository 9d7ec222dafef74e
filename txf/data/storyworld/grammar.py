"""Weighted lists of templates whose text shows, without doubt, which option was taken.

A template is literal text with slots:

    {key}            the value bound to key: a recall (near or far, by distance)
    {key!}           the same, where only who did what to whom tells which value it is: order
    {key.he}         a form that agrees with the value (he, She, his, girl ...): pronoun, or filler
    {key=LIST}       choose from LIST, and bind the option's value to key
    {a key=LIST}     the same, with the article a or an in front
    {key=LIST/x/y}   the same, never the values bound to x and y
    {=LIST}          choose from LIST, binding nothing

Options of one list must differ before any of them chooses again, and none may be the beginning of
another.  A reader who has seen the text up to a character therefore knows every choice made so far,
so -log p(character | text before it) follows exactly from the weights.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping
from typing import no_type_check

KINDS = ("other", "choice", "recall_near", "recall_far", "pronoun", "order")
OTHER, CHOICE, RECALL_NEAR, RECALL_FAR, PRONOUN, ORDER = range(len(KINDS))
RECALL = -1  # near or far: only the position in the story tells

_CACHED = 1000  # subsets kept for each list, which bounds the memory they take

TEXT, VALUE, CHOOSE = range(3)  # the first entry of an operation

AGREEING = frozenset(["he", "He", "him", "his", "His", "girl"])

_SLOT = re.compile(r"\{([^{}]*)\}")
_VOWELS = frozenset("aeiou")


def article(word: str) -> str:
    """Return "a" or "an", by the first letter (the lexicon has no silent h, and no unicorn)."""
    return "an" if word[0] in _VOWELS else "a"


@no_type_check  # called a million times a second
class Option:
    """One entry of a weighted list.

    Attributes:
      template: the text with its slots, as written.
      weight: a positive integer.
      value: what a choice of it binds or tells the story; the template itself unless given.
      forms: what agrees with the value, by suffix: {".he": "she", ...}.
      ops: the compiled template, with the kind of every character.
      head: the operations before its first own choice, or their text where that is constant.
      source, index: the list's name, and the place in the complete list.
      offset: characters before the value itself, 3 for "an orange".
    """

    __slots__ = (
        "_bindings",
        "forms",
        "head",
        "index",
        "offset",
        "ops",
        "source",
        "template",
        "value",
        "weight",
    )

    def __init__(
        self,
        template: str,
        weight: int = 1,
        value: str | None = None,
        forms: Mapping[str, str] | None = None,
    ):
        """Hold an entry; the list it is put in compiles it."""
        self.template, self.weight = template, weight
        self.value = template if value is None else value
        self.forms = dict(forms or {})
        self.ops: tuple = ()
        self.head: str | tuple = ""
        self.source, self.index, self.offset = "", 0, 0
        self._bindings: dict[str, dict[str, str]] = {}

    def bindings(self, key: str) -> dict[str, str]:
        """Return what the story knows once this option is bound to key."""
        found = self._bindings.get(key)
        if found is None:
            found = {key: self.value, **{key + form: text for form, text in self.forms.items()}}
            self._bindings[key] = found
        return found


@no_type_check  # called a million times a second
class Choice:
    """A finite weighted list: option i has probability weight_i / sum of weights.

    Attributes:
      name: how the list is called in templates.
      options: the options, in order.
      cumulative, total: running sums of their weights, and the last of them.
    """

    __slots__ = ("_variants", "cumulative", "name", "options", "total")

    def __init__(self, name: str, options: Iterable[Option], lists: Mapping[str, Choice]):
        """Compile the options.

        Args:
          name: how the list is called in templates.
          options: at least one.
          lists: the lists that templates may name.

        Raises:
          ValueError: the text would not tell which option was taken.
        """
        self._fill(name, tuple(options))
        compiled = [_compile(option.template, lists) for option in self.options]
        shown = _mark(name, compiled)
        for index, option in enumerate(self.options):
            option.source, option.index = name, index
            option.ops = _operations(compiled[index], shown[index])
            option.head = _head(option.ops)

    def _fill(self, name: str, options: tuple[Option, ...]) -> None:
        self.name, self.options = name, options
        self.cumulative = list(itertools.accumulate(option.weight for option in options))
        self.total = self.cumulative[-1]
        self._variants: dict[object, Choice] = {}

    def _subset(self, key: object, options: tuple[Option, ...]) -> Choice:
        """Return a list of some of the options, compiled already: fewer differ as clearly."""
        if not options:
            raise ValueError(f"storyworld: {self.name} has no option left for {key}")
        subset = Choice.__new__(Choice)
        subset._fill(self.name, options)
        if len(self._variants) < _CACHED:
            self._variants[key] = subset
        return subset

    def without(self, values: tuple[str, ...]) -> Choice:
        """Return the list less the options with these values, weights unchanged."""
        found = self._variants.get(values)
        if found is None:
            found = self._subset(values, tuple(o for o in self.options if o.value not in values))
        return found

    def only(self, values: frozenset[str]) -> Choice:
        """Return the list of the options with these values, weights unchanged."""
        found = self._variants.get(values)
        if found is None:
            found = self._subset(values, tuple(o for o in self.options if o.value in values))
        return found

    def with_article(self) -> Choice:
        """Return the list with "a" or "an" in front of every option."""
        found = self._variants.get("a")
        if found is None:
            found = Choice(f"a {self.name}", map(_with_article, self.options), {})
            self._variants["a"] = found
        return found


def _with_article(option: Option) -> Option:
    prefix = f"{article(option.template)} "
    result = Option(prefix + option.template, option.weight, option.value, option.forms)
    result.offset = len(prefix)
    return result


def _compile(template: str, lists: Mapping[str, Choice]) -> list:
    """Turn a template into symbols: single characters, and operations for slots."""
    symbols: list = []
    position = 0
    for slot in _SLOT.finditer(template):
        symbols.extend(template[position : slot.start()])
        symbols.append(_slot(slot.group(1), lists))
        position = slot.end()
    symbols.extend(template[position:])
    return symbols


def _slot(body: str, lists: Mapping[str, Choice]) -> tuple:
    if "=" in body:
        key, _, target = body.partition("=")
        name, *excluded = target.split("/")
        choice = lists[name]
        if key.startswith("a "):
            key, choice = key[2:], choice.with_article()
        return (CHOOSE, key, choice, tuple(excluded))
    if body.endswith("!"):
        return (VALUE, body[:-1], ORDER)
    _, dot, form = body.partition(".")
    if not dot:
        return (VALUE, body, RECALL)
    return (VALUE, body, PRONOUN if form in AGREEING else OTHER)


def _mark(name: str, compiled: list[list]) -> list[set[int]]:
    """Return, for every option, the symbols at which the choice shows."""
    shown: list[set[int]] = [set() for _ in compiled]

    def split(members: list[int], depth: int) -> None:
        if len(members) == 1:
            return
        groups: dict[object, list[int]] = {}
        for member in members:
            if depth == len(compiled[member]):
                text = "".join(s if isinstance(s, str) else "{}" for s in compiled[member])
                raise ValueError(f"storyworld: {text!r} in {name} is the beginning of another")
            groups.setdefault(compiled[member][depth], []).append(member)
        for symbol, group in groups.items():
            if isinstance(symbol, tuple) and symbol[0] == CHOOSE:
                raise ValueError(f"storyworld: options of {name} choose again before they differ")
            if len(groups) > 1:
                for member in group:
                    shown[member].add(depth)
            split(group, depth + 1)

    split(list(range(len(compiled))), 0)
    return shown


def _operations(symbols: list, shown: set[int]) -> tuple:
    """Join characters into text operations, each word in which a choice shows marked CHOICE."""
    ops: list[tuple] = []
    letters: list[str] = []
    marks: list[int] = []

    def flush() -> None:
        if letters:
            ops.append((TEXT, "".join(letters), bytes(marks)))
            letters.clear()
            marks.clear()

    word_shows = False
    for place, symbol in enumerate(symbols):
        if isinstance(symbol, tuple):
            flush()
            if symbol[0] == VALUE and place in shown:
                symbol = (VALUE, symbol[1], CHOICE)
            ops.append(symbol)
            word_shows = False
            continue
        if symbol in " \n":
            word_shows = False
        elif not letters or letters[-1] in " \n":
            word_shows = any(here in shown for here in _word(symbols, place))
        letters.append(symbol)
        marks.append(CHOICE if word_shows or place in shown else OTHER)
    flush()
    return tuple(ops)


def _head(ops: tuple) -> str | tuple:
    told = tuple(itertools.takewhile(lambda op: op[0] != CHOOSE, ops))
    if all(op[0] == TEXT for op in told):
        return "".join(op[1] for op in told)
    return told


def _word(symbols: list, start: int) -> range:
    end = start
    while end < len(symbols) and isinstance(symbols[end], str) and symbols[end] not in " \n":
        end += 1
    return range(start, end)
