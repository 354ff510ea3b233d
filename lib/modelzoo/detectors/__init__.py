"""Model: RetinaNet and the SSD detectors."""
