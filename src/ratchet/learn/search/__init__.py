"""The search: candidates by a coach's rewrites or by mutation, compared in one race."""
