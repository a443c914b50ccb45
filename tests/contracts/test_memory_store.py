import pytest

from watermarks.store import Store
from watermarks.stores.memory import MemoryStore
from watermarks.testing import StoreContract


class TestMemoryStore(StoreContract):
    @pytest.fixture
    def store(self) -> Store:
        return MemoryStore()
