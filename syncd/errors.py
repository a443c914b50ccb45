"""Errors of MySQL, S3, Redshift and Spark, grouped by what to do about them."""

from types import TracebackType

from watermarks.errors import DataInDoubt, HintedError, Misuse, NotOwner, OutcomeUnknown, Transient


class ConfigError(Misuse):
    """The configuration asks for something impossible: mend the file."""


class SourceDown(Transient):
    """MySQL does not answer, or closed the connection."""


class ServerChanged(SourceDown):
    """Another server answers than before: answers of the two must not be mixed."""


class LakeDown(Transient):
    """S3 does not answer, or refuses for now."""


class WarehouseDown(Transient):
    """The warehouse does not answer."""


class WarehouseStillDown(WarehouseDown):
    """One stream has waited for the warehouse in vain: other streams need not wait again."""


class SourceUnfit(HintedError):
    """An operator has to mend the source: a table, key, index or right is missing."""


class HorizonNotKnown(SourceUnfit):
    """Transactions that were open before the first poll have to end first, which may take a while."""


class LakeUnfit(HintedError):
    """An operator has to mend the lake: a bucket, right or credential is missing."""


class WarehouseBehind(Transient):
    """Too many batches wait to be loaded for a comparison of the warehouse with its source."""


class WarehouseUnfit(HintedError):
    """An operator has to mend the warehouse: a right, a table or a setting is missing."""


class TransactionConflict(Transient):
    """Another transaction interfered: run the whole transaction again."""


class CommitUnknown(OutcomeUnknown):
    """COMMIT was sent to the warehouse and no answer came: read the ledger, under the lock."""


class FileRefused(DataInDoubt):
    """COPY refused a whole file: it is missing, truncated, replaced, or of other types than the table."""


class RowRefused(DataInDoubt):
    """COPY refused a value that does not fit the table; facts: `file`, `column`, `reason`."""


class SchemaDrift(HintedError):
    """The table has changed in a way that an operator has to decide about."""


class TableAltered(Transient):
    """A table was altered while a batch was read: the batch is planned anew with the current columns."""


class SourceReplaced(DataInDoubt):
    """Another server answers than the one whose positions are recorded, or its clock went back."""


class RowOutsideWindow(DataInDoubt):
    """A row was read that lies outside its window."""


class ValueRefused(DataInDoubt):
    """No policy accepts a value."""


class ReaderDown(Transient):
    """Spark did not start, or ended during a read."""


class PassStopped(Transient):
    """A pass was interrupted; the next one continues."""


class PassTimedOut(PassStopped):
    """A pass was interrupted because it took too long: unlike other interrupted passes it has failed."""


class PassTooLong(Transient):
    """A pass took longer than `longest_run` and was ended."""


class PassAlreadyRunning(NotOwner):
    """Another thread of this process runs this stage of this stream."""


class InternalError(HintedError):
    """A bug in syncd; the unexpected exception is its cause."""


def to_hinted_error(error: Exception) -> HintedError:
    """Return the error itself, or an InternalError for an exception of another kind.

    The text of such an exception stays in its traceback, since it may hold a value or a secret.
    """
    if isinstance(error, HintedError):
        return error
    bug = InternalError(
        f"a bug in syncd: {type(error).__name__}{_format_raise_site(error.__traceback__)}",
        hint="Run it again with --debug and report the output. The mark has not moved.",
    )
    bug.__cause__ = error
    return bug


def _format_raise_site(trace: TracebackType | None) -> str:
    if trace is None:
        return ""
    while trace.tb_next is not None:
        trace = trace.tb_next
    return f" at {trace.tb_frame.f_code.co_filename.rpartition('/')[2]}:{trace.tb_lineno}"


class NotReady(Misuse):
    """This machine lacks something that the operator has to provide."""


class NoJava(NotReady):
    pass


class JavaTooOld(NotReady):
    pass


class NotWritable(NotReady):
    pass


class MissingPackage(NotReady):
    """A required Python package is not installed."""


class WrongDigest(NotReady):
    """A file does not have the digest that this version records."""


class NotFetched(ReaderDown):
    """The artifact repository returned no file; nothing was stored."""


class DirectoryBusy(NotOwner):
    """Another command works in the same directory."""
