"""What each stage supplies to the order of effects that `watermarks` holds."""
