"""Each probe is solved by a reader that knows its rule, and by no reader that knows less."""

import collections
import random
import re
from functools import cache

import jax
import numpy as np
import pytest

from txf.config import default_config, set_key
from txf.data import probes
from txf.data.dataset import load_dataset

# Parameters for the tests; each other than the default, all other than each other.
SMALL = {
    "recall": {"pairs": 3, "vocab": 22, "length": 29},
    "distance_recall": {"distance": 16, "vocab": 14, "length": 31},
    "induction": {"vocab": 23, "length": 29},
    "copy": {"vocab": 5, "length": 15},
    "reverse": {"vocab": 5, "length": 16},
    "pair_shift": {"pairs": 7, "vocab": 5, "length": 13},
    "order": {"vocab": 11, "length": 7},
    "reference": {"pairs": 3, "classes": 5, "vocab": 35, "length": 11},
    "attribute": {"pairs": 3, "classes": 5, "vocab": 30, "attributes": 2, "length": 11},
    "two_relation": {"pairs": 3, "vocab": 7, "length": 11},
    "two_hop": {"pairs": 3, "vocab": 11, "length": 17},
    "masked_infilling": {"vocab": 5, "length": 17},
    "lookahead_tagging": {"classes": 3, "vocab": 21, "length": 13},
    "translation_by_rule": {"pairs": 3, "vocab": 11, "length": 17},
}
TASKS = [(name, task) for name, probe in probes.PROBES.items() for task in probe.tasks]
each_probe = pytest.mark.parametrize(("name", "task"), TASKS)


def config_of(name, task=None, examples=800, **settings):
    config = default_config()
    config.data.source = name
    config.task = task or probes.PROBES[name].tasks[0]
    config.data.examples = examples
    config.data.valid_fraction = 0.5
    settings = {**SMALL[name], **settings}
    config.data.context_length = settings.pop("length")
    for key, value in settings.items():
        set_key(config, f"data.probe.{key}", value)
    return config


@cache
def dataset_of(name, task):
    return load_dataset(config_of(name, task))


def batch_of(dataset, split="valid"):
    split = dataset.splits[split]
    rows = np.arange(split.num_rows, dtype=np.int32)
    return split.take(split.arrays, rows, rows.astype(np.uint32))


def read_rows(dataset, split="valid"):
    """For each row its words, and what is asked for: [(place, answer)]."""
    batch, tokenizer = batch_of(dataset, split), dataset.tokenizer
    words = [tokenizer.decode([i]) for i in range(dataset.vocab_size)]
    answers = dataset.labels or words
    shown = batch["source"] if "source" in batch else batch["inputs"]
    rows = []
    for row, targets, weights in zip(shown, batch["targets"], batch["weights"], strict=True):
        places = np.flatnonzero(weights)
        wanted = (
            [(int(p), answers[t]) for p, t in zip(places, targets[places], strict=True)]
            if (targets.ndim)
            else [(len(row) - 1, answers[targets])]
        )
        rows.append(([words[i] for i in row], wanted))
    return rows


# What the rules are. A reader of a language model's row sees the words up to the place.


def follows(words, place):
    """Recall and induction: the word behind the only earlier one like this."""
    (earlier,) = (i for i, word in enumerate(words[:place]) if word == words[place])
    return words[earlier + 1]


def copied(words, place):
    return words[1 + place - words.index("=")]


def reversed_(words, place):
    separator = words.index("=")
    return words[separator - 1 - (place - separator)]


def partner(words, place):
    assert words[place] == "?"
    (word,) = (word for word in words if word[0] == "a")
    return "b" + word[1:]


def role(words, place):
    _, subject, _, other, _, asked = words[:6]
    assert subject != other
    return {subject: "does", other: "suffers"}[asked]


def meant(words, place):
    kind = words[place].removeprefix("it")
    (noun,) = (word for word in words if word.startswith(f"n{kind}."))
    return noun


def property_meant(words, place):
    return meant(words, place).split(":")[1]


def two_values(words, place):
    values = dict(word.split("=") for word in words if "=" in word)
    return ",".join(values[name] for name in words[place].split("&"))


def links(words, of):
    return dict(word.split(">") for word in words if re.fullmatch(of + r"\d+>.*", word))


def steps(words, place):
    asked = words[place]
    after_a = links(words, "a")[asked] if asked[0] == "a" else asked
    return after_a if words[1] == "one" and asked[0] == "a" else links(words, "b")[after_a]


def from_both_sides(words, place):
    return words[place - 1] + words[place + 1]


def class_of_next(words, place):
    return "c" + re.match(r"w(\d+)\.", words[place + 1])[1]


def translated(sentence):
    renamed = ["t" + word[1:] for word in sentence]
    return [word for i in range(0, len(renamed), 2) for word in (renamed[i + 1], renamed[i])]


def translation(words, place):
    sentence = words[: words.index("<|endoftext|>")]
    return [*translated(sentence), "<|endoftext|>"][place]


def translation_in_a_row(words, place):
    sign = words.index("=")
    return [*translated(words[1:sign]), "<|endoftext|>"][place - sign]


RULES = {
    "recall": follows,
    "distance_recall": follows,
    "induction": follows,
    "copy": copied,
    "reverse": reversed_,
    "pair_shift": partner,
    "order": role,
    "reference": meant,
    "attribute": property_meant,
    "two_relation": two_values,
    "two_hop": steps,
    "masked_infilling": from_both_sides,
    "lookahead_tagging": class_of_next,
    "translation_by_rule": translation,
}


def rule_of(name, task):
    if task == "language_model":
        rule = {**RULES, "translation_by_rule": translation_in_a_row}[name]
        return lambda words, place: rule(words[: place + 1], place)
    return RULES[name]


def score(reader, rows):
    hits = [reader(words, place) == answer for words, wanted in rows for place, answer in wanted]
    return sum(hits) / len(hits), len(hits)


@each_probe
@pytest.mark.parametrize("split", ["train", "valid", "test"])
def test_a_reader_with_the_rule_reaches_the_ceiling(name, task, split):
    dataset = dataset_of(name, task)
    rows = read_rows(dataset, split)
    assert all(wanted for _, wanted in rows)
    assert score(rule_of(name, task), rows)[0] == probes.PROBES[name].ceiling == 1.0


@each_probe
def test_the_shortest_row_is_enough(name, task):
    least = probes.chosen_probe(config_of(name, task)).needs(task)
    rows = read_rows(load_dataset(config_of(name, task, examples=60, length=least)))
    assert score(rule_of(name, task), rows)[0] == 1.0
    (problem,) = probes.check_probe(config_of(name, task, length=least - 1))
    assert problem.startswith(f"data.context_length={least - 1} is too short")
    assert f"a row takes {least} with" in problem


# What readers do that lack the mechanism, each as the probe's `guess` has it.


def guesses(name, task):
    chance = random.Random(7)
    values = probes.parameters(probes.PROBES[name]) | SMALL[name]

    def any_word(pattern):
        return lambda words, place: chance.choice([w for w in words if re.fullmatch(pattern, w)])

    def any_place(words, place):
        return chance.choice(words[1 : words.index("=")])

    def paired(words, place):
        first = words[1 : 1 + 2 * values["pairs"]]
        return chance.choice([word for word in first if word[0] == "v"])

    def another(words, place):
        half = words[1 : 1 + (len(words) + 1) // 2]
        return chance.choice([word for word in half if word != words[place]])

    def any_two(words, place):
        return ",".join(chance.sample([w.split("=")[1] for w in words if "=" in w], 2))

    def one_step(words, place):
        assert words[place] in links(words, "a")
        return chance.choice(list(links(words, "b").values()))

    def any_property(words, place):
        return chance.choice([word for word in words if ":" in word]).split(":")[1]

    def any_source(words, place):
        if task == "language_model":
            words = [*words[1 : words.index("=")], "<|endoftext|>"]
        source = words[: words.index("<|endoftext|>") + 1]
        return chance.choice(source).replace("s", "t")

    return {
        "recall": paired,
        "distance_recall": lambda words, place: f"v{chance.randrange(values['vocab'] // 2)}",
        "induction": another,
        "copy": any_place,
        "reverse": any_place,
        "pair_shift": lambda words, place: f"b{chance.randrange(values['pairs'])}",
        "order": lambda words, place: chance.choice(["does", "suffers"]),
        "reference": any_word(r"n\d+\.\d+"),
        "attribute": any_property,
        "two_relation": any_two,
        "two_hop": one_step,
        "masked_infilling": lambda words, place: (
            words[place - 1] + f"r{chance.randrange(values['vocab'])}"
        ),
        "lookahead_tagging": lambda words, place: f"c{chance.randrange(values['classes'])}",
        "translation_by_rule": any_source,
    }[name]


@each_probe
def test_a_reader_without_it_is_at_chance(name, task):
    dataset = dataset_of(name, task)
    expected = dataset.splits["valid"].chance
    found, count = score(guesses(name, task), read_rows(dataset))
    # Answers of a row are not independent of each other: allow for that with a wider interval.
    assert found == pytest.approx(expected, abs=5 * np.sqrt(expected * (1 - expected) / count))
    assert 0 < expected <= 2 / 3


def learned_table(key, rows):
    """A reader that knows by heart which answer was most common for a key."""
    table = collections.defaultdict(collections.Counter)
    for words, wanted in rows:
        for place, answer in wanted:
            table[key(words, place)][answer] += 1
    best = {known: counts.most_common(1)[0][0] for known, counts in table.items()}
    return lambda words, place: best.get(key(words, place))


def test_no_bag_of_words_tells_who_did_it():
    rows = read_rows(load_dataset(config_of("order", examples=3000)), "train")
    half = len(rows) // 2
    bag = learned_table(lambda words, place: tuple(sorted(words)), rows[:half])
    sentence = learned_table(lambda words, place: tuple(words), rows[:half])
    known = [row for row in rows[half:] if sentence(row[0], 0) is not None]
    assert len(known) > 100
    assert score(sentence, known)[0] == 1.0
    assert score(bag, known)[0] < 0.65


def test_nouns_of_held_out_sentences_never_meet_in_training():
    dataset = dataset_of("order", "classification")
    met = {
        split: {frozenset((words[1], words[3])) for words, _ in read_rows(dataset, split)}
        for split in dataset.splits
    }
    assert not met["train"] & met["valid"]
    assert not met["train"] & met["test"]
    assert not met["valid"] & met["test"]
    nouns = {split: frozenset().union(*pairs) for split, pairs in met.items()}
    assert nouns["valid"] <= nouns["train"]


@pytest.mark.parametrize("name", ["induction", "two_hop", "recall", "reference"])
def test_no_table_of_bigrams_knows_the_answer(name):
    dataset = dataset_of(name, "language_model")
    table = learned_table(lambda words, place: words[place], read_rows(dataset, "train"))
    assert score(table, read_rows(dataset))[0] < 1.6 * dataset.splits["valid"].chance


def test_no_table_of_words_tags_what_comes():
    dataset = dataset_of("lookahead_tagging", "tagging")
    table = learned_table(lambda words, place: words[place], read_rows(dataset, "train"))
    assert score(table, read_rows(dataset))[0] < 0.4


def test_a_reader_that_mixes_two_values_evenly_is_right_half_the_time():
    chance = random.Random(3)

    def mixed(words, place):
        values = two_values(words, place).split(",")
        return ",".join(chance.sample(values, 2))

    assert score(mixed, read_rows(dataset_of("two_relation", "language_model")))[0] < 0.55


def test_single_steps_are_asked_for_in_training_only():
    dataset = dataset_of("two_hop", "language_model")
    asked = {
        split: collections.Counter(
            (words[1], words[place][0], answer[0])
            for words, wanted in read_rows(dataset, split)
            for place, answer in wanted
        )
        for split in dataset.splits
    }
    train = asked["train"]
    assert set(train) == {("one", "a", "b"), ("one", "b", "c"), ("two", "a", "c")}
    assert train["one", "a", "b"] == pytest.approx(train["one", "b", "c"], rel=0.1)
    assert train["two", "a", "c"] / train.total() == pytest.approx(0.5, abs=0.1)
    assert set(asked["valid"]) == set(asked["test"]) == {("two", "a", "c")}


def test_pairs_shift_between_training_and_the_other_splits():
    dataset = dataset_of("pair_shift", "language_model")
    places = {
        split: {
            next(i for i, word in enumerate(words) if word[0] == "a")
            for words, _ in read_rows(dataset, split)
        }
        for split in dataset.splits
    }
    assert places["train"] == set(range(1, 6))
    assert places["valid"] == places["test"] == set(range(6, 12))


def test_each_row_asks_at_every_distance_once():
    dataset = dataset_of("distance_recall", "language_model")
    assert dataset.splits["valid"].kinds == ("distance_4", "distance_8", "distance_16")
    batch = batch_of(dataset)
    for (words, wanted), kinds in zip(read_rows(dataset), batch["kinds"], strict=True):
        distances = {place: place - words.index(words[place]) for place, _ in wanted}
        assert sorted(distances.values()) == [4, 8, 16]
        assert all(distance == 4 << kinds[place] for place, distance in distances.items())


def test_pairs_of_a_distance_stand_everywhere():
    dataset = load_dataset(config_of("distance_recall", examples=4000))
    starts = collections.Counter(
        words.index(words[place])
        for words, wanted in read_rows(dataset, "train")
        for place, _ in wanted
        if place - words.index(words[place]) == 16
    )
    # 15 slots of two tokens, the query 8 slots behind the pair.
    assert set(starts) == {1 + 2 * slot for slot in range(7)}
    assert max(starts.values()) < 1.3 * min(starts.values())


def test_recall_at_the_scale_of_its_paper():
    settings = {"vocab": 8192, "pairs": 64, "length": 512}
    dataset = load_dataset(config_of("recall", examples=20, **settings))
    assert dataset.vocab_size == 8194
    rows = read_rows(dataset, "train")
    assert score(follows, rows) == (1.0, 20 * 64)


def test_queries_of_recall_fall_into_slots_by_a_power_law():
    settings = {"pairs": 1, "length": 15, "power_a": 0.25, "vocab": 8}
    rows = read_rows(load_dataset(config_of("recall", examples=6000, **settings)), "train")
    counts = collections.Counter((wanted[0][0] - 3) // 2 for _, wanted in rows)
    expected = np.arange(1, 7) ** (0.25 - 1)
    expected = 6000 * expected / expected.sum()
    found = [counts[slot] for slot in range(6)]
    np.testing.assert_allclose(found, expected, atol=4 * np.sqrt(expected.max()))


def test_nothing_stands_between_queries_that_are_not_surrounded():
    rows = read_rows(load_dataset(config_of("recall", examples=40, random_non_queries=False)))
    for words, wanted in rows:
        places = {place for place, _ in wanted}
        rest = {word for place, word in enumerate(words) if place >= 7 and place not in places}
        assert rest == {"."}


@each_probe
def test_rows_do_not_depend_on_how_many_there_are(name, task):
    few, many = (
        load_dataset(config_of(name, task, examples=count)).splits["train"].arrays
        for count in (37, 53)
    )
    assert few.keys() == many.keys()
    for key, array in few.items():
        np.testing.assert_array_equal(array, many[key][:37])


def test_rows_go_on_over_the_border_of_a_block():
    split = load_dataset(config_of("pair_shift", examples=4099)).splits["train"]
    assert split.num_rows == 4099
    rows = {row.tobytes() for row in split.arrays["inputs"]}
    assert len(rows) > 4000
    again = load_dataset(config_of("pair_shift", examples=4097)).splits["train"]
    np.testing.assert_array_equal(split.arrays["inputs"][:4097], again.arrays["inputs"])


@each_probe
def test_seeds_and_splits_draw_other_rows(name, task):
    first = load_dataset(config_of(name, task, examples=60))
    config = config_of(name, task, examples=60)
    config.data.seed = 1
    other = load_dataset(config)
    key = "source" if "source" in first.splits["train"].arrays else "inputs"
    train, valid, test = (first.splits[s].arrays[key][:5] for s in ("train", "valid", "test"))
    for rows in (other.splits["train"].arrays[key][:5], valid, test):
        assert not np.array_equal(rows, train)
    again = load_dataset(config)
    np.testing.assert_array_equal(
        again.splits["test"].arrays[key], other.splits["test"].arrays[key]
    )


@each_probe
def test_a_batch_is_the_same_inside_a_compiled_program(name, task):
    split = dataset_of(name, task).splits["valid"]
    rows = np.array([5, 2, 11], np.int32)
    plain = split.take(split.arrays, rows, rows.astype(np.uint32))
    arrays = jax.tree.map(jax.numpy.asarray, split.arrays)
    compiled = jax.jit(split.take)(arrays, rows, rows.astype(np.uint32))
    assert plain.keys() == compiled.keys()
    for key, value in plain.items():
        assert value.dtype == compiled[key].dtype
        np.testing.assert_array_equal(value, compiled[key])
    assert plain["targets"].dtype == np.int32
    assert plain["weights"].dtype == np.float32


@each_probe
def test_answers_alone_have_weight(name, task):
    dataset = dataset_of(name, task)
    batch, split = batch_of(dataset), dataset.splits["valid"]
    assert batch["weights"].sum() == split.tokens
    assert set(np.unique(batch["weights"])) <= {0.0, 1.0}
    if "segments" in batch and batch["targets"].ndim == 2:
        assert (batch["weights"] <= batch["segments"]).all()
    assert split.num_rows == 400
    assert split.text_bytes == 0


@each_probe
def test_every_parameter_changes_the_rows(name, task):
    base = dataset_of(name, task)
    changes = {
        "pairs": 2,
        "vocab": {"attribute": 60, "lookahead_tagging": 24, "reference": 40}.get(name, 13),
        "classes": {"attribute": 6, "reference": 7}.get(name, 7),
        "attributes": 3,
        "distance": 8,
        "power_a": 0.5,
        "random_non_queries": False,
    }
    for key in probes.parameters(probes.PROBES[name]):
        other = load_dataset(config_of(name, task, **{key: changes[key]}))
        rows = [
            [words for words, _ in read_rows(dataset, "train")[:50]] for dataset in (base, other)
        ]
        assert rows[0] != rows[1], key


@each_probe
def test_notes_say_chance_and_ceiling(name, task):
    dataset = dataset_of(name, task)
    chance = dataset.splits["valid"].chance
    assert any(note.startswith(f"chance {chance:.4g}: a reader that ") for note in dataset.notes)
    assert any(note.endswith("ceiling 1") for note in dataset.notes)
    assert dataset.notes[0].startswith(f"{name}: ")


def test_rows_that_come_again_are_counted():
    dataset = load_dataset(config_of("translation_by_rule", vocab=2, pairs=1))
    assert "valid: 400 of 400 rows are rows of training too" in dataset.notes
    assert not any("of training" in note for note in dataset_of("order", "classification").notes)


@each_probe
def test_a_run_is_reopened_with_its_own_tokenizer_only(name, task):
    from txf.data.tokenizers import from_json
    from txf.errors import UserError

    config = config_of(name, task, examples=20)
    own = dataset_of(name, task).tokenizer
    reopened = load_dataset(config, from_json(own.to_json(), "here"))
    assert reopened.tokenizer.to_json() == own.to_json()
    other = dataset_of(*next(pair for pair in TASKS if pair[0] != name)).tokenizer
    with pytest.raises(UserError, match="made by another probe"):
        load_dataset(config, other)


class TestEvaluation:
    """Loss and accuracy are those of the answers; metrics carry chance and ceiling."""

    def evaluate(self, name, choose):
        from txf.training.evaluation import evaluate

        split = load_dataset(config_of(name, examples=100)).splits["valid"]

        def step(params, batch):
            choice = choose(batch)
            nats = np.float32(choice != batch["targets"])
            return {"nats": jax.numpy.asarray(nats), "choice": jax.numpy.asarray(choice)}

        return split, evaluate(step, None, split, batch_size=7)

    def test_a_perfect_reader(self):
        # Wrong wherever nothing is asked for.
        split, found = self.evaluate(
            "distance_recall", lambda batch: np.where(batch["weights"] > 0, batch["targets"], 7)
        )
        assert found["accuracy"] == found["ceiling"] == 1.0
        assert found["chance"] == 1 / 7
        assert found["loss"] == 0
        assert all(found[f"accuracy_{kind}"] == 1.0 for kind in split.kinds)
        assert "bits_per_byte" not in found

    def test_a_reader_that_forgets_what_is_far(self):
        _, found = self.evaluate(
            "distance_recall", lambda batch: np.where(batch["kinds"] < 2, batch["targets"], 1)
        )
        assert found["accuracy"] == pytest.approx(2 / 3)
        assert found["accuracy_distance_8"] == 1.0
        assert found["accuracy_distance_16"] == 0.0
        assert found["loss_distance_16"] == 1.0


class TestDraws:
    draws = probes.loading.Draws(3, "train", 0, 4000)

    def test_distinct_numbers_are_each_as_likely_in_each_place(self):
        numbers = self.draws.distinct("a", 3, 5)
        assert (np.sort(numbers, axis=1)[:, 1:] != np.sort(numbers, axis=1)[:, :-1]).all()
        counts = np.array([np.bincount(column, minlength=5) for column in numbers.T])
        np.testing.assert_allclose(counts, 800, atol=4.5 * np.sqrt(800 * 0.8))

    def test_all_of_a_few_can_be_drawn(self):
        numbers = self.draws.distinct("b", 4, 4)
        assert (np.sort(numbers, axis=1) == np.arange(4)).all()
        assert len(np.unique(numbers, axis=0)) == 24

    def test_purposes_do_not_share_numbers(self):
        one, two = (self.draws.uniform(purpose, 2) for purpose in ("a", "b"))
        assert not np.intersect1d(one, two).size

    def test_weighted_choices_come_in_the_order_of_their_draws(self):
        weights = np.array([1.0, 2.0, 5.0])
        chosen = self.draws.weighted("c", 2, weights)
        first = np.bincount(chosen[:, 0], minlength=3) / 4000
        np.testing.assert_allclose(first, weights / 8, atol=0.035)
        after_two = chosen[chosen[:, 0] == 2, 1]
        assert (after_two == 1).mean() == pytest.approx(2 / 3, abs=0.05)


@pytest.mark.parametrize(
    ("name", "settings", "problem"),
    [
        ("recall", {"pairs": 12}, r"data.probe.pairs=12 needs as many keys, and .*vocab=22 has 11"),
        ("recall", {"distance": 8}, "data.probe.distance=8 means nothing to data.source='recall'"),
        ("distance_recall", {"distance": 12}, "data.probe.distance=12 takes a power of two"),
        ("distance_recall", {"vocab": 4}, "data.probe.vocab=4 has 2 keys.*takes 3; try 6"),
        ("induction", {"length": 47}, "data.context_length=47 is too long .* at most 46"),
        ("order", {"vocab": 5}, "data.probe.vocab=5 nouns are too few"),
        ("reference", {"classes": 6}, "data.probe.classes=6 does not divide .*; try 36 nouns"),
        ("reference", {"pairs": 6}, "data.probe.pairs=6 nouns of a row are of different classes"),
        ("attribute", {"attributes": 4}, "data.probe.attributes=4 does not divide the 6 nouns"),
        ("two_relation", {"pairs": 1}, "data.probe.pairs=1 leaves no two things"),
        ("two_relation", {"vocab": 2}, "data.probe.pairs=3 needs as many values"),
        ("two_hop", {"vocab": 200}, "data.source='two_hop' has 80602 words .*, more than 65533"),
        ("two_hop", {"pairs": 12, "length": 40}, "data.probe.pairs=12 needs as many symbols"),
        ("lookahead_tagging", {"classes": 4}, "data.probe.classes=4 takes 2 or more"),
    ],
)
def test_bad_parameters_are_told_in_one_line(name, settings, problem):
    from txf.data.dataset import check_data

    (line,) = check_data(config_of(name, **settings))
    assert re.match(problem, line)


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("task", "tagging", "task='tagging' is not what data.source='recall' asks; set 'language_"),
        ("data.path", "a.txt", "data.path='a.txt' means nothing to data.source='recall'"),
        ("data.tokenizer", "byte", "data.tokenizer='byte' means nothing .*; leave it 'char'"),
        ("data.stride", 1, "data.stride=1 means nothing"),
        ("data.valid_fraction", 0.0, "data.valid_fraction=0.0 leaves nothing to validate on"),
    ],
)
def test_what_a_probe_does_not_read_is_refused(key, value, problem):
    from txf.data.dataset import check_data

    config = config_of("recall")
    set_key(config, key, value)
    (line,) = check_data(config)
    assert re.match(problem, line)


def test_parameters_of_probes_are_refused_elsewhere():
    from txf.data.dataset import check_data

    config = default_config()
    config.data.probe.pairs = 3
    (line,) = check_data(config)
    assert line.startswith("data.probe.pairs=3 means nothing to data.source='storyworld'")


def test_every_key_is_some_probes():
    keys = {key for probe in probes.PROBES.values() for key in probes.parameters(probe)}
    assert keys == set(default_config().data.probe)


class TestConfigFile:
    """configs/probe.py follows the probe that is chosen."""

    @staticmethod
    def load(words):
        from experiments.common import load_config

        return load_config("configs/probe.py", words)

    @each_probe
    def test_every_probe_is_a_run(self, name, task):
        from txf.config import validate

        words = [f"--config.data.source={name}", "--config.data.examples=20"]
        if task != probes.PROBES[name].tasks[0]:
            words.append(f"--config.task={task}")
        config = self.load(words)
        validate(config)
        assert config.task == task
        assert len(load_dataset(config).splits) == 3

    @pytest.mark.parametrize(
        ("name", "task"),
        [
            ("copy", "language_model"),
            ("order", "classification"),
            ("masked_infilling", "masked_language_model"),
            ("lookahead_tagging", "tagging"),
            ("translation_by_rule", "translation"),
        ],
    )
    def test_models_answer_what_is_asked(self, name, task):
        from txf.nn.build import build_model

        words = ["--config.data.examples=20", "--config.model.depth=1", "--config.model.width=4"]
        config = self.load([*words, f"--config.data.source={name}"])
        assert config.task == task
        dataset = load_dataset(config)
        model = build_model(
            config.model,
            dataset.vocab_size,
            config.data.context_length,
            task=task,
            num_classes=dataset.num_classes,
        )
        batch = batch_of(dataset)
        given = {key: batch[key] for key in ("source", "source_segments") if key in batch}
        logits = jax.eval_shape(
            lambda batch, given: model.init_with_output(
                jax.random.key(0), batch["inputs"], batch.get("segments"), **given
            )[0],
            batch,
            given,
        )
        assert logits.shape[:-1] == batch["targets"].shape
        assert batch["targets"].max() < logits.shape[-1]

    def test_what_was_given_is_kept(self):
        words = ["--config.data.source=two_hop", "--config.model.depth=1"]
        config = self.load(words)
        assert config.model.depth == 1
        assert self.load(words[:1]).model.depth == 2

    def test_rows_have_room_for_what_is_asked(self):
        words = ["--config.data.source=recall", "--config.data.probe.pairs=12"]
        assert self.load(words).data.context_length == 49

    def test_a_task_that_the_probe_does_not_ask_is_refused(self):
        from txf.config import ConfigError, validate

        words = ["--config.data.source=order", "--config.task=language_model"]
        with pytest.raises(ConfigError, match=r"is not what data.source='order' asks"):
            validate(self.load(words))
