"""What is put in place of what differs, and that nothing else is."""

from tests.journeys.normal import normal

RUN = """\
table        state    complete up to       read lag  rows
shop.orders  current  2099-11-19 05:42:19  1m 6s     1,000
shop.lines   loading  -                    -         2
shop.orders: increment 1-4: 2,000 rows in 1 file, 12.8 kB, 15.1 s
"""
SHOWN = """\
table        state    complete up to       read lag  rows
shop.orders  current  YYYY-MM-DD hh:mm:ss  Ns        1,000
shop.lines   loading  -                    -         2
shop.orders: increment 1-4: 2,000 rows in 1 file, N.N kB, N.N s
"""


def test_a_table_is_laid_out_by_the_words_in_it() -> None:
    assert normal(RUN, places={}) == SHOWN


def test_the_instants_of_the_shop_stay() -> None:
    text = "has it at 2025-01-15 23:09:36, read at 2099-01-01 00:00:00.123456\n"

    assert normal(text, places={}) == "has it at 2025-01-15 23:09:36, read at YYYY-MM-DD hh:mm:ss.ffffff\n"


def test_counts_numbers_and_words_stay() -> None:
    text = "shop.orders: batches 1-4 to 1-6 landed: 4,985 rows from 3 files\n  to read: nothing; exit 7\n\nlines 12\n"

    assert normal(text, places={}) == text


def test_a_list_that_is_no_table_stays() -> None:
    text = "  pass  java  a  b  c\n  warn  x     y  z  w\n"

    assert normal(text, places={"a": "b"}) == text.replace("a", "b")


def test_the_longest_place_is_the_one_that_is_meant() -> None:
    assert normal("in /tmp/x/y, of /tmp\n", places={"/tmp": "/T", "/tmp/x": "~"}) == "in ~/y, of /T\n"


def test_how_full_the_disk_is_stays_off_the_page() -> None:
    room = "  pass  disk   4.1 GB free in /tmp\n3 pass, 1 warn, 0 fail\n"
    full = "  warn  disk   1.9 GB free in /tmp\n       -> Make room, or name another place.\n2 pass, 2 warn, 0 fail\n"

    assert normal(full, places={}) == normal(room, places={})


def test_other_warnings_stay_on_the_page() -> None:
    text = "  warn  jars   one is missing\n               -> syncd jars fetch\n2 pass, 2 warn, 0 fail\n"

    assert normal(text, places={}) == text
