"""What all libraries share."""
