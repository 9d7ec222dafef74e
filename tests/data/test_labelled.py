import jax
import numpy as np
import pytest

from txf.config import default_config
from txf.data.dataset import load_dataset
from txf.errors import UserError

TASKS = {"sentiment": "classification", "conll": "tagging", "parallel": "translation"}


def config_for(source, path, tokenizer="word"):
    config = default_config()
    config.task = TASKS[source]
    config.data.source, config.data.path = source, str(path)
    config.data.tokenizer = tokenizer
    config.data.context_length = 11
    config.data.test_fraction = 0.0
    return config


@pytest.fixture
def write(tmp_path):
    """A function that writes a folder with the given files (train=..., valid=...)."""

    def folder(end, **contents):
        for name, content in contents.items():
            (tmp_path / f"{name}.{end}").write_text(content)
        return tmp_path

    return folder


def refused(config, message):
    with pytest.raises(UserError, match=message) as caught:
        load_dataset(config)
    assert "\n" not in str(caught.value)


def take_all(split):
    rows = np.arange(split.num_rows, dtype=np.int32)
    batch = split.take(split.arrays, rows, rows.astype(np.uint32))
    device = jax.jit(split.take)(jax.device_put(split.arrays), rows, rows.astype(np.uint32))
    assert batch.keys() == device.keys()
    for name in batch:
        assert batch[name].dtype == device[name].dtype
        np.testing.assert_array_equal(batch[name], device[name])
    assert batch["weights"].sum() == split.tokens
    return batch


GOOD = "text\tlabel\tfrom\n" + "".join(
    f"it is {['bad', 'good'][i % 2]} number {i}\t{['no', 'yes'][i % 2]}\tme\n" for i in range(30)
)

# Classification


@pytest.mark.parametrize("tokenizer", ["word", "char", "byte", "bpe"])
def test_texts_and_their_labels(write, tokenizer):
    config = config_for("sentiment", write("tsv", train=GOOD, valid=GOOD, test=GOOD), tokenizer)
    config.data.vocab_size, config.data.context_length = 270, 31
    dataset = load_dataset(config)
    assert (dataset.labels, dataset.num_classes) == (("no", "yes"), 2)
    assert any(note.startswith("train: 30 labels: no 15 (50.0%)") for note in dataset.notes)
    for split in dataset.splits.values():
        batch = take_all(split)
        assert batch["inputs"].shape == batch["segments"].shape == (30, 31)
        np.testing.assert_array_equal(batch["targets"], np.arange(30) % 2)
        np.testing.assert_array_equal(batch["weights"], np.ones(30))
        assert not batch["inputs"][:, 0].any()  # a text begins with the end of the one before
        assert (batch["segments"][:, 0] == 1).all()
        if tokenizer != "word":
            real = batch["inputs"][7][batch["segments"][7] > 0]
            assert dataset.tokenizer.decode(real) == "<|endoftext|>it is good number 7"


def test_csv_may_quote(write):
    rows = "".join(f'"good, number {i}\nof ""many""",{i % 2}\n' for i in range(20))
    config = config_for("sentiment", write("csv", train="text,label\n" + rows), "char")
    config.data.context_length = 64
    dataset = load_dataset(config)
    tokens = take_all(dataset.splits["train"])["inputs"][0]
    text = dataset.tokenizer.decode(tokens[tokens > 0])
    assert text.startswith("good, number ") and text.endswith('\nof "many"')
    assert sum(split.num_rows for split in dataset.splits.values()) == 20


def test_csv_quote_that_is_never_closed(write):
    content = 'text,label\ngood,1\nbad,0\n"open,1\nbad,0\n'
    refused(config_for("sentiment", write("csv", train=content)), "line 4: .*never closed")


def test_tsv_does_not_quote_and_says_so(write):
    content = GOOD + '"open and never closed\tyes\tme\n"closed"\tno\tme\n'
    dataset = load_dataset(config_for("sentiment", write("tsv", train=content, valid=GOOD), "char"))
    assert any('2 rows start with "; TSV has no quoting' in note for note in dataset.notes)
    assert '"' in dataset.tokenizer.characters
    assert dataset.splits["train"].num_rows == 32


def test_bad_rows_are_told_or_refused(write):
    bad = "no label\n\tyes\tme\nblank label\t \tme\n\n"
    config = config_for("sentiment", write("tsv", train=GOOD + bad, valid=GOOD))
    refused(
        config,
        "4 of 34 rows are bad .line 32: 1 fields instead of 3; line 33: text blank; line 34: label"
        r" blank \.\.\..; mend them, or raise data.bad_rows=0.01",
    )
    config.data.bad_rows = 0.2
    dataset = load_dataset(config)
    assert any("left out 4 bad rows of 34 (line 32: 1 fields" in note for note in dataset.notes)


def test_missing_column(write):
    folder = write("tsv", train="sentence\tlabel\na\tb\n")
    refused(config_for("sentiment", folder), r"no column text; .* reads 'sentence\\tlabel'")


def test_label_that_training_never_saw(write):
    folder = write("tsv", train=GOOD, valid=GOOD + "so so\tmaybe\tme\n")
    refused(
        config_for("sentiment", folder),
        "valid.tsv line 32: the valid split has the label 'maybe', .*; the labels are no, yes",
    )


def test_one_label_is_nothing_to_learn(write):
    content = "text\tlabel\n" + "".join(f"a {i}\tyes\n" for i in range(9))
    refused(config_for("sentiment", write("tsv", train=content)), "only the label 'yes'")


def test_header_alone(write):
    refused(config_for("sentiment", write("tsv", train="text\tlabel\n")), "has no usable row")


def test_long_texts_are_cut_and_told(write):
    config = config_for("sentiment", write("tsv", train=GOOD, valid=GOOD))
    config.data.context_length = 3
    dataset = load_dataset(config)
    note = "valid: 30 of 30 texts are longer than data.context_length=3 and were cut"
    assert f"{note} (90 tokens dropped)" in dataset.notes
    assert take_all(dataset.splits["valid"])["inputs"].shape == (30, 3)


def test_splits_of_one_file_share_no_text(write):
    config = config_for(
        "sentiment", write("tsv", all=GOOD + GOOD.split("\n", 1)[1]) / "all.tsv", "char"
    )
    config.data.context_length = 32
    config.data.valid_fraction = config.data.test_fraction = 0.2
    dataset = load_dataset(config)
    assert sum(split.num_rows for split in dataset.splits.values()) == 60
    seen = [{tuple(row) for row in take_all(split)["inputs"]} for split in dataset.splits.values()]
    assert len(seen[0] | seen[1] | seen[2]) == sum(map(len, seen)) == 30


def test_folder_without_a_train_file(write):
    refused(config_for("sentiment", write("tsv", valid=GOOD)), "a folder without a train file")


def test_folder_with_two_train_files(write):
    write("csv", train="text,label\n")
    refused(config_for("sentiment", write("tsv", train=GOOD)), "train.tsv and train.csv; keep one")


def test_pattern_for_a_table(write):
    folder = write("tsv", train=GOOD, valid=GOOD)
    refused(config_for("sentiment", folder / "*.tsv"), "matches 2 files")


def test_real_sentiment(shared_data):
    config = config_for("sentiment", shared_data("sentiment"))
    config.data.context_length = 64
    dataset = load_dataset(config)
    assert dataset.labels == ("0", "1")
    assert [split.num_rows for split in dataset.splits.values()] == [2411, 290, 299]


# Tagging

SENTENCES = "the O\ncat B-animal\nsat O\n\nthe O\nold B-animal\ncat I-animal\nran O\n\n"


def test_words_and_their_tags(write):
    folder = write("conll", train=SENTENCES, valid=SENTENCES)
    dataset = load_dataset(config_for("conll", folder))
    assert dataset.labels == ("O", "B-animal", "I-animal")
    batch = take_all(dataset.splits["valid"])
    assert batch["targets"][1].tolist() == [0, 1, 2, 0] + [0] * 7
    assert batch["segments"][1].tolist() == [1] * 4 + [0] * 7
    assert dataset.tokenizer.decode(batch["inputs"][0, :3]) == "the cat <|unknown|>"
    assert dataset.splits["valid"].tokens == 7
    assert any(note.startswith("valid: 3 of 7 tokens (42.86%)") for note in dataset.notes)


def test_conll_with_more_columns_and_documents(write):
    content = "-DOCSTART- -X- O O\n\nEU NNP I-NP B-ORG\nrejects VBZ I-VP O\n\n" * 2
    dataset = load_dataset(config_for("conll", write("conll", train=content, valid=content)))
    assert dataset.labels == ("O", "B-ORG")


def test_sentences_of_no_word_are_none(write):
    plain = write("conll", train=SENTENCES, valid=SENTENCES)
    expected = take_all(load_dataset(config_for("conll", plain)).splits["valid"])
    empty = "\n\n" + SENTENCES.replace("\n\n", "\n\n \n\n-DOCSTART- O\n\n") + "\n\n\n"
    found = take_all(load_dataset(config_for("conll", write("conll", valid=empty))).splits["valid"])
    assert found["inputs"].shape == (2, 11)
    for name in expected:
        np.testing.assert_array_equal(found[name], expected[name])


def test_bio_is_repaired_and_told(write):
    broken = "a O\nb I-x\nc I-x\nd I-y\ne B-y\nf I-y\n\n"
    folder = write("conll", train="a O\nb B-x\nc I-x\nd B-y\ne I-y\n\n", valid=broken)
    dataset = load_dataset(config_for("conll", folder))
    tags = [dataset.labels[i] for i in take_all(dataset.splits["valid"])["targets"][0, :6]]
    assert tags == ["O", "B-x", "I-x", "B-y", "B-y", "I-y"]
    (note,) = [note for note in dataset.notes if "were made B-" in note]
    assert note.startswith("valid: 2 I- tags") and note.endswith("valid.conll line 1)")


def test_tags_that_are_not_bio(write):
    wrong = SENTENCES + "a animal\n\n"
    refused(
        config_for("conll", write("conll", train=SENTENCES, valid=wrong)),
        "valid.conll line 10: .*'animal', which is not O, B-TYPE or I-TYPE",
    )
    parts = "the DET\ncat NOUN\n\nthe DET\ncat NOUN\n\n"
    dataset = load_dataset(config_for("conll", write("conll", train=parts, valid=parts)))
    assert dataset.labels == ("DET", "NOUN")


def test_lines_of_one_column_are_told_or_refused(write):
    config = config_for("conll", write("conll", train=SENTENCES + "lonely\n", valid=SENTENCES))
    refused(config, "1 of 3 rows are bad .line 10: 1 column.s., a token or its tag is missing")
    config.data.bad_rows = 0.5
    dataset = load_dataset(config)
    assert any("left out 1 bad rows of 3 (line 10" in note for note in dataset.notes)


@pytest.mark.parametrize("tokenizer", ["char", "byte"])
def test_a_word_in_pieces_is_labelled_at_its_first(write, tokenizer):
    folder = write("conll", train=SENTENCES, valid=SENTENCES)
    made = []
    for kind in ("word", tokenizer):
        config = config_for("conll", folder, kind)
        config.data.context_length = 47
        made.append(load_dataset(config).splits["valid"])
    whole, pieces = made
    assert pieces.tokens == whole.tokens
    rows = np.arange(whole.num_rows, dtype=np.int32)
    for row in rows:
        labels = []
        for split in (whole, pieces):
            batch = split.take(split.arrays, rows[row : row + 1], rows[:1].astype(np.uint32))
            labels.append(batch["targets"][batch["weights"] > 0].tolist())
        assert labels[0] == labels[1]
    firsts = batch["inputs"][batch["weights"] > 0]
    assert len(set(firsts.tolist())) == 1  # the space before each word


def test_real_entities(shared_data):
    config = config_for("conll", shared_data("ner"))
    config.data.context_length = 64
    dataset = load_dataset(config)
    assert [split.num_rows for split in dataset.splits.values()] == [3394, 1009, 1287]
    assert dataset.num_classes == 13 and dataset.labels[0] == "O"


# Translation

PAIRS = "de\tnote\ten\n" + "".join(f"die Zahl {i}\t\tnumber {i}\n" for i in range(12))


@pytest.mark.parametrize("tokenizer", ["word", "char", "byte", "bpe"])
def test_pairs_are_shifted(write, tokenizer):
    config = config_for("parallel", write("tsv", train=PAIRS, valid=PAIRS), tokenizer)
    config.data.vocab_size, config.data.context_length = 262, 17
    dataset = load_dataset(config)
    split = dataset.splits["valid"]
    batch = take_all(split)
    assert batch["source"].shape == batch["inputs"].shape == (12, 17)
    for row in range(12):
        real = batch["segments"][row] > 0
        inputs, targets = batch["inputs"][row], batch["targets"][row]
        assert inputs[0] == 0 and targets[real][-1] == 0
        np.testing.assert_array_equal(inputs[real][1:], targets[real][:-1])
        assert not inputs[~real].any() and not targets[~real].any()
        np.testing.assert_array_equal(batch["weights"][row], batch["segments"][row])
        source = batch["source"][row][batch["source_segments"][row] > 0]
        assert source[-1] == 0
        if tokenizer != "word":
            assert dataset.tokenizer.decode(source) == f"number {row}<|endoftext|>"
            assert dataset.tokenizer.decode(targets[real]) == f"die Zahl {row}<|endoftext|>"
    if tokenizer != "word":
        assert split.text_bytes == sum(len(f"die Zahl {i}") for i in range(12))


def test_empty_side_of_a_pair(write):
    config = config_for("parallel", write("tsv", train=PAIRS + "ja\t\t\n", valid=PAIRS), "char")
    refused(config, "1 of 13 rows are bad .line 14: en blank")


def test_language_that_is_not_there(write):
    config = config_for("parallel", write("tsv", train=PAIRS), "char")
    config.data.target_language = "fr"
    refused(config, r"no column fr; .* reads 'de\\tnote\\ten'")


def test_long_pairs_are_cut_and_told(write):
    dataset = load_dataset(config_for("parallel", write("tsv", train=PAIRS, valid=PAIRS), "char"))
    # "die Zahl 11" and its end are one more than a row holds.
    start = "valid: 2 of 12 target sentences are longer than data.context_length=11 and were cut"
    assert f"{start} (2 tokens dropped)" in dataset.notes
    batch = take_all(dataset.splits["valid"])
    assert batch["weights"][11].all() and batch["targets"][11].all()
    assert dataset.splits["valid"].text_bytes == 10 * 10 + 2 * 11


def test_real_pairs(shared_data):
    config = config_for("parallel", shared_data("translation"), "char")
    config.data.context_length = 64
    dataset = load_dataset(config)
    assert [split.num_rows for split in dataset.splits.values()] == [20_000, 1_000, 1_000]
