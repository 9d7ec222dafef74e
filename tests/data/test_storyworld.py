"""The storyworld keeps its promises: its text tells its choices, and its surprise is exact."""

import collections
import hashlib
import math
import re
import subprocess
import sys

import numpy as np
import pytest

from txf.data import storyworld
from txf.data.storyworld import generator, lists, teller, world
from txf.data.storyworld.grammar import AGREEING, KINDS, VALUE, Choice, Option
from txf.errors import UserError

SEED = 7


@pytest.fixture(scope="module")
def corpus() -> list[storyworld.Story]:
    return storyworld.stories("train", SEED, 1_000_000)


@pytest.fixture(scope="module")
def readings(corpus):
    """Return (story, reader) of some hundred stories, each read once."""
    return [(story, generator._read(story.text)) for story in corpus[:400]]


def _told(key: int) -> teller.Teller:
    """Tell a story and keep the teller, with its choices."""
    keys = generator._keys("train", SEED, np.array([key], np.uint64), 0)
    told = teller.Teller(generator._sequence(int(keys[0]), generator._rows(keys)[0]))
    world.tell(told)
    return told


# Text and choices.


def test_parsing_a_story_gives_the_choices_that_made_it():
    for key in range(300):
        told = _told(key)
        assert storyworld.parse(told.text()) == generator.picks(told)


def test_surprise_is_the_sum_over_choices_and_the_sum_over_characters(readings):
    for story, reader in readings:
        assert story.surprise == pytest.approx(math.fsum(reader.nats), abs=1e-9)
        assert story.surprise == pytest.approx(math.fsum(reader.surprises), abs=1e-9)
        assert len(reader.surprises) == len(story.text)
        assert min(reader.surprises) >= 0.0


def test_only_characters_of_kind_choice_carry_surprise(readings):
    choice = KINDS.index("choice")
    for story, reader in readings:
        carrying = np.asarray(reader.surprises) > 0
        kinds = np.frombuffer(story.kinds, np.uint8)
        assert not np.any(carrying & (kinds != choice)), story.text
        assert np.any(carrying)
        assert bytes(kinds) == reader.kinds()


def test_public_reading_functions_agree_with_each_other():
    story = storyworld.generate(SEED, 11)
    assert sum(pick.nats for pick in storyworld.parse(story.text)) == pytest.approx(story.surprise)
    assert storyworld.surprises(story.text).sum() == pytest.approx(story.surprise)


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "It was a dark and stormy night.",
        lambda text: text[:-1],
        lambda text: text + " And then?",
        lambda text: text.replace(" had ", " hid ", 1).replace(" loved ", " lived ", 1),
        lambda text: text[: len(text) // 2] + "#" + text[len(text) // 2 + 1 :],
        lambda text: "",
    ],
)
def test_text_that_is_no_story_is_refused_with_the_place(damage):
    text = storyworld.generate(SEED, 3).text
    with pytest.raises(UserError, match=r"at character [0-9]+ expected"):
        storyworld.parse(damage(text))


def test_an_answer_that_contradicts_the_story_is_refused():
    story = next(
        s for s in storyworld.stories("train", SEED, 300_000) if '"What colour is your' in s.text
    )
    colour = re.search(r'"My [a-z ]+ is ([a-z]+),"', story.text).group(1)
    wrong = "red" if colour != "red" else "blue"
    head, _, tail = story.text.rpartition(f" is {colour},")
    with pytest.raises(UserError):
        storyworld.parse(f"{head} is {wrong},{tail}")


# The probabilities.


def _reachable() -> list[Choice]:
    return [*lists.LISTS.values(), *(c.with_article() for c in map(lists.LISTS.get, _ARTICLED))]


_ARTICLED = ("COLOURS", "THINGS", "FOODS", "ANIMALS", "ADJECTIVES", "TRAITS")


def test_probabilities_of_every_list_sum_to_one():
    for choice in _reachable():
        assert choice.total == sum(option.weight for option in choice.options)
        assert all(option.weight > 0 for option in choice.options)
        subset = (
            choice.without((choice.options[0].value,))
            if len({o.value for o in choice.options}) > 1
            else choice
        )
        assert subset.total == subset.cumulative[-1]


def test_the_text_of_a_tiny_grammar_has_probabilities_that_sum_to_one():
    """Enumerate a grammar whole: every text once, its surprise -log of its probability."""
    words: dict[str, Choice] = {}
    words["COLOURS"] = Choice("COLOURS", [Option("red", 3), Option("rose", 1)], words)
    top = Choice(
        "TOP",
        [Option("a {c=COLOURS} cat, {c} and {=COLOURS/c}.", 1), Option("no cat.", 2)],
        words,
    )
    mass: dict[str, float] = collections.defaultdict(float)
    grid = 24
    for draws in np.ndindex(grid, grid):
        told = teller.Teller(iter([(d + 0.5) / grid for d in (*draws, 0)]).__next__)
        told.choose(top)
        mass[told.text()] += grid**-2
        assert told.surprise() == pytest.approx(
            math.log(3 / 2)
            if told.text() == "no cat."
            else math.log(3) + math.log(4 / 3 if told.text().startswith("a red") else 4)
        )
    assert sum(mass.values()) == pytest.approx(1.0)
    assert mass == pytest.approx(
        {"no cat.": 2 / 3, "a red cat, red and rose.": 1 / 4, "a rose cat, rose and red.": 1 / 12}
    )
    reader = teller.Reader("a red cat, red and rose.")
    reader.choose(top)
    charged = {place: nats for place, nats in enumerate(reader.surprises) if nats}
    assert charged == pytest.approx({0: math.log(3), 3: math.log(4 / 3)})


def test_empirical_frequencies_are_the_stated_probabilities():
    """Count the options of every list, where nothing was excluded from it: chi-squared."""
    counts: dict[str, collections.Counter] = collections.defaultdict(collections.Counter)
    for key in range(1500):
        told = _told(key)
        for option, nats in zip(told.picks, told.nats, strict=True):
            whole = lists.LISTS[option.source.removeprefix("a ")]
            if nats == math.log(whole.total / option.weight):
                counts[option.source][option.index] += 1
    tested = 0
    for source, seen in counts.items():
        whole = lists.LISTS[source.removeprefix("a ")]
        drawn = sum(seen.values())
        if len(whole.options) < 2 or drawn * min(o.weight for o in whole.options) < 5 * whole.total:
            continue
        expected = [drawn * option.weight / whole.total for option in whole.options]
        distance = sum((seen[n] - e) ** 2 / e for n, e in enumerate(expected))
        degrees = len(expected) - 1
        assert distance < degrees + 5 * math.sqrt(2 * degrees) + 10, source
        tested += 1
    assert tested > 25


def test_the_draws_are_uniform():
    keys = generator._keys("train", SEED, np.arange(2000, dtype=np.uint64), 0)
    rows = np.asarray(generator._rows(keys))
    assert rows.min() >= 0.0 and rows.max() < 1.0
    counts, _ = np.histogram(rows, bins=64, range=(0, 1))
    expected = rows.size / 64
    assert ((counts - expected) ** 2 / expected).sum() < 120  # chi-squared, 63 degrees, p < 1e-4
    for step in (1, 2):
        assert abs(np.corrcoef(rows[:, 0], rows[:, step])[0, 1]) < 0.1
        assert abs(np.corrcoef(rows[:-step, 0], rows[step:, 0])[0, 1]) < 0.1


def test_a_list_whose_text_would_not_tell_the_choice_is_refused():
    with pytest.raises(ValueError, match="beginning of another"):
        Choice("BALLS", [Option("ball"), Option("balloon")], {})
    words = {"X": Choice("X", [Option("x"), Option("y")], {})}
    with pytest.raises(ValueError, match="choose again before they differ"):
        Choice("Y", [Option("a {=X} b"), Option("a {=X} c")], words)
    with pytest.raises(ValueError, match="choose again before they differ"):
        Choice("Z", [Option("a {=X}"), Option("a new")], words)


# Splits, sizes, determinism.


def test_splits_share_no_story_whatever_the_seeds():
    texts = {
        split: {s.text for seed in (0, 1) for s in storyworld.stories(split, seed, 100_000)}
        for split in storyworld.SPLITS
    }
    assert not texts["train"] & texts["valid"]
    assert not texts["train"] & texts["test"]
    assert not texts["valid"] & texts["test"]
    for split, members in texts.items():
        assert {storyworld.split_of(text) for text in members} == {split}


def test_candidates_fall_into_splits_by_their_shares():
    counts = collections.Counter(storyworld.split_of(_told(key).text()) for key in range(1200))
    assert sum(storyworld.SHARES.values()) == pytest.approx(1.0)
    for split, share in storyworld.SHARES.items():
        assert abs(counts[split] / 1200 - share) < 4.5 * math.sqrt(share * (1 - share) / 1200)


def test_mean_surprise_is_the_same_in_every_split(corpus):
    """Belonging to a split tells nothing about a story, so the floor is one for all."""
    means = {}
    for split in storyworld.SPLITS:
        surprise = np.array([s.surprise for s in storyworld.stories(split, 1, 250_000)])
        means[split] = (surprise.mean(), surprise.std() / math.sqrt(len(surprise)))
    for split in ("valid", "test"):
        difference = means[split][0] - means["train"][0]
        assert abs(difference) < 4.5 * math.hypot(means[split][1], means["train"][1])


def test_any_size_from_a_seed():
    large = storyworld.stories("valid", SEED, 200_000)
    size = sum(len(story.text) for story in large)
    assert 200_000 <= size < 200_000 + len(large[-1].text)
    small = storyworld.stories("valid", SEED, 1)
    assert small == large[:1]
    middle = storyworld.stories("valid", SEED, 77_777)
    assert middle == large[: len(middle)]


def test_a_story_is_a_function_of_seed_split_and_number():
    bulk = storyworld.stories("test", SEED, 300_000)
    assert len(bulk) > 270  # beyond one block
    for index in (0, 1, 255, 256, 270):
        assert storyworld.generate(SEED, index, "test") == bulk[index]
    assert storyworld.generate(SEED, 0) != storyworld.generate(SEED + 1, 0)
    assert storyworld.generate(-1, 0) == storyworld.generate(2**64 - 1, 0)


@pytest.mark.parametrize(
    "call",
    [
        lambda: storyworld.stories("dev", 0, 10),
        lambda: storyworld.stories("train", 0, 0),
        lambda: storyworld.generate(0, -1),
        lambda: storyworld.generate(0, 0, "dev"),
    ],
)
def test_wrong_requests_are_refused(call):
    with pytest.raises(UserError, match="storyworld"):
        call()


_DIGEST = """
import hashlib
from txf.data import storyworld
digest = hashlib.sha256()
for split in storyworld.SPLITS:
    for story in storyworld.stories(split, 0, 50_000):
        digest.update(f"{story.text}|{story.surprise:.6f}|".encode() + story.kinds)
print(digest.hexdigest())
"""


def test_the_same_bytes_in_another_process():
    """A change of this digest changes every storyworld result; _DIGEST, run by Python, makes it."""
    done = subprocess.run(
        [sys.executable, "-c", _DIGEST], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == PINNED


PINNED = "b026d4fe3ab88c9df6457f622dc7650fb14aaeb3cccd4e1c1a960f8901d635a0"


def test_stories_do_not_repeat(corpus):
    assert len({story.text for story in corpus}) == len(corpus)


# Spans.


def test_spans_cover_the_text_exactly_with_known_kinds(corpus):
    for story in corpus:
        assert len(story.kinds) == len(story.text)
    for story in corpus[:200]:
        assert story.spans[0][0] == 0
        assert story.spans[-1][1] == len(story.text)
        for (_, end, kind), (start, _, following) in zip(
            story.spans, story.spans[1:], strict=False
        ):
            assert end == start
            assert kind != following
        assert {kind for _, _, kind in story.spans} <= set(storyworld.KINDS)


def test_every_kind_occurs(corpus):
    totals = collections.Counter()
    for story in corpus[:300]:
        totals.update(story.kinds)
    assert set(totals) == set(range(len(storyworld.KINDS)))


def test_recalled_words_occur_earlier_at_the_stated_distance(corpus):
    for story in corpus:
        for start, end, kind in story.spans:
            if not kind.startswith("recall"):
                continue
            word = story.text[start:end]
            earlier = [
                m.start() for m in re.finditer(rf"\b{re.escape(word)}\b", story.text[:start])
            ]
            assert earlier, (word, story.text)
            near = start - earlier[-1] <= storyworld.NEAR
            assert near == (kind == "recall_near"), (word, start, story.text)


def test_order_spans_name_somebody_or_something_known(corpus):
    for story in corpus[:500]:
        for start, end, kind in story.spans:
            if kind == "order":
                assert story.text[start:end] in story.text[:start]


def test_pronoun_spans_are_agreeing_words(corpus):
    words = {"he", "she", "him", "her", "his", "girl", "boy"}
    for story in corpus[:500]:
        for start, end, kind in story.spans:
            if kind == "pronoun":
                assert story.text[start:end].lower() in words


def test_agreeing_forms_are_marked_as_pronouns_and_nothing_else_is():
    kinds = collections.defaultdict(set)
    for choice in lists.LISTS.values():
        for option in choice.options:
            for op in option.ops:
                if op[0] == VALUE and op[2] != KINDS.index("choice"):
                    kinds[op[1].partition(".")[2] in AGREEING].add(op[2])
    pronoun = KINDS.index("pronoun")
    assert kinds[True] == {pronoun}
    assert pronoun not in kinds[False]


# English, and the world.


def test_stories_are_plain_ascii_paragraphs(corpus):
    for story in corpus:
        assert story.text.isascii()
        assert not re.search(r"\n\n|  | \n|\n |[{}=|]| [.,!?]|\.\.|,,", story.text), story.text
        assert story.text[0].isupper()
        assert story.text[-1] in '."'
        assert story.text == story.text.strip()


def test_sentences_start_with_a_capital_and_quotes_are_paired(corpus):
    for story in corpus:
        assert not re.search(r'[.!?] "?[a-z]', re.sub(r'[!?]" [a-z]', "", story.text)), story.text
        for paragraph in story.text.split("\n"):
            assert paragraph.count('"') % 2 == 0


def test_lengths_vary_around_a_short_story(corpus):
    words = np.array([len(story.text.split()) for story in corpus])
    assert words.min() >= 60
    assert 120 <= words.mean() <= 200
    assert words.std() > 20
    assert np.mean(words > 230) < 0.05


def test_articles_agree(corpus):
    for story in corpus:
        for article, letter in re.findall(r"\b([Aa]n?) ([a-zA-Z])", story.text):
            assert (article.lower() == "an") == (letter.lower() in "aeiou"), story.text


def test_names_are_unique_and_keep_their_sex(readings):
    girls = {option.value for option in lists.LISTS["GIRLS"].options}
    boys = {option.value for option in lists.LISTS["BOYS"].options}
    assert not girls & boys
    for story, reader in readings:
        state = reader.state
        assert state["a"] != state["b"]
        for role in "ab":
            assert (state[role] in girls) == (state[role + ".he"] == "she")
        named = {n for n in girls | boys if re.search(rf"\b{n}\b", story.text)}
        assert named == {state["a"], state["b"]}


def test_a_lone_sex_meets_no_pronoun_of_the_other(corpus):
    """Where every person of a story is of one sex, no pronoun of the other occurs."""
    people = {
        option.value: option.forms[".he"]
        for name in ("CHILDREN", "GROWNUPS", "STRANGERS")
        for option in lists.LISTS[name].options
    }
    checked = 0
    for story in corpus:
        sexes = {he for n, he in people.items() if re.search(rf"\b{n}\b", story.text)}
        for lone, other in (("she", r"\b(he|him|his|boy)\b"), ("he", r"\b(she|her|girl)\b")):
            if sexes == {lone} and "lost its mother" not in story.text:
                checked += 1
                assert not re.search(other, story.text, re.IGNORECASE), story.text
    assert checked > 100


def test_what_is_eaten_is_gone(corpus):
    """After a meal the food is only spoken of in the past, by the question at home."""
    meals = 0
    for story in corpus:
        meal = re.search(r"had an? (?:\w+ )?([a-z ]+?), but \w+ had nothing\.", story.text)
        if not meal:
            continue
        meals += 1
        gone = re.search(r"They ate until [^.]*\.|, and they ate [^.]*\.|ran off\.", story.text)
        after = story.text[gone.end() :]
        food = meal.group(1).split()[-1]
        rest = re.sub(
            r'"Did you eat your [^"]*"|but the [^.]* was gone\.|and the [^.]* was gone\.', "", after
        )
        assert not re.search(rf"\b{food}\b", rest.partition("\n")[0]), story.text
    assert meals > 50


def test_what_is_given_away_is_the_others(corpus):
    swaps = 0
    for story in corpus:
        for match in re.finditer(
            r'"Where is your ([a-z ]+), (\w+)\?" asked [\w ]+\. "I gave it to '
            r'(\w+),"',
            story.text,
        ):
            thing, giver, taker = match.groups()
            swaps += 1
            assert giver != taker
            assert re.search(rf"{giver} \w+ {taker} the \w+ {thing}\b|So they swapped", story.text)
            assert f"{giver} put the" not in story.text
    assert swaps > 5


def test_a_question_is_answered_by_what_was_said(corpus):
    asked = 0
    for story in corpus:
        for thing, name, colour in re.findall(
            r'"What colour is your ([a-z ]+), (\w+)\?" asked [\w ]+\. "My \1 is (\w+),"', story.text
        ):
            asked += 1
            assert re.search(rf"\b{colour} {thing}\b", story.text), (name, story.text)
        for name in re.findall(
            r'"Who won the race to the [^"]*" asked [\w ]+\. "(\w+) did', story.text
        ):
            asked += 1
            assert re.search(rf"{name} ran like|so {name} won", story.text)
    assert asked > 50


def test_places_are_entered_before_they_are_spoken_of(readings):
    for story, reader in readings:
        place = reader.state["place"]
        first = story.text.index(f"the {place}")
        assert first < story.text.index(".", story.text.index("\n") + 1) + 60


def test_the_lexicon_is_a_few_hundred_words(corpus):
    words = collections.Counter(
        word for s in corpus for word in re.findall(r"[a-z]+", s.text.lower())
    )
    assert 500 <= len(words) <= 1200
    assert min(len(members) for members in storyworld.WORD_CLASSES.values()) >= 8
    shapes = sum(" {" in option.template for c in lists.LISTS.values() for option in c.options)
    assert shapes > 100


def test_the_floor_is_what_the_documentation_says(corpus):
    total = sum(len(story.text) for story in corpus)
    floor = sum(story.surprise for story in corpus) / total / math.log(2)
    assert 0.18 < floor < 0.22


def test_importing_does_not_touch_global_random_state():
    before = hashlib.sha256(repr(np.random.get_state()[1]).encode()).hexdigest()
    storyworld.stories("train", 0, 1000)
    assert before == hashlib.sha256(repr(np.random.get_state()[1]).encode()).hexdigest()


def test_no_predictor_beats_the_floor():
    """A good predictor that never saw these stories lies above their surprise, beyond chance.

    Characters after up to 11 characters of context, counts of all lengths interpolated as by Witten
    and Bell (1991): close to the floor where the words are determined, never below it on average.
    """
    longest = 11
    followers: dict[str, dict[str, int]] = {}
    for story in storyworld.stories("train", 3, 150_000):
        text = "\n" * longest + story.text + "\0"
        for place in range(longest, len(text)):
            for length in range(longest + 1):
                counts = followers.setdefault(text[place - length : place], {})
                counts[text[place]] = counts.get(text[place], 0) + 1

    def nats(text):
        text, total = "\n" * longest + text + "\0", 0.0
        for place in range(longest, len(text)):
            chance = 1 / 128
            for length in range(longest + 1):
                counts = followers.get(text[place - length : place])
                if counts is None:
                    break
                weight, kinds = sum(counts.values()), len(counts)
                chance = (counts.get(text[place], 0) + kinds * chance) / (weight + kinds)
            total -= math.log(chance)
        return total

    unseen = storyworld.stories("valid", 4, 15_000)
    excess = np.array([nats(story.text) - story.surprise for story in unseen])
    error = excess.std(ddof=1) / math.sqrt(len(excess))
    assert excess.mean() > -2 * error
    # It is a good predictor: far below the 128-way guess that it falls back on.
    uniform = np.mean([math.log(128) * len(story.text) for story in unseen])
    assert excess.mean() < 0.2 * uniform
