"""How fast this machine is with a model, and the layouts and targets that follow from it."""
