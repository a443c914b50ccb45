from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from syncd.config.check import build_settings, read_settings
from syncd.config.mistakes import Misconfigured
from syncd.config.yaml_reader import parse_document, read_table_names
from syncd.datatypes.columns import Policy
from syncd.errors import ConfigError
from syncd.settings import Channel, FirstRun, Secret, Settings, StreamSettings, Tls

ENVIRON = {"MYSQL_PASSWORD": "p@ss:/word", "REDSHIFT_PASSWORD": "x"}
WHOLE = """
source:    {url: "mysql://sync:${MYSQL_PASSWORD}@db:3306/shop", tls: verify, ca: rds.pem, zone: UTC, max_connections: 4,
            tunnel: {host: bastion, user: ops, key_file: /keys/ops}}
lake:      {url: "s3://acme-lake/syncd", region: eu-west-1, endpoint: null}
warehouse: {url: "redshift://loader:${REDSHIFT_PASSWORD}@cluster:5439/dev", tls: verify, schema: public, iam_role: arn}
spark:     {master: "local[*]", driver_memory: 1g, idle_stop: 10m, conf: {spark.a: b}}
daemon:    {http: "127.0.0.1:8080", stop_timeout: 60s, notify: []}
defaults:  {every: 5m, batch_rows: 1000000, mode: upsert, first_run: snapshot, settle: 60s, deletes: ignore}
tables:
  shop.orders:    {cursor: update_at, every: 1m, fresh_within: 10m, deletes: soft}
  shop.events:    {cursor: id, mode: append, first_run: {from: 2025-01-01}}
  shop.countries: {cursor: none, mode: replace, every: "0 3 * * *", after: [shop.orders]}
"""
LEAST = """
source: {url: "mysql://sync@db/shop"}
lake: {url: "s3://acme-lake"}
tables:
  orders:
"""


def settings_of(body: str, environ: Mapping[str, str] = ENVIRON) -> Settings:
    return build_settings(parse_document(body, path="syncd.yaml", environ=environ))


def mistakes_of(body: str, environ: Mapping[str, str] = ENVIRON) -> list[tuple[int, str]]:
    with pytest.raises(Misconfigured) as refused:
        settings_of(body, environ)
    return [(mistake.line, mistake.key) for mistake in refused.value.mistakes]


def stream_of(table: str, *, defaults: str = "{}") -> StreamSettings:
    top = "source: {url: 'mysql://s@db/shop'}\nlake: {url: 's3://b'}"
    return settings_of(f"{top}\ndefaults: {defaults}\ntables: {{orders: {table}}}").streams[0]


def test_a_beginning_may_name_the_column_that_tells_it() -> None:
    stream = stream_of("{cursor: id, first_run: {from: 2025-01-01, by: born}}")

    assert (stream.first_run, stream.start_by) == (FirstRun.FROM, "born")
    assert stream_of("{cursor: id, first_run: {from: 2025-01-01}}").start_by is None


@pytest.mark.parametrize(
    ("said", "told"),
    [("{}", False), ("{first_run: snapshot}", True), ("{first_run: now}", True), ("{start: 2025-01-01}", True)],
)
def test_a_stream_knows_whether_its_beginning_was_told(said: str, *, told: bool) -> None:
    assert stream_of(said).is_first_run_configured is told


def test_the_example_of_the_design_is_read_whole() -> None:
    settings = settings_of(WHOLE)

    source = settings.sources[0]
    assert (source.name, source.host, source.user, source.password.value) == ("mysql", "db", "sync", "p@ss:/word")
    assert source.tunnel is not None
    assert source.tunnel.key_file == Path("/keys/ops")
    assert (settings.lake.bucket, settings.lake.prefix, settings.lake.region) == ("acme-lake", "syncd", "eu-west-1")
    assert settings.spark.conf == {"spark.a": "b"}
    assert [(stream.database, stream.table, stream.cursor) for stream in settings.streams] == [
        ("shop", "orders", "update_at"),
        ("shop", "events", "id"),
        ("shop", "countries", "none"),
    ]
    assert settings.streams[1].first_run is FirstRun.FROM
    assert settings.streams[1].start == datetime(2025, 1, 1, tzinfo=UTC)


def test_the_names_of_tables_are_known_before_the_rest_is_right(tmp_path: Path) -> None:
    path = tmp_path / "syncd.yaml"
    path.write_text("tables:\n  orders: {every: !env EVERY, batch_rows: 0x_}\n  lines:\n")

    assert read_table_names(str(path)) == ["orders", "lines"]


def test_three_lines_are_enough() -> None:
    stream = settings_of(LEAST).streams[0]

    assert (stream.database, stream.table, stream.cursor, stream.batch_rows) == ("shop", "orders", "update_at", 10**6)


def test_a_table_says_more_than_the_defaults() -> None:
    stream = stream_of("{settle: 5s}", defaults="{settle: 90s, batch_rows: 10, zero_dates: fail}")

    assert (stream.settle, stream.batch_rows) == (timedelta(seconds=5), 10)
    assert stream.policies.zero_dates is Policy.FAIL


@pytest.mark.parametrize("own", ["{start: 2025-06-01}", "{first_run: {from: 2025-06-01}}"])
def test_a_table_replaces_either_form_of_the_default_beginning(own: str) -> None:
    for defaults in ("{start: 2020-01-01}", "{first_run: now}"):
        assert stream_of(own, defaults=defaults).start == datetime(2025, 6, 1, tzinfo=UTC)


def test_what_never_comes_to_an_end_or_is_over_at_once_is_a_mistake() -> None:
    body = """source: {url: "mysql://sync@db/shop", silence: 0s, longest_read: 0s}
lake: {url: "s3://acme/lake"}
warehouse: {url: "redshift://load:x@cluster/dev", silence: 0s, longest_statement: 0m}
daemon: {notify: [{url: "https://example.com/", again: 0h}]}
tables: {orders: {every: 0s, longest_run: 0s, fresh_within: 0s, settle: 0s, ahead_after: 0s}}
"""
    with pytest.raises(Misconfigured) as refused:
        settings_of(body)

    told = refused.value.message.splitlines()
    assert told[0] == "8 mistakes", told
    assert all("write a duration above zero, such as 5s" in line for line in told[1:]), told


def test_every_mistake_is_told_at_once_with_its_line_and_a_remedy() -> None:
    body = """source: {url: "mysql://sync@db/shop", tsl: verify}
lake: {url: "http://acme"}
tables:
  orders: {curso: id, mode: upset}
  events:
    every: 5x
    first_run: yesterday
"""
    with pytest.raises(Misconfigured) as refused:
        settings_of(body)

    told = refused.value.message.splitlines()
    assert told[0] == "6 mistakes"
    assert "syncd.yaml:2:13: lake.url: write an address such as s3://...; found 'http://acme'" in told[2]
    assert "syncd.yaml:1:39: source.tsl: is not a known key (Do you mean `tls`?)" in told[1]
    assert any(
        "syncd.yaml:4:12: tables.orders.curso: is not a known key" in line and "`cursor`" in line for line in told
    )
    assert any("syncd.yaml:4:29: tables.orders.mode: must be 'upsert', 'append'" in line for line in told)
    assert any("syncd.yaml:6:12: tables.events.every: write a duration such as 5m" in line for line in told)
    assert any("syncd.yaml:7:16: tables.events.first_run: must be snapshot, now or" in line for line in told)


@pytest.mark.parametrize(
    ("body", "places"),
    [
        (LEAST.replace("  orders:", "  orders:\n  orders:"), [(6, "tables.orders")]),
        (LEAST.replace("  orders:", "  orders:\n  Orders: {}"), [(6, "tables.Orders")]),
        (LEAST.replace("/shop", ""), [(5, "tables.orders")]),
        (LEAST.replace("sync@", ""), [(2, "source.url")]),
        (LEAST.replace("mysql:", "postgres:"), [(2, "source.url")]),
        (LEAST.replace("db/", "db:x/"), [(2, "source.url")]),
        (LEAST.replace('sync@db/shop"', 'sync@db/shop", zone: Mars/Base'), [(2, "source.zone")]),
        (LEAST.replace("s3:", "ftp:"), [(3, "lake.url")]),
        (LEAST.replace("acme-lake", "CHANGE-ME/syncd"), [(3, "lake.url")]),
        (LEAST.replace("lake:", "lakes:"), [(2, "lake"), (3, "lakes")]),
        (LEAST.replace("  orders:", "  orders: {to: abroad}"), [(5, "tables.orders.to")]),
        (LEAST.replace("  orders:", "  orders: {source: abroad}"), [(5, "tables.orders.source")]),
        (LEAST.replace("  orders:", "  orders: {cursor: none}"), [(5, "tables.orders")]),
        (LEAST.replace("  orders:", "  orders: {mode: history, cursor: id}"), [(5, "tables.orders")]),
        (LEAST.replace("  orders:", "  orders: {query: SELECT 1}"), [(5, "tables.orders")]),
        (LEAST.replace("  orders:", "  orders: {query: 'SELECT ${window} LIMIT 9'}"), [(5, "tables.orders")]),
        (LEAST.replace("  orders:", "  orders: {start: 2025-01-01, first_run: now}"), [(5, "tables.orders")]),
        (LEAST.replace("  orders:", "  orders: 5"), [(5, "tables.orders")]),
        (LEAST.replace("sync@", "sync:${NOWHERE}@"), [(2, "source.url")]),
        (LEAST.replace("sync@", "sync:${file:/no/such/file}@"), [(2, "source.url")]),
        (LEAST.replace("  orders:", "  orders: {every: !env EVERY}"), [(5, "tables.orders.every")]),
        (LEAST.replace("  orders:", "  orders: {batch_rows: 0x_}"), [(5, "tables.orders.batch_rows")]),
        (LEAST.replace("  orders:", "  orders: {batch_rows: !!bool x}"), [(5, "tables.orders.batch_rows")]),
        (LEAST.replace("  orders:", f"  orders: {{batch_rows: {'9' * 5000}}}"), [(5, "tables.orders.batch_rows")]),
        (LEAST.replace("  orders:", f"  orders: {{priority: 1{':1' * 400}.0}}"), [(5, "tables.orders.priority")]),
        (LEAST.replace("sync@", r"sync:${file:/no\0such}@"), [(2, "source.url")]),
        (LEAST.replace('shop"', 'shop", ca: ~nobody-at-all/ca.pem'), [(2, "source.ca")]),
        (LEAST.replace('shop"', 'shop", zone: Europe'), [(2, "source.zone")]),
        (LEAST.replace("  orders:", f"  orders: {'[' * 2000}{']' * 2000}"), [(5, "")]),
        ("tables: [", [(1, "")]),
        ("", [(1, "")]),
    ],
)
def test_a_mistake_is_told_where_it_stands(body: str, places: list[tuple[int, str]]) -> None:
    assert mistakes_of(body) == places


def test_a_query_of_ones_own_names_the_place_of_its_window() -> None:
    assert stream_of("{query: 'SELECT * FROM o WHERE ${window}'}").query == "SELECT * FROM o WHERE ${window}"


def test_a_query_that_is_read_whole_may_leave_rows_out_as_it_likes() -> None:
    first = "SELECT * FROM o WHERE ${window} LIMIT 9"

    assert stream_of(f"{{cursor: none, mode: replace, query: '{first}'}}").query == first


def test_a_bare_null_is_the_policy_of_that_name() -> None:
    assert stream_of("{oversize: null, out_of_range: 'null'}").policies.oversize is Policy.NULL


def test_a_policy_that_cannot_be_is_told_where_it_stands() -> None:
    with pytest.raises(Misconfigured, match=r"5:24: tables.orders.zero_dates: must be 'null', 'quarantine' or 'fail'"):
        settings_of(LEAST.replace("  orders:", "  orders: {zero_dates: truncate}"))


def test_one_mistake_hides_no_other() -> None:
    """What hangs on a part that is wrong is checked against what is left of it."""
    body = """source: {url: "mysql://db/shop", zone: Mars/Base}
lake: {url: "s3://b", regoin: x}
warehouses: {dev: {url: "nowhere", schema: pg_x}, prod: {url: "redshift://l:x@h/dev"}}
daemon: {http: "80"}
defaults: {mode: upset, settle: soon}
tables:
  orders: {to: prod, cursor: none, mode: append}
  lines: {to: pord, batch_rows: 0}
  shop.orders: {to: prod}
  events: {to: dev, first_run: snapsot}
"""

    assert mistakes_of(body) == [
        (1, "source.url"),
        (1, "source.zone"),
        (2, "lake.regoin"),
        (3, "warehouses.dev.url"),
        (3, "warehouses.dev.schema"),
        (4, "daemon.http"),
        (5, "defaults.mode"),
        (5, "defaults.settle"),
        (7, "tables.orders"),
        (8, "tables.lines.to"),
        (8, "tables.lines.batch_rows"),
        (9, "tables.shop.orders"),
        (10, "tables.events.first_run"),
    ]


@pytest.mark.parametrize(
    ("table", "remedy"),
    [
        ("{mode: Upset}", "Do you mean `upsert`?"),
        ("{zero_dates: nul}", "Do you mean `null`?"),
        ("{first_run: snapsot}", "Do you mean `snapshot`?"),
        ("{mode: xyzzy}", ""),
        ("{source: msql}", "Do you mean mysql? Available: mysql."),
        ("{to: far}", "Available: none."),
        ("{Batch_Row: 5}", "Do you mean `batch_rows`?"),
    ],
)
def test_a_mistake_names_what_was_probably_meant(table: str, remedy: str) -> None:
    with pytest.raises(Misconfigured) as refused:
        stream_of(table)

    assert [mistake.remedy for mistake in refused.value.mistakes] == [remedy]


def test_a_mistake_shows_the_value_where_it_stands() -> None:
    body = LEAST.replace("  orders:", "  orders:\n    mode:   upset\n    every: [5m]\n    batch_rows: |\n      many\n")

    with pytest.raises(Misconfigured) as refused:
        settings_of(body)

    told = [(mistake.line, mistake.column, mistake.value) for mistake in refused.value.mistakes]
    assert told == [(6, 13, "upset"), (7, 5, ""), (8, 17, "many")]


@pytest.mark.parametrize(
    "line",
    [
        'source: {url: "postgres://sync:hunter2@db/shop"}',
        'source: {url: "mysql://sync:hunter2"}',
        'source: {url: "mysql://sync:x@hunter2"}',
        'source: {url: "sync:hunter2@db/shop"}',
        'source: {url: "mysql:hunter2"}',
        'source: {url: "mysql://db/shop?password=hunter2"}',
        'source: {url: "mysql://s@db/shop", password: hunter2}',
        'source: {url: "mysql://s@db/shop", zone: "${P}"}',
        'source: {url: "mysql://s@db/shop", tls: "${P}"}',
        'source: {url: "mysql://s@db/shop"}\ndaemon: {token: [hunter2]}',
        'source: {url: "mysql://s@db/shop"}\ndaemon: {notify: ["ftp://hook/hunter2"]}',
        'source: {url: "mysql://s@db/shop"}\nspark: {conf: {spark.hadoop.password: hunter2, n: 5}}',
        'source: {url: "mysql://s@db/shop"}\nwarehouse: {url: "redshift://l:hunter2@h"}',
    ],
)
def test_no_mistake_repeats_a_secret(line: str) -> None:
    body = LEAST.replace('source: {url: "mysql://sync@db/shop"}', line) + "  lines: {mode: upset}\n"

    with pytest.raises(Misconfigured) as refused:
        settings_of(body, {"P": "hunter2"})

    assert "hunter2" not in str(refused.value) + repr(refused.value.mistakes)


def test_what_the_environment_has_and_is_no_text_is_a_mistake() -> None:
    body = LEAST.replace("sync@", "sync:${PASSWORD}@")

    assert mistakes_of(body, {"PASSWORD": "caf\udce9"}) == [(2, "source.url")]


def test_a_list_that_holds_itself_is_a_mistake() -> None:
    assert mistakes_of(LEAST.replace("  orders:", "  orders: &a {key: [*a]}")) == [(5, "tables.orders.key.0")]


def test_a_list_that_is_deep_by_its_names_only_is_a_mistake() -> None:
    names = "".join(f"  - &a{at + 1} [*a{at}]\n" for at in range(400))

    [(line, key)] = mistakes_of(f"{LEAST}deep:\n  - &a0 []\n{names}")[:1]

    assert (line, key.partition(".")[0]) == (6, "deep")


def test_several_sources_want_a_name_at_each_table() -> None:
    body = """
sources: {a: {url: "mysql://s@a/shop"}, b: {url: "mysql://s@b/shop"}}
lake: {url: "s3://b"}
tables: {orders: {source: a}, shop.orders: {source: b, target: orders_b}, lines: {}}
"""
    assert mistakes_of(body) == [(4, "tables.lines")]
    assert [s.source for s in settings_of(body.replace("lines: {}", "lines: {source: b}")).streams] == ["a", "b", "b"]


@pytest.mark.parametrize("secret", ["plain", "a b", "p@ss:w/ord", "ä€", "%41", "q?x#y"])
def test_any_password_can_stand_in_the_environment_or_a_file(secret: str, tmp_path: Path) -> None:
    kept = tmp_path / "password"
    kept.write_text(secret + "\n")

    for reference in ("${MYSQL_PASSWORD}", f"${{file:{kept}}}"):
        body = LEAST.replace("sync@", f"sync:{reference}@")
        assert settings_of(body, {"MYSQL_PASSWORD": secret}).sources[0].password.value == secret


def test_no_message_repeats_a_password() -> None:
    for url in ("mysql://sync:${MYSQL_PASSWORD}@db:port/shop", "postgres://sync:${MYSQL_PASSWORD}@db/shop"):
        with pytest.raises(Misconfigured) as refused:
            settings_of(LEAST.replace("mysql://sync@db/shop", url), {"MYSQL_PASSWORD": "hunter2"})
        assert "hunter2" not in refused.value.message + repr(refused.value.mistakes)
    assert "hunter2" not in repr(settings_of(WHOLE, {**ENVIRON, "MYSQL_PASSWORD": "hunter2"}))


@pytest.mark.parametrize(
    ("host", "tls"),
    [
        ("db", Tls.VERIFY),
        ("127.0.0.1", Tls.PREFER),
        ("localhost", Tls.PREFER),
        ("[::1]", Tls.PREFER),
        ("10.0.0.1", Tls.VERIFY),
    ],
)
def test_certificates_are_checked_but_for_this_machine(host: str, tls: Tls) -> None:
    assert settings_of(LEAST.replace("@db/", f"@{host}/")).sources[0].tls is tls


def test_beyond_a_tunnel_loopback_is_another_machine() -> None:
    body = LEAST.replace('sync@db/shop"', 'sync@127.0.0.1/shop", tunnel: {host: bastion, user: ops}')

    assert settings_of(body).sources[0].tls is Tls.VERIFY


def test_paths_are_meant_from_where_the_file_lies(tmp_path: Path) -> None:
    (tmp_path / "syncd.yaml").write_text(LEAST.replace('shop"', 'shop", ca: own.pem'))

    assert read_settings(tmp_path / "syncd.yaml", {}).sources[0].ca == tmp_path / "own.pem"


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not exist"):
        read_settings(tmp_path / "none.yaml", {})


def test_the_daemon_and_the_schedules_of_its_tables_are_read() -> None:
    text = """\
source: {url: "mysql://sync:x@db:3306/shop"}
lake: {url: "s3://acme-lake/syncd"}
daemon:
  http: off
  token: hush
  notify:
    - https://hooks.example.com/one
    - {url: "https://hooks.example.com/two", channel: slack, again: 1h}
tables:
  orders: {every: 30s, priority: 5, longest_run: 10m, fresh_within: 10m}
  countries: {every: "0 3 * * *", zone: Europe/Berlin, after: [shop.orders]}
"""

    settings = build_settings(parse_document(text, path="syncd.yaml", environ={}))

    assert settings.daemon.http is None
    assert settings.daemon.token == Secret("hush")
    assert [(one.channel, one.again) for one in settings.daemon.notify] == [
        (Channel.WEBHOOK, timedelta(hours=4)),
        (Channel.SLACK, timedelta(hours=1)),
    ]
    orders, countries = (stream.schedule for stream in settings.streams)
    assert (orders.every, orders.cron, orders.priority) == (timedelta(seconds=30), None, 5)
    assert (countries.every, countries.cron, countries.zone) == (None, "0 3 * * *", "Europe/Berlin")
    assert countries.after == ("shop.orders",)


@pytest.mark.parametrize(
    ("table", "key"),
    [
        ("{every: '61 * * * *'}", "every"),
        ("{every: '0 3 * * * *'}", "every"),
        ("{every: '0 3 * * *', zone: Mars/Base}", "zone"),
        ("{every: '0 3 * * *', zone: Europe}", "zone"),
        ("{every: 99999999999999d}", "every"),
        ("{longest_run: 3000000d}", "longest_run"),
        ("{start: '0001-01-01T00:00:00+14:00'}", "start"),
        ("{after: [customers]}", "after"),
        ("{after: [orders]}", "after"),
    ],
)
def test_a_schedule_that_means_nothing_is_told_with_its_line(table: str, key: str) -> None:
    assert mistakes_of(f"{LEAST.rstrip()} {table}\n") == [(5, f"tables.orders.{key}")]


def test_tables_that_wait_for_each_other_are_told() -> None:
    body = LEAST.replace("  orders:\n", "  a: {after: b}\n  b: {after: [c]}\n  c: {after: shop.a}\n")

    [(line, key)] = mistakes_of(body)

    assert (line, key) == (5, "tables.a.after")


def test_who_comes_first_is_named_in_full() -> None:
    body = LEAST.replace("  orders:\n", "  a: {after: b}\n  b:\n")

    assert settings_of(body).streams[0].schedule.after == ("shop.b",)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("7", "must have keys of its own, such as {key: value}"),
        ("{max_pending: many}", "must be a whole number"),
        ("{max_pending: 1.5}", "must be a whole number"),
        ("{batch_rows: -1}", "must be greater than 0"),
    ],
)
def test_a_mistake_is_told_in_words_of_the_file_and_not_of_the_program(table: str, said: str) -> None:
    with pytest.raises(Misconfigured) as refused:
        settings_of(LEAST.replace("orders:", f"orders: {table}"))

    assert [mistake.message for mistake in refused.value.mistakes] == [said]
