"""The message of an error says what is wrong and what to do, also after pickling."""

import pickle
import tracemalloc

import pytest

from polyseme.errors import (
    FieldError,
    InvalidError,
    NotReadyError,
    PolysemeError,
    TooLargeError,
    UnknownModelError,
    UnknownWordError,
    did_you_mean,
    one_of,
    validation_message,
)

FIELD = FieldError(("input", 3), "must be a string")
SENTENCE = FieldError(("input", 3), "has 9 tokens")
WORD = FieldError(("input", 0), "token 1 is not in the vocabulary")
ADD = "`polyseme models list`, or GET /v1/models of a service, describes the models."
MESSAGES = [
    (PolysemeError("It fails.", "Try again."), "It fails. Try again."),
    (
        InvalidError([FIELD, FieldError((), "is too much")], "Send one."),
        "An argument is invalid. `texts[3]`: must be a string; is too much. Send one.",
    ),
    (
        InvalidError([FieldError(("occurrences", 1, "word"), "must not be empty")]),
        # The default hint names /docs, which only the service has.
        "An argument is invalid. `occurrences[1].word`: must not be empty.",
    ),
    (
        TooLargeError("A sentence is long", 9, "most", 8, "Shorten it.", [SENTENCE]),
        "A sentence is long: 9, over the limit most of 8. `texts[3]`: has 9 tokens. Shorten it.",
    ),
    (
        UnknownWordError([WORD], ["qzx", "a\x1b"], "Remove them."),
        (
            "A word of the request is not in the vocabulary: qzx, 'a\\x1b'."
            " `texts[0]`: token 1 is not in the vocabulary. Remove them."
        ),
    ),
    (UnknownModelError(), f"There is no model of this name. There are no models. {ADD}"),
    (UnknownModelError(["a", "b"]), f"There is no model of this name. Available: a, b. {ADD}"),
    (UnknownModelError(["a"], "c\n"), f"No model is named 'c\\n'. Available: a. {ADD}"),
    (
        UnknownModelError([str(n) for n in range(12)], "c" * 99),
        f"No model is named '{'c' * 65}. Available: {', '.join('0123456789')}, 2 more. {ADD}",
    ),
    (NotReadyError("It starts.", retry_after=7), f"It starts. {NotReadyError.hint}"),
]


@pytest.mark.parametrize(("error", "message"), MESSAGES, ids=[m for _, m in MESSAGES])
def test_a_message_has_the_detail_the_fields_and_the_hint(error, message):
    assert str(error) == message
    assert error.message("Else.") == f"{message.removesuffix(error.hint).rstrip()} Else."
    error.request_id = "abc"
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), vars(copy), str(copy)) == (type(error), vars(error), message)


def test_the_requested_name_is_not_in_the_detail():
    error = UnknownModelError(["a"], "s3cret")
    assert "s3cret" not in error.detail + error.hint + str(error.members())


@pytest.mark.parametrize(
    ("kind", "context", "message"),
    [
        ("missing", {}, "is required"),
        ("greater_than_equal", {"ge": 0}, "must be at least 0"),
        ("less_than_equal", {"le": 1 << 40}, "must be at most 1099511627776"),
        ("less_than_equal", {"le": 4.0}, "must be at most 4"),
        ("too_short", {"min_length": 1}, "must not be empty"),
        ("too_short", {"min_length": 2}, "must have at least 2 items"),
        ("too_long", {"max_length": 1}, "must have at most 1 item"),
        ("string_pattern_mismatch", {"pattern": "^a{2}$"}, "must match the pattern ^a{2}$"),
        ("literal_error", {"expected": "'a' or 'b'"}, 'must be "a" or "b"'),
        ("value_error", {"error": ValueError("give {one}")}, "give {one}"),
        ("json_invalid", {"error": "expected value"}, "is not well-formed JSON"),
        ("a_type_without_a_message", {}, "is not valid"),
    ],
)
def test_a_validation_error_has_a_message_of_its_type(kind, context, message):
    assert validation_message({"type": kind, "ctx": context}).startswith(message)


def test_allowed_values_are_listed_and_the_most_similar_name_is_suggested():
    assert one_of(["a"]) == 'must be "a"'
    assert one_of(["a", "b", "c"]) == 'must be "a", "b" or "c"'
    assert did_you_mean("layer", ["heads", "layers"]) == "; did you mean `layers`?"
    assert did_you_mean("MODELS", ["MODEL"], "A_") == "; did you mean `A_MODEL`?"
    assert did_you_mean("zzz", ["heads", "layers"]) == ""


def test_a_long_name_is_compared_with_little_memory() -> None:
    name = "layers" * 500_000
    tracemalloc.start()
    try:
        assert did_you_mean(name, ["layers"]) == ""
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
