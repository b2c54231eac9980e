import ferrite
import pytest


@pytest.fixture
def store(tmp_path):
    with ferrite.open(tmp_path / "store", create="32M") as store:
        yield store
