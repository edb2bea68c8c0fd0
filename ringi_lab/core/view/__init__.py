"""What a reader sees: the time-line player, plots and controls. Views draw data and compute no physics."""
