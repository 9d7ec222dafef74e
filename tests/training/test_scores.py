"""Scores equal their definitions, and count each row once and padding never."""

import itertools

import numpy as np
import pytest
import sacrebleu

import txf.beam_search
from tests.nn import tiny
from tests.training import small
from txf.data.dataset import Dataset
from txf.data.tokenizers import ByteTokenizer
from txf.training import scores
from txf.training.scores import ClassJudge, TagJudge, TranslationJudge, entities, f1, macro_f1


def test_f1_is_the_harmonic_mean_and_zero_where_nothing_is_right():
    precision, recall = 3 / 5, 3 / 7
    assert f1(3.0, 5.0, 7.0) == pytest.approx(2 / (1 / precision + 1 / recall))
    assert f1(0.0, 5.0, 7.0) == f1(0.0, 0.0, 7.0) == f1(0.0, 0.0, 0.0) == 0


def test_macro_f1_is_the_mean_over_the_classes_there_are():
    confusion = np.array([[3, 1, 0, 0], [2, 5, 0, 1], [0, 0, 0, 0], [0, 0, 0, 0]], float)
    # Class 2 neither occurs nor is chosen; class 3 is chosen once, wrongly.
    assert macro_f1(confusion) == pytest.approx((f1(3.0, 5.0, 4.0) + f1(5.0, 6.0, 8.0) + 0) / 3)
    assert macro_f1(np.diag([4.0, 1.0])) == 1


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("O O", set()),
        ("B-x I-x O", {(0, 2, "x")}),
        ("O I-x I-x", {(1, 3, "x")}),  # an I- that continues nothing begins an entity
        ("B-x B-x", {(0, 1, "x"), (1, 2, "x")}),
        ("I-x B-x I-x", {(0, 1, "x"), (1, 3, "x")}),
        ("B-x I-y I-y", {(0, 1, "x"), (1, 3, "y")}),
        ("I-x O I-x", {(0, 1, "x"), (2, 3, "x")}),
        ("B-creative-work I-creative-work", {(0, 2, "creative-work")}),
        ("B-creative-work I-creative", {(0, 1, "creative-work"), (1, 2, "creative")}),
    ],
)
def test_entities_of_examples(tags, expected):
    assert entities(tags.split()) == expected


def conlleval(tags):
    """The two questions that conlleval.pl asks between neighbouring tags."""
    found, start = set(), None
    for place, (before, tag) in enumerate(itertools.pairwise(["O", *tags, "O"])):
        changes = before[2:] != tag[2:]
        if before != "O" and (tag[0] in "BO" or changes):
            found.add((start, place, before[2:]))
        if tag != "O" and (tag[0] == "B" or before == "O" or changes):
            start = place
    return found


def test_entities_are_those_of_conlleval_for_all_short_sequences():
    for tags in itertools.product(["O", "B-x", "I-x", "B-y", "I-y"], repeat=4):
        assert entities(tags) == conlleval(tags), tags


LABELS = ("O", "B-x", "I-x", "B-y", "I-y")


def tag_batch(targets, weights):
    return {"targets": np.array(targets), "weights": np.array(weights, np.float32)}


def test_entities_are_counted_over_real_tokens_of_counted_rows():
    judge = TagJudge(LABELS)
    # What has no weight (padding, the rest of a word) neither holds nor splits an entity.
    batch = tag_batch(
        [[1, 0, 2, 0, 3], [0, 3, 4, 0, 0], [1, 1, 1, 1, 1]],
        [[1, 0, 1, 1, 1], [1, 1, 1, 0, 0], [1, 1, 1, 1, 1]],
    )
    choice = np.array([[1, 3, 2, 0, 0], [1, 3, 0, 3, 3], [3, 3, 3, 3, 3]])
    judge.see(None, batch, choice, 2)
    # Wanted: x, y; y.  Found: x; x, y that is too short.
    found = judge.scores()
    assert found["entity_precision"] == pytest.approx(1 / 3)
    assert found["entity_recall"] == pytest.approx(1 / 3)
    assert found["entity_f1"] == pytest.approx(1 / 3)
    judge.see(None, tag_batch([[3, 4]], [[1, 1]]), np.array([[3, 4]]), 1)
    assert judge.scores()["entity_f1"] == pytest.approx(
        f1(2.0, 4.0, 4.0)
    )  # sums, not a mean of scores
    assert {"entity_f1", "entity_precision", "entity_recall", "macro_f1"} == set(judge.scores())


def test_a_tagger_that_names_nothing_scores_zero():
    judge = TagJudge(LABELS)
    judge.see(None, tag_batch([[1, 2, 0]], [[1, 1, 1]]), np.zeros((1, 3), int), 1)
    found = judge.scores()
    assert found["entity_f1"] == found["entity_precision"] == found["entity_recall"] == 0


def test_tags_that_are_no_bio_have_no_entities():
    judge = TagJudge(("noun", "verb"))
    judge.see(None, tag_batch([[0, 1, 1]], [[1, 1, 0]]), np.array([[0, 1, 0]]), 1)
    assert judge.scores() == {"macro_f1": 1.0}


def test_classes_are_counted_over_batches():
    judge = ClassJudge(3)
    judge.see(None, {"targets": np.array([0, 2, 2, 1])}, np.array([0, 2, 0, 0]), 3)
    judge.see(None, {"targets": np.array([2, 0])}, np.array([2, 0]), 2)
    expected = macro_f1(np.array([[2, 0, 0], [0, 0, 0], [1, 0, 2]], float))
    assert judge.scores() == {"macro_f1": expected}


WANTED = ["der Hund schläft im Garten .", "sie liest ein Buch .", "wo ist der Bahnhof ?"]
MADE = ["der Hund schläft im Haus .", "sie liest ein Buch .", "wo liegt der Bahnhof ?"]


def rows(texts, fill):
    """Ids of texts behind each other's end of text, or without one where the row is full."""
    tokenizer = ByteTokenizer()
    ids = [tokenizer.encode(text) for text in texts]
    table = np.full((len(ids), max(map(len, ids))), fill, np.int32)
    for row, text in zip(table, ids, strict=True):
        row[: len(text)] = text
        row[len(text) : len(text) + 1] = 0
    return table


@pytest.fixture
def judge(monkeypatch):
    """A judge of translations that are MADE, whatever the model."""
    asked = []

    def beam_search(model, params, source, segments, **options):
        asked.append(options)
        return rows([MADE[int(number)] for number in source], fill=40)

    monkeypatch.setattr(txf.beam_search, "beam_search", beam_search)
    made = TranslationJudge(tiny.build(), ByteTokenizer(), beams=3, max_new_tokens=50)
    made.asked = asked
    return made


def see(judge, numbers, count):
    targets = rows([WANTED[number] for number in numbers], fill=50)
    batch = {"source": numbers, "source_segments": [1] * len(numbers), "targets": targets}
    judge.see(None, batch, targets, count)


def test_translations_are_compared_up_to_their_end_by_sacrebleu(judge):
    see(judge, [0, 1], 2)
    see(judge, [2, 0, 0], 1)
    assert judge.asked == [{"beams": 3, "max_new_tokens": 50}] * 2
    assert judge.scores() == {
        "bleu": sacrebleu.corpus_bleu(MADE, [WANTED]).score,
        "chrf": sacrebleu.corpus_chrf(MADE, [WANTED]).score,
        "exact_match": pytest.approx(1 / 3),
    }
    assert 20 < judge.scores()["bleu"] < 90


def test_a_perfect_translation_has_all_there_is(judge, monkeypatch):
    monkeypatch.setitem(globals(), "MADE", WANTED)
    see(judge, [0, 1, 2], 3)
    assert judge.scores() == pytest.approx({"bleu": 100, "chrf": 100, "exact_match": 1})


def test_each_task_has_its_judge():
    dataset = Dataset(ByteTokenizer(), 257, {}, num_classes=5, labels=LABELS)
    judges = {
        "classification": ClassJudge,
        "tagging": TagJudge,
        "translation": TranslationJudge,
        "language_model": type(None),
        "masked_language_model": type(None),
    }
    for task, kind in judges.items():
        made = scores.make_judge(small.config({"task": task}), dataset, tiny.build())
        assert type(made) is kind
        assert made is None or isinstance(made, scores.Judge)
