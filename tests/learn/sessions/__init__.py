"""Sessions in which a strong model sat in the coach's seat: what it was asked, and its answers."""
