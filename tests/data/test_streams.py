import jax
import numpy as np
import pytest

from txf.config import default_config
from txf.data import streams
from txf.data.dataset import load_dataset
from txf.data.sources import Corpus
from txf.data.streams import encode_stream, stream_split, token_kinds
from txf.data.tokenizers import train_tokenizer
from txf.errors import UserError

TEXTS = ["a red ball", "the blue cart is red\n(very)", "x"]
KINDS = [bytes(2) + b"\1\1\1" + bytes(5), bytes(4) + b"\2\2\2\2" + bytes(19), b"\3"]


@pytest.fixture
def config():
    config = default_config()
    config.data.context_length = 7
    return config


def every_row(split):
    rows = np.arange(split.num_rows, dtype=np.int32)
    return split.take(split.arrays, rows, rows.astype(np.uint32))


@pytest.mark.parametrize("kind", ["char", "byte"])
def test_a_stream_is_documents_between_ends(kind):
    tokenizer = train_tokenizer(kind, TEXTS, 0)
    stream, marks = encode_stream(Corpus(TEXTS, KINDS), tokenizer)
    expected = "<|endoftext|>" + "".join(f"{text}<|endoftext|>" for text in TEXTS)
    assert tokenizer.decode(stream) == expected
    assert bytes(marks) == b"\0" + b"".join(kinds + b"\0" for kinds in KINDS)
    plain, nothing = encode_stream(Corpus(TEXTS), tokenizer)
    np.testing.assert_array_equal(plain, stream)
    assert nothing is None


def test_a_token_takes_the_kind_of_its_word():
    text, kinds = "a red  ball", bytes([4, 0, 1, 1, 1, 5, 6, 2, 2, 3, 3])
    # "a", " red", " ", " ba", "ll"
    starts = np.array([0, 1, 5, 6, 9])
    assert token_kinds(text, kinds, starts).tolist() == [4, 1, 5, 2, 3]


@pytest.mark.parametrize("kind", ["char", "byte", "bpe"])
@pytest.mark.parametrize("packing", ["windows", "documents", "packed"])
def test_kinds_follow_their_words_whatever_the_tokenizer(config, kind, packing):
    tokenizer = train_tokenizer(kind, TEXTS * 9, 270)
    config.data.packing = packing
    corpus = Corpus(TEXTS, KINDS, floor_nats=1.5)
    split, _ = stream_split(config, "valid", corpus, ("other", "red", "blue", "x"), tokenizer)
    assert (split.floor_nats, split.kinds) == (1.5, ("other", "red", "blue", "x"))
    batch = every_row(split)
    assert batch["kinds"].dtype == np.uint8
    for number, word in enumerate(["red", "blue", "x"], 1):
        chosen = (batch["kinds"] == number) & (batch["weights"] > 0)
        assert tokenizer.decode(batch["targets"][chosen]).strip() == word


@pytest.mark.parametrize("task", ["language_model", "masked_language_model"])
@pytest.mark.parametrize("packing", ["windows", "documents", "packed"])
@pytest.mark.parametrize("tokenizer", ["char", "byte", "bpe"])
def test_evaluation_predicts_each_token_once(config, task, packing, tokenizer):
    config.task, config.data.packing = task, packing
    config.data.masked_fraction = 0.4
    made = train_tokenizer(tokenizer, TEXTS * 9, 270, mask=task != "language_model")
    corpus = Corpus(TEXTS * 5, floor_nats=2.5)
    split, _ = stream_split(config, "valid", corpus, (), made)
    batch = every_row(split)
    weights = batch["weights"]
    assert weights.sum() == split.tokens
    predicted = batch["targets"][weights > 0]
    assert made.token_bytes[predicted].sum() == split.text_bytes
    if task == "language_model":
        stream = split.arrays["tokens"]
        np.testing.assert_array_equal(np.sort(predicted), np.sort(stream[1:]))
        assert split.text_bytes == sum(map(len, TEXTS * 5))
        assert split.floor_nats == 2.5
    else:
        assert 0.2 * split.arrays["tokens"].size < split.tokens
        assert not (predicted == 0).any()
        assert (batch["inputs"] == made.mask).any()
        assert split.floor_nats is None  # the text's surprise is not that of its gaps
    device = jax.jit(split.take)(jax.device_put(split.arrays), *[np.arange(3, dtype=np.uint32)] * 2)
    for name in batch:
        np.testing.assert_array_equal(device[name], batch[name][:3])


def test_takes_are_known_by_function_and_hashable_keywords(config):
    tokenizer = train_tokenizer("byte", [], 0, mask=True)
    for config.task in ("language_model", "masked_language_model"):
        for config.data.packing in ("windows", "documents", "packed"):
            one, two = (
                stream_split(config, "valid", Corpus(TEXTS), (), tokenizer)[0].take
                for _ in range(2)
            )
            assert one.func is two.func
            assert hash(tuple(one.keywords.items())) == hash(tuple(two.keywords.items()))


def test_only_training_windows_overlap(config):
    config.data.stride = 1
    tokenizer = train_tokenizer("byte", [], 0)
    train, valid = (
        stream_split(config, name, Corpus(TEXTS), (), tokenizer)[0] for name in ("train", "valid")
    )
    size = train.arrays["tokens"].size
    assert (train.num_rows, valid.num_rows) == (size - 7, -(-(size - 1) // 7))
    assert train.tokens == valid.tokens == size - 1


def test_padding_is_told(config):
    config.data.packing = "documents"
    tokenizer = train_tokenizer("byte", [], 0)
    split, notes = stream_split(config, "valid", Corpus(["ab", "abcdefghi"]), (), tokenizer)
    assert split.num_rows == 3
    assert notes == ["valid: 3 rows, 38.1% of them padding"]


def test_masking_needs_a_mask(config):
    config.task = "masked_language_model"
    with pytest.raises(UserError, match=r"has no <\|mask\|>"):
        stream_split(config, "valid", Corpus(TEXTS), (), train_tokenizer("byte", [], 0))


def test_storyworld_knows_its_floor_and_its_kinds(tiny_config):
    from txf.data import storyworld

    tiny_config.data.bytes, tiny_config.data.valid_fraction = 1_000, 0.2
    tiny_config.data.test_fraction = 0.0
    dataset = load_dataset(tiny_config)
    assert list(dataset.splits) == ["train", "valid"]
    split = dataset.splits["valid"]
    stories = storyworld.stories("valid", 0, 200)
    assert split.documents == len(stories)
    assert split.text_bytes == sum(len(story.text) for story in stories) >= 200
    assert split.floor_nats == pytest.approx(sum(story.surprise for story in stories))
    assert split.kinds == storyworld.KINDS
    kinds = every_row(split)["kinds"]
    assert 0 < kinds.max() < len(split.kinds)


@pytest.fixture
def two_stories(monkeypatch):
    """In place of the storyworld, which takes its time: two stories, whatever is asked for."""
    from txf.data import storyworld

    texts = ["A hen sat on a red cart.", "The Hen was here."]
    told = [storyworld.Story(text, 2.5, bytes(len(text))) for text in texts]
    monkeypatch.setattr(storyworld, "stories", lambda split, seed, num_bytes: told)


@pytest.mark.usefixtures("two_stories")
def test_a_tokenizer_that_is_given_or_named_is_used(tiny_config, tmp_path):
    tokenizer = train_tokenizer("bpe", TEXTS * 9, 270)
    dataset = load_dataset(tiny_config, tokenizer)
    assert dataset.tokenizer is tokenizer
    assert dataset.vocab_size == 270
    tokenizer.save(tmp_path / "tokenizer.json")
    tiny_config.data.tokenizer_path = str(tmp_path / "tokenizer.json")
    assert load_dataset(tiny_config).tokenizer.to_json() == tokenizer.to_json()


@pytest.mark.usefixtures("two_stories")
def test_a_tokenizer_that_changes_text_is_told(tiny_config, tmp_path):
    import tokenizers as hf

    library = hf.Tokenizer(hf.models.WordLevel({"[UNK]": 0, "a": 1}, unk_token="[UNK]"))
    library.normalizer = hf.normalizers.Lowercase()
    library.pre_tokenizer = hf.pre_tokenizers.Whitespace()
    library.save(str(tmp_path / "tokenizer.json"))
    tiny_config.data.context_length = 8
    tiny_config.data.tokenizer_path = str(tmp_path / "tokenizer.json")
    assert "does not give text back unchanged" in load_dataset(tiny_config).notes[0]


def test_more_tokens_than_a_device_can_number_are_refused(config, monkeypatch):
    monkeypatch.setattr(streams, "LONGEST", 20)
    with pytest.raises(UserError, match="the valid split has 42 tokens, more than the 20"):
        stream_split(config, "valid", Corpus(TEXTS), (), train_tokenizer("byte", [], 0))
