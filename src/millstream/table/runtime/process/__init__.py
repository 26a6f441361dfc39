"""Process table functions: state, timers and changes by key."""
