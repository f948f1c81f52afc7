"""The files that the wiring writes besides code: settings, and the SDK in a manifest."""
