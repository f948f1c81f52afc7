"""The running model, for the tests of this folder."""

from tests.local_models import client, local_model

__all__ = ["client", "local_model"]
