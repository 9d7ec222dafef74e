import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from txf.data import bpe, tokenizers
from txf.data.tokenizers import (
    BpeTokenizer,
    ByteTokenizer,
    CharTokenizer,
    WordTokenizer,
    check_ids,
    from_json,
    load_tokenizer,
    train_tokenizer,
)
from txf.errors import UserError

TEXTS = [
    "The red ball is not here. The red ball was here, said Mia.\n" * 5,
    'Grüße aus Köln!\t"Straße", 12345 und 67890\r\n\n  end ',
    "שלום עולם مرحبا 日本語 \U0001f600\U0001f9d1\u200d\U0001f680 e\u0301 \ufeff\x00",
    "a document may say <|endoftext|> or <|unknown|> or <|mask|>",
]
LOSSLESS = ["char", "byte", "bpe"]


@pytest.fixture(scope="module")
def trained():
    return {kind: train_tokenizer(kind, TEXTS, 300) for kind in [*LOSSLESS, "word"]}


@pytest.mark.parametrize("kind", LOSSLESS)
@pytest.mark.parametrize("text", ["", *TEXTS])
def test_decode_gives_back_what_encode_took(trained, kind, text):
    tokenizer = trained[kind]
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert ids.dtype == np.uint16
    assert 0 not in ids  # the words <|endoftext|> are text, not the special token
    assert tokenizer.token_bytes[ids].sum() == len(text.encode())
    assert [len(tokenizer.encode(text))] == [len(one) for one in tokenizer.encode_many([text])]


@settings(max_examples=50, deadline=None)
@given(text=st.text(st.characters(codec="utf-8"), max_size=40))
def test_byte_and_bpe_know_every_text(trained, text):
    for kind in ("byte", "bpe"):
        assert trained[kind].decode(trained[kind].encode(text)) == text


@pytest.mark.parametrize("kind", [*LOSSLESS, "word"])
@pytest.mark.parametrize("mask", [False, True])
def test_saved_and_loaded_is_the_same(tmp_path, kind, mask):
    tokenizer = train_tokenizer(kind, TEXTS, 280, mask)
    tokenizer.save(tmp_path / "tokenizer.json")
    again = load_tokenizer(tmp_path / "tokenizer.json")
    assert type(again) is type(tokenizer)
    assert again.to_json() == tokenizer.to_json()
    assert again.vocab_size == tokenizer.vocab_size
    assert (again.end_of_text, again.unknown, again.mask) == (0, tokenizer.unknown, tokenizer.mask)
    for text in TEXTS:
        np.testing.assert_array_equal(again.encode(text), tokenizer.encode(text))


@pytest.mark.parametrize("kind", [*LOSSLESS, "word"])
def test_mask_is_the_last_id_and_moves_no_other(trained, kind):
    masked = train_tokenizer(kind, TEXTS, 300, mask=True)
    plain = trained[kind]
    assert (plain.mask, masked.mask) == (None, plain.vocab_size)
    assert masked.vocab_size == plain.vocab_size + 1
    np.testing.assert_array_equal(masked.encode(TEXTS[0]), plain.encode(TEXTS[0]))
    assert masked.decode([masked.mask]) == "<|mask|>"
    assert masked.token_bytes[masked.mask] == 0
    # A saved tokenizer without a mask gets one where a masked language model asks for it.
    assert from_json(plain.to_json(), "here", mask=True).mask == plain.vocab_size


@pytest.mark.parametrize("kind", [*LOSSLESS, "word"])
def test_end_of_text_is_written_out(trained, kind):
    assert trained[kind].decode([0]) == "<|endoftext|>"
    assert trained[kind].token_bytes[0] == 0


@pytest.mark.parametrize("kind", [*LOSSLESS, "word"])
def test_training_is_deterministic(trained, kind):
    assert train_tokenizer(kind, TEXTS, 300).to_json() == trained[kind].to_json()


def test_characters_unseen_in_training_are_unknown():
    tokenizer = CharTokenizer.train(["abba"])
    assert tokenizer.encode("a\U0001f600b").tolist() == [2, 1, 3]
    assert tokenizer.decode([2, 1, 3]) == "a<|unknown|>b"
    assert tokenizer.vocab_size == 4


def test_words_need_two_occurrences():
    tokenizer = WordTokenizer.train(["b a b", "c a b once"])
    assert tokenizer.words == ("b", "a")
    assert tokenizer.encode("a  b\nc").tolist() == [3, 2, 1]
    assert tokenizer.decode([3, 2, 1]) == "a b <|unknown|>"


@pytest.mark.parametrize("kind", [*LOSSLESS, "word"])
def test_starts_are_first_characters(trained, kind):
    tokenizer = trained[kind]
    for text in TEXTS:
        ids, starts = tokenizer.encode_with_starts(text)
        np.testing.assert_array_equal(ids, tokenizer.encode(text))
        assert starts.shape == ids.shape
        if kind == "bpe":
            # Where tokens are whole characters, each token is the text from its start on.
            for i, start in enumerate(starts):
                piece = tokenizer.decode(ids[i : i + 1])
                assert "\ufffd" in piece or text.startswith(piece, start)
        elif kind == "word":
            assert [text[start:].split()[0] for start in starts] == text.split()
        else:
            assert (np.diff(starts) <= 1).all() and starts[0] == 0 and starts[-1] == len(text) - 1


@pytest.mark.parametrize("size", [0, 1, 256])
def test_bpe_smaller_than_its_alphabet_is_refused(size):
    with pytest.raises(UserError, match=f"data.vocab_size={size} .* 257 or more"):
        train_tokenizer("bpe", TEXTS, size)


def test_bpe_larger_than_the_text_allows_is_refused_with_the_range():
    with pytest.raises(UserError, match="choose 257 to ") as caught:
        train_tokenizer("bpe", ["abcabc abc"], 5000)
    most = int(str(caught.value).split()[-1])
    assert train_tokenizer("bpe", ["abcabc abc"], most).vocab_size == most
    assert train_tokenizer("bpe", ["abcabc abc"], 257).vocab_size == 257


def test_an_unknown_kind_names_the_known():
    with pytest.raises(UserError, match="'syllable' is unknown; choose char, byte, bpe or word"):
        train_tokenizer("syllable", TEXTS, 300)


def test_pieces_make_the_text_and_change_no_token(trained, monkeypatch):
    text = TEXTS[0] + "x" * 150 + "  two  spaces \n and a line " + TEXTS[1]
    whole = trained["bpe"].encode(text)
    for size in (61, 97):
        cut = list(bpe.pieces(text, size))
        assert "".join(cut) == text
        assert max(map(len, cut)) <= size
    spaced = TEXTS[0]
    monkeypatch.setattr(bpe, "GROUP", 83)
    monkeypatch.setattr(bpe.pieces, "__defaults__", (61,))
    np.testing.assert_array_equal(
        trained["bpe"].encode(spaced), whole[: len(trained["bpe"].encode(spaced))]
    )
    assert trained["bpe"].decode(trained["bpe"].encode(text)) == text


def test_a_long_word_takes_no_quadratic_time():
    text = "ab" * 500_000
    tokenizer = train_tokenizer("bpe", [text], 260)
    assert tokenizer.decode(tokenizer.encode(text)) == text


def library_tokenizer(special):
    import tokenizers as hf

    tokenizer = hf.Tokenizer(hf.models.BPE())
    tokenizer.pre_tokenizer = hf.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = hf.decoders.ByteLevel()
    alphabet = sorted(hf.pre_tokenizers.ByteLevel.alphabet())
    trainer = hf.trainers.BpeTrainer(vocab_size=270, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(TEXTS, trainer)
    tokenizer.add_special_tokens(special)
    return tokenizer


@pytest.mark.parametrize("special", [["<|endoftext|>", "<pad>"], ["<s>"]])
@pytest.mark.parametrize("mask", [False, True])
def test_a_tokenizer_of_the_library_is_wrapped(tmp_path, special, mask):
    library = library_tokenizer(special)
    library.add_tokens(["<|mask|>"] if mask else [])  # as a word, no special token
    (tmp_path / "tokenizer.json").write_text(library.to_str())
    tokenizer = load_tokenizer(tmp_path / "tokenizer.json", mask)
    added = "<|endoftext|>" not in special
    assert tokenizer.vocab_size == library.get_vocab_size() + added
    assert (tokenizer.mask is not None) == mask
    seen = set()
    for text in TEXTS:
        ids = tokenizer.encode(text)
        assert tokenizer.decode(ids) == text
        assert tokenizer.token_bytes[ids].sum() == len(text.encode())
        seen |= set(ids.tolist())
    # The library's id 0 is a byte, and its place was taken by the end of text.
    assert 0 not in seen and tokenizer.decode([0]) == "<|endoftext|>"
    again = from_json(tokenizer.to_json(), "here")
    np.testing.assert_array_equal(again.encode(TEXTS[0]), tokenizer.encode(TEXTS[0]))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "does not exist"),
        ("{}", "is not a tokenizer"),
        ("[1]", "is not a tokenizer"),
        ("{", "is not a tokenizer"),
        ('{"kind": "syllable", "mask": false}', "is not a tokenizer"),
        ('{"model": {"type": "nothing"}}', "is not a tokenizer"),
    ],
)
def test_a_file_that_is_no_tokenizer_is_refused(tmp_path, content, message):
    path = tmp_path / "tokenizer.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(UserError, match=message):
        load_tokenizer(path)


def test_a_folder_is_no_tokenizer(tmp_path):
    with pytest.raises(UserError, match="cannot read tokenizer"):
        load_tokenizer(tmp_path)


def test_ids_outside_the_vocabulary_are_refused(trained):
    check_ids(np.array([0, 4]), 5, "the split")
    check_ids(np.zeros(0, np.int32), 5, "the split")
    for wrong in (5, -1):
        with pytest.raises(UserError, match=f"the split has token id {wrong}, outside .* 0 to 4"):
            check_ids(np.array([0, wrong]), 5, "the split")
    for tokenizer in trained.values():
        with pytest.raises(UserError, match="outside the vocabulary"):
            tokenizer.decode([tokenizer.vocab_size])


@pytest.mark.parametrize("kind", ["byte", "bpe"])
def test_half_a_surrogate_pair_is_refused(trained, kind):
    with pytest.raises(UserError, match=r"character 1 .* surrogate"):
        trained[kind].encode("a\ud800")


def test_bytes_that_are_no_text_decode_to_a_mark():
    assert ByteTokenizer().decode([1 + 0xC3]) == "\ufffd"


def test_ids_are_as_small_as_the_vocabulary_allows():
    assert tokenizers.id_dtype(1 << 16) is np.uint16
    assert tokenizers.id_dtype((1 << 16) + 1) is np.int32
    many = "".join(map(chr, range(0x10000, 0x20000)))
    wide = CharTokenizer(many)
    assert wide.encode(many[-3:]).dtype == np.int32
    assert wide.decode(wide.encode(many)) == many


def test_the_file_of_a_char_tokenizer_is_plain_json():
    state = json.loads(CharTokenizer("ba").to_json())
    assert state == {"kind": "char", "mask": False, "characters": "ab"}


def test_bpe_is_a_file_of_the_library(trained):
    import tokenizers as hf

    library = hf.Tokenizer.from_str(trained["bpe"].to_json())
    assert library.encode(TEXTS[0]).ids == trained["bpe"].encode(TEXTS[0]).tolist()
    assert isinstance(trained["bpe"], BpeTokenizer)
