"""What runs in the owner's own interpreter while a recording is made: standard library only."""
