"""What runs in the owner's interpreter to record it or lead its calls: standard library only."""
