"""Strings, tables, and conversions from text to numbers."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tests.suites.frozen_graphs.row import boolean, f32, i32, i64, row, text

WORDS = text(["the cat", "a Dog ", "", " two  spaces"])
v1 = tf.compat.v1


def table(keys: Any, values: Any, default: Any) -> Any:
    """Return a table filled by constants."""
    return tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(tf.constant(keys), tf.constant(values)), default
    )


def split_words(s: tf.Tensor) -> tf.Tensor:
    return tf.strings.split(s).to_tensor("")


ROWS = [
    row("lower", tf.strings.lower, [text(["The Cat", "DOG"])], [text(["ÄÖ é"])]),
    row("lower_of_unicode", lambda s: tf.strings.lower(s, encoding="utf-8"), [text(["The Cat", "ÄÉ"])], gap="locale"),
    row("upper", tf.strings.upper, [text(["The Cat", "dog"])]),
    row("upper_of_a_scalar", tf.strings.upper, [text("dog")], forms="static old"),
    row("upper_of_a_matrix", tf.strings.upper, [text([["dog", "a"], ["b", ""]])]),
    row("joined", lambda a, b: tf.strings.join([a, b]), [text(["a", "b"]), text(["c", ""])]),
    row("joined_with_a_space", lambda a, b: tf.strings.join([a, b, a], " "), [text(["a", "b"]), text(["c", ""])]),
    row("stacked_on_a_constant", lambda s: tf.stack([tf.constant("a"), s]), [text("b")]),
    row("behind_a_constant", lambda s: tf.concat([tf.expand_dims(tf.constant("a"), 0), s], 0), [text(["b", "c"])]),
    row(
        "joined_with_one_of_two", lambda s: tf.strings.join([tf.unstack(tf.constant(["a", "b"]))[1], s]), [text(["b"])]
    ),
    row(
        "joined_with_a_column",
        lambda s: tf.strings.join([s, tf.reshape(tf.constant(["a", "b"]), [2, 1])]),
        [text([["x"], ["y"]])],
    ),
    row(
        "joined_with_a_part",
        lambda s: tf.strings.join([s, tf.split(tf.constant(["a", "b", "c", "d"]), 2)[1]]),
        [text(["x", "y"])],
    ),
    row(
        "joined_with_what_was_squeezed",
        lambda s: tf.strings.join([s, tf.squeeze(tf.constant([["a", "b"]]), 0)]),
        [text(["x", "y"])],
    ),
    row(
        "joined_with_what_was_transposed",
        lambda s: tf.strings.join([s, tf.transpose(tf.constant([["a", "b"], ["c", "d"]]))]),
        [text([["x", "y"], ["z", ""]])],
    ),
    row("added", lambda a, b: a + b, [text(["a", "b"]), text("c")]),
    row("joined_with_a_constant", lambda a: tf.strings.join(["<", a, ">"]), [text(["a", "b"])]),
    row(
        "reduce_joined",
        lambda a: tf.strings.reduce_join(a, axis=1, separator=" "),
        [text([["a", "b"], ["c", ""]])],
        forms="static",
    ),
    row(
        "reduce_joined_all",
        tf.strings.reduce_join,
        [text(["a", "b"])],
        forms="static",
    ),
    row("stripped", tf.strings.strip, [text([" a b ", "c\t\n"])], gap="no such operator on strings"),
    row("length", tf.strings.length, [text(["abc", ""])], gap="no such operator on strings"),
    row(
        "length_of_unicode",
        lambda s: tf.strings.length(s, unit="UTF8_CHAR"),
        [text(["abc", "äö"])],
        gap="no such operator on strings",
    ),
    row("equal", lambda a: a == "cat", [text(["cat", "dog"])]),
    row(
        "equal_to_each_other",
        lambda a, b: [tf.equal(a, b), tf.not_equal(a, b)],
        [text(["cat", "dog"]), text(["cat", "cat"])],
    ),
    row("where", lambda c, a, b: tf.where(c, a, b), [boolean([True, False]), text(["a", "b"]), text(["c", "d"])]),
    row("gathered", tf.gather, [text(["a", "b", "c"]), i32([2, 0])]),
    row("gathered_constants", lambda i: tf.gather(tf.constant(["a", "b", "c"]), i), [i32([2, 0])]),
    row("of_classes", lambda x: tf.gather(tf.constant(["cat", "dog", "owl"]), tf.argmax(x, 1)), [f32(4, 3)]),
    row("reshaped", lambda s: tf.reshape(s, [2, -1]), [text(["a", "b", "c", "d"])]),
    row("concatenated", lambda a, b: tf.concat([a, b], 0), [text(["a"]), text(["b", "c"])]),
    row("sliced", lambda s: s[1:3], [text(["a", "b", "c", "d"])]),
    row("expanded", lambda s: tf.tile(tf.expand_dims(s, 0), [2, 1]), [text(["a", "b"])]),
    row("full_match", lambda s: tf.strings.regex_full_match(s, "[a-z]+[0-9]?"), [text(["abc", "abc1", "A1", ""])]),
    row(
        "full_match_of_fed",
        tf.strings.regex_full_match,
        [text(["abc", "abc1"]), text("[a-z]+")],
        forms="static",
        gap="pattern",
    ),
    row(
        "full_match_of_groups",
        lambda s: tf.strings.regex_full_match(s, "(a|b)*c.?"),
        [text(["abc", "c", "abd", "ac1"])],
    ),
    row("split", split_words, [WORDS], [text(["one"])]),
    row("split_at_commas", lambda s: tf.strings.split(s, ",").to_tensor("-"), [text(["a,b,c", "d", ",e", ""])]),
    row("split_at_most", lambda s: tf.strings.split(s, ",", maxsplit=1).to_tensor("-"), [text(["a,b,c", "d"])]),
    row("split_values", lambda s: tf.strings.split(s, " ").values, [text(["a b c", "d"])]),
    row("split_lengths", lambda s: tf.strings.split(s, " ").row_lengths(), [text(["a b c", "d"])]),
    row("split_a_scalar", lambda s: tf.strings.split(s, " "), [text("a b c")], forms="static old"),
    row(
        "split_by_v1",
        lambda s: tf.sparse.to_dense(v1.string_split(s, " "), default_value=""),
        [text(["a b c", "d"])],
        forms="static open old",
    ),
    row(
        "split_to_numbers",
        lambda s: tf.strings.to_number(tf.strings.split(s, ",").to_tensor("0")),
        [text(["1.5,2", "-3,4"])],
    ),
    row("to_float", tf.strings.to_number, [text(["1.5", "-2e3", " 7", "inf"])]),
    row("to_double", lambda s: tf.strings.to_number(s, tf.float64), [text(["1.5", "-2e3", "0.1"])]),
    row("to_int", lambda s: tf.strings.to_number(s, tf.int32), [text(["15", "-2"])]),
    row(
        "to_long",
        lambda s: tf.strings.to_number(s, tf.int64),
        [text(["15", "-9007199254740993", "9223372036854775807"])],
    ),
    row("as_string_of_integers", tf.strings.as_string, [i32([15, -2])]),
    row("as_string_of_floats", tf.strings.as_string, [f32(3)]),
    row("as_string_of_bool", tf.strings.as_string, [boolean([True, False])]),
    row(
        "lookup", lambda s: table(["the", "cat"], i64([5, 9]), -1).lookup(s), [text(["cat", "dog", "the"])], forms="old"
    ),
    row(
        "lookup_of_words", lambda s: table(["the", "cat"], i64([5, 9]), -1).lookup(split_words(s)), [WORDS], forms="old"
    ),
    row("lookup_to_text", lambda i: table(i64([1, 2]), ["one", "two"], "?").lookup(i), [i64([2, 1, 7])], forms="old"),
    row("lookup_to_floats", lambda i: table(i64([1, 2]), [0.5, 1.5], 0.0).lookup(i), [i64([2, 1, 7])], forms="old"),
    row(
        "mutable_table",
        lambda i: filled_mutable().lookup(i),
        [i64([2, 1, 7])],
        forms="old",
        gap="a table that nothing in the model fills",
    ),
    row(
        "embedded",
        lambda s: tf.gather(f32(4, 3), table(["a", "b"], i64([1, 2]), 0).lookup(s)),
        [text(["b", "a", "z"])],
        forms="old",
    ),
    row("hash_buckets", lambda s: tf.strings.to_hash_bucket_fast(s, 10), [text(["a", "b"])], gap="(?i)hash"),
    row("replaced", lambda s: tf.strings.regex_replace(s, "a+", "b"), [text(["caat"])], gap="other than one text"),
    row("stripped_of_marks", lambda s: tf.strings.regex_replace(s, "[!.']", ""), [text(["it's so.", "", "!"])]),
    row("tags", lambda s: tf.strings.regex_replace(s, "<br />", " "), [text(["a<br /><br />b<br />", ""])]),
    row("substring", lambda s: tf.strings.substr(s, 1, 2), [text(["caat", "dogs"])], gap="."),
    row("characters", lambda s: tf.strings.unicode_split(s, "UTF-8").to_tensor(), [text(["cat"])], gap="."),
    row("bytes_of_text", lambda s: tf.io.decode_raw(s, tf.uint8), [text(["cat", "dog"])], gap="."),
    row("cut_at_spaces_lowered", lambda s: split_words(tf.strings.lower(s)), [WORDS]),
    row("unique_words", lambda s: tf.unique(s), [text(["b", "a", "b"])]),
    row("shape_of_text", tf.shape, [text([["b", "a", "b"]])]),
    row("identity", tf.identity, [text(["b", "a"])]),
    row("ngrams", lambda s: tf.strings.ngrams(s, 2), [text(["a", "b", "c"])]),
    row(
        "cond_of_text",
        lambda s, c: tf.cond(c, lambda: s, lambda: tf.constant(["no", "no"])),
        [text(["a", "b"]), boolean(True)],
        [text(["a", "b"]), boolean(False)],
    ),
]


def filled_mutable() -> Any:
    """Return a table that a session fills."""
    made = tf.lookup.experimental.MutableHashTable(tf.int64, tf.float32, 0.0)
    tf.compat.v1.add_to_collection(tf.compat.v1.GraphKeys.TABLE_INITIALIZERS, made.insert(i64([1, 2]), [0.5, 1.5]))
    return made
