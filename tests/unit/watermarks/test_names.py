import re
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watermarks.batch import BatchId
from watermarks.errors import Misuse
from watermarks.names import (
    MAX_STEM_BYTES,
    SYSTEM_STEM,
    BadName,
    StreamName,
    claim_key,
    document_key,
    escape_name,
    history_key,
    history_prefix,
    link_key,
    owner_key,
    plan_key,
    trace_prefixes,
    unescape_name,
)
from watermarks.store import MAX_KEY_BYTES, check_key

ORDERS = StreamName(source="main", database="shop", table="orders")
SPOKEN = {
    "orders": "orders",
    "orders_old": "orders_old",
    "Orders-2": "Orders-2",
    "shop.orders": "shop%2Eorders",
    "a/b": "a%2Fb",
    "..": "%2E%2E",
    "a@b": "a%40b",
    "100%": "100%25",
    "%2E": "%252E",
    " ": "%20",
    "a\x00\n": "a%00%0A",
    "~": "%7E",
    "\u00e9": "%C3%A9",
    "e\u0301": "e%CC%81",
    "\u6ce8\u6587": "%E6%B3%A8%E6%96%87",
    "\U0001f511": "%F0%9F%94%91",
}
NEIGHBOURS = ("orders", "orders_old", "order", "orders.json", "orders/1", "orders@x", "orders%2E", "Orders", "o.rders")

names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
lookalikes = st.text(st.sampled_from("a_.@/%"), min_size=1, max_size=3)


def streams_of(parts: st.SearchStrategy[str]) -> st.SearchStrategy[StreamName]:
    return st.builds(StreamName, source=parts, database=parts, table=parts, target=parts | st.just(""))


streams = streams_of(names.filter(lambda name: name != SYSTEM_STEM))
near = streams_of(lookalikes)


@pytest.mark.parametrize(("name", "written"), SPOKEN.items(), ids=map(ascii, SPOKEN))
def test_a_name_is_written_with_all_but_plain_letters_escaped(name: str, written: str) -> None:
    assert escape_name(name) == written
    assert unescape_name(written) == name


@given(names)
def test_any_name_comes_back_from_its_key(name: str) -> None:
    assert unescape_name(escape_name(name)) == name


@given(names)
def test_a_written_name_holds_nothing_that_parts_a_key(name: str) -> None:
    assert re.fullmatch(r"(?:[A-Za-z0-9_-]|%[0-9A-F]{2})+", escape_name(name))


@given(st.text(st.sampled_from("aZ_.%/@25Ee\u00e9"), max_size=8))
def test_what_is_read_as_a_name_is_written_like_that(text: str) -> None:
    """Else two keys would mean one stream, and each would have a document of its own."""
    try:
        name = unescape_name(text)
    except BadName:
        return

    assert escape_name(name) == text


def test_an_empty_name_is_refused() -> None:
    with pytest.raises(BadName, match="a name is empty") as caught:
        escape_name("")

    assert "Source, database and table" in caught.value.hint


@pytest.mark.parametrize("name", ["\ud800", "orders\udfff"], ids=ascii)
def test_a_lone_surrogate_is_no_text(name: str) -> None:
    """A file system's undecodable name arrives like this, and no store could hold it."""
    with pytest.raises(BadName, match="not Unicode text"):
        escape_name(name)


@pytest.mark.parametrize(
    "text", ["", "%", "%2", "%2e", "%41", "%C3", "%ED%A0%80", ".", "a b", "\u00e9", "%zz", "a%2Eb%"], ids=ascii
)
def test_what_no_name_is_written_like_is_refused(text: str) -> None:
    with pytest.raises(BadName, match="not an escaped name"):
        unescape_name(text)


def test_a_key_that_is_no_text_is_refused_by_name() -> None:
    """A listing of a directory gives such keys where a file's name is no UTF-8."""
    with pytest.raises(BadName, match="is not an escaped name"):
        StreamName.from_stem("main/shop.\udce9")


@pytest.mark.parametrize("part", ["source", "database", "table"])
def test_a_stream_has_all_three_names(part: str) -> None:
    parts = {"source": "main", "database": "shop", "table": "orders"} | {part: ""}

    with pytest.raises(BadName, match="a name is empty"):
        StreamName(**parts)


def test_a_source_cannot_take_the_name_of_the_system_wide_default() -> None:
    """Its entries would lie under `history/_system/`, and pass for the traces of a default that was lost."""
    with pytest.raises(BadName, match="no source can be named '_system'") as caught:
        StreamName(source=SYSTEM_STEM, database="shop", table="orders")

    assert "another name" in caught.value.hint
    assert not history_key(ORDERS.stem, 1).startswith(history_prefix(SYSTEM_STEM))


@pytest.mark.parametrize("part", ["database", "table", "target"])
def test_any_other_name_may_be_that_of_the_default(part: str) -> None:
    parts = {"source": "main", "database": "shop", "table": "orders"} | {part: SYSTEM_STEM}

    assert not history_key(StreamName(**parts).stem, 1).startswith(history_prefix(SYSTEM_STEM))


def test_a_stem_parts_database_and_target_by_the_only_dot_and_at() -> None:
    odd = StreamName(source="a/b", database="c.d", table="e@f", target="g.h@i")

    assert odd.stem == "a%2Fb/c%2Ed.e%40f@g%2Eh%40i"
    assert odd.chain_stem == "a%2Fb/c%2Ed.e%40f"


@given(streams)
def test_a_stream_comes_back_from_its_stem(stream: StreamName) -> None:
    assert StreamName.from_stem(stream.stem) == stream


@given(near, near)
def test_no_two_streams_share_a_document(one: StreamName, other: StreamName) -> None:
    assert (document_key(one.stem) == document_key(other.stem)) is (one == other)


def test_names_that_join_alike_stay_apart() -> None:
    """`a.b` + `c` and `a` + `b.c` once shared one watermark."""
    one = StreamName(source="s", database="a.b", table="c")
    other = StreamName(source="s", database="a", table="b.c")

    assert str(one) == str(other)
    assert one.stem != other.stem


def test_a_table_named_like_a_target_is_not_that_target() -> None:
    table = StreamName(source="main", database="shop", table="orders@eu")

    assert table.stem != ORDERS.with_target("eu").stem


@pytest.mark.parametrize(("mine", "its"), [*permutations(NEIGHBOURS, 2)])
def test_no_prefix_of_a_stream_matches_its_neighbour(mine: str, its: str) -> None:
    one = StreamName(source="main", database="shop", table=mine)
    other = StreamName(source="main", database="shop", table=its)
    keys = (
        *(
            history_key(other.stem, 1),
            history_key(other.with_target("eu").stem, 1),
            plan_key(other, "1-1"),
            link_key(other, "1-1"),
        ),
        *(f"data/{other.chain_stem}/2024/05/17/1-1/0-a.parquet", document_key(other.stem), claim_key(other, "load")),
    )

    assert not [key for prefix in trace_prefixes(one) for key in keys if key.startswith(prefix)]


@given(near, near)
def test_no_trace_of_one_chain_is_a_trace_of_another(one: StreamName, other: StreamName) -> None:
    prefixes = trace_prefixes(one)

    shared = [prefix for prefix in prefixes if any(its.startswith(prefix) for its in trace_prefixes(other))]

    assert bool(shared) is (one == other)


@pytest.mark.parametrize(
    "stem",
    [
        "",
        SYSTEM_STEM,
        "main",
        "main/shop",
        "main/shop.",
        "main/.orders",
        "/shop.orders",
        "main/shop.orders@",
        "main/shop.orders@a@b",
        "main/shop.orders.old",
        "main/shop/orders",
        "main/shop.orders/1.json",
        "main/shop.orders\n",
        "main/shop.or%64ers",
        "main/shop.orders@%",
        "main/shop.\u00e9",
        "watermarks/main/shop.orders",
    ],
)
def test_a_stem_that_nobody_wrote_is_refused(stem: str) -> None:
    with pytest.raises(BadName, match=r"is not (the stem|an escaped)"):
        StreamName.from_stem(stem)


def test_a_stem_may_take_nine_hundred_bytes() -> None:
    room = MAX_STEM_BYTES - len("s/d.")

    longest = StreamName(source="s", database="d", table="t" * room)

    assert len(longest.stem) == MAX_STEM_BYTES
    with pytest.raises(
        BadName, match=f"take {MAX_STEM_BYTES + 1} bytes in a key; at most {MAX_STEM_BYTES} are allowed"
    ) as caught:
        StreamName(source="s", database="d", table="t" * (room + 1))
    assert "shorter name" in caught.value.hint


def test_a_name_counts_by_the_bytes_that_it_takes_in_a_key() -> None:
    with pytest.raises(BadName, match="bytes in a key"):
        StreamName(source="s", database="d", table="\u6587" * 100)


def test_the_longest_names_of_mysql_are_allowed() -> None:
    widest = "\u6587" * 64

    assert StreamName(source="s", database="d" * 64, table=widest).stem.endswith(".%E6%96%87" + "%E6%96%87" * 63)


def test_every_key_of_the_longest_stem_is_a_key_of_any_store() -> None:
    room = MAX_STEM_BYTES - len("s/d.t@")
    stream = StreamName(source="s", database="d", table="t", target="x" * room)
    chain = StreamName(source="s", database="d", table="t" * (room + 1))
    batch = BatchId(10**18 - 1, 10**18 - 1)
    keys = [
        document_key(stream.stem),
        history_key(stream.stem, 10**18),
        plan_key(chain, batch),
        link_key(chain, batch),
        claim_key(stream, "extract"),
        f"data/{chain.chain_stem}/2024/05/17/{batch}/00001-{'a' * 16}.parquet",
    ]

    for key in keys:
        check_key(key)

    assert max(map(len, keys)) <= MAX_KEY_BYTES


def test_a_stream_reads_like_a_path() -> None:
    assert str(ORDERS) == "main/shop.orders"
    assert str(ORDERS.with_target("eu")) == "main/shop.orders@eu"


def test_every_target_of_a_stream_has_one_chain() -> None:
    further = ORDERS.with_target("eu")

    assert further.stem == "main/shop.orders@eu"
    assert further.chain_stem == ORDERS.chain_stem == ORDERS.stem
    assert further.default_stream == ORDERS
    assert ORDERS.default_stream is ORDERS


def test_streams_have_an_order() -> None:
    later = StreamName(source="main", database="shop", table="orders_old")

    assert sorted([later, ORDERS.with_target("eu"), ORDERS]) == [ORDERS, ORDERS.with_target("eu"), later]


def test_every_object_has_its_place() -> None:
    further = ORDERS.with_target("e.u")

    assert document_key(ORDERS.stem) == "watermarks/main/shop.orders.json"
    assert document_key(further.stem) == "watermarks/main/shop.orders@e%2Eu.json"
    assert document_key(SYSTEM_STEM) == "watermarks/_system.json"
    assert history_prefix(ORDERS.stem) == "history/main/shop.orders/"
    assert history_key(ORDERS.stem, 7) == "history/main/shop.orders/7.json"
    assert plan_key(further, BatchId(1, 42)) == "plans/main/shop.orders/1-42.json"
    assert link_key(further, BatchId(1, 42)) == "batches/main/shop.orders/1-42.json"
    assert owner_key("host.1/2") == "owners/host%2E1%2F2.json"
    assert claim_key(ORDERS, "extract") == "claims/main/shop.orders/extract.json"
    assert claim_key(further, "load") == "claims/main/shop.orders/load@e%2Eu.json"


def test_a_stream_is_traced_by_its_history_and_its_chain() -> None:
    assert trace_prefixes(ORDERS) == (
        "history/main/shop.orders/",
        "plans/main/shop.orders/",
        "batches/main/shop.orders/",
        "data/main/shop.orders/",
    )


def test_a_further_target_is_traced_by_its_own_history_alone() -> None:
    """The chain stands before a target is added: it must not pass for the target's lost document."""
    assert trace_prefixes(ORDERS.with_target("eu")) == ("history/main/shop.orders@eu/",)


def test_a_bad_name_is_the_callers_to_mend() -> None:
    assert issubclass(BadName, Misuse)
