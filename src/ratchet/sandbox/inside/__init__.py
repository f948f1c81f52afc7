"""What runs inside a sandbox: plain Python with nothing of Ratchet around it, to start fast.

The package is loaded under the short name `inside` by `boot.py`, with an interpreter that has
neither site-packages nor the rest of Ratchet on its path. It imports only the standard library.
"""
