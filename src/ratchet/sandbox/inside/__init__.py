"""Code that runs inside a sandbox: plain Python without the rest of Ratchet, to start fast.

`boot.py` loads this package under the short name `inside`, in an interpreter that has neither
site-packages nor the rest of Ratchet on its path. It imports only the standard library.
"""
