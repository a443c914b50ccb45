import hashlib
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watermarks.codec import (
    MAX_TEXT_CHARACTERS,
    DamagedDocument,
    DocumentTooNew,
    FieldReader,
    ForeignDocument,
    JsonObject,
    compute_digest,
    decode,
    encode,
    parse_json_object,
    raise_as_damaged,
    to_printable,
)
from watermarks.cursor import BadCursor
from watermarks.errors import OutcomeUnknown, StateUnreadable

if TYPE_CHECKING:
    from collections.abc import Callable

FORM = "watermarks/example"
AT = "watermarks/main/shop.orders.json"
CONTENT: JsonObject = {"name": "\u6ce8\u6587", "seq": 42, "proven": True, "inner": {"b": [1, 2], "a": None}}

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
contents = st.dictionaries(
    texts.filter(lambda name: name not in {"format", "format_version", "digest"}),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
        max_leaves=8,
    ),
    max_size=4,
)


def opened(body: bytes) -> dict[str, Any]:
    return decode(body, FORM, 1, location=AT)


def stored(fields: JsonObject) -> bytes:
    """These very fields as JSON, with a digest that fits: what only another program would write."""
    return json.dumps({**fields, "digest": compute_digest(fields)}, ensure_ascii=False).encode()


def laid_out(body: bytes, **layout: Any) -> bytes:
    return json.dumps(json.loads(body), **layout).encode()


def text_id(text: str) -> str:
    return ascii(text[:20])


def nested(depth: int) -> bytes:
    return b'{"format": "watermarks/example", "inner": ' + b"[" * depth + b"]" * depth + b"}"


def test_a_sealed_text_is_json_of_one_field_a_line_in_order() -> None:
    body = encode(FORM, 1, {"b": [1, {"d": 2, "c": "\u00e9"}], "a": None})

    lines = body.decode().splitlines()

    assert lines[:3] == ["{", '"a": null,', '"b": [1,{"c":"\u00e9","d":2}],']
    assert lines[3].startswith('"digest": "sha256:')
    assert lines[4:] == ['"format": "watermarks/example",', '"format_version": 1', "}"]


def test_the_digest_is_that_of_the_canonical_content() -> None:
    """Pinned, for a digest made today is compared for years."""
    canonical = '{"a":"\u00e9","b":[1,2.5,true]}'

    assert (
        compute_digest({"b": [1, 2.5, True], "a": "\u00e9"})
        == f"sha256:{hashlib.sha256(canonical.encode()).hexdigest()}"
    )


def test_the_digest_covers_format_and_version() -> None:
    body = encode(FORM, 1, CONTENT)

    assert json.loads(body)["digest"] == compute_digest({**CONTENT, "format": FORM, "format_version": 1})


def test_an_unsealed_text_is_what_was_sealed() -> None:
    assert opened(encode(FORM, 1, CONTENT)) == {**CONTENT, "format": FORM, "format_version": 1}


@given(contents)
def test_any_content_comes_back(content: JsonObject) -> None:
    again = opened(encode(FORM, 1, content))

    assert again == {**content, "format": FORM, "format_version": 1}
    assert encode(FORM, 1, content) == encode(FORM, 1, dict(sorted(content.items(), reverse=True)))


def test_an_older_version_is_opened_for_whoever_upgrades_it() -> None:
    assert decode(encode(FORM, 2, CONTENT), FORM, 5, location=AT)["format_version"] == 2


@pytest.mark.parametrize(
    "layout", [{"indent": 4}, {"separators": (",", ":")}, {"ensure_ascii": True}, {"indent": "\t"}]
)
def test_a_change_of_layout_alone_is_no_change(layout: dict[str, Any]) -> None:
    """A person's editor, or a tool that formats JSON, must not stop a stream."""
    body = encode(FORM, 1, CONTENT)

    again = laid_out(body, **layout)

    assert again != body
    assert opened(again) == opened(body)


def test_the_order_of_fields_is_no_content() -> None:
    body = encode(FORM, 1, CONTENT)

    assert opened(json.dumps(dict(reversed(json.loads(body).items()))).encode()) == opened(body)


def test_lines_may_end_as_on_windows() -> None:
    body = encode(FORM, 1, CONTENT)

    assert opened(body.replace(b"\n", b"\r\n") + b"\r\n\r\n") == opened(body)


@pytest.mark.parametrize(
    "text", ["", "value too long", "\u6ce8\u6587\n\t\U0001f511", "x" * MAX_TEXT_CHARACTERS], ids=text_id
)
def test_a_text_of_people_or_drivers_is_held_word_by_word(text: str) -> None:
    assert to_printable(text) == text


@pytest.mark.parametrize(("text", "held"), [("caf\udce9", "caf\\udce9"), ("\ud800", "\\ud800")], ids=text_id)
def test_a_text_that_is_no_unicode_can_be_held_all_the_same(text: str, held: str) -> None:
    """A driver's message may hold a server's raw bytes: to note a failure must not fail on them."""
    assert to_printable(text) == held
    assert opened(encode(FORM, 1, {"message": to_printable(text)}))["message"] == held


def test_an_endless_text_is_cut_and_shows_it() -> None:
    assert to_printable("x" * 100_000) == "x" * MAX_TEXT_CHARACTERS + "\u2026"


@pytest.mark.parametrize("body", [b"", b" ", b"\n\n", b"\r\n\t"])
def test_an_empty_document_is_damaged_and_not_new(body: bytes) -> None:
    """A full disk leaves such files; a default in their place starts from zero."""
    with pytest.raises(DamagedDocument, match=f"{AT} is empty") as caught:
        opened(body)

    assert "rebuild" in caught.value.hint


def test_half_a_document_is_damaged_wherever_it_was_cut() -> None:
    body = encode(FORM, 1, CONTENT)

    for length in range(len(body) - len(b"}\n")):
        with pytest.raises(DamagedDocument):
            opened(body[: length + 1])


@pytest.mark.parametrize(
    "body",
    [
        b"not json",
        b"{'format': 'watermarks/example'}",
        b'{"format": "watermarks/example",}',
        b'{"format": "watermarks/example"} {}',
        b"\x00" * 512,
        b"\xff\xfe{\x00}\x00",
        b"\x1f\x8b\x08\x00",
        b'{"format": "caf\xe9"}',
        b'{"format": "\xed\xa0\x80"}',
        b'{"format": "\x01"}',
        b"<?xml version='1.0'?><Error><Code>NoSuchKey</Code></Error>",
    ],
)
def test_what_is_no_json_is_damaged(body: bytes) -> None:
    with pytest.raises(DamagedDocument, match="is not valid JSON"):
        opened(body)


def test_a_byte_order_mark_is_damage() -> None:
    """We write none, so another program has rewritten the document."""
    with pytest.raises(DamagedDocument, match="BOM"):
        opened(b"\xef\xbb\xbf" + encode(FORM, 1, CONTENT))


@pytest.mark.parametrize("body", [b"null", b"[]", b'"text"', b"42", b"true", b'[{"format": "watermarks/example"}]'])
def test_json_that_is_no_object_is_damaged(body: bytes) -> None:
    with pytest.raises(DamagedDocument, match="is not a JSON object"):
        opened(body)


@pytest.mark.parametrize(
    "body", [b'{"seq": 1, "seq": 1}', b'{"a": {"b": 1, "b": 2}}', b'[{"a": [{"b": 1, "\\u0062": 2}]}]']
)
def test_a_key_that_stands_twice_is_damage(body: bytes) -> None:
    """Each reader would take another of the two."""
    with pytest.raises(DamagedDocument, match="it contains a key twice"):
        parse_json_object(body, location=AT)


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity"])
def test_a_number_that_is_none_is_damage(constant: str) -> None:
    with pytest.raises(DamagedDocument, match=f"{constant} is not valid JSON"):
        parse_json_object(f'{{"a": [{constant}]}}'.encode(), location=AT)


@pytest.mark.parametrize("number", ["1e999", "-1e999"])
def test_a_number_without_end_fits_no_digest(number: str) -> None:
    body = encode(FORM, 1, {"seconds": 4.5}).replace(b"4.5", number.encode())

    with pytest.raises(DamagedDocument, match="does not match its digest"):
        opened(body)


@pytest.mark.parametrize("written", [b'"\\ud800"', b'"a\\udfff"', b'{"\\ud800": 1}'])
def test_a_lone_surrogate_fits_no_digest(written: bytes) -> None:
    body = encode(FORM, 1, {"name": "NAME"}).replace(b'"NAME"', written)

    with pytest.raises(DamagedDocument, match="does not match its digest"):
        opened(body)


def test_an_integer_beyond_all_counting_is_damage() -> None:
    """Python refuses to read it; that refusal must not pass for a bug."""
    with pytest.raises(DamagedDocument, match="is not valid JSON"):
        opened(b'{"seq": 1' + b"0" * 10_000 + b"}")


def test_a_large_integer_is_kept_to_its_last_digit() -> None:
    assert opened(encode(FORM, 1, {"key": 2**200 + 1}))["key"] == 2**200 + 1


@pytest.mark.parametrize("depth", [100, 900, 990, 1_000, 100_000])
def test_deep_nesting_is_damage(depth: int) -> None:
    with pytest.raises(DamagedDocument):
        opened(nested(depth))


@pytest.mark.parametrize("form", [None, "", "watermarks/plan", "watermarks/example ", 1, ["watermarks/example"], {}])
def test_another_format_is_foreign(form: object) -> None:
    with pytest.raises(ForeignDocument, match=r"has format .*, expected 'watermarks/example'") as caught:
        opened(stored({**CONTENT, "format": form, "format_version": 1}))

    assert "syncd watermark import" in caught.value.hint


def test_an_object_without_a_format_is_foreign() -> None:
    with pytest.raises(ForeignDocument, match="has format None"):
        opened(b"{}")


@pytest.mark.parametrize("version", [2, 3, 10**30])
def test_a_newer_version_is_refused_with_the_remedy(version: int) -> None:
    with pytest.raises(
        DocumentTooNew, match=f"has format version {version}; this syncd reads versions up to 1"
    ) as caught:
        opened(encode(FORM, version, CONTENT))

    assert caught.value.hint == "Upgrade syncd."


def test_a_newer_version_is_told_before_its_digest_is_judged() -> None:
    """Who knows what a later version digests?"""
    with pytest.raises(DocumentTooNew):
        opened(b'{"format": "watermarks/example", "format_version": 2}')


@pytest.mark.parametrize("version", [None, "1", 1.0, True, [1], 0, -1, "two"], ids=repr)
def test_a_version_that_is_no_number_is_damage(version: object) -> None:
    with pytest.raises(DamagedDocument, match="has no format version"):
        opened(stored({**CONTENT, "format": FORM, "format_version": version}))


def test_a_missing_version_is_damage() -> None:
    with pytest.raises(DamagedDocument, match="has no format version"):
        opened(stored({**CONTENT, "format": FORM}))


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        (b'"seq": 42', b'"seq": 43'),
        (b'"seq": 42', b'"seq": 42.0'),
        (b'"seq": 42', b'"seq": "42"'),
        (b'"proven": true,\n', b""),
        (b'"seq": 42', b'"seq": 42, "extra": null'),
        (b'"proven": true', b'"proven": 1'),
        (b'"a":null', b'"a":""'),
        (b"[1,2]", b"[2,1]"),
        (b"\xe6\xb3\xa8", b"\xe6\xb3\xa9"),
    ],
    ids=ascii,
)
def test_an_edited_content_does_not_fit_its_digest(was: bytes, becomes: bytes) -> None:
    body = encode(FORM, 1, CONTENT)
    edited = body.replace(was, becomes)
    assert edited != body

    with pytest.raises(DamagedDocument, match="does not match its digest"):
        opened(edited)


@pytest.mark.parametrize("digest", [None, "", "sha256:", "sha256:" + "0" * 64, 0, ["x"], "sha1:da39a3ee"])
def test_another_digest_does_not_fit(digest: object) -> None:
    body = {**CONTENT, "format": FORM, "format_version": 1, "digest": digest}

    with pytest.raises(DamagedDocument, match="does not match its digest"):
        opened(json.dumps(body).encode())


def test_a_document_without_a_digest_is_damaged() -> None:
    with pytest.raises(DamagedDocument, match="does not match its digest"):
        opened(json.dumps({**CONTENT, "format": FORM, "format_version": 1}).encode())


@given(st.data())
def test_no_flipped_bit_is_read_as_another_content(data: st.DataObject) -> None:
    body = encode(FORM, 1, CONTENT)
    place = data.draw(st.integers(0, len(body) * 8 - 1))
    flipped = bytearray(body)
    flipped[place // 8] ^= 1 << place % 8

    try:
        found = opened(bytes(flipped))
    except StateUnreadable:
        return

    assert found == opened(body)


READERS: "dict[str, Callable[[FieldReader], object]]" = {
    "text": lambda read: read.text("it"),
    "number": lambda read: read.number("it"),
    "flag": lambda read: read.flag("it"),
    "items": lambda read: read.items("it"),
    "texts": lambda read: read.texts("it"),
    "inner": lambda read: read.mapping("it"),
    "maybe_text": lambda read: read.optional_text("it"),
    "maybe_inner": lambda read: read.optional_mapping("it"),
}
FITTING: dict[str, tuple[object, ...]] = {
    "text": ("", "x", "\u00e9"),
    "number": (0, 1, 2**80),
    "flag": (True, False),
    "items": ([], [1, None, "x"]),
    "texts": ((), ("a", "b")),
    "inner": ({}, {"a": 1}),
    "maybe_text": (None, "x"),
    "maybe_inner": (None, {"a": 1}),
}
EVERYTHING: tuple[object, ...] = (None, True, False, 0, 1, -1, 1.0, "", "x", [], [1], ["x"], {}, {"a": 1}, ("x",))
KINDS: dict[str, type] = {
    "text": str,
    "maybe_text": str,
    "number": int,
    "flag": bool,
    "items": list,
    "texts": list,
    "inner": dict,
    "maybe_inner": dict,
}


@pytest.mark.parametrize(("reader", "value"), [(reader, value) for reader in READERS for value in FITTING[reader]])
def test_a_field_of_its_type_is_read_as_it_is(reader: str, value: object) -> None:
    held = [*value] if isinstance(value, tuple) else value
    read = FieldReader({"it": held}, location=AT)

    assert READERS[reader](read) == value
    read.require_all_read()


@pytest.mark.parametrize("reader", READERS)
def test_a_field_of_another_type_is_damage(reader: str) -> None:
    """JSON has a number for a text and a text for a number ready at every hand edit; `true` is no 1."""
    for value in EVERYTHING:
        if type(value) is KINDS[reader] or (value is None and reader.startswith("maybe")):
            continue

        with pytest.raises(DamagedDocument, match=rf"^{AT}: it is |^{AT} lacks it$"):
            READERS[reader](FieldReader({"it": value}, location=AT))


@pytest.mark.parametrize("reader", [reader for reader in READERS if not reader.startswith("maybe")])
def test_an_absent_field_is_damage_and_not_a_default(reader: str) -> None:
    with pytest.raises(DamagedDocument, match=f"{AT} lacks it"):
        READERS[reader](FieldReader({"other": 1}, location=AT))


def test_a_count_is_never_negative() -> None:
    with pytest.raises(DamagedDocument, match=f"{AT}: it is -1"):
        FieldReader({"it": -1}, location=AT).number("it")


@pytest.mark.parametrize("items", [[1], ["a", None], [["a"]]], ids=str)
def test_a_list_of_texts_holds_nothing_else(items: list[object]) -> None:
    with pytest.raises(DamagedDocument, match=f"{AT}: it contains .*, not text"):
        FieldReader({"it": items}, location=AT).texts("it")


def test_fields_that_nobody_read_are_refused_by_name() -> None:
    """They mean something to whoever wrote them; the next write would drop them in silence."""
    read = FieldReader({"format": FORM, "format_version": 1, "seq": 1, "zone": "UTC", "also": 1}, location=AT)
    read.number("seq")

    with pytest.raises(DamagedDocument, match=f"{AT} has unknown fields: also, zone"):
        read.require_all_read()


def test_fields_that_only_repeat_others_are_passed_over() -> None:
    read = FieldReader({"table_name": "shop.orders", "seq": 1}, location=AT)
    read.number("seq")

    read.ignore(["table_name", "metadata"])

    read.require_all_read()


def test_reading_leaves_the_object_as_it_was() -> None:
    fields = {"it": "x"}

    FieldReader(fields, location=AT).text("it")

    assert fields == {"it": "x"}


@pytest.mark.parametrize("error", [BadCursor("'1' has no kind"), ValueError("'moon' is not a valid Kind")], ids=repr)
def test_a_value_that_cannot_be_is_damage_of_its_document(error: Exception) -> None:
    with pytest.raises(DamagedDocument, match=f"{AT} contains an invalid value: '") as caught, raise_as_damaged(AT):
        raise error

    assert caught.value.__cause__ is error


def test_damage_is_not_blamed_twice() -> None:
    with pytest.raises(ForeignDocument, match=r"^another stream$"), raise_as_damaged(AT):
        raise ForeignDocument("another stream")


def test_what_says_nothing_of_the_document_is_not_blamed_on_it() -> None:
    with pytest.raises(OutcomeUnknown), raise_as_damaged(AT):
        raise OutcomeUnknown("no answer")


@pytest.mark.parametrize("error", [DamagedDocument, ForeignDocument, DocumentTooNew])
def test_every_refusal_stops_the_stream(error: type[Exception]) -> None:
    assert issubclass(error, StateUnreadable)
