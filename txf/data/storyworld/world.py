"""What happens in a story: which shapes may come next, and what they change in the world."""

from __future__ import annotations

from collections.abc import Callable

from txf.data.storyworld import shapes
from txf.data.storyworld.grammar import Choice
from txf.data.storyworld.lexicon import FRAGILE, LIGHT, SHE, entries
from txf.data.storyworld.teller import Teller

_LIGHT = frozenset(option.value for option in entries(LIGHT))
_FRAGILE = frozenset(option.value for option in entries(FRAGILE))
_FORMS = ("", *SHE)
_CLOSING = frozenset({"close", "fav", "bed", "giver"})


def tell(story: Teller) -> None:
    """Tell one story: an opening, an outing on which one or two things happen, and the way home.

    All choices are the teller's; what the story knows is in its state, so that the same function
    writes a story and reads one.
    """
    state = story.state
    state["giver"] = ""
    story.choose(shapes.OPENING)
    story.choose(shapes.POSSESSION)
    story.choose(shapes.FRIEND)
    topics = {"place", "act", "bt", "at", "close", "bed"}
    if story.choose(shapes.PROLOGUE) == "likes":
        topics.add("fav")
        story.choose(shapes.OUTING)
    if story.choose(shapes.ARRIVAL) == "bring":
        story.choose(shapes.ACTIVITY)
    if state["giver"]:
        topics.add("giver")
    _events(story, topics)
    _home(story, topics)


def _events(story: Teller, topics: set[str]) -> None:
    """Tell an event about a thing or an animal, one about the two children, or both."""
    about_things = {"lost", "offer", "find"}
    if story.state["at"] in _LIGHT:
        about_things.add("stuck")
    if story.state["at"] in _FRAGILE:
        about_things.add("break")
    about_children = {"food_a", "food_b", "hide_a", "hide_b", "race", "boxes"}
    possible = about_things | about_children
    while (event := story.choose(shapes.EVENTS.only(frozenset(possible)))) != "home":
        possible -= about_things if event in about_things else about_children
        possible.add("home")
        _EVENTS[event](story, event, topics)


def _home(story: Teller, topics: set[str]) -> None:
    """Tell of one to three topics, none twice, and close."""
    closings = topics & _CLOSING
    for answered in range(4):
        possible = topics if answered else topics - _CLOSING
        told = story.choose(shapes.TALK.only(frozenset(possible if answered < 3 else closings)))
        if told in _CLOSING:
            break
        topics.discard(told)
    story.choose(shapes.FINAL)


def _cast(story: Teller, x: str) -> None:
    """Give the roles x and y to a and b: x is the one named, y the other."""
    y = "b" if x == "a" else "a"
    state = story.state
    for form in _FORMS:
        state["x" + form] = state[x + form]
        state["y" + form] = state[y + form]


def _repeat(story: Teller, choice: Choice, allowed: set[str], most: int) -> str:
    """Choose until something else than "again" comes, which is after most tries at the latest."""
    state = story.state
    state["spot"] = state["seen"] = ""
    for _ in range(most):
        value = story.choose(choice.only(frozenset(allowed | {"again"})))
        if value != "again":
            return value
        state["seen"] = state["spot"]
    return story.choose(choice.only(frozenset(allowed)))


def _lost(story: Teller, event: str, topics: set[str]) -> None:
    story.choose(shapes.SORROW)
    finders = {"a", "b", "who"} if story.choose(shapes.HELP) == "stranger" else {"a", "b"}
    finder = _repeat(story, shapes.SEARCH, finders, 2)
    if finder == "a":
        story.choose(shapes.RELIEF)
        return
    story.choose(shapes.THANKS_B if finder == "b" else shapes.THANKS_WHO)
    topics.add(f"found_{finder}")


def _stuck(story: Teller, event: str, topics: set[str]) -> None:
    helper = _repeat(story, shapes.REACH, {"b", "who", "shoulders"}, 2)
    story.choose(shapes.THANKS_WHO if helper == "who" else shapes.THANKS_B)
    if helper != "shoulders":
        topics.add("tool")


def _break(story: Teller, event: str, topics: set[str]) -> None:
    story.choose(shapes.BLAME)
    story.choose(shapes.MEND)
    story.choose(shapes.MENDED)
    topics.add("mended")


def _trade(story: Teller, event: str, topics: set[str]) -> None:
    story.choose(shapes.SWAP)
    if story.choose(shapes.AFTER_SWAP) == "kept":
        topics -= {"bt", "at", "bed", "giver"}
        topics.add("swapped")


def _lunch(story: Teller, event: str, topics: set[str]) -> None:
    _cast(story, event[-1])
    story.choose(shapes.HUNGRY)
    fate = story.choose(shapes.SHARE)
    if fate == "stolen":
        story.choose(shapes.STOLEN)
    topics.add(fate)


def _animal(story: Teller, event: str, topics: set[str]) -> None:
    if story.choose(shapes.NEED) == "mother":
        topics.add("leaves")
        return
    story.choose(shapes.NAMING)
    topics.add(story.choose(shapes.PARTING))


def _hide(story: Teller, event: str, topics: set[str]) -> None:
    _cast(story, event[-1])
    holder = "a" if (event[-1] == "b") != ("swapped" in topics) else "b"
    story.state["yc"], story.state["yt"] = story.state[holder + "c"], story.state[holder + "t"]
    _repeat(story, shapes.SEEK, {"found"}, 2)
    story.choose(shapes.CAUGHT)
    topics.add("hide")


def _race(story: Teller, event: str, topics: set[str]) -> None:
    _cast(story, story.choose(shapes.RESULT)[-1])
    story.choose(shapes.PRAISE)
    topics.add("won")


def _boxes(story: Teller, event: str, topics: set[str]) -> None:
    _cast(story, story.choose(shapes.TIP)[-1])
    story.state["right"] = story.state[story.choose(shapes.CLUE)]
    story.choose(shapes.OPENED)
    topics.add("box")


_EVENTS: dict[str, Callable[[Teller, str, set[str]], None]] = {
    "lost": _lost,
    "stuck": _stuck,
    "break": _break,
    "offer": _trade,
    "food_a": _lunch,
    "food_b": _lunch,
    "find": _animal,
    "hide_a": _hide,
    "hide_b": _hide,
    "race": _race,
    "boxes": _boxes,
}
