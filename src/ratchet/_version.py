"""The version, in a module without imports."""

__version__ = "0.1.0"

PROTOCOL = 1
"""Number of the messages between the tool and the SDK. It rises with a change of them, so that two
builds of one version tell that they cannot speak with each other."""
