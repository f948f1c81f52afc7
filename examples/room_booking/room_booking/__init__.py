"""An agent that finds a meeting room for a request in plain words."""
