from contextlib import suppress
from dataclasses import dataclass, field

import pytest

from tests.builders import ORDERS, Here, hold, make_process, make_watermark
from watermarks.codec import ForeignDocument
from watermarks.document import Stage, Watermark
from watermarks.errors import NotOwner, OutcomeUnknown, StoreUnavailable
from watermarks.history import ChangeKind, ChangeNote, Fenced, Journal
from watermarks.lease import Claim, HeldClaim, LeaseEnded, LeaseOwner, OtherOwner, ProcessLease, require_epoch
from watermarks.names import claim_key, owner_key
from watermarks.store import Store
from watermarks.stores.memory import MemoryStore
from watermarks.testing import FaultyStore, ManualClock, StoreCall, StoreFault, StoreOperation, script_faults

CLAIM = claim_key(ORDERS, Stage.EXTRACT)
TTL = 30
TAKE = ChangeNote(change=ChangeKind.TAKE, author="p9", stage="extract", epoch=9)


@dataclass
class Two:
    """Two processes on two hosts over one store."""

    store: Store = field(default_factory=MemoryStore)
    clock: ManualClock = field(default_factory=ManualClock)

    def __post_init__(self) -> None:
        self.journal = Journal(self.store, Watermark, clock=self.clock)
        self.first = make_process(self.store, "p1", clock=self.clock)
        self.second = make_process(self.store, "p2", clock=self.clock)

    def claim(self) -> Claim:
        stored = self.store.read(CLAIM)
        assert stored
        return Claim.from_bytes(stored.body, stream=ORDERS, stage=Stage.EXTRACT)

    def take_over(self) -> HeldClaim:
        """The second process watches the first be silent for its time to live, and takes its claim."""
        with pytest.raises(OtherOwner):
            hold(self.second, self.journal)
        self.clock.advance(TTL)
        return hold(self.second, self.journal)


def test_a_free_claim_is_taken_with_the_first_epoch() -> None:
    two = Two()

    held = hold(two.first, two.journal)

    assert (held.epoch, held.process, two.claim().owner) == (1, "p1", "p1")


def test_every_acquisition_is_an_entry_with_its_epoch() -> None:
    two = Two()
    two.first.release(hold(two.first, two.journal))
    hold(two.second, two.journal)

    entries = [two.journal.read_entry(ORDERS.stem, revision) for revision in (1, 2)]

    assert [(e.note.change, e.note.stage, e.note.epoch, e.note.author) for e in entries if e] == [
        (ChangeKind.TAKE, "extract", 1, "p1"),
        (ChangeKind.TAKE, "extract", 2, "p2"),
    ]


def test_asking_again_for_what_is_ours_changes_nothing() -> None:
    two = Two()
    held = hold(two.first, two.journal)

    again = hold(two.first, two.journal)

    assert again == held
    assert two.journal.read_entry(ORDERS.stem, 2) is None


def test_a_claim_of_a_living_owner_is_left_alone() -> None:
    two = Two()
    hold(two.first, two.journal)

    for _ in range(10):
        two.clock.advance(TTL / 3)
        two.first.renew()
        with pytest.raises(OtherOwner, match="p1 holds extract"):
            hold(two.second, two.journal)


def test_silence_is_counted_from_our_own_first_look() -> None:
    """No clocks are compared: an old object seen for the first time proves nothing."""
    two = Two()
    hold(two.first, two.journal)
    two.clock.advance(1000 * TTL)

    with pytest.raises(OtherOwner):
        hold(two.second, two.journal)
    two.clock.advance(TTL - 1)
    with pytest.raises(OtherOwner):
        hold(two.second, two.journal)
    two.clock.advance(1)

    assert hold(two.second, two.journal).epoch == 2


def test_the_owners_own_time_to_live_counts() -> None:
    store, clock = MemoryStore(), ManualClock()
    journal = Journal(store, Watermark, clock=clock)
    patient = ProcessLease(store, "slow", ttl_seconds=500, clock=clock, host=Here("slow"))
    patient.renew()
    hold(patient, journal)
    other = make_process(store, "p2", clock=clock)

    with pytest.raises(OtherOwner):
        hold(other, journal)
    clock.advance(499)
    with pytest.raises(OtherOwner):
        hold(other, journal)


def test_a_takeover_ends_the_old_owner_before_it_touches_the_claim() -> None:
    two = Two()
    hold(two.first, two.journal)
    line = FaultyStore(two.store, script_faults(StoreOperation.REPLACE, CLAIM, StoreFault.DOWN))
    second = make_process(line, "p3", clock=two.clock)
    with pytest.raises(OtherOwner):
        hold(second, two.journal)
    two.clock.advance(TTL)

    with pytest.raises(StoreUnavailable):
        hold(second, two.journal)

    with pytest.raises(LeaseEnded, match="p3 ended it"):
        two.first.renew()
    assert two.claim().owner == "p1"
    assert hold(two.second, two.journal).epoch == 2


def test_a_paused_owner_that_wakes_finds_itself_ended() -> None:
    two = Two()
    held = hold(two.first, two.journal)
    two.take_over()

    with pytest.raises(LeaseEnded, match="p1 did not renew its lease in time"):
        two.first.renew()
    with pytest.raises(LeaseEnded):
        hold(two.first, two.journal)
    state = two.journal.read(ORDERS.stem)
    assert state
    with pytest.raises(Fenced, match="at epoch 2, this process has epoch 1"):
        require_epoch(state, held.stage, held.epoch)


def test_an_owner_that_renews_in_time_beats_its_taker() -> None:
    two = Two()
    hold(two.first, two.journal)
    with pytest.raises(OtherOwner):
        hold(two.second, two.journal)
    two.clock.advance(TTL)
    line = FaultyStore(two.store)
    late = make_process(line, "p3", clock=two.clock)
    late._observations = two.second._observations

    def renewed_first(key: str) -> None:
        two.first.renew()

    line._scripts = (lambda call: renewed_first(call.key) if call.operation is StoreOperation.REPLACE else None,)

    with pytest.raises(OtherOwner, match="just renewed"):
        hold(late, two.journal)
    two.first.renew()


def test_a_dead_process_of_the_same_host_is_replaced_at_once() -> None:
    store, clock = MemoryStore(), ManualClock()
    journal = Journal(store, Watermark, clock=clock)
    hold(make_process(store, "p1", clock=clock), journal)
    neighbour = make_process(store, "p2", clock=clock, host=Here("p2", dead=frozenset({"p1"})))

    assert hold(neighbour, journal).epoch == 2


def test_a_released_claim_is_taken_at_once_and_with_a_higher_epoch() -> None:
    two = Two()
    two.first.release(hold(two.first, two.journal))

    held = hold(two.second, two.journal)

    assert held.epoch == 2
    two.first.renew()


def test_our_own_released_claim_comes_back_with_a_higher_epoch() -> None:
    two = Two()
    two.first.release(hold(two.first, two.journal))

    assert hold(two.first, two.journal).epoch == 2


def test_a_claim_that_is_no_longer_ours_is_not_released() -> None:
    two = Two()
    old = hold(two.first, two.journal)
    two.take_over()

    two.first.release(old)

    assert (two.claim().owner, two.claim().is_released) == ("p2", False)


def test_releasing_what_was_never_claimed_does_nothing() -> None:
    two = Two()

    two.first.release(HeldClaim(stream=ORDERS, stage=Stage.LOAD, epoch=1, process="p1"))

    assert two.store.read(claim_key(ORDERS, Stage.LOAD)) is None


def test_claims_of_stages_and_targets_are_apart() -> None:
    two = Two()

    held = [
        hold(two.first, two.journal, Stage.EXTRACT),
        hold(two.second, two.journal, Stage.LOAD),
        hold(two.first, two.journal, Stage.LOAD, ORDERS.with_target("wh2")),
    ]

    assert [one.epoch for one in held] == [1, 1, 1]
    assert sorted(two.store.list("claims/")) == [
        "claims/shop/shop.orders/extract.json",
        "claims/shop/shop.orders/load.json",
        "claims/shop/shop.orders/load@wh2.json",
    ]


def test_five_hundred_streams_cost_one_renewal() -> None:
    two = Two()
    for number in range(20):
        stream = type(ORDERS)(source="shop", database="shop", table=f"t{number}")
        hold(two.first, two.journal, Stage.EXTRACT, stream)
    before = two.store.read(CLAIM)

    two.first.renew()

    assert list(two.store.list("owners/")) == ["owners/p1.json", "owners/p2.json"]
    assert two.store.read(CLAIM) == before


def test_a_process_that_never_renewed_claims_nothing() -> None:
    store = MemoryStore()

    with pytest.raises(NotOwner, match="has not renewed its lease yet"):
        ProcessLease(store, "p1", host=Here()).acquire(ORDERS, Stage.EXTRACT, Journal(store, Watermark))


def test_two_processes_of_one_name_are_told_apart() -> None:
    store = MemoryStore()
    make_process(store, "p1", host=Here("one"))

    with pytest.raises(ForeignDocument, match="belongs to another process"):
        make_process(store, "p1", host=Here("two"))


@pytest.mark.parametrize("fault", [StoreFault.LOST_REQUEST, StoreFault.LOST_ANSWER, StoreFault.TWICE])
@pytest.mark.parametrize("verb", [StoreOperation.CREATE, StoreOperation.REPLACE])
def test_a_renewal_without_an_answer_is_made_good(fault: StoreFault, verb: StoreOperation) -> None:
    store = MemoryStore()
    process = ProcessLease(FaultyStore(store, script_faults(verb, owner_key("p1"), fault)), "p1", host=Here("p1"))

    renewed = 0
    while renewed < 3:
        with suppress(OutcomeUnknown):
            process.renew()
            renewed += 1

    stored = store.read(owner_key("p1"))
    assert stored
    assert LeaseOwner.from_bytes(stored.body, location=owner_key("p1")).heartbeat >= 3


@pytest.mark.parametrize("fault", [StoreFault.LOST_ANSWER, StoreFault.TWICE])
def test_a_claim_without_an_answer_is_recognised_as_ours(fault: StoreFault) -> None:
    two = Two()
    two.first.release(hold(two.first, two.journal))
    line = FaultyStore(two.store, script_faults(StoreOperation.REPLACE, CLAIM, fault))
    third = make_process(line, "p3", clock=two.clock)

    assert hold(third, two.journal).epoch == 2


def test_a_claim_that_was_never_written_is_not_ours() -> None:
    two = Two()
    two.first.release(hold(two.first, two.journal))
    line = FaultyStore(two.store, script_faults(StoreOperation.REPLACE, CLAIM, StoreFault.LOST_REQUEST))
    third = make_process(line, "p3", clock=two.clock)

    with pytest.raises(OtherOwner):
        hold(third, two.journal)
    assert hold(third, two.journal).epoch == 2


def test_of_two_that_see_a_released_claim_one_gets_it() -> None:
    two = Two()
    two.first.release(hold(two.first, two.journal))
    line = FaultyStore(two.store)
    third = make_process(line, "p3", clock=two.clock)

    def second_is_faster(_: object) -> None:
        if two.claim().is_released:
            hold(two.second, two.journal)

    line._scripts = (lambda call: second_is_faster(call) if call.operation is StoreOperation.REPLACE else None,)

    with pytest.raises(OtherOwner, match="p2 claimed extract"):
        hold(third, two.journal)
    assert (two.claim().owner, two.claim().epoch) == ("p2", 2)


def test_of_two_that_see_no_claim_one_gets_it() -> None:
    two = Two()
    line = FaultyStore(two.store)
    third = make_process(line, "p3", clock=two.clock)

    def second_is_faster(key: str) -> None:
        if key == CLAIM and two.store.read(CLAIM) is None:
            hold(two.second, two.journal)

    line._scripts = (lambda call: second_is_faster(call.key) if call.operation is StoreOperation.CREATE else None,)

    with pytest.raises(OtherOwner, match="p2 claimed extract"):
        hold(third, two.journal)


def test_an_owner_without_an_object_is_ended_after_its_silence() -> None:
    """A process died between its claim and its first renewal, or somebody deleted its object."""
    two = Two()
    ghost = Claim(stream=ORDERS, stage=Stage.EXTRACT, owner="ghost", epoch=3, nonce="n")
    two.store.put(CLAIM, ghost.to_bytes(), expected=None)

    with pytest.raises(OtherOwner, match="ghost holds extract"):
        hold(two.second, two.journal)
    two.clock.advance(TTL)
    with pytest.raises(OtherOwner):
        hold(two.second, two.journal)
    held = hold(two.second, two.journal)

    assert held.epoch == 4
    with pytest.raises(LeaseEnded):
        make_process(two.store, "ghost", clock=two.clock)


def test_a_claim_that_vanishes_under_a_taker_is_named() -> None:
    two = Two()
    store = two.store
    assert isinstance(store, MemoryStore)
    two.first.release(hold(two.first, two.journal))
    line = FaultyStore(store)
    third = make_process(line, "p3", clock=two.clock)

    def vanish(call: StoreCall) -> None:
        if call.operation is StoreOperation.REPLACE:
            store._objects.pop(CLAIM, None)

    line._scripts = (vanish,)

    with pytest.raises(ForeignDocument, match="is missing"):
        hold(third, two.journal)


def test_epochs_rise_although_somebody_deleted_the_claim() -> None:
    two = Two()
    store = two.store
    assert isinstance(store, MemoryStore)
    hold(two.first, two.journal)
    two.take_over()
    del store._objects[CLAIM]

    assert hold(make_process(store, "p3", clock=two.clock), two.journal).epoch == 3


def test_a_taker_that_history_has_overtaken_is_fenced() -> None:
    """Between its claim and its entry another one took over: whoever is later in history has the stage."""
    two = Two()
    store = two.store
    assert isinstance(store, MemoryStore)
    line = FaultyStore(store)
    slow = make_process(line, "p3", clock=two.clock)

    def overtaken(key: str) -> None:
        if key.startswith("history/") and store.read(key) is None:
            journal = Journal(store, Watermark)
            journal.commit(ORDERS.stem, lambda _: make_watermark(epochs={Stage.EXTRACT: 9}), TAKE)

    line._scripts = (lambda call: overtaken(call.key) if call.operation is StoreOperation.CREATE else None,)

    with pytest.raises(Fenced, match="at epoch 9, this process has epoch 1"):
        hold(slow, Journal(line, Watermark))


@pytest.mark.parametrize("what", ["owner", "claim"])
def test_objects_of_others_are_foreign(what: str) -> None:
    two = Two()
    hold(two.first, two.journal)
    if what == "owner":
        owner = two.store.read(owner_key("p1"))
        assert owner
        with pytest.raises(ForeignDocument, match="belongs to process p1"):
            LeaseOwner.from_bytes(owner.body, location=owner_key("p2"))
    else:
        claim = two.store.read(CLAIM)
        assert claim
        with pytest.raises(ForeignDocument, match="claim on extract"):
            Claim.from_bytes(claim.body, stream=ORDERS, stage=Stage.LOAD)


def test_a_renewal_that_gets_no_answer_at_all_is_made_good_by_the_next() -> None:
    store = MemoryStore()
    key = owner_key("p1")
    line = FaultyStore(
        store,
        script_faults(StoreOperation.CREATE, key, StoreFault.LOST_ANSWER),
        script_faults(StoreOperation.READ, key, StoreFault.DOWN, StoreFault.DOWN),
    )
    process = ProcessLease(line, "p1", host=Here("p1"))

    with pytest.raises(StoreUnavailable):
        process.renew()
    process.renew()
    process.renew()

    assert process.acquire(ORDERS, Stage.EXTRACT, Journal(store, Watermark)).epoch == 1


def test_owners_use_a_client_of_their_own_and_claims_the_one_of_all_other_documents() -> None:
    owners, documents = MemoryStore(), MemoryStore()
    journal = Journal(documents, Watermark)
    first, second = (ProcessLease(documents, name, owner_store=owners, host=Here(name)) for name in ("p1", "p2"))
    first.renew()
    second.renew()

    first.release(hold(first, journal))
    second.renew()

    assert hold(second, journal).epoch == 2
    assert list(owners.list("")) == [owner_key("p1"), owner_key("p2")]
    assert list(documents.list("claims/")) == [CLAIM]
    assert not list(documents.list("owners/"))
    assert first.read_owner("p2") == owners.read(owner_key("p2"))


def test_an_owner_is_ended_through_the_client_of_the_owners() -> None:
    owners, documents, host = MemoryStore(), MemoryStore(), Here("p2", dead=frozenset({"p1"}))
    journal = Journal(documents, Watermark)
    first = ProcessLease(documents, "p1", owner_store=owners, host=Here("p1"))
    second = ProcessLease(documents, "p2", owner_store=owners, host=host)
    first.renew()
    second.renew()
    hold(first, journal)

    assert hold(second, journal).epoch == 2
    with pytest.raises(LeaseEnded):
        first.renew()


def test_an_owner_that_cannot_be_read_is_read_once_more() -> None:
    """A process that takes a claim has no next heartbeat, and its connection may be dead."""
    two = Two()
    key = owner_key("p1")
    down = script_faults(StoreOperation.READ, key, StoreFault.DOWN, None, StoreFault.DOWN, StoreFault.DOWN)
    process = ProcessLease(two.store, "p1", owner_store=FaultyStore(two.store, down), host=Here("p1"))

    assert process.read_owner("p1") == two.store.read(key)
    with pytest.raises(StoreUnavailable):
        process.read_owner("p1")
