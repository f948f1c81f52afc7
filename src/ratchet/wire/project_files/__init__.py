"""What the wiring writes beside the code: settings, and the SDK in a manifest."""
