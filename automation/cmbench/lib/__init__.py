"""What scripts share: downloads, archives, versions, host facts."""
