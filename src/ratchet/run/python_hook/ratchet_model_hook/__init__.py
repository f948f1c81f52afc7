"""Leads model calls of the owner's own interpreter elsewhere: standard library only."""
