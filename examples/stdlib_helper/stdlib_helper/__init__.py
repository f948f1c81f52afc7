"""An agent that finds the function or class of the Python standard library which does a job."""
