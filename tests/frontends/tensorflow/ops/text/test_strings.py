"""The rules of `frontends/tensorflow/ops/text/strings.py` against TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.tensorflow.ops.tf_support import also_with_batch, check, with_batch
from tests.support.cases import Case, case, params

WORDS = np.array([["Hello", "ÄRGER"], ["", "x y"]], object)
MARKED = np.array([["a|b, c!!", ""], ["<br />", "l<br /><br />.l]-É"]], object)

ROWS = [
    case("StringLower", WORDS),
    case("StringUpper", WORDS),
    case("StringUpper", WORDS, encoding="utf-8").named("utf-8").xfail("takes a locale of the machine"),
    case("StaticRegexFullMatch", WORDS, pattern="H.*|x y"),
    *(
        case("StaticRegexReplace", MARKED, pattern=pattern, rewrite=text).named(pattern)
        for pattern, text in ((r"[!,-\.\]]", ""), (r"[\w]", "_"), ("<br />", " "), (r"a\|b", "-"))
    ),
    case("StaticRegexReplace", MARKED, pattern="l", rewrite="", replace_global=False).named("the first"),
    case("StaticRegexReplace", MARKED, pattern="[al]", rewrite="la").named("over and over").xfail("replaced text"),
    case("StaticRegexReplace", MARKED, pattern="[^a]", rewrite="").named("any other").xfail("other than one text"),
    case("RegexReplace", MARKED, np.array("a|", object), np.array("", object)).xfail("that depends on data"),
    case("StringJoin", [WORDS, WORDS], separator="-"),
    case("StringToHashBucketFast", WORDS, num_buckets=1).named("one bucket"),
    case("StringToHashBucketStrong", WORDS, num_buckets=1, key=[1, 2]).named("one bucket"),
    case("StringToHashBucketFast", WORDS, num_buckets=3).xfail("unless there is one bucket"),
    case("StringToHashBucketStrong", WORDS, num_buckets=3, key=[1, 2]).xfail("unless there is one bucket"),
    case("StringToNumber", np.array(["1.5", "-2e3", "7"], object)),
]


@pytest.mark.parametrize("row", params(ROWS, also_with_batch))
def test_operator(row: Case) -> None:
    check(row, dynamic=False)


@pytest.mark.parametrize("row", params(with_batch(ROWS)))
def test_operator_with_dynamic_batch(row: Case) -> None:
    check(row, dynamic=True)
